/* SPDX-License-Identifier: MIT
 *
 * print_reads.c - divides the atoms of a form into scopes: what each expression reads, and to which scope it belongs.
 */
#include "export/torch/print.h"
#include "ops/ops.h"

#include <string.h>

/* ---- idioms: nodes that are printed as one expression */

/* The inputs of these ops that the expression reads. */
static const struct {
    enum weft_op_id op;
    int in[5];
} idioms[] = {
    {WEFT_OP_layernorm, {0, 1, 2, -1}},
    {WEFT_OP_rmsnorm, {0, 1, -1}},
    {WEFT_OP_gelu, {0, -1}},
    {WEFT_OP_silu, {0, -1}},
    {WEFT_OP_swiglu, {0, 1, -1}},
    {WEFT_OP_linear, {WEFT_LINEAR_ADDEND, 0, 2, 4, -1}},
};

static int idiom_of(const struct weft_node *node)
{
    for (int i = 0; i < (int)(sizeof idioms / sizeof *idioms); i++)
        if (node->op == weft_op(idioms[i].op))
            return i;
    return -1;
}

/* The inputs of a rotation [.., heads, width]: x, cosines and sines. */
static bool rotation_of(const struct weft_atom *a, const struct weft_atom *list[WEFT_TORCH_READS])
{
    if (a->kind != WEFT_ATOM_concat || !a->from || a->from->op != weft_op(WEFT_OP_rope))
        return false;
    const struct weft_atom *left = a->in[0]->in[0], *right = a->in[0]->in[1];
    if (a->in[0]->kind != WEFT_ATOM_sub || left->kind != WEFT_ATOM_mul || left->in[0]->kind != WEFT_ATOM_slice)
        return false;
    list[0] = left->in[0]->in[0];
    list[1] = left->in[1];
    list[2] = right->in[1];
    return true;
}

const struct weft_node *weft_torch_idiom(const struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_node *node = a->from;
    const struct weft_atom *list[WEFT_TORCH_READS];
    struct weft_torch_attention attention;
    if (rotation_of(a, list) || weft_torch_find_attention(p, a, &attention))
        return node;
    int i = node ? idiom_of(node) : -1;
    if (i < 0 || p->form->of_value[node->out[0]->id] != a || a->kind == WEFT_ATOM_reshape)
        return NULL;
    if (idioms[i].op == WEFT_OP_linear && node->in[1]->shape.ndim == 3)
        return NULL;
    return node;
}

static int add(const struct weft_atom *a, const struct weft_atom *list[], int count)
{
    for (int i = 0; i < count; i++)
        if (list[i] == a)
            return count;
    list[count] = a;
    return count + 1;
}

int weft_torch_reads(const struct weft_torch_printer *p, const struct weft_atom *a,
                     const struct weft_atom *list[WEFT_TORCH_READS])
{
    const struct weft_node *node = weft_torch_idiom(p, a);
    int count = 0;
    struct weft_torch_attention s;
    if (rotation_of(a, list))
        return 3;
    if (weft_torch_find_attention(p, a, &s)) {
        const struct weft_atom *in[] = {s.q, s.k, s.v, s.bias};
        for (int i = 0; i < 4 && in[i]; i++)
            count = add(in[i], list, count);
        return count;
    }
    if (!node) {
        for (int i = 0; i < 3 && a->in[i]; i++)
            count = add(a->in[i], list, count);
        return count;
    }
    const int *in = idioms[idiom_of(node)].in;
    for (int i = 0; in[i] >= 0; i++)
        if (node->in[in[i]])
            count = add(weft_torch_of(p, node->in[in[i]]), list, count);
    return count;
}

/* ---- what is needed */

static void need(struct weft_torch_printer *p, const struct weft_atom *a) { p->of[a->id].needed = true; }

/* Marks the parts of a loss term, which the blocks return; the model adds them. */
static void need_terms(struct weft_torch_printer *p)
{
    for (int i = 0; i < p->net->term_count; i++) {
        const struct weft_value *v = p->net->terms[i].value;
        for (; v->node->op == weft_op(WEFT_OP_add); v = v->node->in[0])
            need(p, weft_torch_of(p, v->node->in[1]));
        need(p, weft_torch_of(p, v));
    }
}

static void need_inputs(struct weft_torch_printer *p)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    for (int i = p->form->count; i-- > 0;)
        for (int n = p->of[i].needed ? weft_torch_reads(p, p->form->list[i], list) : 0; n-- > 0;)
            p->of[list[n]->id].needed = true;
}

/* ---- scopes */

static void find_home(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    struct weft_torch_value *v = &p->of[a->id];
    v->free = a->kind != WEFT_ATOM_weight;
    for (int n = weft_torch_reads(p, a, list); n-- > 0;)
        v->free = v->free && p->of[list[n]->id].free;
    v->home = v->free || !a->from ? WEFT_TORCH_MODEL : a->from->label;
}

