/* SPDX-License-Identifier: MIT
 *
 * study.c - reads a study from a config in Kconfig's format: its own options, then each arm as a model and a recipe.
 * The settings of an arm come from the config, then the arm, then the command line; the last value of each counts.
 */
#include "study/arms.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const repeats[] = {"same", "other", NULL};

#define AT(field) offsetof(struct weft_study, field)
static const struct weft_opt options[] = {
    {"study", WEFT_OPT_TEXT, AT(name), "", .help = "name of the study; default: the config file's name"},
    {"preset", WEFT_OPT_TEXT, AT(preset), "gpt2", .help = "model that all arms are based on; see `weft help models`"},
    {"arms", WEFT_OPT_TEXT, AT(arms_text), "",
     .help = "arms, the models to compare: NAME: SETTING SETTING | NAME: ...; the first is the baseline"},
    {"ablation_steps", WEFT_OPT_TEXT, AT(steps_text), "", .symbol = "RA_MLA_ABLATION_STEPS",
     .help = "comma-separated steps of the RA-MLA study, instead of arms: 0 no mechanism, 1 M1, 2 M1 and M2, 3 all, 4 "
             "repeats 2, 5 repeats 3"},
    {"lrs", WEFT_OPT_TEXT, AT(lrs_text), "",
     .help = "at least three learning rates, from which one is chosen for every arm; none: only lr"},
    {"screen_seeds", WEFT_OPT_INT, AT(screen_seeds), "2", 1, 100,
     .help = "number of seeds that choose every arm's learning rate among lrs; different seeds judge it"},
    {"seeds", WEFT_OPT_INT, AT(seeds), "3", 1, WEFT_MAX_SEEDS, .help = "number of seeds per arm"},
    {"looks", WEFT_OPT_TEXT, AT(looks_text), "",
     .help = "numbers of seeds after which to look and, if every arm is decided, stop; replaces seeds; default means "
             "3,5,8,12,20"},
    {"parent", WEFT_OPT_TEXT, AT(parent), "",
     .help = "folder of the study whose results led to this one, which must use different seeds"},
    {"stand_in", WEFT_OPT_TEXT, AT(stand_in), "",
     .help = "folder of token files that replaces data, which then need not exist; plan and report mention it"},
    {"ladder", WEFT_OPT_TEXT, AT(ladder_text), "none",
     .help = "sizes at which the whole study is run, smallest first: SETTING SETTING | SETTING SETTING | ...; without "
             "steps, a rung is trained on a number of tokens proportional to its parameters"},
    {"budget", WEFT_OPT_REAL, AT(budget), "0", 0, 1e7,
     .help = "maximum training time on this machine in minutes: the plan fixes the largest number of steps that fits, "
             "at most steps, for all arms; 0: no limit"},
    {"slots", WEFT_OPT_INT, AT(slots), "0", 0, 4096, .help = "number of concurrent runs; 0: one per core"},
    {"match", WEFT_OPT_CHOICE, AT(match), "none", .choices = weft_match_names,
     .help = "size in which all arms are matched to the first"},
    {"match_by", WEFT_OPT_CHOICE, AT(match_by), "ffn_width", .choices = weft_match_by_names, .needs = "match!=none",
     .help = "width that is changed to match"},
    {"repeat_seeds", WEFT_OPT_CHOICE, AT(repeat_seeds), "same", .choices = repeats,
     .help = "seeds of arms that repeat an arm: same, to check for bit-identical results, or other, to measure the "
             "noise"},
};
const struct weft_owner weft_study_owner = WEFT_OWNER("study", options);

static bool is_own(const char *name)
{
    for (int i = 0; i < weft_study_owner.count; i++)
        if (strcmp(options[i].name, name) == 0)
            return true;
    return false;
}

/* ---- the study's own options */

