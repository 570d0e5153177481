/* SPDX-License-Identifier: MIT
 *
 * print_model.c - the class Model: weights, a loop over the blocks, logits and the loss.
 */
#include "export/torch/print.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

static const char *const indent = "        ";

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
    const char **list = weft_arena_alloc(&p->arena, ((size_t)l->in_count + 1) * sizeof *list);
    if (!list)
        p->status = WEFT_NOMEM;
    for (int i = 0; list && i < l->in_count; i++)
        list[i] = weft_torch_operand(p, l->in[i], WEFT_BINDS_COMPARISON);
    if (list && l->slots)
        list[l->in_count] = "cache";
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
            name = weft_torch_text(p, "more_%s", p->net->terms[term].name);
        else if (i >= 0)
            name = weft_torch_operand(p, p->layers[first].in[i], WEFT_BINDS_CALL);
        else
            name = weft_torch_name(p, a, weft_torch_hint(p, a));
        if (i >= 0) {
            p->of[a->id].py = (struct weft_py){name, WEFT_BINDS_CALL};
            p->of[a->id].named = true;
            for (int n = 0; n < p->name_count; n++)
                if (strcmp(p->names[n].text, name) == 0)
                    p->names[n].holds = a;
        }
        text = weft_torch_text(p, "%s%s%s", text, q ? ", " : "", name);
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
        block = weft_torch_text(p, "self.blocks[%d]", first);
        more = "";
    } else if (first == 0 && end == p->layer_count) {
        fprintf(p->out, "%sfor block in self.blocks:\n", indent);
    } else {
        fprintf(p->out, "%sfor block in self.blocks[%d:%d]:\n", indent, first, end);
    }
    if (args)
        fputs(weft_torch_call(p, *more ? 12 : 8, weft_torch_text(p, "%s = %s", names, block), args,
                              l->in_count + (l->slots > 0), ""),
              p->out);
    add_terms(p, l, more);
}

/* ---- forward */

/* Loss terms are variables. */
static void check_terms(struct weft_torch_printer *p)
{
    for (int i = 0; i < p->net->term_count; i++) {
        const char *name = p->net->terms[i].name;
        if (!weft_torch_is_name(name, (int)strlen(name)) && p->status == WEFT_OK)
            p->status =
                FAIL(WEFT_INVALID, "PyTorch export: the loss term \"%s\" cannot be a variable: choose a different name",
                     name);
    }
}

void weft_torch_loss(struct weft_torch_printer *p)
{
    const char *terms = "\"cross_entropy\": cross_entropy";
    fprintf(p->out,
            "        cross_entropy = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)\n");
    if (p->model->spec->logits_z != 0) {
        fprintf(p->out, "        scored = targets >= 0\n");
        fprintf(p->out, "        z = %s * (logits.logsumexp(-1).square() * scored).sum() / scored.sum()\n",
                weft_torch_real(p, p->model->spec->logits_z));
        terms = weft_torch_text(p, "%s, \"z\": z", terms);
    }
    for (int i = 0; i < p->net->term_count; i++) {
        const char *name = p->net->terms[i].name;
        terms = weft_torch_text(p, "%s, \"%s\": %s", terms, name, name);
    }
    fprintf(p->out, "        terms = {%s}\n        return sum(terms.values()), terms\n", terms);
}

static void print_logits(struct weft_torch_printer *p)
{
    define(p, p->hidden);
    weft_torch_define(p, p->hidden);
    define(p, p->head);
    const char *x = weft_torch_operand(p, p->hidden, WEFT_BINDS_CALL);
    if (p->code == WEFT_TORCH_DECODER) {
        fprintf(p->out, "        if isinstance(logits_to_keep, int):\n");
        fprintf(p->out, "            logits_to_keep = slice(-logits_to_keep if logits_to_keep else None, None)\n");
        x = weft_torch_text(p, "%s[:, logits_to_keep]", x);
    }
    if (p->head->kind == WEFT_ATOM_weight)
        fprintf(p->out, "        logits = self.lm_head(%s)\n", x);
    else
        fprintf(p->out, "        logits = F.linear(%s, %s)\n", x,
                weft_torch_operand(p, p->head, WEFT_BINDS_COMPARISON));
}

static bool reads_input(const struct weft_torch_printer *p, const char *name)
{
    for (int i = 0; i < p->form->count; i++)
        if (p->of[i].needed && p->form->list[i]->kind == WEFT_ATOM_input && strcmp(p->form->list[i]->name, name) == 0)
            return true;
    return false;
}

