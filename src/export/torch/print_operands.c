/* SPDX-License-Identifier: MIT
 *
 * print_operands.c - atoms as operands of an expression: constants, weights and tables, sizes, and atoms that are
 * printed already.
 */
#include "export/torch/print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct weft_py call(const char *text) { return (struct weft_py){text, WEFT_BINDS_CALL}; }

/* ---- constants */

static bool compute(enum weft_atom_kind kind, double x, double y, double *value)
{
    switch (kind) {
    case WEFT_ATOM_add:
        *value = x + y;
        return true;
    case WEFT_ATOM_sub:
        *value = x - y;
        return true;
    case WEFT_ATOM_mul:
        *value = x * y;
        return true;
    case WEFT_ATOM_div:
        *value = x / y;
        return true;
    case WEFT_ATOM_exp:
        *value = exp(x);
        return true;
    default:
        *value = x;
        return kind == WEFT_ATOM_reshape || kind == WEFT_ATOM_expand || kind == WEFT_ATOM_permute ||
               kind == WEFT_ATOM_stop;
    }
}

enum { DEPTH = 8 };

static bool find_constant(const struct weft_atom *a, double *value, int depth)
{
    double in[2] = {0};
    *value = a->value;
    if (a->kind == WEFT_ATOM_number || depth == DEPTH)
        return a->kind == WEFT_ATOM_number;
    if (a->type.of != WEFT_REAL || !a->in[0] || a->in[2])
        return false;
    for (int i = 0; i < 2 && a->in[i]; i++)
        if (!find_constant(a->in[i], &in[i], depth + 1))
            return false;
    return compute(a->kind, in[0], in[1], value);
}

bool weft_torch_constant(const struct weft_atom *a, double *value) { return find_constant(a, value, 0); }

/* Returns whether an atom is a matrix of weights, transposed. */
static bool is_transposed_weight(const struct weft_atom *a)
{
    return a->kind == WEFT_ATOM_permute && a->type.ndim == 2 && a->axes[0] == 1 && a->in[0]->kind == WEFT_ATOM_weight;
}

bool weft_torch_is_source(const struct weft_atom *a)
{
    double value;
    return is_transposed_weight(a) || a->kind == WEFT_ATOM_array || a->kind == WEFT_ATOM_weight ||
           weft_torch_constant(a, &value);
}

/* ---- sources */

/* The first word of a recipe that is a good name, and a number if several tables of the model have it. */
const char *weft_torch_table_name(struct weft_torch_printer *p, const struct weft_atom *a)
{
    int length = (int)strcspn(a->name, " ,"), same = 0;
    for (int i = 0; p->form->list[i] != a; i++) {
        const struct weft_atom *b = p->form->list[i];
        same += b->kind == WEFT_ATOM_array && strncmp(a->name, b->name, (size_t)length + 1) == 0;
    }
    const char *name = weft_torch_identifier(p, weft_torch_text(p, "%.*s", length, a->name));
    return same ? weft_torch_text(p, "%s%d", name, same + 1) : name;
}

static struct weft_py source(struct weft_torch_printer *p, const struct weft_atom *a)
{
    double value;
    if (weft_torch_constant(a, &value)) {
        bool real = a->type.of == WEFT_REAL;
        const char *text = real ? weft_torch_real(p, value) : weft_torch_text(p, "%lld", (long long)value);
        return (struct weft_py){text, value < 0 ? WEFT_BINDS_SIGN : WEFT_BINDS_CALL};
    }
    if (a->kind == WEFT_ATOM_array)
        return call(weft_torch_text(p, "self.%s", weft_torch_table_name(p, a)));
    const char *after = is_transposed_weight(a) ? ".mT" : "";
    const struct weft_param *w = weft_torch_weight(p, *after ? a->in[0] : a);
    int layer = weft_torch_layer_of(w);
    if (layer != WEFT_TORCH_MODEL && p->scope == WEFT_TORCH_MODEL)
        return call(weft_torch_text(p, "self.blocks[%d].%s%s", layer, weft_torch_local_name(p, w), after));
    return call(weft_torch_text(p, "self.%s%s", weft_torch_local_name(p, w), after));
}

/* ---- sizes */

/* Returns whether an extent is the number of all tokens, which a decoder's blocks do not know. */
static bool is_total(const struct weft_torch_printer *p, struct weft_extent e)
{
    return p->code == WEFT_TORCH_DECODER && (e.size == WEFT_ALL || e.size == WEFT_RING);
}

const char *weft_torch_size(struct weft_torch_printer *p, struct weft_extent e)
{
    if (e.size == WEFT_FIXED)
        return weft_torch_text(p, "%lld", (long long)e.times);
    const char *name = e.size == WEFT_BATCH || e.size == WEFT_SEQUENCES ? "batch" : is_total(p, e) ? "total" : "length";
    p->sizes = true;
    return e.times == 1 ? name : weft_torch_text(p, "%lld * %s", (long long)e.times, name);
}

const char *weft_torch_sizes(struct weft_torch_printer *p, const struct weft_type *t, int first, int end, bool infers)
{
    const char *text = "";
    int unknown = 0, totals = 0;
    for (int i = first; i < end; i++) {
        unknown += t->dim[i].size != WEFT_FIXED;
        totals += is_total(p, t->dim[i]);
    }
    for (int i = first; i < end; i++) {
        bool found =
            infers && ((unknown == 1 && t->dim[i].size != WEFT_FIXED) || (totals == 1 && is_total(p, t->dim[i])));
        text = weft_torch_text(p, "%s%s%s", text, i > first ? ", " : "", found ? "-1" : weft_torch_size(p, t->dim[i]));
    }
    return text;
}

/* ---- atoms */

/* Returns a constant as a tensor, for an expression that is not elementwise. */
static const char *full(struct weft_torch_printer *p, const struct weft_atom *a, const char *number)
{
    return weft_torch_text(p, "%s.new_full((%s%s), %s)", p->scope == WEFT_TORCH_MODEL ? "self.wte.weight" : "x",
                           weft_torch_sizes(p, &a->type, 0, a->type.ndim, false), a->type.ndim == 1 ? "," : "", number);
}

const char *weft_torch_operand(struct weft_torch_printer *p, const struct weft_atom *a, enum weft_binding binding)
{
    struct weft_torch_value *v = &p->of[a->id];
    struct weft_py py = v->py;
    if (!py.text && weft_torch_is_source(a)) {
        double value;
        bool elementwise = p->reader && p->reader->kind >= WEFT_ATOM_add && p->reader->kind <= WEFT_ATOM_to;
        py = source(p, a);
        if (!elementwise && a->type.ndim > 0 && weft_torch_constant(a, &value))
            py = (struct weft_py){full(p, a, py.text), WEFT_BINDS_CALL};
    }
    if (!py.text) {
        if (p->status == WEFT_OK)
            p->status = FAIL(WEFT_INVALID, "PyTorch export: a value of %s is read before it is computed",
                             weft_atom_name(a->kind));
        return "";
    }
    return py.binding <= binding ? py.text : weft_torch_text(p, "(%s)", py.text);
}