static int find_owners(const struct weft_owner *owners[WEFT_MAX_OWNERS])
{
    const struct weft_owner *owner;
    int n = 0;
    owners[n++] = &weft_study_owner;
    for (int i = 0; n < WEFT_MAX_OWNERS && (owner = weft_nn_owner_at(i)); i++)
        owners[n++] = owner;
    for (int i = 0; n < WEFT_MAX_OWNERS && (owner = weft_train_owner_at(i)); i++)
        owners[n++] = owner;
    return n;
}

/* Keeps the text for the copy in the study's folder, because the file may be replaced while the gates run. */
static enum weft_status keep_text(struct weft_study *s, const char *path)
{
    char *bytes = NULL;
    size_t size = 0;
    enum weft_status status = weft_slurp(path, WEFT_MAX_CONFIG_BYTES, &bytes, &size);
    if (status == WEFT_OK && !(s->text = weft_arena_print(&s->arena, "%s", bytes)))
        status = FAIL(WEFT_NOMEM, "not enough memory for a config");
    free(bytes);
    return status;
}

static enum weft_status load(struct weft_study *s, const char *path, const struct weft_settings *over)
{
    const struct weft_owner *owners[WEFT_MAX_OWNERS];
    TRY(weft_settings_load_kconfig(&s->settings, path, owners, find_owners(owners)));
    TRY(keep_text(s, path));
    for (int i = 0; over && i < over->count; i++)
        TRY(weft_settings_put(&s->settings, over->setting[i]));
    TRY(weft_settings_take(&s->settings, &weft_study_owner, s));
    return WEFT_OK;
}

/* Returns whether a setting names data, which a stand-in replaces. */
static bool is_data(const struct weft_setting *setting)
{
    return strcmp(setting->name, "data") == 0 && *setting->value;
}

static enum weft_status check_stand_in(struct weft_study *s)
{
    s->stands_for = "";
    for (int i = 0; *s->stand_in && i < s->settings.count; i++)
        if (is_data(&s->settings.setting[i]))
            s->stands_for = s->settings.setting[i].value;
    if (*s->stand_in && !*s->stands_for)
        return FAIL(WEFT_INVALID, "stand_in=%s has no effect: the study has no data=FOLDER to replace", s->stand_in);
    return WEFT_OK;
}

static enum weft_status check_preset(const struct weft_study *s)
{
    const char *names[64], *summary;
    char where[512];
    int n = 0;
    for (; n < 64 && (names[n] = weft_preset_at(n, &summary)); n++)
        if (strcmp(names[n], s->preset) == 0)
            return WEFT_OK;
    const char *near = weft_suggest(s->preset, names, n);
    return FAIL(WEFT_INVALID, "%sthere is no preset \"%s\"%s%s%s `weft help models` lists them",
                weft_study_where(s, "preset", where, sizeof where), s->preset, near ? ": did you mean " : "",
                near ? near : "", near ? "?" : ".");
}

static enum weft_status check_needs(const struct weft_study *s)
{
    struct weft_unused unused;
    char where[512], text[256];
    for (int i = 0; i < s->settings.count; i++) {
        const struct weft_setting *setting = &s->settings.setting[i];
        if (is_own(setting->name) && weft_settings_unused(&s->settings, setting, &unused))
            return FAIL(WEFT_INVALID, "%s%s has no effect without %s: remove it, keep it at %s, or set the latter",
                        weft_setting_where(setting, where, sizeof where),
                        weft_setting_text(unused.opt, setting, text, sizeof text), unused.needs, unused.opt->initial);
    }
    return WEFT_OK;
}

/* Returns whether an option is set to a value other than its default; a .config sets every option. */
static bool is_set(const struct weft_study *s, const char *name)
{
    bool set = false;
    for (int i = 0; i < s->settings.count; i++)
        if (strcmp(s->settings.setting[i].name, name) == 0)
            set = !weft_settings_is_default(&s->settings, &s->settings.setting[i]);
    return set;
}

