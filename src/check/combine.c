/* SPDX-License-Identifier: MIT
 *
 * combine.c - which combinations of a model's choices there are, and few of them in which all pairs or triples occur.
 *
 * An axis is an option and its values; the axes are read off the option tables. One that belongs to a variant
 * ("pos=rope") or needs another option is there only in rows that have that. Whether a row is legal is for
 * weft_spec_init to say.
 *
 * A covering array is made greedily, row by row (Cohen, Dalal, Fredman and Patton, The AETG System, 1997): begin with a
 * tuple that no row has yet, give every other axis the value that brings the most new tuples, and take the best of a
 * few such rows.
 */
#include "check/check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is combined */

/* Sizes of the models, with the sizes of parts below: large enough that nothing is degenerate. */
static const char *const sizes[] = {"layers=3",   "width=32", "heads=4", "ffn_width=24",
                                    "context=70", "vocab=17", "batch=2", NULL};

/* Numbers that are axes, by a value of each kind. One value: a size. */
static const struct number {
    const char *name, *values[4];
} numbers[] = {
    {"kv_heads", {"0", "2", "1"}}, {"latent_width", {"12"}},     {"latent_rope", {"0", "6"}},
    {"m1_width", {"6"}},           {"m2_rank", {"6"}},           {"m2_topk", {"3"}},
    {"m3_width", {"10"}},          {"ws_heads", {"4"}},          {"ra_alpha", {"0", "0.5"}},
    {"ra_window", {"5"}},          {"relative_max", {"0", "5"}}, {"logits_z", {"0", "0.01"}},
};

/* Choices that are none here. */
static const char *const left_out[] = {"dtype",            /* all combinations are for both */
                                       "recompute",        /* the same bits by another plan: the graph's own test */
                                       "tie",              /* which matrix the logits read; no other part knows */
                                       "m1_mode=sequence", /* sees the future, and is not to be trained */
                                       NULL};

enum { MAX_AXES = 96, MAX_VALUES = 256 };
enum { OPEN = -1, ABSENT = -2 }; /* of an axis in a row: not decided, not there */

/* An axis is there when another has this value, or (unlike) has another. */
struct condition {
    int value;
    bool unlike;
};

struct axis {
    const char *name;
    int first, count; /* its values */
    struct condition when[2];
    int whens;
    int depth; /* behind the axes that it depends on */
};

struct axes {
    struct axis list[MAX_AXES];
    int count;
    const char *values[MAX_VALUES];
    int axis_of[MAX_VALUES];
    int value_count;
};

struct row {
    int choice[MAX_AXES]; /* values */
};

static bool is_left_out(const char *name, const char *value)
{
    size_t n = strlen(name);
    for (int i = 0; left_out[i]; i++)
        if (strncmp(left_out[i], name, n) == 0 &&
            (value ? left_out[i][n] == '=' && strcmp(left_out[i] + n + 1, value) == 0 : !left_out[i][n]))
            return true;
    return false;
}

static void add_value(struct axes *all, const char *value)
{
    struct axis *a = &all->list[all->count];
    assert(all->value_count < MAX_VALUES);
    if (is_left_out(a->name, value))
        return;
    all->values[all->value_count] = value;
    all->axis_of[all->value_count++] = all->count;
    a->count++;
}

static void add_values(struct axes *all, const struct weft_opt *opt)
{
    if (opt->type == WEFT_OPT_BOOL) {
        add_value(all, "no");
        add_value(all, "yes");
    }
    for (int i = 0; opt->type == WEFT_OPT_CHOICE && opt->choices[i]; i++)
        add_value(all, opt->choices[i]);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        for (int i = 0; strcmp(numbers[n].name, opt->name) == 0 && i < 4 && numbers[n].values[i]; i++)
            add_value(all, numbers[n].values[i]);
}

