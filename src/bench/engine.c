/* SPDX-License-Identifier: MIT
 *
 * engine.c - benchmarks the three matmuls of training, run through the graph, against the bare engine.
 *
 * The graph is one linear layer in which only the timed matmul is run: the output (Y), the gradient of the rows (dX) or
 * of the weights (dW). Both times exclude planning, packing of weights and page faults, and include the cost of every
 * call in a step, such as transposing operands.
 */
#include "bench/bench.h"
#include "dnn/dnn.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

struct stage {
    struct weft_graph *graph;
    struct weft_exec *exec;
    float *weights, *grads;
    size_t weight_bytes;
};

static enum weft_status build(struct stage *s, const struct weft_product *p, enum weft_dtype dtype)
{
    s->graph = weft_graph_new(dtype);
    TRY(weft_graph_status(s->graph));
    int rows = weft_graph_symbol(s->graph, "rows", p->m);
    struct weft_value *x = weft_graph_input(s->graph, "x", dtype, WEFT_SHAPE(weft_times(rows, 1), weft_fixed(p->k)));
    struct weft_value *w = weft_graph_param(s->graph, "w", WEFT_SHAPE(weft_fixed(p->n), weft_fixed(p->k)));
    TRY(weft_graph_status(s->graph));
    x->wants_grad = p->kind == WEFT_BARE_DX;
    w->wants_grad = p->kind == WEFT_BARE_DW;
    struct weft_value *y = weft_linear(s->graph, x, w, NULL, NULL, dtype);
    TRY(weft_graph_status(s->graph));
    if (p->kind == WEFT_BARE_Y) {
        weft_graph_output(s->graph, y);
    } else {
        struct weft_value *dy = weft_graph_input(s->graph, "dy", dtype, y->shape);
        TRY(weft_graph_backward_from(s->graph, 1, &y, &dy));
    }
    TRY(weft_exec_create(&s->exec, s->graph, WEFT_FAST));
    s->weight_bytes = (size_t)p->n * (size_t)p->k * sizeof(float);
    s->weights = weft_pages_alloc(s->weight_bytes);
    s->grads = p->kind == WEFT_BARE_DW ? weft_pages_alloc(s->weight_bytes) : NULL;
    if (!s->weights || (p->kind == WEFT_BARE_DW && !s->grads))
        return WEFT_NOMEM;
    weft_exec_bind(s->exec, w, s->weights);
    if (s->grads)
        weft_exec_bind(s->exec, weft_graph_gradient(w), s->grads);
    return WEFT_OK;
}

static enum weft_status fill(struct stage *s)
{
    struct weft_value *const *values;
    int n = weft_graph_values(s->graph, &values);
    for (int v = 0; v < n; v++) {
        struct weft_tensor *t = weft_exec_tensor(s->exec, values[v]);
        int64_t count = weft_tensor_count(t);
        if (values[v]->kind == WEFT_INPUT || values[v]->kind == WEFT_PARAM)
            for (int64_t i = 0; i < count; i++)
                weft_tensor_set(t, i, (double)((uint32_t)i * 2654435761u >> 8) * 0x1p-24 - 0.5);
    }
    return weft_exec_prepare(s->exec);
}

static void close_stage(struct stage *s)
{
    weft_exec_free(s->exec);
    weft_graph_free(s->graph);
    weft_pages_free(s->weights, s->weight_bytes);
    weft_pages_free(s->grads, s->weight_bytes);
}

static enum weft_status run_exec(void *exec) { return weft_exec_run(exec); }

static enum weft_status measure(const struct weft_product *p, enum weft_dtype dtype, double seconds,
                                struct weft_engine_row *row, struct stage *stage, struct weft_bare *bare)
{
    TRY(build(stage, p, dtype));
    TRY(fill(stage));
    TRY(weft_bare_open(bare, p, dtype));
    struct weft_contender list[1 + WEFT_MAX_BARE] = {{.run = run_exec, .context = stage->exec}};
    int count = 1 + weft_bare_enter(bare, list + 1);
    struct weft_contest contest;
    TRY(weft_contest(list, count, seconds, &contest));
    const struct weft_contender *best = weft_bare_fastest(bare, list + 1);
    double flops = 2e-9 * (double)p->m * (double)p->n * (double)p->k;
    row->product = *p;
    row->rounds = contest.rounds;
    row->ratio = best->quotient;
    row->gflops = flops / list[0].seconds;
    row->bare_gflops = flops / best->seconds;
    row->bare_name = ((const struct weft_dnn_bare *)best->context)->name;
    return WEFT_OK;
}

/* The layers of gpt2-124m (batch 2 x 1024, the vocabulary last) and of gpt2-mini (batch 16 x 256). */
static const int64_t shapes[][3] = {{2048, 768, 768}, {2048, 3072, 768}, {2048, 768, 3072}, {2048, 50304, 768},
                                    {4096, 384, 384}, {4096, 1536, 384}, {4096, 384, 1536}};
enum { SHAPES = sizeof shapes / sizeof *shapes, ROWS = 3 * SHAPES };

enum weft_status weft_bench_engine(enum weft_dtype dtype, double seconds, double *geomean, double *min,
                                   weft_engine_fn *tell, void *context)
{
    double logs = 0;
    *min = INFINITY;
    if (weft_dnn_bare_is_own())
        return FAIL(WEFT_UNSUPPORTED,
                    "this benchmark compares with oneDNN, but this program was built without it: build with "
                    "`make ONEDNN=yes`");
    weft_dnn_note_speed(dtype);
    for (int i = 0; i < ROWS; i++) {
        const int64_t *s = shapes[i / 3];
        struct weft_product p = {(enum weft_bare_product)(i % 3), s[0], s[1], s[2], 1, 1};
        struct stage stage = {0};
        struct weft_bare bare = {0};
        struct weft_engine_row row;
        enum weft_status status = measure(&p, dtype, 0.5 * seconds / ROWS, &row, &stage, &bare);
        if (status == WEFT_OK) {
            tell(context, &row);
            logs += log(row.ratio);
            *min = fmin(*min, row.ratio);
        }
        weft_bare_close(&bare);
        close_stage(&stage);
        TRY(status);
    }
    *geomean = exp(logs / ROWS);
    return WEFT_OK;
}