static enum weft_status read_rates(struct weft_study *s)
{
    static const struct weft_opt rate = {"lrs", WEFT_OPT_REAL, .min = 1e-12, .max = 10};
    char where[512], *text = weft_arena_print(&s->arena, "%s", s->lrs_text), *rest;
    if (!text)
        return FAIL(WEFT_NOMEM, "not enough memory for learning rates");
    weft_study_where(s, "lrs", where, sizeof where);
    for (char *one = strtok_r(text, " ,", &rest); one; one = strtok_r(NULL, " ,", &rest)) {
        struct weft_setting setting = {.name = "lrs", .value = one};
        if (s->lr_count == WEFT_MAX_LRS)
            return FAIL(WEFT_INVALID, "%smore than %d learning rates", where, WEFT_MAX_LRS);
        TRY(weft_opt_read(&rate, &setting, &s->lr[s->lr_count]));
        for (int i = 0; i < s->lr_count; i++)
            if (s->lr[i] == s->lr[s->lr_count])
                return FAIL(WEFT_INVALID, "%sthe learning rate %s is given twice", where, one);
        s->lr_count++;
    }
    if (s->lr_count == 2)
        return FAIL(WEFT_INVALID,
                    "%sthe better of two learning rates is always at the edge of the grid, and a better one may lie "
                    "beyond it: set one, or at least three",
                    where);
    if (s->lr_count < 2 && is_set(s, "screen_seeds"))
        return FAIL(WEFT_INVALID, "%sscreen_seeds=%lld has no effect without lrs",
                    weft_study_where(s, "screen_seeds", where, sizeof where), (long long)s->screen_seeds);
    return WEFT_OK;
}

/* Parses the looks of the plan. The last look is after all seeds. */
static enum weft_status read_looks(struct weft_study *s)
{
    static const struct weft_opt look = {"looks", WEFT_OPT_INT, .min = WEFT_LEAST_SEEDS, .max = WEFT_MAX_SEEDS};
    bool usual = strcmp(s->looks_text, "default") == 0;
    char where[512], *text = weft_arena_print(&s->arena, "%s", usual ? "3,5,8,12,20" : s->looks_text), *rest;
    if (!text)
        return FAIL(WEFT_NOMEM, "not enough memory for looks");
    weft_study_where(s, "looks", where, sizeof where);
    for (char *one = strtok_r(text, " ,", &rest); one; one = strtok_r(NULL, " ,", &rest)) {
        struct weft_setting setting = {.name = "looks", .value = one};
        if (s->look_count == WEFT_MAX_LOOKS)
            return FAIL(WEFT_INVALID, "%smore than %d looks", where, WEFT_MAX_LOOKS);
        TRY(weft_opt_read(&look, &setting, &s->look[s->look_count]));
        if (s->look_count && s->look[s->look_count] <= s->look[s->look_count - 1])
            return FAIL(WEFT_INVALID, "%slooks must be ascending, but %s follows %lld", where, one,
                        (long long)s->look[s->look_count - 1]);
        s->look_count++;
    }
    if (!s->look_count)
        s->look[s->look_count++] = s->seeds;
    int64_t last = s->look[s->look_count - 1];
    if (*s->looks_text && s->seeds != last && is_set(s, "seeds"))
        return FAIL(WEFT_INVALID,
                    "%sseeds=%lld has no effect together with looks, the last of which is after %lld seeds",
                    weft_study_where(s, "seeds", where, sizeof where), (long long)s->seeds, (long long)last);
    s->seeds = last;
    return WEFT_OK;
}

/* Sets the study's name, by default the config file's name without folder and extension. The name must also be a valid
 * folder name. */
