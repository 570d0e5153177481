/* SPDX-License-Identifier: MIT
 *
 * damage.h - damages of atoms, for tests/long/forms.c: which are possible for an atom, and doing one. A damage keeps
 * the atom's type, so that the form can still be built and run.
 */
#ifndef WEFT_TEST_DAMAGE_H
#define WEFT_TEST_DAMAGE_H

#include "graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum group { SIGN, AXIS, CONSTANT, INDEX, MASK, ATOM, GROUPS };
static const char *const group_names[GROUPS] = {"sign", "axis", "constant", "index", "mask", "atom"};

#define HOWS(row)                                                                                                      \
    row(KIND, "another atom") row(IDENTITY, "left out") row(EXCHANGE, "inputs exchanged") row(NEGATE, "input negated") \
        row(ENLARGE, "input times 1.1") row(MORE, "input plus 1") row(EARLIER, "index minus 1")                        \
            row(LATER, "index plus 1") row(TURN, "axes of the input exchanged") row(ALONG, "along a different axis")   \
                row(PERMUTE, "axes exchanged") row(TRANSPOSE, "transposed") row(NUMBER, "a different number")          \
                    row(ARRAY, "a different array") row(FIRST, "first element moved")                                  \
                        row(PAD, "zeros on the other side") row(BRANCHES, "branches exchanged")                        \
                            row(ONE, "one condition ignored") row(ALL, "everything is visible")                        \
                                row(POOLING, "sum and maximum exchanged") row(RATE, "a different rate")                \
                                    row(SITE, "the mask of a different site")                                          \
                                        row(LAYER, "the mask of a different layer")
#define ROW(name, text) name,
enum how { HOWS(ROW) HOW_COUNT };
#undef ROW
#define ROW(name, text) text,
static const char *const how_names[HOW_COUNT] = {HOWS(ROW)};
#undef ROW

struct damage {
    enum how how;
    enum group group;
    int a, b; /* the input, or two axes; of KIND the kind; of FIRST the distance */
    int c;    /* of TURN: the second axis */
};
enum { MOST_DAMAGES = 64 };
struct damages {
    struct damage list[MOST_DAMAGES];
    int count;
};

static inline void list_one(struct damages *d, struct damage one)
{
    if (d->count < MOST_DAMAGES)
        d->list[d->count++] = one;
}

static inline bool same_extent(struct weft_extent a, struct weft_extent b)
{
    return a.size == b.size && a.times == b.times;
}

static inline bool same_type(const struct weft_type *a, const struct weft_type *b)
{
    bool same = a->of == b->of && a->ndim == b->ndim;
    for (int i = 0; i < a->ndim && same; i++)
        same = same_extent(a->dim[i], b->dim[i]);
    return same;
}

/* Finds the next pair i < j of axes of the same size, which is not 1. Begin with 0 and 0. */
static inline bool find_equal_axes(const struct weft_type *t, int *i, int *j)
{
    while (*j < t->ndim) {
        if (++*i >= *j) {
            *i = 0;
            ++*j;
        }
        if (*j > *i && *j < t->ndim && same_extent(t->dim[*i], t->dim[*j]) && t->dim[*i].times > 1)
            return true;
    }
    return false;
}

/* ---- listing */

static const struct {
    enum weft_atom_kind from, to;
    enum group group;
} kinds[] = {
    {WEFT_ATOM_add, WEFT_ATOM_sub, SIGN},           {WEFT_ATOM_sub, WEFT_ATOM_add, SIGN},
    {WEFT_ATOM_mul, WEFT_ATOM_div, ATOM},           {WEFT_ATOM_div, WEFT_ATOM_mul, ATOM},
    {WEFT_ATOM_max, WEFT_ATOM_min, ATOM},           {WEFT_ATOM_min, WEFT_ATOM_max, ATOM},
    {WEFT_ATOM_sum, WEFT_ATOM_largest, ATOM},       {WEFT_ATOM_largest, WEFT_ATOM_sum, ATOM},
    {WEFT_ATOM_less, WEFT_ATOM_equal, MASK},        {WEFT_ATOM_equal, WEFT_ATOM_less, MASK},
    {WEFT_ATOM_logsumexp, WEFT_ATOM_largest, ATOM}, {WEFT_ATOM_softplus, WEFT_ATOM_sigmoid, ATOM},
    {WEFT_ATOM_sigmoid, WEFT_ATOM_tanh, ATOM},
};

static inline bool is_index(const struct weft_atom *a, int input)
{
    return input == 1 && (a->kind == WEFT_ATOM_take || a->kind == WEFT_ATOM_pick || a->kind == WEFT_ATOM_put);
}

