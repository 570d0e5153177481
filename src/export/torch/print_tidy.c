/* SPDX-License-Identifier: MIT
 *
 * print_tidy.c - rewrites a form so that it reads well: without atoms that mean nothing in a batch of whole sequences,
 * and with matmuls by several stacked matrices as one matmul for each.
 */
#include "export/torch/print.h"

#include <math.h>
#include <string.h>

/* ---- dimensions */

/* In training, the columns of the key store are the rows of the call; in decoding, rings keep all columns. */
static enum weft_size size_of(enum weft_torch_code code, struct weft_extent e)
{
    if (e.size == WEFT_SEQUENCES)
        return WEFT_BATCH;
    if (e.size == WEFT_ALL || e.size == WEFT_RING)
        return code == WEFT_TORCH_DECODER ? WEFT_ALL : WEFT_NEW;
    return e.size;
}

static bool is_same(enum weft_torch_code code, struct weft_extent a, struct weft_extent b)
{
    return size_of(code, a) == size_of(code, b) && a.times == b.times;
}

bool weft_torch_is_same(const struct weft_torch_printer *p, struct weft_extent a, struct weft_extent b)
{
    return is_same(p->code, a, b);
}

static bool is_same_type(enum weft_torch_code code, const struct weft_type *a, const struct weft_type *b)
{
    bool same = a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = is_same(code, a->dim[i], b->dim[i]);
    return same;
}

/* ---- stacked matrices */

static bool is_last(const struct weft_atom *a, const struct weft_atom *x)
{
    return a->axis == -1 || a->axis == x->type.ndim - 1;
}

/* Returns matrices [.., columns] that were stacked as one row [1, n], as a concat of rows; NULL if they were not. */
static struct weft_atom *stacked(struct weft_form *f, struct weft_atom *x, int64_t columns)
{
    if (x->kind == WEFT_ATOM_reshape && x->in[0]->type.ndim == 2 && weft_last_of(x->in[0]) == columns)
        return x->in[0];
    if (x->kind != WEFT_ATOM_concat || !is_last(x, x))
        return NULL;
    struct weft_atom *a = stacked(f, x->in[0], columns), *b = stacked(f, x->in[1], columns);
    return a && b ? weft_concat_of(f, a, b, 0) : NULL;
}

/* Returns rows first to first + count of stacked matrices, if they are one of the matrices; else NULL. */
static struct weft_atom *rows_of(struct weft_atom *x, int64_t first, int64_t count)
{
    if (first == 0 && x->type.dim[0].times == count)
        return x;
    if (x->kind != WEFT_ATOM_concat || x->axis != 0)
        return NULL;
    int64_t above = x->in[0]->type.dim[0].times;
    return first < above ? rows_of(x->in[0], first, count) : rows_of(x->in[1], first - above, count);
}

/* Returns whether an atom exchanges the last two dimensions. */
static bool is_transpose(const struct weft_atom *a)
{
    int n = a->type.ndim;
    bool is = a->kind == WEFT_ATOM_permute && a->axes[n - 1] == n - 2 && a->axes[n - 2] == n - 1;
    for (int i = 0; is && i < n - 2; i++)
        is = a->axes[i] == i;
    return is;
}

/* Returns x times the transpose of a matrix. */
static struct weft_atom *product(struct weft_form *f, struct weft_atom *x, struct weft_atom *matrix)
{
    if (is_transpose(matrix))
        return weft_matmul_of(f, x, matrix->in[0], false);
    bool two = x->kind == WEFT_ATOM_concat && is_last(x, x) && matrix->kind == WEFT_ATOM_concat &&
               is_last(matrix, matrix) && weft_last_of(x->in[0]) == weft_last_of(matrix->in[0]);
    if (two && matrix->type.ndim == 2)
        return weft_add_of(f, product(f, x->in[0], matrix->in[0]), product(f, x->in[1], matrix->in[1]));
    return weft_matmul_of(f, x, matrix, true);
}

/* ---- rewriting */

struct tidying {
    struct weft_form *f;
    enum weft_torch_code code;
    struct weft_atom **to; /* by id of an atom: what is printed instead */
    struct weft_atom *position;
};

