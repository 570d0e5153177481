/* SPDX-License-Identifier: MIT
 *
 * formed.c - checks that the forms of whole graphs, from which models are exported, compute what the graphs compute.
 *
 * Graph and form run in f64 on the same inputs, so they differ only by rounding errors. A call is run in two ways: on
 * sequences of different lengths, where every row is a batch of its own, and on sequences of equal lengths, where the
 * rows of a sequence are one batch, as in exported models. Some rows are not scored. In training, dropout is on.
 */
#include "check/gates/formed.h"

#include <stdio.h>
#include <string.h>

enum { SEQUENCES = 3, TOKENS_KEY = 101, SEED = 7, STEP = 3, SAMPLE = 11, UNSCORED = 5 };
#define RATE 0.2

struct result {
    const char *name;
    const struct weft_value *value;
};
enum { MOST_RESULTS = 5 + WEFT_MAX_TERMS };

/* Lists the results of a graph; those that it does not have are NULL. */
static int list_results(const struct weft_net *net, struct result list[MOST_RESULTS])
{
    const struct result rows[] = {
        {"logits", net->logits}, {"nll", net->nll}, {"lse", net->lse}, {"the prediction", net->prediction}};
    int n = sizeof rows / sizeof *rows;
    memcpy(list, rows, sizeof rows);
    for (int i = 0; i < net->term_count; i++)
        list[n++] = (struct result){net->terms[i].name, net->terms[i].value};
    list[n++] = (struct result){"loss", net->loss};
    return n;
}

/* Fills the inputs with random tokens and, if the graph has them, targets, some of which are not scored. */
static void fill(struct weft_formed *s)
{
    struct weft_net *net = &s->probe.net;
    weft_probe_fill(&s->probe, TOKENS_KEY);
    if (net->use == WEFT_TRAIN)
        weft_net_step_key(net, s->probe.exec, SEED, STEP, SAMPLE);
    const struct weft_tensor *targets = net->targets ? weft_exec_tensor(s->probe.exec, net->targets) : NULL;
    for (int64_t r = UNSCORED - 1; targets && r < weft_tensor_count(targets); r += UNSCORED)
        ((int32_t *)targets->data)[r] = -1;
}

static enum weft_status check_rows(struct weft_formed *s, bool dense, const char *graph)
{
    struct result list[MOST_RESULTS];
    char check[96];
    bool ran;
    int n = list_results(&s->probe.net, list);
    fill(s);
    TRY(weft_formed_begin(s));
    for (int i = 0; i < n; i++)
        weft_formed_want(s, list[i].value);
    snprintf(check, sizeof check, "%s: error of the form, sequences of %s lengths", graph,
             dense ? "equal" : "different");
    TRY(weft_formed_run(s, dense, check, &ran));
    for (int i = 0; i < n && ran; i++)
        TRY(weft_formed_output(s, list[i].name, list[i].value));
    if (ran)
        weft_formed_report(s, check);
    return WEFT_OK;
}

static enum weft_status check_both(struct weft_formed *s, const char *graph)
{
    int64_t context = s->probe.model->spec->context;
    const int64_t lengths[SEQUENCES] = {weft_min(9, context), context, 1};
    weft_probe_rows(&s->probe, SEQUENCES, 0, lengths);
    TRY(check_rows(s, false, graph));
    weft_probe_rows(&s->probe, SEQUENCES - 1, context, NULL);
    return check_rows(s, true, graph);
}

static enum weft_status check_whole(const struct weft_trial *t, const struct weft_nn *model, enum weft_use use,
                                    const char *graph)
{
    struct weft_formed s;
    struct weft_net_size size = {.sequences = SEQUENCES, .length = model->spec->context};
    char check[96];
    bool lowered;
    snprintf(check, sizeof check, "%s: the graph has a form", graph);
    enum weft_status status = weft_formed_open(&s, t, model, use, size, check, &lowered);
    if (status == WEFT_OK && lowered)
        status = check_both(&s, graph);
    weft_formed_close(&s);
    return status;
}

enum weft_status weft_gate_formed(const struct weft_trial *t)
{
    struct weft_spec spec = *t->model->spec;
    struct weft_nn model = *t->model;
    TRY(check_whole(t, t->model, WEFT_FORWARD, "FORWARD"));
    TRY(check_whole(t, t->model, WEFT_EVAL, "EVAL"));
    spec.dropout = RATE;
    model.spec = &spec;
    TRY(check_whole(t, &model, WEFT_TRAIN, "TRAIN"));
    return weft_check_formed_cached(t);
}