/* From "name=value" or "name!=value"; what is no axis is no condition. */
static void add_condition(struct axes *all, struct axis *a, const char *text)
{
    size_t n = text ? strcspn(text, "!=") : 0;
    bool unlike = text && text[n] == '!';
    for (int v = 0; text && text[n] && v < all->value_count; v++) {
        const struct axis *of = &all->list[all->axis_of[v]];
        if (strlen(of->name) != n || strncmp(of->name, text, n) != 0 || strcmp(all->values[v], text + n + 1 + unlike))
            continue;
        a->when[a->whens++] = (struct condition){v, unlike};
        a->depth = (int)weft_max(a->depth, of->depth + 1);
    }
}

static void find_axes(struct axes *all)
{
    const struct weft_owner *owner;
    *all = (struct axes){.count = 0};
    for (int o = 0; (owner = weft_nn_owner_at(o)); o++)
        for (int i = 0; i < owner->count; i++) {
            const struct weft_opt *opt = &owner->options[i];
            struct axis *a = &all->list[all->count];
            *a = (struct axis){.name = opt->name, .first = all->value_count};
            if (!is_left_out(opt->name, NULL))
                add_values(all, opt);
            if (a->count == 0)
                continue;
            add_condition(all, a, owner->name);
            add_condition(all, a, opt->needs);
            all->count++;
            assert(all->count < MAX_AXES);
        }
}

/* ---- rows */

static void open_row(const struct axes *all, struct row *row)
{
    for (int a = 0; a < all->count; a++)
        row->choice[a] = OPEN;
}

/* Gives an axis this value, and the axes that it depends on what they must have. False: they have another. */
static bool require(const struct axes *all, struct row *row, int value)
{
    int a = all->axis_of[value];
    if (row->choice[a] != OPEN)
        return row->choice[a] == value;
    row->choice[a] = value;
    for (int i = 0; i < all->list[a].whens; i++) {
        struct condition c = all->list[a].when[i];
        const struct axis *of = &all->list[all->axis_of[c.value]];
        int now = row->choice[all->axis_of[c.value]], other = of->first + (c.value == of->first);
        if (c.unlike && now != OPEN ? now == c.value : !require(all, row, c.unlike ? other : c.value))
            return false;
    }
    return true;
}

/* Whether the axis is there, given those that it depends on. */
static bool is_there(const struct axes *all, const struct row *row, int a)
{
    for (int i = 0; i < all->list[a].whens; i++) {
        struct condition c = all->list[a].when[i];
        int now = row->choice[all->axis_of[c.value]];
        if (now == ABSENT || (now == c.value) == c.unlike)
            return false;
    }
    return true;
}

/* "geom=w2 attn=full ..": what the row sets. */
static const char *row_text(const struct axes *all, const struct row *row, struct weft_arena *arena)
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

static enum weft_status add_words(struct weft_settings *s, const char *text)
{
    while (*text) {
        char word[128];
        size_t n = strcspn(text, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, text);
        TRY(weft_settings_add(s, word));
        text += n + strspn(text + n, " ");
    }
    return WEFT_OK;
}

enum weft_status weft_combination_spec(struct weft_spec *spec, const char *settings, enum weft_dtype dtype)
{
    struct weft_settings s = {0};
    enum weft_status status = weft_settings_add(&s, dtype == WEFT_F32 ? "dtype=f32" : "dtype=bf16");
    *spec = (struct weft_spec){0};
    for (int i = 0; status == WEFT_OK && sizes[i]; i++)
        status = weft_settings_add(&s, sizes[i]);
    if (status == WEFT_OK)
        status = add_words(&s, settings);
    if (status == WEFT_OK)
        status = weft_spec_init(spec, "gpt2", &s);
    weft_settings_release(&s);
    return status;
}

/* ---- making rows */

struct search {
    const struct axes *axes;
    int strength;
    uint64_t key, drawn; /* random numbers, and how many were drawn */
    uint8_t *state;      /* of every tuple of values, in every order: OUT, WANTED or DONE */
    int64_t wanted;
};
enum { OUT, WANTED, DONE };

static int draw(struct search *s, int n) { return (int)weft_below(s->key, s->drawn++, (uint64_t)n); }

