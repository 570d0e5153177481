/* SPDX-License-Identifier: MIT
 *
 * gradients.c MODEL SEQUENCES LENGTH OUT - writes what Weft's f64 reference computes in a training step of a model
 * without dropout: tokens, targets, loss, loss terms and the gradients of all weights, one f64 after the other. Prints
 * the names of the terms and of the weights in PyTorch, with the number of their values. Used by torch_parity.py;
 * without arguments, it does nothing.
 *
 * run-tests: 1 s
 */
#include "check/probe/gate.h"
#include "export/torch/torch.h"
#include "ops/ops.h"
#include "train/record/record.h"

#include <stdlib.h>

static void write_values(FILE *to, const struct weft_tensor *t, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double x = t ? weft_tensor_get(t, i) : 0;
        fwrite(&x, sizeof x, 1, to);
    }
}

/* Leaves every fifth target unscored. */
static void fill(struct weft_probe *p, int64_t sequences, int64_t length)
{
    weft_probe_rows(p, sequences, length, NULL);
    weft_probe_fill(p, 7);
    int32_t *targets = weft_exec_tensor(p->exec, p->net.targets)->data;
    double scored = 0;
    for (int64_t i = 0; i < sequences * length; i++) {
        targets[i] = i % 5 == 2 ? -1 : targets[i];
        scored += targets[i] >= 0;
    }
    *(double *)weft_exec_tensor(p->exec, p->net.weight)->data = 1 / scored;
}

/* Returns what an op `route` chose: the positions of a row's largest weights, or its threshold; NULL for other nodes.
 */
static struct weft_value *choice_of(const struct weft_node *node)
{
    return node->op == weft_op(WEFT_OP_route) && !node->backward ? node->out[2] : NULL;
}

static void keep_choices(const struct weft_net *net)
{
    struct weft_node *const *nodes;
    for (int i = 0, count = weft_graph_nodes(net->g, &nodes); i < count; i++)
        if (choice_of(nodes[i]))
            weft_graph_output(net->g, choice_of(nodes[i]));
}

static void write_choices(struct weft_probe *p, FILE *to)
{
    struct weft_node *const *nodes;
    int count = weft_graph_nodes(p->net.g, &nodes);
    for (int i = 0; i < count; i++) {
        const struct weft_tensor *t = choice_of(nodes[i]) ? weft_exec_tensor(p->exec, choice_of(nodes[i])) : NULL;
        if (!t)
            continue;
        printf("choice %d %lld\n", nodes[i]->label, (long long)weft_tensor_count(t));
        write_values(to, t, weft_tensor_count(t));
    }
}

static enum weft_status open_probe(struct weft_probe *p, const struct weft_nn *model, struct weft_net_size size)
{
    *p = (struct weft_probe){.model = model, .dtype = WEFT_F64};
    TRY(weft_net_init(&p->net, model, WEFT_TRAIN, size));
    keep_choices(&p->net);
    return weft_probe_plan(p, WEFT_REFERENCE);
}

static void write_all(struct weft_probe *p, int64_t rows, FILE *to)
{
    const struct weft_params *params = &p->model->params;
    write_values(to, weft_exec_tensor(p->exec, p->net.tokens), rows);
    write_values(to, weft_exec_tensor(p->exec, p->net.targets), rows);
    write_values(to, weft_exec_tensor(p->exec, p->net.loss), 1);
    for (int i = 0; i < p->net.term_count; i++) {
        printf("term %s 1\n", p->net.terms[i].name);
        write_values(to, weft_exec_tensor(p->exec, p->net.terms[i].value), 1);
    }
    for (int i = 0; i < params->count; i++) {
        char name[128];
        weft_torch_weight_name(&params->list[i], name);
        printf("weight %s %lld\n", name, (long long)params->list[i].count);
        write_values(to, weft_probe_grad(p, i), params->list[i].count);
    }
    write_choices(p, to);
}

static enum weft_status run(const struct weft_nn *model, int64_t sequences, int64_t length, const char *path)
{
    struct weft_probe p;
    struct weft_net_size size = {.sequences = sequences, .length = length};
    FILE *to = fopen(path, "wb");
    enum weft_status status = to ? open_probe(&p, model, size) : FAIL(WEFT_INVALID, "cannot write %s", path);
    if (status == WEFT_OK) {
        fill(&p, sequences, length);
        weft_probe_run(&p);
        status = weft_deferred();
        write_all(&p, sequences * length, to);
    }
    if (to)
        weft_probe_close(&p);
    if (to)
        fclose(to);
    return status;
}

int main(int argc, char **argv)
{
    struct weft_settings settings = {0};
    struct weft_spec spec, plain;
    struct weft_nn *model = NULL;
    if (argc < 5)
        return 77;
    enum weft_status status = weft_spec_init(&spec, argv[1], &settings);
    if (status == WEFT_OK)
        status = weft_spec_vary(&plain, &spec, "dropout=0");
    if (status == WEFT_OK)
        status = weft_nn_create(&model, &plain);
    if (status == WEFT_OK)
        status = weft_weights_open(model, argv[1]);
    if (status == WEFT_OK)
        status = run(model, atoll(argv[2]), atoll(argv[3]), argv[4]);
    if (status != WEFT_OK)
        fprintf(stderr, "gradients: %s\n", weft_error());
    weft_nn_free(model);
    return status != WEFT_OK;
}
