/* SPDX-License-Identifier: MIT
 *
 * print_modules.c - the weights of a scope as modules and parameters.
 *
 * A matrix NAME.weight is a Linear or an Embedding, with NAME.bias if the model has one, and a vector NAME.weight that
 * a norm reads is a LayerNorm or RMSNorm. All other weights are parameters of plain modules.
 */
#include "export/torch/print.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

/* ---- the kinds of modules */

/* Returns the path of the module with a weight: "attn.wq" of "attn.wq.weight"; NULL if the name ends differently. */
static const char *module_of(struct weft_torch_printer *p, const struct weft_param *w, const char *end)
{
    const char *name = weft_torch_local_name(p, w);
    if (!weft_ends_in(name, end))
        return NULL;
    return weft_torch_text(p, "%.*s", (int)(strlen(name) - strlen(end)), name);
}

/* Returns the weight of the same layer with this name in the file; NULL: none. */
static const struct weft_param *find(const struct weft_torch_printer *p, int layer, const char *name)
{
    const struct weft_params *list = &p->model->params;
    for (int i = 0; i < list->count; i++)
        if (weft_torch_layer_of(&list->list[i]) == layer && strcmp(weft_torch_local_name(p, &list->list[i]), name) == 0)
            return &list->list[i];
    return NULL;
}

static bool is_linear(const struct weft_param *w) { return w->ndim == 2 && w->role != WEFT_TABLE; }

/* Returns the first norm that reads a gain; NULL: none. */
static const struct weft_node *norm_of(const struct weft_torch_printer *p, const struct weft_param *w)
{
    struct weft_node *const *nodes;
    int count = weft_graph_nodes(p->net->g, &nodes);
    for (int i = 0; i < count; i++) {
        bool norm = nodes[i]->op == weft_op(WEFT_OP_layernorm) || nodes[i]->op == weft_op(WEFT_OP_rmsnorm);
        const struct weft_atom *gain = norm ? weft_torch_of(p, nodes[i]->in[1]) : NULL;
        if (gain && gain->kind == WEFT_ATOM_weight && strcmp(gain->name, w->name) == 0)
            return nodes[i];
    }
    return NULL;
}

static double eps_of(const struct weft_node *norm) { return ((const struct weft_norm_attr *)norm->attr)->eps; }

/* ---- calls */

/* Returns "self.attn.wq" or, in the model, "self.blocks[0].attn.wq"; NULL if a block cannot reach the module. */
static const char *reach(struct weft_torch_printer *p, const struct weft_param *w, const char *module)
{
    int layer = weft_torch_layer_of(w);
    if (module && layer == p->scope)
        return weft_torch_text(p, "self.%s", module);
    if (module && p->scope == WEFT_TORCH_MODEL)
        return weft_torch_text(p, "self.blocks[%d].%s", layer, module);
    return NULL;
}

const char *weft_torch_linear(struct weft_torch_printer *p, const struct weft_atom *a, const struct weft_atom *bias)
{
    const struct weft_param *w = weft_torch_weight(p, a);
    const char *module = is_linear(w) ? module_of(p, w, ".weight") : NULL;
    if (!module)
        return NULL;
    const struct weft_param *own = find(p, weft_torch_layer_of(w), weft_torch_text(p, "%s.bias", module));
    bool same = own ? bias && strcmp(own->name, bias->name) == 0 : !bias;
    return same ? reach(p, w, module) : NULL;
}

const char *weft_torch_embedding(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_param *w = weft_torch_weight(p, a);
    return w->ndim == 2 && w->role == WEFT_TABLE ? reach(p, w, module_of(p, w, ".weight")) : NULL;
}

const char *weft_torch_norm(struct weft_torch_printer *p, const struct weft_node *node)
{
    const struct weft_atom *gain = weft_torch_of(p, node->in[1]);
    if (gain->kind != WEFT_ATOM_weight)
        return NULL;
    const struct weft_param *w = weft_torch_weight(p, gain);
    const struct weft_node *first = norm_of(p, w);
    bool same = first && first->op == node->op && eps_of(first) == eps_of(node);
    return same ? reach(p, w, module_of(p, w, ".weight")) : NULL;
}

/* ---- __init__ */

static const char *dims_of(struct weft_torch_printer *p, const struct weft_param *w)
{
    const char *text = "";
    for (int i = 0; i < w->ndim; i++)
        text = weft_torch_text(p, "%s%s%lld", text, i ? ", " : "", (long long)w->dim[i]);
    return text;
}

/* The number of rows, by the config of a decoder if they belong to the vocabulary. */
static const char *rows_of(struct weft_torch_printer *p, const struct weft_param *w)
{
    bool vocab = w->role == WEFT_HEAD || strcmp(w->name, "wte") == 0;
    return vocab && p->code == WEFT_TORCH_DECODER ? "config.vocab_size"
                                                  : weft_torch_text(p, "%lld", (long long)w->dim[0]);
}

/* Returns the constructor of the module that has a weight; NULL if it is a parameter of its own. */
static const char *constructor(struct weft_torch_printer *p, const struct weft_param *w, const char *module)
{
    const struct weft_node *norm = w->ndim == 1 ? norm_of(p, w) : NULL;
    const char *bias = weft_torch_text(p, "%s.bias", module);
    if (is_linear(w))
        return weft_torch_text(p, "nn.Linear(%lld, %s%s)", (long long)w->dim[1], rows_of(p, w),
                               find(p, weft_torch_layer_of(w), bias) ? "" : ", bias=False");
    if (w->ndim == 2)
        return weft_torch_text(p, "nn.Embedding(%s, %lld)", rows_of(p, w), (long long)w->dim[1]);
    if (!norm)
        return NULL;
    if (norm->op == weft_op(WEFT_OP_rmsnorm))
        return weft_torch_text(p, "nn.RMSNorm(%lld, eps=%s)", (long long)w->dim[0], weft_torch_real(p, eps_of(norm)));
    return weft_torch_text(p, "nn.LayerNorm(%lld%s)", (long long)w->dim[0],
                           eps_of(norm) == 1e-5 ? ""
                                                : weft_torch_text(p, ", eps=%s", weft_torch_real(p, eps_of(norm))));
}