/* Returns x, with a constant in the rows of tokens that the mask hides. */
static struct weft_atom *masked(const struct tidying *t, struct weft_atom *x, double hidden)
{
    struct weft_type type = {.of = WEFT_TRUTH,
                             .ndim = x->type.ndim,
                             .dim = {{WEFT_BATCH, 1}, {WEFT_NEW, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}};
    struct weft_type rows = type;
    rows.ndim = 2;
    struct weft_atom *shown = weft_reshape_of(t->f, weft_input_of(t->f, "shown", rows), type);
    return weft_choose_of(t->f, shown, x, weft_real_of(t->f, hidden));
}

static struct weft_atom *tidy_rows(struct tidying *t, struct weft_atom *a)
{
    struct weft_atom *x = a->in[0];
    bool decoder = t->code == WEFT_TORCH_DECODER;
    if (a->kind == WEFT_ATOM_keys || (a->kind == WEFT_ATOM_own && !decoder))
        return x;
    if (a->kind == WEFT_ATOM_own)
        return x->kind == WEFT_ATOM_store ? x->in[1] : a;
    if (decoder && a->kind == WEFT_ATOM_cumulate)
        return weft_cumulate_of(t->f, masked(t, x, 0));
    if (decoder && a->kind == WEFT_ATOM_pool)
        return weft_pool_of(t->f, masked(t, x, a->pooling == WEFT_POOL_SUM ? 0 : -INFINITY), a->pooling);
    return a;
}

static bool is_one(struct weft_extent e) { return e.size == WEFT_FIXED && e.times == 1; }

/* If reshape(expand(reshape(x))) only repeats elements along dimensions of its result, returns x with dimensions of
 * size 1 in their places, expanded; else NULL. */
static struct weft_atom *repeated(const struct tidying *t, const struct weft_atom *a)
{
    const struct weft_atom *many = a->in[0], *few = many->in[0];
    struct weft_type type = a->type;
    int at = 0;
    if (many->kind != WEFT_ATOM_expand || few->kind != WEFT_ATOM_reshape || few->type.ndim != many->type.ndim)
        return NULL;
    for (int i = 0; i < many->type.ndim; i++) { /* the dimensions other than 1 must be the same */
        if (is_one(many->type.dim[i]))
            continue;
        while (at < type.ndim && is_one(type.dim[at]))
            at++;
        if (at == type.ndim || !is_same(t->code, many->type.dim[i], type.dim[at]))
            return NULL;
        if (is_one(few->type.dim[i]))
            type.dim[at] = few->type.dim[i];
        at++;
    }
    struct weft_atom *x = few->in[0];
    if (!is_same_type(t->code, &type, &x->type))
        x = weft_reshape_of(t->f, x, type);
    return weft_expand_of(t->f, x, a->type);
}

/* If reshape(matmul(reshape(x), y)) multiplies all heads by the one matrix that they share, returns matmul(x, y), which
 * broadcasts y; else NULL. */
static struct weft_atom *broadcast(const struct tidying *t, const struct weft_atom *a)
{
    const struct weft_atom *product = a->in[0];
    if (product->kind != WEFT_ATOM_matmul || product->in[0]->kind != WEFT_ATOM_reshape || a->type.ndim != 4)
        return NULL;
    struct weft_atom *x = product->in[0]->in[0], *y = product->in[1];
    bool shared = y->type.ndim == 4 && is_one(y->type.dim[1]) && x->type.ndim == 4;
    for (int i = 0; shared && i < 3; i++)
        shared = is_same(t->code, x->type.dim[i], a->type.dim[i]);
    return shared ? weft_matmul_of(t->f, x, y, product->transposed) : NULL;
}

static struct weft_atom *tidy_reshape(struct tidying *t, struct weft_atom *a)
{
    while (a->in[0]->kind == WEFT_ATOM_reshape)
        a->in[0] = a->in[0]->in[0];
    if (is_same_type(t->code, &a->type, &a->in[0]->type))
        return a->in[0];
    struct weft_atom *x = repeated(t, a);
    x = x ? x : broadcast(t, a);
    if (!x && a->type.ndim == 2)
        x = stacked(t->f, a->in[0], weft_last_of(a));
    return x ? x : a;
}

/* Moves softplus, and a constant that is added, before a reshape: PyTorch is slow if the rows are short. */
static struct weft_atom *tidy_elementwise(struct tidying *t, struct weft_atom *a)
{
    struct weft_atom *x = a->in[0], *y = NULL;
    if (x->kind != WEFT_ATOM_reshape)
        return a;
    if (a->kind == WEFT_ATOM_softplus)
        y = weft_softplus_of(t->f, x->in[0]);
    else if (a->in[1]->kind == WEFT_ATOM_number)
        y = weft_add_of(t->f, x->in[0], a->in[1]);
    return y ? weft_reshape_of(t->f, y, a->type) : a;
}

/* Multiplies rows [batch, length, heads, width] by a factor of each head before heads and rows are exchanged, while the
 * rows are contiguous. */
static struct weft_atom *tidy_factor(struct tidying *t, struct weft_atom *a)
{
    static const int swap[] = {0, 2, 1, 3};
    struct weft_atom *x = a->in[0], *factor = a->in[1];
    const struct weft_type *type = &factor->type;
    bool heads = x->kind == WEFT_ATOM_permute && x->type.ndim == 4 && memcmp(x->axes, swap, sizeof swap) == 0 &&
                 type->ndim == 3 && is_same(t->code, type->dim[0], x->type.dim[1]) && is_one(type->dim[1]) &&
                 is_one(type->dim[2]);
    double value;
    if (!heads || weft_torch_constant(factor, &value)) /* attention takes a constant */
        return a;
    factor = weft_reshape_of(t->f, factor, WEFT_FIXED_TYPE(type->dim[0].times, 1));
    return weft_permute_of(t->f, weft_mul_of(t->f, x->in[0], factor), swap);
}

/* Returns what is printed instead of an atom whose inputs are tidy. */
static struct weft_atom *tidy(struct tidying *t, struct weft_atom *a)
{
    struct weft_atom *x = a->in[0], *matrix;
    switch (a->kind) {
    case WEFT_ATOM_input: /* positions for the model's position scheme are positions */
        if (strcmp(a->name, "pos") == 0 || strcmp(a->name, "position") == 0)
            return t->position = t->position ? t->position : a;
        return a;
    case WEFT_ATOM_mul:
        return tidy_factor(t, a);
    case WEFT_ATOM_softplus:
    case WEFT_ATOM_add:
        return tidy_elementwise(t, a);
    case WEFT_ATOM_reshape:
        return tidy_reshape(t, a);
    case WEFT_ATOM_matmul:
        return a->transposed ? product(t->f, x, a->in[1]) : a;
    case WEFT_ATOM_slice:
        if (x->kind != WEFT_ATOM_matmul || !x->transposed || x->in[1]->type.ndim != 2 || !is_last(a, x))
            return a;
        matrix = rows_of(x->in[1], a->first, a->count);
        return matrix ? product(t->f, x->in[0], matrix) : a;
    default:
        return tidy_rows(t, a);
    }
}

/* ---- the new list */

/* Appends an atom after its inputs, unless the list has it. */
static void append(struct weft_atom **list, int *count, bool *has, struct weft_atom *a)
{
    if (has[a->id])
        return;
    has[a->id] = true;
    for (int i = 0; i < 3; i++)
        if (a->in[i])
            append(list, count, has, a->in[i]);
    list[(*count)++] = a;
}

/* Lists what is printed, in the order of the atoms that it replaces. */
static enum weft_status list_again(const struct tidying *t, int old)
{
    struct weft_form *f = t->f;
    struct weft_atom **list = weft_arena_alloc(&f->arena, (size_t)f->count * sizeof *list + 1);
    bool *has = weft_arena_alloc(&f->arena, (size_t)f->count + 1);
    int count = 0;
    if (!list || !has)
        return WEFT_NOMEM;
    for (int i = 0; i < old; i++)
        append(list, &count, has, t->to[i]);
    for (int i = 0; i < count; i++)
        list[i]->id = i;
    f->list = list;
    f->count = count;
    return WEFT_OK;
}

enum weft_status weft_torch_tidy(struct weft_form *f, enum weft_torch_code code)
{
    int old = f->count;
    struct weft_value *const *values;
    int count = weft_graph_values(f->graph, &values);
    struct tidying t = {.f = f, .code = code};
    t.to = weft_arena_alloc(&f->arena, (size_t)old * sizeof(*t.to) + 1);
    if (!t.to)
        return WEFT_NOMEM;
    for (int i = 0; i < old && f->status == WEFT_OK; i++) {
        struct weft_atom *a = f->list[i];
        for (int k = 0; k < 3; k++) /* an input that is younger was added here, and is tidy */
            a->in[k] = a->in[k] && a->in[k]->id < old ? t.to[a->in[k]->id] : a->in[k];
        f->node = a->from;
        t.to[i] = tidy(&t, a);
    }
    f->node = NULL;
    TRY(f->status);
    for (int i = 0; i < count; i++)
        if (f->of_value[i])
            f->of_value[i] = t.to[f->of_value[i]->id];
    return list_again(&t, old);
}
