/* SPDX-License-Identifier: MIT
 *
 * print_scope.c - the lines of one scope: which atoms become variables, and their names.
 *
 * A name is used again as soon as no line has yet to read the value that it holds.
 */
#include "export/torch/print.h"
#include "nn/part.h"

#include <string.h>

/* ---- reading */

void weft_torch_release(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    struct weft_torch_value *v = &p->of[a->id];
    v->left--;
    if (v->named || !v->py.text)
        return;
    for (int n = weft_torch_reads(p, a, list); n-- > 0;)
        weft_torch_release(p, list[n]);
}

/* ---- scopes */

void weft_torch_count(struct weft_torch_printer *p, const struct weft_atom *a, int times)
{
    p->of[a->id].left += times;
}

/* Names that every scope uses: modules, functions and sizes. */
static const char *const reserved[] = {"self",   "torch",  "F",        "nn",     "math",   "batch",
                                       "length", "attend", "remember", "recall", "rotate", "replace"};

void weft_torch_begin(struct weft_torch_printer *p, int scope)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    p->scope = scope;
    p->name_count = 0;
    p->sizes = false;
    p->half = p->part_count = 0;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        weft_torch_reserve(p, reserved[i]);
    for (int i = 0; i < p->form->count; i++) {
        p->of[i].py.text = NULL;
        p->of[i].named = false;
        p->of[i].reader = NULL;
        p->of[i].left = 0;
    }
    for (int i = 0; i < p->form->count; i++)
        if (p->of[i].needed && p->of[i].home == scope && !weft_torch_is_source(p->form->list[i]))
            for (int n = weft_torch_reads(p, p->form->list[i], list); n-- > 0;) {
                weft_torch_count(p, list[n], 1);
                p->of[list[n]->id].reader = p->form->list[i];
            }
}

/* ---- names */

static bool is_taken(struct weft_torch_printer *p, const char *text, const struct weft_atom *by)
{
    for (int i = 0; i < p->name_count; i++) {
        struct weft_torch_name *name = &p->names[i];
        if (strcmp(name->text, text) != 0)
            continue;
        if (!name->holds || p->of[name->holds->id].left > 0)
            return true;
        name->holds = by;
        return false;
    }
    p->names[p->name_count++] = (struct weft_torch_name){text, by};
    return false;
}

static const char *fresh(struct weft_torch_printer *p, const char *hint, const struct weft_atom *by)
{
    const char *name = weft_torch_text(p, "%s", hint);
    for (int i = 2; is_taken(p, name, by) && p->status == WEFT_OK; i++)
        name = weft_torch_text(p, "%s%s%d", hint, strpbrk(hint, "0123456789") ? "_" : "", i);
    return name;
}

const char *weft_torch_reserve(struct weft_torch_printer *p, const char *hint) { return fresh(p, hint, NULL); }

const char *weft_torch_name(struct weft_torch_printer *p, const struct weft_atom *a, const char *hint)
{
    struct weft_torch_value *v = &p->of[a->id];
    v->named = true;
    v->py = (struct weft_py){fresh(p, hint, a), WEFT_BINDS_CALL};
    return v->py.text;
}

/* ---- the lengths of lines */

/* Maximum lengths of text that becomes a part of a longer expression: in general, and if a change of shape follows. */
enum { INNER = 60, CHAIN = 84 };

/* Returns the longest input whose text is part of the expression of `a`, NULL if there is none. */
static const struct weft_atom *longest(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *list[WEFT_TORCH_READS], *found = NULL;
    size_t most = 8;
    for (int i = 0, n = weft_torch_reads(p, a, list); i < n; i++) {
        const struct weft_torch_value *v = &p->of[list[i]->id];
        if (!v->py.text || v->named || weft_torch_is_source(list[i]) || strlen(v->py.text) <= most)
            continue;
        most = strlen(v->py.text);
        found = list[i];
    }
    return found;
}

/* ---- comments */

/* Returns the half of a block that an atom belongs to: 1 for attention, 2 for the feed-forward, 0 if it is not known.
 */
static int half_of(const struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    int half = a->from && a->from->group == WEFT_GROUP_ATTN ? 1 : a->from && a->from->group == WEFT_GROUP_FFN ? 2 : 0;
    for (int n = weft_torch_reads(p, a, list); n-- > 0;)
        if (list[n]->kind == WEFT_ATOM_weight)
            half = strstr(list[n]->name, ".norm1.") ? 1 : strstr(list[n]->name, ".norm2.") ? 2 : half;
    return half;
}

