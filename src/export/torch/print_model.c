/* SPDX-License-Identifier: MIT
 *
 * print_model.c - the class Model: weights, a loop over the blocks, logits and the loss.
 */
#include "export/torch/print.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

static const char *const indent = "        ";

/* ---- the list of blocks */

static void print_list(struct weft_torch_printer *p)
{
    fprintf(p->out, "        self.blocks = nn.ModuleList([");
    for (int i = 0, end; i < p->layer_count; i = end) {
        const char *name = p->classes[p->layers[i].class].name;
        for (end = i; end < p->layer_count && p->layers[end].class == p->layers[i].class;)
            end++;
        bool all = i == 0 && end == p->layer_count;
        if (end - i == 1)
            fprintf(p->out, "%s%s()", i ? ", " : "", name);
        else
            fprintf(p->out, all ? "%s%s() for _ in range(%d)" : "%s*(%s() for _ in range(%d))", i ? ", " : "", name,
                    end - i);
    }
    fprintf(p->out, "])\n");
}

/* ---- what a loss term consists of */

/* Returns the index of the loss term that an atom is a part of; -1: none. */
static int term_of(const struct weft_torch_printer *p, const struct weft_atom *a)
{
    for (int i = 0; i < p->net->term_count; i++) {
        const struct weft_value *v = p->net->terms[i].value;
        for (; v->node->op == weft_op(WEFT_OP_add); v = v->node->in[0])
            if (weft_torch_of(p, v->node->in[1]) == a)
                return i;
        if (weft_torch_of(p, v) == a)
            return i;
    }
    return -1;
}

/* ---- calls of blocks */

static int index_of(const struct weft_atom **list, int count, const struct weft_atom *a)
{
    for (int i = 0; i < count; i++)
        if (list[i] == a)
            return i;
    return -1;
}

/* Returns whether the block of a layer and the next can be calls in one loop: their arguments are the same, or results
 * of the block before. Every result except parts of loss terms must then be such an argument, and read nowhere else. */
static bool continues(const struct weft_torch_printer *p, int layer, int first)
{
    const struct weft_torch_layer *a = &p->layers[layer], *b = a + 1;
    if (a->class != b->class)
        return false;
    for (int i = 0; i < a->in_count; i++) {
        int q = index_of(a->out, a->out_count, b->in[i]);
        if (q < 0 && a->in[i] != b->in[i])
            return false;
        if (layer > first && q != index_of(a[-1].out, a[-1].out_count, a->in[i]))
            return false;
    }
    for (int q = 0; q < a->out_count; q++) {
        if (term_of(p, a->out[q]) >= 0)
            continue;
        if (index_of(b->in, b->in_count, a->out[q]) < 0)
            return false;
        for (int later = layer + 2; later < p->layer_count; later++)
            if (index_of(p->layers[later].in, p->layers[later].in_count, a->out[q]) >= 0)
                return false;
    }
    return true;
}

/* Prints what an atom needs, then the atom as a line of its own or as a part of its reader's line. */
static void define(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    if (p->of[a->id].py.text || weft_torch_is_source(a))
        return;
    int n = weft_torch_reads(p, a, list);
    for (int i = 0; i < n; i++)
        define(p, list[i]);
    weft_torch_line(p, a);
}

static const char **arguments(struct weft_torch_printer *p, const struct weft_torch_layer *l)
{
    const char **list = weft_arena_alloc(&p->arena, (size_t)l->in_count * sizeof *list + 1);
    if (!list)
        p->status = WEFT_NOMEM;
    for (int i = 0; list && i < l->in_count; i++)
        list[i] = weft_torch_text(p, l->in[i], WEFT_BINDS_COMPARISON);
    return list;
}

/* Names the results of a layer's block: those that the next one in the loop takes are called like its arguments. */
static const char *results(struct weft_torch_printer *p, int first, int last)
{
    const struct weft_torch_layer *l = &p->layers[last], *before = l - 1;
    const char *text = "", *name;
    for (int q = 0; q < l->out_count; q++) {
        const struct weft_atom *a = l->out[q];
        int term = term_of(p, a), i = -1;
        if (last > first)
            i = index_of(l->in, l->in_count, before->out[q]);
        if (term >= 0)
            name = weft_torch_print(p, "more_%s", p->net->terms[term].name);
        else if (i >= 0)
            name = weft_torch_text(p, p->layers[first].in[i], WEFT_BINDS_CALL);
        else
            name = weft_torch_name(p, a, weft_torch_hint(p, a));
        if (i >= 0) {
            p->of[a->id].py = (struct weft_py){name, WEFT_BINDS_CALL};
            p->of[a->id].named = true;
            for (int n = 0; n < p->name_count; n++)
                if (strcmp(p->names[n].text, name) == 0)
                    p->names[n].holds = a;
        }
        text = weft_torch_print(p, "%s%s%s", text, q ? ", " : "", name);
    }
    return text;
}

static void add_terms(struct weft_torch_printer *p, const struct weft_torch_layer *l, const char *more)
{
    for (int q = 0; q < l->out_count; q++) {
        int term = term_of(p, l->out[q]);
        if (term >= 0)
            fprintf(p->out, "%s%s%s = %s + more_%s.sum()\n", indent, more, p->net->terms[term].name,
                    p->net->terms[term].name, p->net->terms[term].name);
    }
}