/* Damages of an input: a wrong value is computed from it and read instead. The state of a store must stay a state. */
static inline void list_input(struct damages *d, const struct weft_node *node, const struct weft_atom *a, int input)
{
    const struct weft_atom *x = a->in[input];
    int i = 0, j = 0;
    if ((a->kind == WEFT_ATOM_store && input == 0) || x->kind == WEFT_ATOM_number)
        return;
    if (is_index(a, input)) {
        list_one(d, (struct damage){EARLIER, INDEX, input});
        list_one(d, (struct damage){LATER, INDEX, input});
        return;
    }
    if (x->type.of == WEFT_REAL) {
        list_one(d, (struct damage){NEGATE, SIGN, input});
        list_one(d, (struct damage){ENLARGE, CONSTANT, input});
    } else if (x->type.of == WEFT_WHOLE) {
        list_one(d, (struct damage){MORE, x->kind == WEFT_ATOM_distance ? MASK : INDEX, input});
    }
    bool others = a->kind == WEFT_ATOM_reshape && x->from != node; /* the op declares a different shape for it */
    while (!others && find_equal_axes(&x->type, &i, &j))
        list_one(d, (struct damage){TURN, AXIS, input, i, j});
}

static inline void list_shape(struct damages *d, const struct weft_atom *a)
{
    const struct weft_type *t = &a->type;
    int i = 0, j = 0;
    while (a->kind == WEFT_ATOM_permute && find_equal_axes(t, &i, &j))
        list_one(d, (struct damage){PERMUTE, AXIS, i, j});
    for (i = 0; a->kind == WEFT_ATOM_softmax && i < t->ndim; i++)
        if (i != a->axis && t->dim[i].size == WEFT_FIXED)
            list_one(d, (struct damage){ALONG, AXIS, i});
    if (a->kind == WEFT_ATOM_slice && a->first > 0)
        list_one(d, (struct damage){FIRST, INDEX, -1});
    if (a->kind == WEFT_ATOM_slice && a->first + a->count < a->in[0]->type.dim[a->axis].times)
        list_one(d, (struct damage){FIRST, INDEX, 1});
    if (a->kind == WEFT_ATOM_pad && a->first != a->count)
        list_one(d, (struct damage){PAD, INDEX});
    if (a->kind == WEFT_ATOM_concat && same_type(&a->in[0]->type, &a->in[1]->type))
        list_one(d, (struct damage){EXCHANGE, INDEX});
    const struct weft_type *b = a->kind == WEFT_ATOM_matmul ? &a->in[1]->type : NULL;
    if (b && same_extent(b->dim[b->ndim - 1], b->dim[b->ndim - 2]) && b->dim[b->ndim - 1].times > 1)
        list_one(d, (struct damage){TRANSPOSE, AXIS});
}

static inline void list_conditions(struct damages *d, const struct weft_atom *a)
{
    if (a->kind == WEFT_ATOM_less || a->kind == WEFT_ATOM_sub)
        list_one(d, (struct damage){EXCHANGE, a->kind == WEFT_ATOM_less ? MASK : SIGN});
    if (a->kind == WEFT_ATOM_choose)
        list_one(d, (struct damage){BRANCHES, MASK});
    for (int i = 0; a->kind == WEFT_ATOM_both && i < 2; i++)
        if (same_type(&a->in[i]->type, &a->type))
            list_one(d, (struct damage){ONE, MASK, i});
    if (a->kind == WEFT_ATOM_visible)
        list_one(d, (struct damage){ALL, MASK});
    for (int how = RATE; a->kind == WEFT_ATOM_drop && how <= LAYER; how++)
        list_one(d, (struct damage){(enum how)how, how == RATE ? CONSTANT : MASK});
}

/* Lists all damages that are possible for an atom of a node which is about to be added. */
static inline void list_damages(struct damages *d, const struct weft_node *node, const struct weft_atom *a)
{
    enum weft_atom_kind k = a->kind;
    bool leaves = (k >= WEFT_ATOM_exp && k <= WEFT_ATOM_softplus) || k == WEFT_ATOM_softmax || k == WEFT_ATOM_drop ||
                  k == WEFT_ATOM_cumulate;
    d->count = 0;
    if (k == WEFT_ATOM_number && a->value != -INFINITY)
        list_one(d, (struct damage){NUMBER, CONSTANT});
    if (k == WEFT_ATOM_array)
        list_one(d, (struct damage){ARRAY, a->type.of == WEFT_REAL ? CONSTANT : INDEX});
    if (k == WEFT_ATOM_pool)
        list_one(d, (struct damage){POOLING, ATOM});
    if (leaves)
        list_one(d, (struct damage){IDENTITY, ATOM});
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].from == k)
            list_one(d, (struct damage){KIND, kinds[i].group, (int)kinds[i].to});
    list_shape(d, a);
    list_conditions(d, a);
    for (int i = 0; i < 3 && a->in[i]; i++)
        list_input(d, node, a, i);
}

/* ---- doing */

