/* SPDX-License-Identifier: MIT
 *
 * print_slots.c - the cache of an ONNX graph: past_key_values.N.NAME, of which present.N.NAME is the next call's.
 *
 * A slot with a row per token is [batch, heads, past, width]. It has the heads by which the graph reads it, so that no
 * kept row is moved, and 1 if it is not read by heads. A slot with a row per sequence is [batch, width].
 */
#include "export/onnx/print.h"

#include <inttypes.h>
#include <string.h>

/* ---- names: "blocks.3.attn.k" is past_key_values.3.key */

static const struct weft_slot *slot_of(struct weft_printer *p, const struct weft_atom *state)
{
    for (int i = 0; i < p->net->slot_count; i++)
        if (strcmp(p->net->slots[i].name, state->name) == 0)
            return &p->net->slots[i];
    weft_onnx_fail(p->g, FAIL(WEFT_INVALID, "ONNX export: %s is not a slot of the cache", state->name));
    return NULL;
}

static const char *last_of(const char *name)
{
    const char *last = strrchr(name, '.');
    last = last ? last + 1 : name;
    return strcmp(last, "k") == 0 ? "key" : strcmp(last, "v") == 0 ? "value" : last;
}

/* Returns whether a different slot of the same layer has the same last name, such as the mean of a second mechanism. */
static bool is_shared(const struct weft_printer *p, const char *name)
{
    int layer = 0;
    sscanf(name, "blocks.%d.", &layer);
    for (int i = 0, other = 0; i < p->net->slot_count; i++, other = 0) {
        const char *slot = p->net->slots[i].name;
        sscanf(slot, "blocks.%d.", &other);
        if (other == layer && strcmp(slot, name) != 0 && strcmp(last_of(slot), last_of(name)) == 0)
            return true;
    }
    return false;
}

/* "blocks.0.m1.mean" is present.0.mean, or present.0.m1.mean if a different part of the layer has a slot `mean`. */
static const char *name_of(struct weft_printer *p, const char *when, const struct weft_atom *state)
{
    int layer = 0, at = 0;
    sscanf(state->name, "blocks.%d.%n", &layer, &at);
    if (is_shared(p, state->name))
        return weft_onnx_name(p->g, "%s.%d.%s", when, layer, state->name + at);
    return weft_onnx_name(p->g, "%s.%d.%s", when, layer, last_of(state->name));
}

/* ---- slots that are read by heads */

/* Returns the next atom after `a` that is needed and reads `in`; NULL: none. */
static struct weft_atom *next_reader(const struct weft_printer *p, const struct weft_atom *in,
                                     const struct weft_atom *a)
{
    for (int i = a->id + 1; i < p->form->count; i++) {
        struct weft_atom *b = p->form->list[i];
        if (p->of[i].readers && (b->in[0] == in || b->in[1] == in || b->in[2] == in))
            return b;
    }
    return NULL;
}

/* Return whether an atom has kept rows as [batch, heads, rows, width]: as one head, or exchanged with several. */
static bool is_one_head(const struct weft_atom *a)
{
    const struct weft_type *t = &a->type;
    return a->kind == WEFT_ATOM_reshape && t->ndim == 4 && t->dim[1].size == WEFT_FIXED && t->dim[1].times == 1 &&
           (t->dim[2].size == WEFT_ALL || t->dim[2].size == WEFT_RING) && t->dim[2].times == 1;
}

static bool swaps_rows_and_heads(const struct weft_atom *a)
{
    static const int axes[] = {0, 2, 1, 3};
    return a->kind == WEFT_ATOM_permute && a->type.ndim == 4 && memcmp(a->axes, axes, sizeof axes) == 0;
}

static bool is_by_heads(const struct weft_atom *a) { return is_one_head(a) || swaps_rows_and_heads(a); }

/* Returns the number of heads by which a reader takes kept rows; 0: it does not. */
static int64_t heads_of_reader(const struct weft_printer *p, const struct weft_atom *r)
{
    if (is_one_head(r))
        return 1;
    if (r->kind != WEFT_ATOM_reshape || r->type.ndim != 4 || r->type.dim[2].size != WEFT_FIXED)
        return 0;
    for (struct weft_atom *s = next_reader(p, r, r); s; s = next_reader(p, r, s))
        if (!swaps_rows_and_heads(s))
            return 0;
    return r->type.dim[2].times;
}

/* Returns the number of heads by which every reader takes kept rows `a`; 0: they do not agree. */
static int64_t heads_of(const struct weft_printer *p, const struct weft_atom *a)
{
    int64_t heads = 0;
    for (struct weft_atom *r = next_reader(p, a, a); r; r = next_reader(p, a, r)) {
        bool keys = r->kind == WEFT_ATOM_keys && a->kind == WEFT_ATOM_store;
        int64_t own = keys ? heads_of(p, r) : heads_of_reader(p, r);
        if (!own || (heads && own != heads))
            return 0;
        heads = own;
    }
    return heads;
}

/* Marks the atoms from kept rows to heads as parts of the slot. */
static void mark(struct weft_printer *p, const struct weft_atom *a)
{
    for (struct weft_atom *r = next_reader(p, a, a); r; r = next_reader(p, a, r)) {
        p->of[r->id].by_heads = p->of[r->id].skipped = true;
        if (!is_by_heads(r))
            mark(p, r);
    }
}