static void print_half(struct weft_torch_printer *p, int half)
{
    const struct weft_spec *s = p->model->spec;
    fprintf(p->out, "%s# %s: %s", p->indent, half == 1 ? "attention" : "feed-forward",
            half == 1 ? weft_spec_attn(s)->part.owner.name : weft_spec_ffn(s)->part.owner.name);
    if (half == 1)
        fprintf(p->out, ", %s, %s", weft_spec_geom(s)->part.owner.name, weft_spec_pos(s)->part.owner.name);
    fprintf(p->out, "\n");
}

/* Returns the first mechanism that has no comment yet and whose weights the line of an atom reads; NULL: none. */
static const struct weft_part *mechanism_of(const struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    const struct weft_part *found = NULL, *part;
    for (int n = weft_torch_reads(p, a, list); n-- > 0 && !found;) {
        if (list[n]->kind == WEFT_ATOM_weight) {
            part = weft_torch_weight(p, list[n])->part;
            bool known = !part || part->kind != WEFT_RECIP;
            for (int i = 0; i < p->part_count && !known; i++)
                known = p->parts[i] == part;
            found = known ? NULL : part;
        } else if (!p->of[list[n]->id].named && !weft_torch_is_source(list[n])) {
            found = mechanism_of(p, list[n]);
        }
    }
    return found;
}

/* Returns a summary as a part of a comment. */
static const char *one_line(struct weft_torch_printer *p, const char *summary)
{
    const char *text = weft_torch_text(p, "%s", summary ? summary : "");
    for (char *c = (char *)text; *c; c++)
        *c = *c == '\n' || *c == '\r' ? ' ' : *c;
    return text;
}

/* Prints a comment where a half of a block or a mechanism begins. */
static void comment(struct weft_torch_printer *p, const struct weft_atom *a)
{
    int half = half_of(p, a);
    if (p->scope == WEFT_TORCH_MODEL)
        return;
    if (half > p->half) {
        p->half = half;
        print_half(p, half);
    }
    const struct weft_part *part = mechanism_of(p, a);
    if (part && p->part_count < WEFT_MAX_PARTS) {
        p->parts[p->part_count++] = part;
        fprintf(p->out, "%s# %s%s%s\n", p->indent, part->name, part->summary ? ": " : "", one_line(p, part->summary));
    }
}

/* ---- lines */

static void assign(struct weft_torch_printer *p, const struct weft_atom *a, struct weft_py py)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    comment(p, a);
    for (int n = weft_torch_reads(p, a, list); n-- > 0;)
        weft_torch_release(p, list[n]);
    if (weft_torch_is_statement(a)) {
        p->of[a->id].named = true;
        fprintf(p->out, "%s%s\n", p->indent, py.text);
        return;
    }
    const char *name = weft_torch_name(p, a, weft_torch_hint(p, a));
    if (strcmp(name, py.text) != 0)
        fprintf(p->out, "%s%s = %s\n", p->indent, name, py.text);
}

void weft_torch_define(struct weft_torch_printer *p, const struct weft_atom *a)
{
    struct weft_torch_value *v = &p->of[a->id];
    if (!weft_torch_is_source(a) && !v->named)
        assign(p, a, v->py);
}

void weft_torch_line(struct weft_torch_printer *p, const struct weft_atom *a)
{
    struct weft_torch_value *v = &p->of[a->id];
    struct weft_py py = weft_torch_expression(p, a);
    const struct weft_atom *input;
    while (py.text && strlen(py.text) > WEFT_TORCH_LINE && (input = longest(p, a))) {
        assign(p, input, p->of[input->id].py);
        py = weft_torch_expression(p, a);
    }
    bool in_chain = v->reader && v->reader->kind >= WEFT_ATOM_reshape && v->reader->kind <= WEFT_ATOM_expand;
    bool is_inline =
        v->left == 1 && !weft_torch_is_statement(a) && !v->crosses && strlen(py.text) <= (in_chain ? CHAIN : INNER);
    if (is_inline)
        v->py = py;
    else
        assign(p, a, py);
}