/* Numbers like eps, which hardly show, become ten times as large. */
static inline double other_number(const struct weft_atom *a)
{
    if (a->type.of != WEFT_REAL)
        return a->value + 1;
    return a->value == 0 ? 0.1 : fabs(a->value) < 1e-3 ? 10 * a->value : 1.1 * a->value;
}

static inline const double *other_array(struct weft_form *f, const struct weft_atom *a)
{
    int64_t n = 1;
    for (int i = 0; i < a->type.ndim; i++)
        n *= a->type.dim[i].times;
    double *data = weft_arena_alloc(&f->arena, (size_t)n * sizeof *data);
    for (int64_t i = 0; data && i < n; i++)
        data[i] = a->type.of == WEFT_REAL ? 1.1 * a->data[i] : fmax(a->data[i] - 1, 0);
    return data ? data : a->data;
}

static inline struct weft_atom *other_index(struct weft_form *f, const struct weft_atom *a, enum how how)
{
    struct weft_extent all = a->in[0]->type.dim[a->axis];
    if (how == EARLIER || all.size != WEFT_FIXED)
        return weft_max_of(f, weft_plus_of(f, a->in[1], -1), weft_whole_of(f, 0));
    return weft_min_of(f, weft_plus_of(f, a->in[1], 1), weft_whole_of(f, all.times - 1));
}

static inline void exchange(struct weft_atom **a, struct weft_atom **b)
{
    struct weft_atom *c = *a;
    *a = *b;
    *b = c;
}

static inline void do_input(struct weft_form *f, struct weft_atom *a, const struct damage *d)
{
    struct weft_atom *x = a->in[d->a];
    if (d->how == NEGATE)
        x = weft_times_of(f, x, -1);
    else if (d->how == ENLARGE)
        x = weft_times_of(f, x, 1.1);
    else if (d->how == MORE)
        x = weft_plus_of(f, x, 1);
    else if (d->how == TURN)
        x = weft_swap_of(f, x, d->b, d->c);
    else
        x = other_index(f, a, d->how);
    a->in[d->a] = x ? x : a->in[d->a];
}

static inline void do_attribute(struct weft_form *f, struct weft_atom *a, const struct damage *d)
{
    int axis = a->axes[d->a];
    switch (d->how) {
    case ALONG:
        a->axis = d->a;
        break;
    case PERMUTE:
        a->axes[d->a] = a->axes[d->b];
        a->axes[d->b] = axis;
        break;
    case TRANSPOSE:
        a->transposed = !a->transposed;
        break;
    case NUMBER:
        a->value = other_number(a);
        break;
    case ARRAY:
        a->data = other_array(f, a);
        break;
    case FIRST:
        a->first += d->a;
        break;
    case PAD:
        a->first += a->count;
        a->count = a->first - a->count;
        a->first -= a->count;
        break;
    case POOLING:
        a->pooling = a->pooling == WEFT_POOL_SUM ? WEFT_POOL_MAX : WEFT_POOL_SUM;
        break;
    case RATE:
        a->drop.p *= 0.9;
        break;
    default: /* SITE, LAYER */
        *(d->how == SITE ? &a->drop.site : &a->drop.layer) += 1;
    }
}

/* Changes an atom for which the damage is listed. */
static inline void do_damage(struct weft_form *f, struct weft_atom *a, const struct damage *d)
{
    struct weft_atom *distance;
    switch (d->how) {
    case KIND:
        a->kind = (enum weft_atom_kind)d->a;
        break;
    case IDENTITY: /* `to` its own type; nothing else of a drop may matter */
        a->kind = WEFT_ATOM_to;
        a->drop = (struct weft_drop){0};
        break;
    case EXCHANGE:
        exchange(&a->in[0], &a->in[1]);
        break;
    case BRANCHES:
        exchange(&a->in[1], &a->in[2]);
        break;
    case ONE:
        a->in[1 - d->a] = a->in[d->a];
        break;
    case ALL:
        distance = weft_distance_of(f);
        a->kind = WEFT_ATOM_equal;
        a->in[0] = a->in[1] = distance;
        break;
    case NEGATE:
    case ENLARGE:
    case MORE:
    case TURN:
    case EARLIER:
    case LATER:
        do_input(f, a, d);
        break;
    default:
        do_attribute(f, a, d);
    }
}

static inline void describe_damage(const struct damage *d, char text[96])
{
    if (d->how == KIND)
        snprintf(text, 96, "%s: %s instead", group_names[d->group], weft_atom_name((enum weft_atom_kind)d->a));
    else if (d->how == TURN)
        snprintf(text, 96, "%s: axes %d and %d of input %d exchanged", group_names[d->group], d->b, d->c, d->a);
    else if (d->how >= NEGATE && d->how < TURN)
        snprintf(text, 96, "%s: %s %d", group_names[d->group], how_names[d->how], d->a);
    else
        snprintf(text, 96, "%s: %s", group_names[d->group], how_names[d->how]);
}

#endif
