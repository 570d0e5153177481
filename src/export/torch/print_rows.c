/* SPDX-License-Identifier: MIT
 *
 * print_rows.c - inputs, and the atoms that depend on the sequences of rows.
 *
 * In a decoder, each slot of Weft's cache is an entry of transformers' cache. A slot with a row per token keeps all
 * rows, even if only a window of them is read again. The entries of a layer follow each other, and the first entry of
 * all is a slot with a row per token, because transformers asks it for the number of tokens.
 */
#include "export/torch/print.h"

#include <limits.h>
#include <string.h>

static struct weft_py call(const char *text) { return (struct weft_py){text, WEFT_BINDS_CALL}; }

static const char *in(struct weft_torch_printer *p, const struct weft_atom *a, int i, enum weft_binding binding)
{
    return weft_torch_operand(p, a->in[i], binding);
}

/* ---- inputs */

static const char *module_input(struct weft_torch_printer *p, const struct weft_atom *a)
{
    p->sizes = p->sizes || strcmp(a->name, "weight") != 0;
    if (strcmp(a->name, "pos") == 0 || strcmp(a->name, "position") == 0)
        return "torch.arange(length, device=tokens.device).expand(batch, length)";
    if (strcmp(a->name, "seq") == 0)
        return "torch.arange(batch, device=tokens.device)[:, None].expand(batch, length)";
    if (strcmp(a->name, "weight") == 0)
        return "(1 / (targets >= 0).sum().clamp(min=1))";
    return strcmp(a->name, "share") == 0 ? "1.0" : NULL;
}

struct weft_py weft_torch_input(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const char *text = p->code == WEFT_TORCH_MODULE ? module_input(p, a) : NULL;
    if (!text && p->status == WEFT_OK)
        p->status = FAIL(WEFT_INVALID, "PyTorch export: an op reads the input %s, which has no meaning here", a->name);
    return call(text ? text : "");
}

/* ---- slots */

static const struct weft_slot *slot_of(const struct weft_torch_printer *p, const char *name, int *layer)
{
    for (int i = 0; i < p->net->slot_count; i++)
        if (strcmp(p->net->slots[i].name, name) == 0 && sscanf(name, "blocks.%d.", layer) == 1)
            return &p->net->slots[i];
    return NULL;
}

/* Returns the index of a slot in its layer: those with a row per sequence follow the others. */
static int index_of(const struct weft_torch_printer *p, const struct weft_slot *slot, int layer)
{
    int before = 0, other;
    for (int i = 0; i < p->net->slot_count; i++) {
        const struct weft_slot *s = &p->net->slots[i];
        bool last = slot->lifetime == WEFT_PER_SEQUENCE, its_last = s->lifetime == WEFT_PER_SEQUENCE;
        if (sscanf(s->name, "blocks.%d.", &other) == 1 && other == layer)
            before += last == its_last ? s < slot : last;
    }
    return before;
}

int weft_torch_slots(const struct weft_torch_printer *p, int layer)
{
    int count = 0, other;
    for (int i = 0; i < p->net->slot_count; i++)
        count += sscanf(p->net->slots[i].name, "blocks.%d.", &other) == 1 && other == layer;
    return count;
}

enum weft_status weft_torch_check_slots(const struct weft_net *net)
{
    int first = INT_MAX, layer;
    bool counts = false;
    for (int i = 0; i < net->slot_count; i++) {
        if (sscanf(net->slots[i].name, "blocks.%d.", &layer) != 1 || layer > first)
            continue;
        counts = (layer == first && counts) || net->slots[i].lifetime != WEFT_PER_SEQUENCE;
        first = layer;
    }
    return counts ? WEFT_OK
                  : FAIL(WEFT_INVALID, "transformers cannot tell how many tokens the cache of this model contains, "
                                       "because its first layer keeps no row per token");
}

/* Returns "self.slot + 1", and the width of the slot. */
static const char *slot_text(struct weft_torch_printer *p, const char *name, long long *width)
{
    int layer = 0, index;
    const struct weft_slot *slot = slot_of(p, name, &layer);
    if (!slot) {
        if (p->status == WEFT_OK)
            p->status = FAIL(WEFT_INVALID, "PyTorch export: %s is not a slot of a block in the cache", name);
        return "";
    }
    *width = slot->width;
    index = index_of(p, slot, layer);
    return index ? weft_torch_text(p, "self.slot + %d", index) : "self.slot";
}

static bool is_per_sequence(const struct weft_atom *a) { return a->type.dim[0].size == WEFT_SEQUENCES; }

bool weft_torch_is_statement(const struct weft_atom *a) { return a->kind == WEFT_ATOM_store && is_per_sequence(a); }

static const char *store(struct weft_torch_printer *p, const struct weft_atom *a)
{
    long long width = 0;
    const char *slot = slot_text(p, a->in[0]->name, &width), *x = in(p, a, 1, WEFT_BINDS_COMPARISON);
    return weft_torch_text(p, "%s(cache, %s, %s)", is_per_sequence(a) ? "replace" : "remember", slot, x);
}

static const char *state(struct weft_torch_printer *p, const struct weft_atom *a)
{
    long long width = 0;
    const char *slot = slot_text(p, a->name, &width);
    return weft_torch_text(p, "recall(cache, %s, x, %lld)", slot, width);
}

/* ---- masks */

static struct weft_py distance(const struct weft_torch_printer *p)
{
    if (p->code == WEFT_TORCH_MODULE)
        return call("distances(tokens)");
    return (struct weft_py){"position[:, :, None] - columns[:, None]", WEFT_BINDS_SUM};
}

static struct weft_py visible(const struct weft_torch_printer *p)
{
    if (p->code == WEFT_TORCH_MODULE)
        return (struct weft_py){"distances(tokens) >= 0", WEFT_BINDS_COMPARISON};
    if (!p->masks_attention)
        return call("sees(attention_mask, length)");
    return call("mask_for_attention(attention_mask, length)");
}

/* ---- all of them */

static const char *spread(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const char *more = "";
    for (int i = 2; i < a->type.ndim; i++)
        more = weft_torch_text(p, "%s, -1", more);
    p->sizes = true;
    return weft_torch_text(p, "%s[:, None].expand(-1, length%s)", in(p, a, 0, WEFT_BINDS_CALL), more);
}

struct weft_py weft_torch_rows(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const char *precise = p->code == WEFT_TORCH_DECODER ? ".float()" : ""; /* sums over tokens, if weights are bf16 */
    switch (a->kind) {
    case WEFT_ATOM_state:
        return call(state(p, a));
    case WEFT_ATOM_store:
        return call(store(p, a));
    case WEFT_ATOM_distance:
        return distance(p);
    case WEFT_ATOM_visible:
        return visible(p);
    case WEFT_ATOM_own:
        p->sizes = true;
        return call(weft_torch_text(p, "%s[:, -length:]", in(p, a, 0, WEFT_BINDS_CALL)));
    case WEFT_ATOM_cumulate:
        return call(weft_torch_text(p, "%s%s.cumsum(1)", in(p, a, 0, WEFT_BINDS_CALL), precise));
    case WEFT_ATOM_pool:
        return call(weft_torch_text(p, "%s%s.%s(1)", in(p, a, 0, WEFT_BINDS_CALL), precise,
                                    a->pooling == WEFT_POOL_SUM ? "sum" : "amax"));
    case WEFT_ATOM_spread:
        return call(spread(p, a));
    default:
        if (p->status == WEFT_OK)
            p->status = FAIL(WEFT_INVALID, "PyTorch export of %s: not supported", weft_atom_name(a->kind));
        return call("");
    }
}