static enum weft_status choose_name(struct weft_study *s)
{
    const char *base = strrchr(s->path, '/');
    base = base ? base + 1 : s->path;
    int stem = (int)strcspn(base, ".");
    if (!*s->name)
        s->name = stem ? weft_arena_print(&s->arena, "%.*s", stem, base) : "study";
    if (!s->name)
        return FAIL(WEFT_NOMEM, "not enough memory for a name");
    for (const char *c = s->name; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", *c))
            return FAIL(WEFT_INVALID,
                        "%s: \"%s\" cannot be the name of a study: set study=NAME, with letters, digits, - and _",
                        s->path, s->name);
    return WEFT_OK;
}

/* ---- arms */

static enum weft_status put_shared(const struct weft_study *s, struct weft_arm *arm, int from, int to)
{
    for (int i = from; i < to; i++) {
        struct weft_setting setting = s->settings.setting[i];
        setting.shared = true;
        if (*s->stand_in && is_data(&setting))
            setting.value = s->stand_in;
        if (!is_own(setting.name))
            TRY(weft_settings_put(&arm->settings, setting));
    }
    return WEFT_OK;
}

static enum weft_status put_own(struct weft_study *s, struct weft_arm *arm)
{
    char where[512], *rest, *text = weft_arena_print(&s->arena, "%s", arm->settings_text);
    weft_study_where(s, *s->steps_text ? "ablation_steps" : "arms", where, sizeof where);
    const char *file = weft_arena_print(&s->arena, "%sarm %s", where, arm->name);
    if (!text || !file)
        return FAIL(WEFT_NOMEM, "not enough memory for a study's arms");
    for (char *one = strtok_r(text, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        TRY(weft_settings_add(&arm->settings, one));
        arm->settings.setting[arm->settings.count - 1].file = file;
    }
    return WEFT_OK;
}

static enum weft_status resolve(struct weft_study *s, struct weft_arm *arm)
{
    TRY(put_shared(s, arm, 0, s->settings.loaded));
    TRY(put_own(s, arm));
    TRY(put_shared(s, arm, s->settings.loaded, s->settings.count));
    TRY(weft_spec_init(&arm->spec, s->preset, &arm->settings));
    TRY(weft_recipe_init(&arm->recipe, &arm->spec, &arm->settings));
    return WEFT_OK;
}

enum weft_status weft_study_init(struct weft_study *s, const char *path, const struct weft_settings *over)
{
    *s = (struct weft_study){.path = path};
    TRY(load(s, path, over));
    TRY(check_stand_in(s));
    TRY(choose_name(s));
    TRY(check_preset(s));
    TRY(check_needs(s));
    TRY(read_rates(s));
    TRY(read_looks(s));
    TRY(weft_arms_read(s));
    for (int i = 0; i < s->arm_count; i++)
        TRY(resolve(s, &s->arm[i]));
    TRY(weft_arms_check(s));
    return WEFT_OK;
}

/* ---- comparing with Kconfig's result */

static enum weft_status compare(const struct weft_study *s, struct weft_settings *kept, const char *path)
{
    const struct weft_owner *owners[WEFT_MAX_OWNERS];
    int count = find_owners(owners);
    char where[512];
    TRY(weft_settings_load_kconfig(kept, path, owners, count));
    for (int i = 0; i < count; i++)
        TRY(weft_settings_take(kept, owners[i], NULL));
    for (int i = 0; i < s->settings.loaded; i++) {
        const struct weft_setting *asked = &s->settings.setting[i];
        const char *got = NULL;
        for (int k = 0; k < kept->count; k++)
            if (strcmp(kept->setting[k].name, asked->name) == 0)
                got = kept->setting[k].value;
        if (!got || !weft_settings_same(kept, asked->name, asked->value, got))
            return FAIL(WEFT_INVALID, "%sKconfig produced %s=%s from %s=%s: write the value in quotes",
                        weft_setting_where(asked, where, sizeof where), asked->name, got ? got : "nothing", asked->name,
                        asked->value);
    }
    return WEFT_OK;
}

enum weft_status weft_study_kept(const struct weft_study *s, const char *path)
{
    struct weft_settings kept = {0};
    enum weft_status status = compare(s, &kept, path);
    weft_settings_release(&kept);
    return status;
}

void weft_study_release(struct weft_study *s)
{
    for (int i = 0; i < s->arm_count; i++) {
        weft_recipe_release(&s->arm[i].recipe);
        weft_spec_release(&s->arm[i].spec);
        weft_settings_release(&s->arm[i].settings);
    }
    weft_settings_release(&s->settings);
    weft_arena_release(&s->arena);
    *s = (struct weft_study){0};
}
