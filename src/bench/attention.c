/* SPDX-License-Identifier: MIT
 *
 * attention.c - benchmarks attention, forward and backward, with or without rows gathered by its routes, against a bare
 * matmul timed in the same run.
 */
#include "bench/bench.h"
#include "dnn/dnn.h"
#include "ops/ops.h"

#include <string.h>

enum { HEADS = 12, WIDTH = 64, RANK = 64 };

struct stage {
    struct weft_graph *graph;
    struct weft_exec *exec;
    struct weft_attention attention;
    struct weft_bare bare;
};

static enum weft_status build(struct stage *s, int64_t batch, int64_t length, const struct weft_route *route)
{
    struct weft_graph *g = s->graph = weft_graph_new(WEFT_BF16);
    TRY(weft_graph_status(g));
    struct weft_dim rows = weft_times(weft_graph_symbol(g, "rows", batch * length), 1);
    struct weft_dim width = weft_fixed(HEADS * WIDTH), tiles = weft_fixed(weft_div_up(length, WEFT_KEY_TILE));
    struct weft_attention *a = &s->attention;
    struct weft_value **made[] = {&a->q, &a->k, &a->v};
    static const char *const names[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++) {
        *made[i] = weft_graph_input(g, names[i], WEFT_BF16, WEFT_SHAPE(rows, width));
        TRY(weft_graph_status(g));
        (*made[i])->wants_grad = true;
    }
    a->rows.seq = weft_graph_input(g, "seq", WEFT_I32, WEFT_SHAPE(rows));
    a->rows.pos = weft_graph_input(g, "pos", WEFT_I32, WEFT_SHAPE(rows));
    a->rows.tiles = weft_graph_input(g, "tiles", WEFT_I32, WEFT_SHAPE(weft_fixed(batch), tiles));
    a->heads = a->kv_heads = HEADS;
    struct weft_value *made_rows[2] = {weft_attention(g, a)}, *seeds[2] = {0};
    if (route) {
        struct weft_value *u = weft_graph_input(g, "u", WEFT_BF16, WEFT_SHAPE(rows, weft_fixed(RANK)));
        TRY(weft_graph_status(g));
        u->wants_grad = true;
        struct weft_route r = *route;
        r.attention = a;
        r.lse = weft_sibling(made_rows[0], 1);
        r.u = u;
        made_rows[1] = weft_route(g, &r);
    }
    TRY(weft_graph_status(g));
    int count = route ? 2 : 1;
    for (int i = 0; i < count; i++) {
        seeds[i] = weft_graph_input(g, i ? "dy" : "do", WEFT_BF16, made_rows[i]->shape);
        weft_graph_output(g, made_rows[i]);
    }
    TRY(weft_graph_backward_from(g, count, made_rows, seeds));
    return weft_exec_create(&s->exec, g, WEFT_FAST);
}

static void fill(struct stage *s, int64_t batch, int64_t length)
{
    struct weft_value *const *values;
    int n = weft_graph_values(s->graph, &values);
    for (int v = 0; v < n; v++) {
        struct weft_tensor *t = weft_exec_tensor(s->exec, values[v]);
        int64_t count = values[v]->kind == WEFT_INPUT && t->dtype == WEFT_BF16 ? weft_tensor_count(t) : 0;
        for (int64_t i = 0; i < count; i++)
            weft_tensor_set(t, i, (double)((uint32_t)(i + v) * 2654435761u >> 8) * 0x1p-23 - 1);
    }
    int32_t *seq = weft_exec_tensor(s->exec, s->attention.rows.seq)->data;
    int32_t *pos = weft_exec_tensor(s->exec, s->attention.rows.pos)->data;
    struct weft_tensor *tiles = weft_exec_tensor(s->exec, s->attention.rows.tiles);
    for (int64_t r = 0; r < batch * length; r++) {
        seq[r] = (int32_t)(r / length);
        pos[r] = (int32_t)(r % length);
    }
    for (int64_t i = 0; i < weft_tensor_count(tiles); i++)
        ((int32_t *)tiles->data)[i] = (int32_t)(i / tiles->dim[1] * length + i % tiles->dim[1] * WEFT_KEY_TILE);
}

static enum weft_status run_exec(void *exec) { return weft_exec_run(exec); }

static enum weft_status measure(struct stage *s, int64_t batch, int64_t length, const struct weft_route *route,
                                double seconds, struct weft_attention_bench *bench)
{
    static const struct weft_product product = {WEFT_BARE_Y, 2048, 768, 768, 1, 1};
    int64_t before = weft_resident_bytes();
    TRY(build(s, batch, length, route));
    fill(s, batch, length);
    TRY(weft_exec_run(s->exec));
    bench->peak_bytes = weft_resident_bytes() - before;
    bench->planned_bytes = (int64_t)weft_exec_bytes(s->exec);
    TRY(weft_bare_open(&s->bare, &product, WEFT_BF16));
    struct weft_contender list[1 + WEFT_MAX_BARE] = {{.run = run_exec, .context = s->exec}};
    struct weft_contest contest;
    TRY(weft_contest(list, 1 + weft_bare_enter(&s->bare, list + 1), seconds, &contest));
    const struct weft_contender *best = weft_bare_fastest(&s->bare, list + 1);
    double flops = weft_exec_cost(s->exec).flops, product_flops = 2.0 * 2048 * 768 * 768;
    bench->rounds = contest.rounds;
    bench->gflops = 1e-9 * flops / list[0].seconds;
    bench->product_gflops = 1e-9 * product_flops / best->seconds;
    bench->share_of_product = flops / product_flops * best->quotient;
    return WEFT_OK;
}

enum weft_status weft_bench_attention(int64_t batch, int64_t length, const struct weft_route *route, double seconds,
                                      struct weft_attention_bench *bench)
{
    struct stage s = {0};
    memset(bench, 0, sizeof *bench);
    weft_dnn_note_speed(WEFT_BF16);
    enum weft_status status = measure(&s, batch, length, route, seconds, bench);
    weft_bare_close(&s.bare);
    weft_exec_free(s.exec);
    weft_graph_free(s.graph);
    return status;
}