/* Gives the inputs that are variables of forward() their names. */
static void name_inputs(struct weft_torch_printer *p)
{
    static const char *const names[][3] = {{"tokens", "tokens", "input_ids"},
                                           {"targets", "labels", NULL},
                                           {"pos", NULL, "position"},
                                           {"position", NULL, "position"},
                                           {"shown", NULL, "shown"}};
    for (int i = 0; i < p->form->count; i++) {
        const struct weft_atom *a = p->form->list[i];
        for (size_t k = 0; a->kind == WEFT_ATOM_input && k < sizeof names / sizeof *names; k++) {
            const char *name = names[k][p->code == WEFT_TORCH_MODULE ? 1 : 2];
            if (strcmp(a->name, names[k][0]) != 0 || !name)
                continue;
            p->of[i].py = (struct weft_py){name, WEFT_BINDS_CALL};
            p->of[i].named = true;
        }
    }
}

/* Returns the embedding of tokens, which a caller of a decoder can pass instead of tokens; NULL if tokens are also read
 * otherwise. */
static const struct weft_atom *embeddings(const struct weft_torch_printer *p)
{
    const struct weft_atom *list[WEFT_TORCH_READS], *found = NULL;
    int readers = 0;
    for (int i = 0; i < p->form->count; i++)
        for (int n = p->of[i].needed ? weft_torch_reads(p, p->form->list[i], list) : 0; n-- > 0;)
            if (list[n]->kind == WEFT_ATOM_input && strcmp(list[n]->name, "tokens") == 0) {
                readers++;
                found = p->of[i].idiom.kind == WEFT_IDIOM_EMBEDDING ? p->form->list[i] : NULL;
            }
    return readers == 1 ? found : NULL;
}

static void reserve_names(struct weft_torch_printer *p)
{
    static const char *const module[] = {"batch", "length", "tokens", "targets", "labels", "logits",
                                         "loss",  "block",  "z",      "scored",  NULL};
    static const char *const decoder[] = {
        "batch",  "length", "cache",     "past",          "shown",  "columns",        "position",  "logits",
        "loss",   "block",  "input_ids", "inputs_embeds", "labels", "attention_mask", "use_cache", "position_ids",
        "kwargs", "slice",  NULL};
    for (const char *const *name = p->code == WEFT_TORCH_MODULE ? module : decoder; *name; name++)
        weft_torch_reserve(p, *name);
}

static void name_embeddings(struct weft_torch_printer *p)
{
    const struct weft_atom *a = p->code == WEFT_TORCH_DECODER ? embeddings(p) : NULL;
    if (!a)
        return;
    p->of[a->id].py = (struct weft_py){"inputs_embeds", WEFT_BINDS_CALL};
    p->of[a->id].named = true;
}

void weft_torch_inputs(struct weft_torch_printer *p)
{
    if (embeddings(p))
        fprintf(p->out, "        if inputs_embeds is None:\n            inputs_embeds = self.wte(input_ids)\n");
    else
        fprintf(p->out, "        if input_ids is None:\n"
                        "            raise ValueError(\"pass input_ids: this model does not only embed its tokens\")\n"
                        "        inputs_embeds = self.wte(input_ids)\n");
}

static void print_layers(struct weft_torch_printer *p)
{
    for (int i = 0; i < p->layer_count; i++)
        for (int k = 0; k < p->layers[i].in_count; k++)
            weft_torch_count(p, p->layers[i].in[k], 1);
    weft_torch_count(p, p->hidden, 1);
    weft_torch_count(p, p->head, 1);
    for (int first = 0, end; first < p->layer_count && p->status == WEFT_OK; first = end) {
        for (end = first + 1; end < p->layer_count && continues(p, end - 1, first);)
            end++;
        print_call(p, first, end);
    }
    print_logits(p);
}

void weft_torch_body(struct weft_torch_printer *p)
{
    struct weft_torch_output output;
    weft_torch_begin(p, WEFT_TORCH_MODEL);
    p->indent = indent;
    check_terms(p);
    reserve_names(p);
    name_inputs(p);
    name_embeddings(p);
    weft_torch_open(p, &output);
    for (int i = 0; p->status == WEFT_OK && i < p->net->term_count; i++)
        fprintf(p->out, "%s%s = 0.0\n", indent, weft_torch_reserve(p, p->net->terms[i].name));
    if (p->status == WEFT_OK)
        print_layers(p);
    const char *text = weft_torch_close(p, &output);
    if (p->code == WEFT_TORCH_MODULE && p->sizes)
        fprintf(p->out, "        batch, length = tokens.shape\n");
    if (reads_input(p, "targets"))
        fprintf(p->out, "        labels = torch.full_like(tokens, -1) if targets is None else targets\n");
    fputs(text, p->out);
}