static void print_call(struct weft_torch_printer *p, int first, int end)
{
    const struct weft_torch_layer *l = &p->layers[first];
    for (int layer = first; layer < end; layer++)
        for (int i = 0; i < p->layers[layer].in_count; i++) {
            const struct weft_atom *a = p->layers[layer].in[i];
            int home = p->of[a->id].home;
            if (a->kind != WEFT_ATOM_weight && (home == WEFT_TORCH_MODEL || home < first)) {
                define(p, a);
                weft_torch_define(p, a);
            }
        }
    const char **args = arguments(p, l), *block = "block", *more = "    ";
    for (int layer = first; layer < end; layer++)
        for (int i = 0; i < p->layers[layer].in_count; i++)
            weft_torch_count(p, p->layers[layer].in[i], -1);
    const char *names = results(p, first, end - 1);
    if (end - first == 1) {
        block = weft_torch_print(p, "self.blocks[%d]", first);
        more = "";
    } else if (first == 0 && end == p->layer_count) {
        fprintf(p->out, "%sfor block in self.blocks:\n", indent);
    } else {
        fprintf(p->out, "%sfor block in self.blocks[%d:%d]:\n", indent, first, end);
    }
    if (args)
        fputs(weft_torch_call(p, *more ? 12 : 8, weft_torch_print(p, "%s = %s", names, block), args, l->in_count, ""),
              p->out);
    add_terms(p, l, more);
}

/* ---- forward */

static void print_loss(struct weft_torch_printer *p)
{
    const char *terms = "\"cross_entropy\": cross_entropy";
    fprintf(p->out,
            "        cross_entropy = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)\n");
    if (p->model->spec->logits_z != 0) {
        fprintf(p->out, "        scored = targets >= 0\n");
        fprintf(p->out, "        z = %s * (logits.logsumexp(-1).square() * scored).sum() / scored.sum()\n",
                weft_torch_real(p, p->model->spec->logits_z));
        terms = weft_torch_print(p, "%s, \"z\": z", terms);
    }
    for (int i = 0; i < p->net->term_count; i++) {
        const char *name = p->net->terms[i].name;
        terms = weft_torch_print(p, "%s, \"%s\": %s", terms, name, name);
    }
    fprintf(p->out, "        terms = {%s}\n        return sum(terms.values()), terms\n", terms);
}

static void print_logits(struct weft_torch_printer *p)
{
    define(p, p->hidden);
    weft_torch_define(p, p->hidden);
    define(p, p->head);
    fprintf(p->out, "        logits = F.linear(%s, %s)\n", weft_torch_text(p, p->hidden, WEFT_BINDS_COMPARISON),
            weft_torch_text(p, p->head, WEFT_BINDS_COMPARISON));
    fprintf(p->out, "        if targets is None:\n            return logits\n");
    print_loss(p);
}

static bool reads_targets(const struct weft_torch_printer *p)
{
    for (int i = 0; i < p->form->count; i++)
        if (p->of[i].needed && p->form->list[i]->kind == WEFT_ATOM_input &&
            strcmp(p->form->list[i]->name, "targets") == 0)
            return true;
    return false;
}

static void print_body(struct weft_torch_printer *p)
{
    static const char *const reserved[] = {"batch",  "length", "tokens", "targets", "labels",
                                           "logits", "loss",   "block",  "z",       "scored"};
    weft_torch_begin(p, WEFT_TORCH_MODEL);
    p->indent = indent;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        weft_torch_reserve(p, reserved[i]);
    for (int i = 0; i < p->form->count; i++) {
        const struct weft_atom *a = p->form->list[i];
        if (a->kind == WEFT_ATOM_input && (strcmp(a->name, "tokens") == 0 || strcmp(a->name, "targets") == 0)) {
            p->of[i].py = (struct weft_py){strcmp(a->name, "tokens") == 0 ? "tokens" : "labels", WEFT_BINDS_CALL};
            p->of[i].named = true;
        }
    }
    for (int i = 0; i < p->layer_count; i++)
        for (int k = 0; k < p->layers[i].in_count; k++)
            weft_torch_count(p, p->layers[i].in[k], 1);
    weft_torch_count(p, p->hidden, 1);
    weft_torch_count(p, p->head, 1);
    for (int i = 0; i < p->net->term_count; i++)
        fprintf(p->out, "%s%s = 0.0\n", indent, weft_torch_reserve(p, p->net->terms[i].name));
    for (int first = 0, end; first < p->layer_count && p->status == WEFT_OK; first = end) {
        for (end = first + 1; end < p->layer_count && continues(p, end - 1, first);)
            end++;
        print_call(p, first, end);
    }
    print_logits(p);
}

void weft_torch_model(struct weft_torch_printer *p)
{
    FILE *file = p->out;
    char *text = NULL;
    size_t bytes;
    fprintf(file, "    def __init__(self):\n        super().__init__()\n");
    print_list(p);
    weft_torch_init(p, WEFT_TORCH_MODEL);
    p->out = open_memstream(&text, &bytes);
    if (!p->out) {
        p->out = file;
        p->status = FAIL(WEFT_NOMEM, "not enough memory to print the model");
        return;
    }
    print_body(p);
    fclose(p->out);
    p->out = file;
    fprintf(file, "\n    def forward(self, tokens, targets=None):\n");
    if (p->sizes)
        fprintf(file, "        batch, length = tokens.shape\n");
    if (reads_targets(p))
        fprintf(file, "        labels = torch.full_like(tokens, -1) if targets is None else targets\n");
    fputs(text ? text : "", file);
    free(text);
}