/* Prints plain modules on the path to a name, unless an earlier weight of the scope has printed them. */
static void print_holders(struct weft_torch_printer *p, int scope, int i, const char *name)
{
    const struct weft_params *list = &p->model->params;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        bool known = false;
        for (int k = 0; k < i && !known; k++)
            known = weft_torch_layer_of(&list->list[k]) == scope &&
                    strncmp(weft_torch_local_name(p, &list->list[k]), name, (size_t)(dot - name) + 1) == 0;
        if (!known)
            fprintf(p->out, "%sself.%.*s = nn.Module()\n", p->indent, (int)(dot - name), name);
    }
}

static void print_weight(struct weft_torch_printer *p, int scope, int i)
{
    const struct weft_param *w = &p->model->params.list[i];
    const char *name = weft_torch_local_name(p, w), *module = module_of(p, w, ".weight"),
               *bias = module_of(p, w, ".bias");
    const struct weft_param *owner = bias ? find(p, scope, weft_torch_text(p, "%s.weight", bias)) : NULL;
    if (owner && constructor(p, owner, bias))
        return; /* the module has it */
    const char *made = module ? constructor(p, w, module) : NULL;
    print_holders(p, scope, i, made ? module : name);
    if (made)
        fprintf(p->out, "%sself.%s = %s\n", p->indent, module, made);
    else
        fprintf(p->out, "%sself.%s = nn.Parameter(torch.empty(%s))\n", p->indent, name, dims_of(p, w));
}

static void print_weights(struct weft_torch_printer *p, int scope, bool embedding)
{
    const struct weft_params *list = &p->model->params;
    for (int i = 0; i < list->count; i++) {
        const struct weft_param *w = &list->list[i];
        bool before = scope != WEFT_TORCH_MODEL || w->role == WEFT_TABLE;
        if (weft_torch_layer_of(w) == scope && before == embedding)
            print_weight(p, scope, i);
    }
}

/* A tied model has a head all the same, which shares the table's weight. */
static void print_tied_head(struct weft_torch_printer *p)
{
    const struct weft_param *table = p->head->kind == WEFT_ATOM_weight ? weft_torch_weight(p, p->head) : NULL;
    if (!table || table->role != WEFT_TABLE)
        return;
    fprintf(p->out, "%sself.lm_head = nn.Linear(%lld, %s, bias=False)\n", p->indent, (long long)table->dim[1],
            rows_of(p, table));
    if (p->code == WEFT_TORCH_MODULE)
        fprintf(p->out, "%sself.lm_head.weight = self.%s\n", p->indent, weft_torch_local_name(p, table));
}

/* ---- the list of blocks */

/* Returns the first entry of a layer in the cache. */
static int first_slot(const struct weft_torch_printer *p, int layer)
{
    int count = 0;
    for (int i = 0; i < layer; i++)
        count += p->layers[i].slots;
    return count;
}

/* Returns the constructor's argument in a loop over the layers first to end - 1, whose variable is i. */
static const char *slot_in_loop(struct weft_torch_printer *p, int first)
{
    int slots = p->layers[first].slots, offset = first_slot(p, first) - first * slots;
    if (!slots)
        return "";
    const char *product = slots == 1 ? "i" : weft_torch_text(p, "%d * i", slots);
    return offset ? weft_torch_text(p, "%s %c %d", product, offset < 0 ? '-' : '+', abs(offset)) : product;
}

/* Returns the blocks first to end - 1, of one class, as items of a list. */
static const char *items(struct weft_torch_printer *p, int first, int end)
{
    const char *name = p->classes[p->layers[first].class].name, *slot = slot_in_loop(p, first);
    bool all = first == 0 && end == p->layer_count;
    if (end - first == 1 && !*slot)
        return weft_torch_text(p, "%s()", name);
    if (end - first == 1)
        return weft_torch_text(p, "%s(%d)", name, first_slot(p, first));
    const char *range = first ? weft_torch_text(p, "%d, %d", first, end) : weft_torch_text(p, "%d", end);
    const char *loop = weft_torch_text(p, "%s(%s) for %s in range(%s)", name, slot, *slot ? "i" : "_",
                                       *slot ? range : weft_torch_text(p, "%d", end - first));
    return all ? loop : weft_torch_text(p, "*(%s)", loop);
}

static void print_blocks(struct weft_torch_printer *p)
{
    const char *list = "";
    for (int i = 0, end; i < p->layer_count; i = end) {
        for (end = i; end < p->layer_count && p->layers[end].class == p->layers[i].class;)
            end++;
        list = weft_torch_text(p, "%s%s%s", list, i ? ", " : "", items(p, i, end));
    }
    fprintf(p->out, "        self.blocks = nn.ModuleList([%s])\n", list);
}

/* ---- all of them */

void weft_torch_modules(struct weft_torch_printer *p, int scope)
{
    print_weights(p, scope, true);
    if (scope == WEFT_TORCH_MODEL) {
        print_blocks(p);
        print_weights(p, scope, false);
        print_tied_head(p);
    }
}
