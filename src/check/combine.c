/* SPDX-License-Identifier: MIT
 *
 * combine.c - finds a small set of combinations of a model's options in which all pairs or triples of values occur.
 *
 * A covering array is built greedily, row by row (Cohen, Dalal, Fredman and Patton, The AETG System, 1997): start from
 * a tuple that no row contains yet, give every other axis the value that adds the most new tuples, and keep the best of
 * a few such rows. weft_spec_init decides whether a row is a legal model.
 */
#include "check/axes.h"

#include <stdlib.h>

/* ---- building rows */

struct search {
    const struct weft_axes *axes;
    int strength;
    uint64_t key, drawn; /* key of the random numbers; how many have been drawn */
    uint8_t *state;      /* OUT, WANTED or DONE for every tuple of values, in every order */
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

/* The values chosen for a row so far. */
struct members {
    int list[WEFT_MAX_AXES], count;
};

/* Returns the number of wanted tuples that the value adds to a row; with `done`, marks them as done. */
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

/* Puts the axes into random order, but each one after the axes that it depends on. */
static void shuffle(struct search *s, int order[WEFT_MAX_AXES])
{
    const struct weft_axes *all = s->axes;
    int n = 0;
    for (int depth = 0; n < all->count; depth++)
        for (int a = 0, first = n; a < all->count; a++)
            if (all->list[a].depth == depth) {
                int at = first + draw(s, n - first + 1);
                order[n++] = order[at];
                order[at] = a;
            }
}

/* Gives every open axis the value that adds the most tuples, with ties broken at random; if `m` is NULL, a random
 * value. */
static void fill(struct search *s, struct weft_row *row, struct members *m)
{
    int order[WEFT_MAX_AXES] = {0};
    shuffle(s, order);
    for (int i = 0; i < s->axes->count; i++) {
        const struct weft_axis *a = &s->axes->list[order[i]];
        int *choice = &row->choice[order[i]], best = -1, turn = draw(s, a->count);
        if (*choice == WEFT_AXIS_OPEN && !weft_row_has_axis(s->axes, row, order[i]))
            *choice = WEFT_AXIS_ABSENT;
        if (*choice != WEFT_AXIS_OPEN)
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

static enum weft_status is_legal(const struct weft_axes *all, const struct weft_row *row, bool *legal)
{
    struct weft_arena arena = {0};
    struct weft_spec spec = {0};
    const char *text = weft_row_text(all, row, &arena);
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

static enum weft_status keep(struct weft_combinations *c, const struct weft_axes *all, const struct weft_row *row)
{
    if (c->count == WEFT_MAX_COMBINATIONS)
        return FAIL(WEFT_INVALID, "more than %d combinations are needed", WEFT_MAX_COMBINATIONS);
    if (!(c->rows[c->count] = weft_row_text(all, row, &c->arena)))
        return WEFT_NOMEM;
    c->count++;
    return WEFT_OK;
}

/* ---- covering arrays */

/* Marks all tuples that the conditions allow as wanted. */
static void want_tuples(struct search *s)
{
    const struct weft_axes *all = s->axes;
    int n = all->value_count;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++)
            for (int c = 0; c < (s->strength == 3 ? b : 1); c++) {
                int v[] = {a, b, s->strength == 3 ? c : b};
                struct weft_row row;
                bool good = true;
                weft_row_open(all, &row);
                for (int i = 0; i < s->strength && good; i++)
                    good = weft_row_require(all, &row, v[i]);
                if (!good)
                    continue;
                set_state(s, v, WANTED);
                s->wanted++;
            }
}

/* Finds a tuple that is still wanted, starting at a random one. Returns false if there is none. */
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

/* Builds a row that contains the tuple. Returns the number of new tuples in the row. */
static int make_row(struct search *s, const int v[3], struct weft_row *row, struct members *m)
{
    int brings = 0;
    weft_row_open(s->axes, row);
    *m = (struct members){.count = 0};
    for (int i = 0; i < s->strength; i++)
        (void)weft_row_require(s->axes, row, v[i]);
    for (int a = 0; a < s->axes->count; a++)
        if (row->choice[a] != WEFT_AXIS_OPEN)
            m->list[m->count++] = row->choice[a];
    fill(s, row, m);
    for (int i = 0; i < m->count; i++) {
        struct members before = *m;
        before.count = i;
        brings += gain(s, &before, m->list[i], false);
    }
    return brings;
}

/* Adds the best of a few legal rows that contain the tuple. If none is legal, the tuple counts as impossible. */
static enum weft_status add_row(struct search *s, const int v[3], struct weft_combinations *c)
{
    enum { FEW = 8, MANY = 64 };
    struct weft_row best_row;
    struct members best_members = {.count = 0};
    int best = 0;
    for (int i = 0; i < (best ? FEW : MANY); i++) {
        struct weft_row row;
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
    struct weft_axes all;
    int v[3];
    enum weft_status status = WEFT_OK;
    *c = (struct weft_combinations){.count = 0};
    TRY(weft_axes_find(&all));
    size_t n = (size_t)all.value_count;
    struct search s = {.axes = &all, .strength = strength, .key = weft_key(seed, (uint64_t)strength)};
    if (!(s.state = calloc(n * n, strength == 3 ? n : 1)))
        return FAIL(WEFT_NOMEM, "not enough memory to combine options");
    want_tuples(&s);
    while (status == WEFT_OK && s.wanted && next_tuple(&s, v))
        status = add_row(&s, v, c);
    free(s.state);
    return status;
}

enum weft_status weft_combinations_draw(struct weft_combinations *c, int count, uint64_t seed)
{
    struct weft_axes all;
    *c = (struct weft_combinations){.count = 0};
    TRY(weft_axes_find(&all));
    struct search s = {.axes = &all, .key = weft_key(seed, 1)};
    for (int64_t tries = 0; c->count < count; tries++) {
        struct weft_row row;
        bool legal;
        weft_row_open(&all, &row);
        fill(&s, &row, NULL);
        TRY(is_legal(&all, &row, &legal));
        if (legal)
            TRY(keep(c, &all, &row));
        else if (tries > 1000 * (int64_t)count)
            return FAIL(WEFT_INVALID, "fewer than one in a thousand random combinations is legal");
    }
    return WEFT_OK;
}

void weft_combinations_release(struct weft_combinations *c)
{
    weft_arena_release(&c->arena);
    *c = (struct weft_combinations){.count = 0};
}
