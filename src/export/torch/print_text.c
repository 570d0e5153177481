/* SPDX-License-Identifier: MIT
 *
 * print_text.c - text in the printer's arena: numbers, sources, and atoms that are printed already.
 */
#include "export/torch/print.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static struct weft_py call(const char *text) { return (struct weft_py){text, WEFT_BINDS_CALL}; }

const char *weft_torch_print(struct weft_torch_printer *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    char *text = p->status == WEFT_OK ? weft_arena_alloc(&p->arena, (size_t)length + 1) : NULL;
    if (!text) {
        p->status = p->status == WEFT_OK ? WEFT_NOMEM : p->status;
        return "";
    }
    va_start(list, format);
    vsnprintf(text, (size_t)length + 1, format, list);
    va_end(list);
    return text;
}

/* ---- numbers */

const char *weft_torch_real(struct weft_torch_printer *p, double value)
{
    char text[40];
    if (isinf(value))
        return value < 0 ? "-torch.inf" : "torch.inf";
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return weft_torch_print(p, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

/* ---- atoms that are not printed as they are */

const struct weft_atom *weft_torch_of(const struct weft_torch_printer *p, const struct weft_value *v)
{
    return v ? p->form->of_value[v->id] : NULL;
}

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

bool weft_torch_is_source(const struct weft_atom *a)
{
    double value;
    return a->kind == WEFT_ATOM_array || a->kind == WEFT_ATOM_weight || weft_torch_constant(a, &value);
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
    return same ? weft_torch_print(p, "%.*s%d", length, a->name, same + 1)
                : weft_torch_print(p, "%.*s", length, a->name);
}

static struct weft_py source(struct weft_torch_printer *p, const struct weft_atom *a)
{
    int layer, length = 0;
    double value;
    if (weft_torch_constant(a, &value)) {
        bool real = a->type.of == WEFT_REAL;
        const char *text = real ? weft_torch_real(p, value) : weft_torch_print(p, "%lld", (long long)value);
        return (struct weft_py){text, value < 0 ? WEFT_BINDS_SIGN : WEFT_BINDS_CALL};
    }
    if (a->kind == WEFT_ATOM_array)
        return call(weft_torch_print(p, "self.%s", weft_torch_table_name(p, a)));
    if (sscanf(a->name, "blocks.%d.%n", &layer, &length) != 1)
        length = 0;
    if (length && p->scope == WEFT_TORCH_MODEL)
        return call(weft_torch_print(p, "self.blocks[%d].%s", layer, a->name + length));
    return call(weft_torch_print(p, "self.%s", a->name + length));
}

/* ---- sizes */

const char *weft_torch_size(struct weft_torch_printer *p, struct weft_extent e)
{
    if (e.size == WEFT_FIXED)
        return weft_torch_print(p, "%lld", (long long)e.times);
    const char *name = e.size == WEFT_BATCH || e.size == WEFT_SEQUENCES ? "batch" : "length";
    p->sizes = true;
    return e.times == 1 ? name : weft_torch_print(p, "%lld * %s", (long long)e.times, name);
}

const char *weft_torch_sizes(struct weft_torch_printer *p, const struct weft_type *t, int first, int end, bool infers)
{
    const char *text = "";
    int unknown = 0;
    for (int i = first; i < end; i++)
        unknown += t->dim[i].size != WEFT_FIXED;
    for (int i = first; i < end; i++) {
        bool found = infers && unknown == 1 && t->dim[i].size != WEFT_FIXED;
        text = weft_torch_print(p, "%s%s%s", text, i > first ? ", " : "", found ? "-1" : weft_torch_size(p, t->dim[i]));
    }
    return text;
}

/* ---- long lines */

static const char *spaces(int count) { return &"            "[12 - count]; }

const char *weft_torch_call(struct weft_torch_printer *p, int indent, const char *start, const char *const *args,
                            int count, const char *end)
{
    const char *all = "", *lines = "", *in = spaces(indent);
    for (int i = 0; i < count; i++) {
        all = weft_torch_print(p, "%s%s%s", all, i ? ", " : "", args[i]);
        lines = weft_torch_print(p, "%s%s    %s,\n", lines, in, args[i]);
    }
    if ((size_t)indent + strlen(start) + strlen(all) + strlen(end) + 2 <= 120)
        return weft_torch_print(p, "%s%s(%s)%s\n", in, start, all, end);
    if ((size_t)indent + 4 + strlen(all) <= 120)
        lines = weft_torch_print(p, "%s    %s\n", in, all);
    return weft_torch_print(p, "%s%s(\n%s%s)%s\n", in, start, lines, in, end);
}

/* ---- atoms */

/* Returns a constant as a tensor, for an expression that is not elementwise. */
static const char *full(struct weft_torch_printer *p, const struct weft_atom *a, const char *number)
{
    return weft_torch_print(p, "%s.new_full((%s%s), %s)", p->scope == WEFT_TORCH_MODEL ? "self.wte" : "x",
                            weft_torch_sizes(p, &a->type, 0, a->type.ndim, false), a->type.ndim == 1 ? "," : "",
                            number);
}

const char *weft_torch_text(struct weft_torch_printer *p, const struct weft_atom *a, enum weft_binding binding)
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
    return py.binding <= binding ? py.text : weft_torch_print(p, "(%s)", py.text);
}
