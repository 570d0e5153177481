/* SPDX-License-Identifier: MIT
 *
 * config - what a study's config means: its arms, or one arm as a config file that other commands take; and whether
 * Kconfig kept what a defconfig asks for.
 */
#include "cmd/cmd.h"
#include "study/study.h"

#include <string.h>

struct args {
    const char *config, *arm, *kept;
    struct weft_settings over;
    enum weft_status status; /* of the first --set that was none */
};

static const struct argp_option options[] = {
    {"set", 's', "NAME=VALUE", 0, "Set an option of the study or of all arms; may be repeated", 0},
    {"arm", 'a', "NAME", 0, "Print all options of an arm as a config file, which is a MODEL too", 0},
    {"kept", 'k', "FILE", 0, "Refuse FILE, which Kconfig made of CONFIG, if it does not hold what CONFIG asks for", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case 's':
        if (a->status == WEFT_OK)
            a->status = weft_settings_add(&a->over, arg);
        return 0;
    case 'a':
        a->arm = arg;
        return 0;
    case 'k':
        a->kept = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (a->config)
            return ARGP_ERR_UNKNOWN;
        a->config = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which CONFIG? configs/ holds some");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "CONFIG",
    .doc =
        "Reads the config of a study, in Kconfig's format: a defconfig, as in configs/, or a .config. Tells its arms, "
        "or refuses it with the line that is wrong.",
};

static enum weft_status print_arm(const struct weft_study *s, const char *name)
{
    const char *names[WEFT_MAX_ARMS];
    for (int i = 0; i < s->arm_count; i++) {
        names[i] = s->arm[i].name;
        if (strcmp(names[i], name) == 0)
            return weft_settings_save(&s->arm[i].settings, stdout);
    }
    const char *near = weft_suggest(name, names, s->arm_count);
    return FAIL(WEFT_INVALID, "%s has no arm \"%s\"%s%s%s", s->path, name, near ? ": did you mean " : "",
                near ? near : "", near ? "?" : "");
}

static void print_study(const struct weft_study *s)
{
    printf("%s: %s, task %s; %d arms, %d learning rates, %lld seeds\n", s->name, s->preset, s->arm[0].recipe.task->name,
           s->arm_count, s->lr_count ? s->lr_count : 1, (long long)s->seeds);
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
    enum weft_status status = a->status;
    if (status == WEFT_OK)
        status = weft_study_init(&study, a->config, &a->over);
    if (status == WEFT_OK && a->kept)
        status = weft_study_kept(&study, a->kept);
    if (status == WEFT_OK && a->arm)
        status = print_arm(&study, a->arm);
    else if (status == WEFT_OK)
        print_study(&study);
    weft_study_release(&study);
    weft_settings_release(&a->over);
    return status;
}

const struct weft_cmd weft_cmd_config = {"config", "tell what a study's config means", &argp, sizeof(struct args), run};