/* Returns the layer of a weight's name, and what follows it; WEFT_TORCH_MODEL if it is not in a block. */
static int layer_of(const char *name)
{
    int layer;
    return sscanf(name, "blocks.%d.", &layer) == 1 ? layer : WEFT_TORCH_MODEL;
}

/* Returns whether an atom must be passed to a scope that reads it. */
static bool is_foreign(const struct weft_torch_printer *p, const struct weft_atom *a, int scope)
{
    if (a->kind == WEFT_ATOM_weight)
        return scope != WEFT_TORCH_MODEL && layer_of(a->name) != scope;
    return !weft_torch_is_source(a) && p->of[a->id].home != scope;
}

static bool contains(const struct weft_atom **list, int count, const struct weft_atom *a)
{
    for (int i = 0; i < count; i++)
        if (list[i] == a)
            return true;
    return false;
}

static void pass(struct weft_torch_printer *p, const struct weft_atom *a, int reader)
{
    int home = p->of[a->id].home;
    p->of[a->id].crosses = true;
    if (reader != WEFT_TORCH_MODEL) {
        struct weft_torch_layer *l = &p->layers[reader];
        if (!contains(l->in, l->in_count, a))
            l->in[l->in_count++] = a;
    }
    if (home != WEFT_TORCH_MODEL && a->kind != WEFT_ATOM_weight) {
        struct weft_torch_layer *l = &p->layers[home];
        if (!contains(l->out, l->out_count, a))
            l->out[l->out_count++] = a;
    }
}

/* Puts the residual stream first. */
static void stream_first(const struct weft_atom **list, int count, const struct weft_atom *stream)
{
    for (int i = 1; i < count; i++)
        if (list[i] == stream) {
            memmove(list + 1, list, (size_t)i * sizeof *list);
            list[0] = stream;
        }
}

/* Finds the stream before a layer: what its first node reads from outside. */
static const struct weft_atom *find_stream(const struct weft_torch_printer *p, int layer)
{
    struct weft_node *const *nodes;
    int count = weft_graph_nodes(p->net->g, &nodes);
    for (int i = 0; i < count; i++)
        for (int k = 0; nodes[i]->label == layer && k < WEFT_MAX_ARGS; k++) {
            const struct weft_value *v = nodes[i]->in[k];
            if (v && v->kind == WEFT_VALUE && v->node->label != layer && v->shape.ndim == 2 && v->shape.dim[0].symbol)
                return weft_torch_of(p, v);
        }
    return NULL;
}

static void allocate_layers(struct weft_torch_printer *p)
{
    size_t bytes = (size_t)p->form->count * sizeof(void *) + 1;
    p->layer_count = (int)p->model->spec->layers;
    p->layers = weft_arena_alloc(&p->arena, (size_t)p->layer_count * sizeof *p->layers + 1);
    for (int i = 0; p->layers && i < p->layer_count; i++) {
        p->layers[i].in = weft_arena_alloc(&p->arena, bytes);
        p->layers[i].out = weft_arena_alloc(&p->arena, bytes);
        p->layers[i].stream = find_stream(p, i);
        if (!p->layers[i].in || !p->layers[i].out)
            p->layers = NULL;
    }
    if (!p->layers)
        p->status = WEFT_NOMEM;
}

/* Puts the residual stream first among what blocks read and return. */
static void order(struct weft_torch_printer *p)
{
    for (int i = 0; i < p->layer_count; i++) {
        struct weft_torch_layer *l = &p->layers[i];
        const struct weft_atom *next = i + 1 < p->layer_count ? l[1].stream : NULL;
        for (int k = 0; i + 1 == p->layer_count && k < l->out_count; k++)
            if (l->out[k]->type.ndim == 3 && l->out[k]->type.dim[2].times == p->model->spec->width)
                next = l->out[k];
        stream_first(l->in, l->in_count, l->stream);
        stream_first(l->out, l->out_count, next);
    }
}

void weft_torch_divide(struct weft_torch_printer *p)
{
    const struct weft_form *f = p->form;
    const struct weft_atom *list[WEFT_TORCH_READS];
    allocate_layers(p);
    if (p->status != WEFT_OK)
        return;
    need(p, p->hidden);
    need(p, p->head);
    need_terms(p);
    for (int i = 0; i < f->count; i++)
        p->of[i].crosses = p->of[i].needed;
    need_inputs(p);
    for (int i = 0; i < f->count; i++)
        if (p->of[i].needed)
            find_home(p, f->list[i]);
    for (int i = 0; i < f->count; i++) {
        for (int n = p->of[i].needed ? weft_torch_reads(p, f->list[i], list) : 0, k = 0; k < n; k++)
            if (is_foreign(p, list[k], p->of[i].home))
                pass(p, list[k], p->of[i].home);
        if (p->of[i].crosses && p->of[i].home != WEFT_TORCH_MODEL)
            pass(p, f->list[i], WEFT_TORCH_MODEL);
    }
    order(p);
}

