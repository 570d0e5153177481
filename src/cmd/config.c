/* SPDX-License-Identifier: MIT
 *
 * config - prints the arms of a study's config, or one arm as a config file for use by other commands, and checks that
 * Kconfig kept the settings of a defconfig.
 */
#include "cmd/cmd.h"
#include "study/study.h"

struct args {
    struct weft_common common; /* its settings come from --set */
    const char *config, *arm, *kept;
};

static const struct weft_arg table[] = {
    {NULL, 0, "CONFIG", WEFT_ARG_FILE, offsetof(struct args, config),
     .help = "The study's config, a defconfig or a .config",
     .missing = "no CONFIG given: pass a config file, for example configs/recall-quick"},
    {"arm", 'a', "NAME", WEFT_ARG_TEXT, offsetof(struct args, arm),
     .help = "Print all options of this arm as a config file, which commands accept as MODEL"},
    {"kept", 'k', "FILE", WEFT_ARG_FILE, offsetof(struct args, kept),
     .help = "Check that FILE, which Kconfig generated from CONFIG, has all settings of CONFIG"},
    {0},
};

static enum weft_status print_arm(struct weft_study *s, const char *name)
{
    const struct weft_arm *arm;
    TRY(weft_study_find_arm(s, name, &arm));
    return weft_settings_save(&arm->settings, stdout);
}

static void print_study(const struct weft_study *s)
{
    printf("%s: %s, task %s; %d arms, %lld seeds", s->name, s->preset, s->arm[0].recipe.task->name, s->arm_count,
           (long long)s->seeds);
    if (s->look_count > 1)
        printf(" in %d looks", s->look_count);
    if (s->lr_count > 1)
        printf(", %d learning rates screened with %lld", s->lr_count, (long long)s->screen_seeds);
    putchar('\n');
    for (int i = 0; i < s->arm_count; i++) {
        const struct weft_arm *arm = &s->arm[i];
        printf("  %-16s %s%s%s\n", arm->name, arm->settings_text, arm->repeats < 0 ? "" : "; again ",
               arm->repeats < 0 ? "" : s->arm[arm->repeats].name);
    }
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_study study = {0};
    enum weft_status status = weft_study_init(&study, a->config, &a->common.settings);
    if (status == WEFT_OK && a->kept)
        status = weft_study_kept(&study, a->kept);
    if (status == WEFT_OK && a->arm)
        status = print_arm(&study, a->arm);
    else if (status == WEFT_OK)
        print_study(&study);
    weft_study_release(&study);
    return status;
}

const struct weft_cmd weft_cmd_config = {
    .name = "config",
    .summary = "print what a study's config means",
    .doc = "Reads the config of a study, in Kconfig's format: a defconfig, as in configs/, or a .config. Prints its "
           "arms, or an error with the number of the invalid line.",
    .args = table,
    .takes = WEFT_TAKES_STUDY_SET,
    .args_bytes = sizeof(struct args),
    .run = run,
};