void weft_print_find_heads(struct weft_printer *p)
{
    for (int i = 0; i < p->form->count; i++) {
        const struct weft_atom *a = p->form->list[i];
        if (a->kind != WEFT_ATOM_store || a->type.dim[0].size == WEFT_SEQUENCES)
            continue;
        p->of[i].heads = heads_of(p, a);
        if (p->of[i].heads)
            mark(p, a);
    }
}

/* Gives every atom with the heads of a slot its value, x [batch, heads, rows, width]; behind a ring's keys it is
 * padded. */
static void give(struct weft_printer *p, const struct weft_atom *a, const char *x)
{
    for (struct weft_atom *r = next_reader(p, a, a); r; r = next_reader(p, a, r)) {
        if (is_by_heads(r))
            p->of[r->id].value = x;
        else
            give(p, r, r->kind == WEFT_ATOM_keys ? weft_print_padded(p, x, 2, 4) : x);
    }
}

/* ---- printing */

const char *weft_print_padded(struct weft_printer *p, const char *x, int axis, int count)
{
    struct weft_onnx *g = p->g;
    static const int64_t zeros[2 * WEFT_FORM_DIMS];
    const char *have = weft_onnx_slice(g, NODE(g, "Shape", x), INTS(g, axis), INTS(g, axis + 1), 0);
    const char *before = weft_onnx_list(g, axis, zeros), *after = weft_onnx_list(g, 2 * count - axis - 1, zeros);
    return NODE(g, "Pad", x, CONCAT(g, 0, before, NODE(g, "Sub", weft_print_size(p, WEFT_ALL), have), after));
}

const char *weft_print_state(struct weft_printer *p, const struct weft_atom *a)
{
    const char *name = name_of(p, "past_key_values", a);
    struct weft_onnx_shape shape = {2, {{"batch", 0}, {NULL, weft_last_of(a)}}};
    if (a->type.dim[0].size != WEFT_SEQUENCES)
        return NULL; /* store declares it */
    if (!weft_onnx_has(p->g, name))
        weft_onnx_input(p->g, name, WEFT_ONNX_FLOAT, shape);
    return name;
}

/* Replaces the row of each sequence. */
static const char *replace(struct weft_printer *p, const struct weft_atom *a)
{
    const char *present = name_of(p, "present", a->in[0]);
    weft_print_state(p, a->in[0]);
    weft_onnx_output(p->g, present, WEFT_ONNX_FLOAT,
                     (struct weft_onnx_shape){2, {{"batch", 0}, {NULL, weft_last_of(a)}}});
    weft_onnx_node(p->g, "Identity", NULL, WEFT_NAMES(weft_print_in(p, a, 1)), WEFT_NAMES(present));
    return present;
}

/* Adds rows x [batch, heads, length, width]; returns all of them, of a ring those that it had and the new ones. */
static const char *extend(struct weft_printer *p, const struct weft_atom *a, int64_t heads, const char *x)
{
    static const struct weft_onnx_attr axis = {"axis", WEFT_ATTR_INT, 0, 1, {2}};
    struct weft_onnx *g = p->g;
    bool ring = a->type.dim[1].size == WEFT_RING;
    const char *past = name_of(p, "past_key_values", a->in[0]), *present = name_of(p, "present", a->in[0]);
    struct weft_onnx_shape shape = {
        4, {{"batch", 0}, {NULL, heads}, {ring ? "past_window" : "past", 0}, {NULL, weft_last_of(a) / heads}}};
    weft_onnx_input(g, past, WEFT_ONNX_FLOAT, shape);
    shape.dim[2].symbol = ring ? "present_window" : "total";
    weft_onnx_output(g, present, WEFT_ONNX_FLOAT, shape);
    if (!ring) {
        weft_onnx_node(g, "Concat", &axis, WEFT_NAMES(past, x), WEFT_NAMES(present));
        return present;
    }
    const char *all = CONCAT(g, 2, past, x);
    weft_onnx_node(g, "Slice", NULL, WEFT_NAMES(all, INTS(g, -p->window), INTS(g, INT64_MAX), INTS(g, 2)),
                   WEFT_NAMES(present));
    return all;
}

const char *weft_print_store(struct weft_printer *p, const struct weft_atom *a)
{
    static const struct weft_onnx_attr swap = {"perm", WEFT_ATTR_INTS, 0, 4, {0, 2, 1, 3}};
    struct weft_onnx *g = p->g;
    const struct weft_slot *slot = slot_of(p, a->in[0]);
    int64_t heads = p->of[a->id].heads, width = weft_last_of(a);
    const char *x = weft_print_in(p, a, 1);
    if (!slot)
        return "";
    p->slots[slot - p->net->slots] =
        (struct weft_printed_slot){name_of(p, "", a->in[0]), weft_max(heads, 1), width / weft_max(heads, 1)};
    if (a->type.dim[0].size == WEFT_SEQUENCES)
        return replace(p, a);
    if (!heads)
        return NODE(g, "Squeeze", extend(p, a, 1, NODE(g, "Unsqueeze", x, INTS(g, 1))), INTS(g, 1));
    x = NODE(g, "Reshape", x, INTS(g, 0, 0, heads, width / heads));
    give(p, a, extend(p, a, heads, weft_onnx_op(g, "Transpose", &swap, WEFT_NAMES(x))));
    return NULL;
}
