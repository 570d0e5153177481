/* SPDX-License-Identifier: MIT
 *
 * axes.c - finds the options of a model and their values in the option tables, and builds models from them.
 *
 * An axis that belongs to a variant ("pos=rope") or needs an option exists only in rows that have that variant or
 * option.
 */
#include "check/axes.h"

#include <stdio.h>
#include <string.h>

/* ---- options to combine */

/* Sizes of the models (and, below, of parts): large enough for every part to have an effect. */
static const char *const sizes[] = {"layers=3",   "width=32", "heads=4", "ffn_width=24",
                                    "context=70", "vocab=17", "batch=2", NULL};

/* Numeric options that are axes, with one value of each kind. An option with a single value only sets a size. */
static const struct number {
    const char *name, *values[4];
} numbers[] = {
    {"kv_heads", {"0", "2", "1"}}, {"latent_width", {"12"}},     {"latent_rope", {"0", "6"}},
    {"m1_width", {"6"}},           {"m2_rank", {"6"}},           {"m2_topk", {"3"}},
    {"m3_width", {"10"}},          {"ws_heads", {"4"}},          {"ra_alpha", {"0", "0.5"}},
    {"ra_window", {"5"}},          {"relative_max", {"0", "5"}}, {"logits_z", {"0", "0.01"}},
    {"rope_original", {"64"}},
};

/* Options and values that are not combined. */
static const char *const left_out[] = {"dtype",     /* every combination is checked in both dtypes */
                                       "recompute", /* changes the plan but not the results; see tests/unit/graph.c */
                                       "tie",       /* which matrix the logits use; independent of other parts */
                                       "scaling",   /* has its own gate; see tests/unit/scaling.c */
                                       "m1_mode=sequence", /* depends on later tokens, so it cannot be trained */
                                       NULL};

static bool is_left_out(const char *name, const char *value)
{
    size_t n = strlen(name);
    for (int i = 0; left_out[i]; i++)
        if (strncmp(left_out[i], name, n) == 0 &&
            (value ? left_out[i][n] == '=' && strcmp(left_out[i] + n + 1, value) == 0 : !left_out[i][n]))
            return true;
    return false;
}

/* Adds a value to the last axis, unless it is left out. Sets all->full if there is no space for it. */
static void add_value(struct weft_axes *all, const char *value)
{
    struct weft_axis *a = &all->list[all->count];
    if (is_left_out(a->name, value))
        return;
    if (all->value_count >= WEFT_MAX_AXIS_VALUES) {
        all->full = true;
        return;
    }
    all->values[all->value_count] = value;
    all->axis_of[all->value_count++] = all->count;
    a->count++;
}

static void add_values(struct weft_axes *all, const struct weft_opt *opt)
{
    if (opt->type == WEFT_OPT_BOOL) {
        add_value(all, "no");
        add_value(all, "yes");
    }
    for (int i = 0; opt->type == WEFT_OPT_CHOICE && weft_opt_choice(opt, i); i++)
        add_value(all, weft_opt_choice(opt, i));
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        for (int i = 0; strcmp(numbers[n].name, opt->name) == 0 && i < 4 && numbers[n].values[i]; i++)
            add_value(all, numbers[n].values[i]);
}

/* Adds the condition "name=value" or "name!=value". Does nothing if no axis has this name. */
static void add_condition(struct weft_axes *all, struct weft_axis *a, const char *text)
{
    size_t n = text ? strcspn(text, "!=") : 0;
    bool unlike = text && text[n] == '!';
    for (int v = 0; text && text[n] && v < all->value_count; v++) {
        const struct weft_axis *of = &all->list[all->axis_of[v]];
        if (strlen(of->name) != n || strncmp(of->name, text, n) != 0 || strcmp(all->values[v], text + n + 1 + unlike))
            continue;
        a->when[a->whens++] = (struct weft_condition){v, unlike};
        a->depth = (int)weft_max(a->depth, of->depth + 1);
    }
}

enum weft_status weft_axes_find(struct weft_axes *all)
{
    const struct weft_owner *owner;
    *all = (struct weft_axes){.count = 0};
    for (int o = 0; (owner = weft_nn_owner_at(o)); o++)
        for (int i = 0; i < owner->count; i++) {
            const struct weft_opt *opt = &owner->options[i];
            struct weft_axis *a = &all->list[all->count];
            *a = (struct weft_axis){.name = opt->name, .first = all->value_count};
            if (!is_left_out(opt->name, NULL))
                add_values(all, opt);
            if (all->full || all->count == WEFT_MAX_AXES - 1)
                return FAIL(WEFT_INVALID,
                            "%s: %s is one option too many to combine: at most %d options with %d values in total can "
                            "be combined; register fewer parts",
                            owner->name, opt->name, WEFT_MAX_AXES - 1, WEFT_MAX_AXIS_VALUES);
            if (a->count == 0)
                continue;
            add_condition(all, a, owner->name);
            add_condition(all, a, opt->needs);
            all->count++;
        }
    return WEFT_OK;
}

/* ---- rows */

void weft_row_open(const struct weft_axes *all, struct weft_row *row)
{
    for (int a = 0; a < all->count; a++)
        row->choice[a] = WEFT_AXIS_OPEN;
}

bool weft_row_require(const struct weft_axes *all, struct weft_row *row, int value)
{
    int a = all->axis_of[value];
    if (row->choice[a] != WEFT_AXIS_OPEN)
        return row->choice[a] == value;
    row->choice[a] = value;
    for (int i = 0; i < all->list[a].whens; i++) {
        struct weft_condition c = all->list[a].when[i];
        const struct weft_axis *of = &all->list[all->axis_of[c.value]];
        int now = row->choice[all->axis_of[c.value]], other = of->first + (c.value == of->first);
        if (c.unlike && now != WEFT_AXIS_OPEN ? now == c.value
                                              : !weft_row_require(all, row, c.unlike ? other : c.value))
            return false;
    }
    return true;
}

bool weft_row_has_axis(const struct weft_axes *all, const struct weft_row *row, int a)
{
    for (int i = 0; i < all->list[a].whens; i++) {
        struct weft_condition c = all->list[a].when[i];
        int now = row->choice[all->axis_of[c.value]];
        if (now == WEFT_AXIS_ABSENT || (now == c.value) == c.unlike)
            return false;
    }
    return true;
}

const char *weft_row_text(const struct weft_axes *all, const struct weft_row *row, struct weft_arena *arena)
{
    char text[4096];
    size_t used = 0;
    text[0] = '\0';
    for (int a = 0; a < all->count && used < sizeof text; a++)
        if (row->choice[a] >= 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%s", used ? " " : "", all->list[a].name,
                                     all->values[row->choice[a]]);
    return weft_arena_print(arena, "%s", text);
}

enum weft_status weft_combination_spec(struct weft_spec *spec, const char *settings, enum weft_dtype dtype)
{
    struct weft_settings s = {0};
    enum weft_status status = weft_settings_add(&s, dtype == WEFT_F32 ? "dtype=f32" : "dtype=bf16");
    *spec = (struct weft_spec){0};
    for (int i = 0; status == WEFT_OK && sizes[i]; i++)
        status = weft_settings_add(&s, sizes[i]);
    if (status == WEFT_OK)
        status = weft_settings_add_words(&s, settings);
    if (status == WEFT_OK)
        status = weft_spec_init(spec, "gpt2", &s);
    weft_settings_release(&s);
    return status;
}