static uint8_t *state_of(const struct search *s, int a, int b, int c)
{
    size_t n = (size_t)s->axes->value_count, at = (size_t)a * n + (size_t)b;
    return &s->state[s->strength == 3 ? at * n + (size_t)c : at];
}

static void set_state(const struct search *s, const int v[3], uint8_t state)
{
    for (int i = 0; i < s->strength; i++)
        for (int j = 0; j < s->strength; j++)
            if (i != j)
                *state_of(s, v[i], v[j], v[3 - i - j]) = state;
}

/* The values that a row has so far. */
struct members {
    int list[MAX_AXES], count;
};

/* How many wanted tuples the value makes with these; `done`: and no longer wanted. */
static int gain(struct search *s, const struct members *m, int value, bool done)
{
    int sum = 0;
    for (int i = 0; i < m->count; i++)
        for (int j = 0; j < (s->strength == 3 ? i : 1); j++) {
            bool new = *state_of(s, value, m->list[i], m->list[j]) == WANTED;
            sum += new;
            if (new &&done)
                set_state(s, (int[]){value, m->list[i], m->list[j]}, DONE);
        }
    return sum;
}

/* Axes in a random order, but behind those that they depend on. */
static void shuffle(struct search *s, int order[MAX_AXES])
{
    const struct axes *all = s->axes;
    int n = 0;
    for (int depth = 0; n < all->count; depth++)
        for (int a = 0, first = n; a < all->count; a++)
            if (all->list[a].depth == depth) {
                int at = first + draw(s, n - first + 1);
                order[n++] = order[at];
                order[at] = a;
            }
}

/* Decides every axis that is open: the value that brings the most, by chance among equals or (no members) at all. */
static void fill(struct search *s, struct row *row, struct members *m)
{
    int order[MAX_AXES] = {0};
    shuffle(s, order);
    for (int i = 0; i < s->axes->count; i++) {
        const struct axis *a = &s->axes->list[order[i]];
        int *choice = &row->choice[order[i]], best = -1, turn = draw(s, a->count);
        if (*choice == OPEN && !is_there(s->axes, row, order[i]))
            *choice = ABSENT;
        if (*choice != OPEN)
            continue;
        for (int k = 0; k < a->count; k++) {
            int v = a->first + (k + turn) % a->count, brings = m ? gain(s, m, v, false) : 0;
            if (brings > best) {
                best = brings;
                *choice = v;
            }
        }
        if (m)
            m->list[m->count++] = *choice;
    }
}

static enum weft_status is_legal(const struct axes *all, const struct row *row, bool *legal)
{
    struct weft_arena arena = {0};
    struct weft_spec spec = {0};
    const char *text = row_text(all, row, &arena);
    enum weft_status status = text ? weft_combination_spec(&spec, text, WEFT_F32) : WEFT_NOMEM;
    *legal = status == WEFT_OK;
    weft_spec_release(&spec);
    weft_arena_release(&arena);
    if (status == WEFT_INVALID) {
        weft_error_clear();
        return WEFT_OK;
    }
    return status;
}

static enum weft_status keep(struct weft_combinations *c, const struct axes *all, const struct row *row)
{
    if (c->count == WEFT_MAX_COMBINATIONS)
        return FAIL(WEFT_INVALID, "more than %d combinations", WEFT_MAX_COMBINATIONS);
    if (!(c->rows[c->count] = row_text(all, row, &c->arena)))
        return WEFT_NOMEM;
    c->count++;
    return WEFT_OK;
}

/* ---- covering arrays */

/* Tuples that no condition speaks against are wanted. */
static void want_tuples(struct search *s)
{
    const struct axes *all = s->axes;
    int n = all->value_count;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++)
            for (int c = 0; c < (s->strength == 3 ? b : 1); c++) {
                int v[] = {a, b, s->strength == 3 ? c : b};
                struct row row;
                bool good = true;
                open_row(all, &row);
                for (int i = 0; i < s->strength && good; i++)
                    good = require(all, &row, v[i]);
                if (!good)
                    continue;
                set_state(s, v, WANTED);
                s->wanted++;
            }
}