/* ---- names */

static bool is_shape(enum weft_atom_kind kind) { return kind >= WEFT_ATOM_reshape && kind <= WEFT_ATOM_pad; }

/* The name of a matrix's result: wq gives q. Weights of mechanisms give the mechanism's name. */
static const char *weight_hint(struct weft_torch_printer *p, const char *name)
{
    static const char *const known[][2] = {{"wa", "k"},   {"wb", "v"},     {"wdk", "c_k"}, {"wdv", "c_v"},
                                           {"wo", "out"}, {"proj", "out"}, {"fc", "h"},    {"w1", "up"},
                                           {"w2", "out"}, {"w3", "gate"}};
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name, *scope = dot;
    while (scope && scope > name && scope[-1] != '.')
        scope--;
    if (scope && scope[0] == 'm' && scope[1] >= '0' && scope[1] <= '9')
        return weft_torch_print(p, "%.*s", (int)(dot - scope), scope);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(last, known[i][0]) == 0)
            return known[i][1];
    return weft_torch_print(p, "%s", last[0] == 'w' && last[1] ? last + 1 : last);
}

/* Returns whether an atom of a node is computed from one of this kind in the same node, or is one. */
static bool is_after(const struct weft_atom *a, const struct weft_node *node, enum weft_atom_kind kind)
{
    if (a->from != node)
        return false;
    for (int i = 0; i < 3 && a->in[i] && a->kind != kind; i++)
        if (is_after(a->in[i], node, kind))
            return true;
    return a->kind == kind;
}

static const char *attention_hint(const struct weft_atom *a)
{
    if (a->kind == WEFT_ATOM_softmax)
        return "probs";
    if (is_after(a, a->from, WEFT_ATOM_softmax))
        return "out";
    return is_after(a, a->from, WEFT_ATOM_matmul) ? "scores" : NULL;
}

/* Names by op; "" for the name of the first input that is not a constant. */
static const struct {
    enum weft_op_id op;
    const char *name;
} op_names[] = {{WEFT_OP_layernorm, "h"},
                {WEFT_OP_rmsnorm, "h"},
                {WEFT_OP_gelu, "h"},
                {WEFT_OP_silu, "h"},
                {WEFT_OP_swiglu, "h"},
                {WEFT_OP_temperature, "scale"},
                {WEFT_OP_head_bias, "bias"},
                {WEFT_OP_route, "routes"},
                {WEFT_OP_info_nce, "nce"},
                {WEFT_OP_prefix_mean, "mean"},
                {WEFT_OP_bucket_mean, "mean"},
                {WEFT_OP_bucket_spread, "spread"},
                {WEFT_OP_off_block, "outside"},
                {WEFT_OP_square_mean, "square"},
                {WEFT_OP_entropy, "entropy"},
                {WEFT_OP_square_sum, "square"}};

static const char *op_hint(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    const struct weft_node *node = a->from;
    double value;
    if (node && node->op == weft_op(WEFT_OP_attention) && attention_hint(a))
        return attention_hint(a);
    for (size_t i = 0; node && i < sizeof op_names / sizeof *op_names; i++)
        if (node->op == weft_op(op_names[i].op))
            return op_names[i].name;
    if (node && node->op == weft_op(WEFT_OP_linear))
        return weft_torch_hint(p, weft_torch_of(p, node->in[node->in[WEFT_LINEAR_ADDEND] ? WEFT_LINEAR_ADDEND : 4]));
    for (int i = 0, n = weft_torch_reads(p, a, list); i < n; i++)
        if (!weft_torch_constant(list[i], &value))
            return weft_torch_hint(p, list[i]);
    return "value";
}

static const char *find_hint(struct weft_torch_printer *p, const struct weft_atom *a)
{
    for (int i = 0; i < p->layer_count; i++)
        if (p->layers[i].stream == a)
            return "x";
    if (a->kind == WEFT_ATOM_weight)
        return weight_hint(p, a->name);
    if (a->kind == WEFT_ATOM_input)
        return strcmp(a->name, "pos") == 0 ? "position" : a->name;
    if (a->kind == WEFT_ATOM_array)
        return weft_torch_table_name(p, a);
    if (a->kind == WEFT_ATOM_distance || a->kind == WEFT_ATOM_visible)
        return weft_atom_name(a->kind);
    if (is_shape(a->kind))
        return weft_torch_hint(p, a->in[0]);
    if (a->kind == WEFT_ATOM_take)
        return weft_torch_hint(p, a->in[0]);
    return op_hint(p, a);
}

const char *weft_torch_hint(struct weft_torch_printer *p, const struct weft_atom *a)
{
    struct weft_torch_value *v = &p->of[a->id];
    if (!v->hint)
        v->hint = find_hint(p, a);
    return v->hint;
}