/* Some tuple that is still wanted, found from a random place on; false: none is. */
static bool next_tuple(struct search *s, int v[3])
{
    int n = s->axes->value_count, start = draw(s, n);
    for (int i = 0; i < n; i++)
        for (int b = 0; b < n; b++)
            for (int c = 0; c < (s->strength == 3 ? n : 1); c++) {
                v[0] = (start + i) % n, v[1] = b, v[2] = c;
                if (*state_of(s, v[0], b, c) == WANTED)
                    return true;
            }
    return false;
}

/* A row that has the tuple. */
static int make_row(struct search *s, const int v[3], struct row *row, struct members *m)
{
    int brings = 0;
    open_row(s->axes, row);
    *m = (struct members){.count = 0};
    for (int i = 0; i < s->strength; i++)
        (void)require(s->axes, row, v[i]);
    for (int a = 0; a < s->axes->count; a++)
        if (row->choice[a] != OPEN)
            m->list[m->count++] = row->choice[a];
    fill(s, row, m);
    for (int i = 0; i < m->count; i++) {
        struct members before = *m;
        before.count = i;
        brings += gain(s, &before, m->list[i], false);
    }
    return brings;
}

/* The best of some legal rows that have the tuple. If none is legal the tuple is taken to be impossible. */
static enum weft_status add_row(struct search *s, const int v[3], struct weft_combinations *c)
{
    enum { FEW = 8, MANY = 64 };
    struct row best_row;
    struct members best_members = {.count = 0};
    int best = 0;
    for (int i = 0; i < (best ? FEW : MANY); i++) {
        struct row row;
        struct members m;
        bool legal = false;
        int brings = make_row(s, v, &row, &m);
        if (brings > best)
            TRY(is_legal(s->axes, &row, &legal));
        if (!legal)
            continue;
        best = brings;
        best_row = row;
        best_members = m;
    }
    if (!best) {
        set_state(s, v, OUT);
        s->wanted--;
        c->impossible++;
        return WEFT_OK;
    }
    for (int i = 0; i < best_members.count; i++) {
        struct members before = best_members;
        before.count = i;
        int brings = gain(s, &before, best_members.list[i], true);
        s->wanted -= brings;
        c->tuples += brings;
    }
    return keep(c, s->axes, &best_row);
}

enum weft_status weft_combinations_cover(struct weft_combinations *c, int strength, uint64_t seed)
{
    struct axes all;
    int v[3];
    enum weft_status status = WEFT_OK;
    *c = (struct weft_combinations){.count = 0};
    find_axes(&all);
    size_t n = (size_t)all.value_count;
    struct search s = {.axes = &all, .strength = strength, .key = weft_key(seed, (uint64_t)strength)};
    if (!(s.state = calloc(n * n, strength == 3 ? n : 1)))
        return FAIL(WEFT_NOMEM, "no memory to combine choices");
    want_tuples(&s);
    while (status == WEFT_OK && s.wanted && next_tuple(&s, v))
        status = add_row(&s, v, c);
    free(s.state);
    return status;
}

enum weft_status weft_combinations_draw(struct weft_combinations *c, int count, uint64_t seed)
{
    struct axes all;
    *c = (struct weft_combinations){.count = 0};
    find_axes(&all);
    struct search s = {.axes = &all, .key = weft_key(seed, 1)};
    for (int64_t tries = 0; c->count < count; tries++) {
        struct row row;
        bool legal;
        open_row(&all, &row);
        fill(&s, &row, NULL);
        TRY(is_legal(&all, &row, &legal));
        if (legal)
            TRY(keep(c, &all, &row));
        else if (tries > 1000 * (int64_t)count)
            return FAIL(WEFT_INVALID, "hardly any combination is legal");
    }
    return WEFT_OK;
}

void weft_combinations_release(struct weft_combinations *c)
{
    weft_arena_release(&c->arena);
    *c = (struct weft_combinations){.count = 0};
}
