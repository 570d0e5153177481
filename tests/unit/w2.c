/* SPDX-License-Identifier: MIT
 *
 * w2.c - the Wasserstein-2 geometry is a metric: distances recovered from the attention kernel's own logits obey the
 * axioms on 10^5 random triples of Gaussians.
 *
 * Every row is a separate sequence that sees one key, so its log-sum-exp is its logit:
 *     lse = (2 <q, k> - |k|^2) / (tau + eps)     hence     W2^2 = |q|^2 - (tau + eps) lse
 *
 * run-tests: 2 s
 */
#include "nn/build.h"
#include "ops/ops.h"
#include "test.h"

#include <math.h>
#include <stdint.h>

enum { TRIPLES = 100000, BATCH = 1000, HEADS = 2, PAIRS = 5 };
enum { AB, BA, AA, BC, AC };
static const int first_of[PAIRS] = {0, 1, 0, 1, 0}, second_of[PAIRS] = {1, 0, 0, 2, 2};

struct bench {
    struct weft_spec spec;
    struct weft_settings settings;
    struct weft_net net;
    struct weft_value *mean[2], *raw[2], *lse, *norms;
    struct weft_exec *exec;
};

static struct weft_qk qk_of(struct weft_build *b, struct bench *t, enum weft_side side, struct weft_dim rows)
{
    int64_t mean = t->spec.mean, spread = t->spec.spread;
    const char *names[2][2] = {{"q_mean", "q_raw"}, {"k_mean", "k_raw"}};
    t->mean[side] = weft_graph_input(b->g, names[side][0], WEFT_F32, WEFT_SHAPE(rows, weft_fixed(HEADS * mean)));
    t->raw[side] = weft_graph_input(b->g, names[side][1], WEFT_F32, WEFT_SHAPE(rows, weft_fixed(HEADS * spread)));
    struct weft_qk_raw r = {.side = side, .heads = HEADS, .mean = t->mean[side], .raw = t->raw[side]};
    return weft_build_qk(b, &r, true);
}

static void open_bench(struct bench *t)
{
    static const char *const wanted[] = {"geom=w2", "pos=none", "heads=2", "width=32", "dtype=f32", "learn_tau=no"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_int_equal(weft_settings_add(&t->settings, wanted[i]), WEFT_OK);
    assert_int_equal(weft_spec_init(&t->spec, "gpt2", &t->settings), WEFT_OK);
    struct weft_graph *g = t->net.g = weft_graph_new(WEFT_F32);
    struct weft_dim M = weft_fixed(BATCH * PAIRS), N = weft_fixed(BATCH * 3);
    struct weft_build b = {.g = g, .spec = &t->spec, .net = &t->net, .use = WEFT_FORWARD};
    b.rows.seq = weft_graph_input(g, "seq", WEFT_I32, WEFT_SHAPE(M));
    b.rows.pos = weft_graph_input(g, "pos", WEFT_I32, WEFT_SHAPE(M));
    b.rows.tiles = weft_graph_input(g, "tiles", WEFT_I32, WEFT_SHAPE(M, weft_fixed(1)));
    struct weft_qk q = qk_of(&b, t, WEFT_QUERY, M);
    struct weft_attend a = {.q = q, .k = qk_of(&b, t, WEFT_KEY, N), .kv_heads = HEADS};
    a.v = a.k.vectors;
    assert_non_null(weft_build_attend(&b, &a));
    t->lse = b.lse;
    t->norms = q.norms;
    weft_graph_output(g, t->lse);
    weft_graph_output(g, t->norms);
    assert_int_equal(weft_exec_create(&t->exec, g, WEFT_FAST), WEFT_OK);
    int32_t *seq = weft_exec_tensor(t->exec, b.rows.seq)->data, *pos = weft_exec_tensor(t->exec, b.rows.pos)->data;
    int32_t *tiles = weft_exec_tensor(t->exec, b.rows.tiles)->data;
    for (int i = 0; i < BATCH; i++)
        for (int p = 0; p < PAIRS; p++) {
            seq[i * PAIRS + p] = i * PAIRS + p;
            pos[i * PAIRS + p] = 0;
            tiles[i * PAIRS + p] = i * 3 + second_of[p];
        }
    weft_exec_prepare(t->exec);
}

/* Keys are the Gaussians A, B, C of each triple, queries the first of each pair. Their sizes range over two decades. */
static void fill(struct bench *t, int batch)
{
    int64_t widths[2] = {HEADS * t->spec.mean, HEADS * t->spec.spread};
    struct weft_value **of[2] = {t->mean, t->raw};
    for (int what = 0; what < 2; what++) {
        float *q = weft_exec_tensor(t->exec, of[what][WEFT_QUERY])->data;
        float *k = weft_exec_tensor(t->exec, of[what][WEFT_KEY])->data;
        int64_t width = widths[what];
        for (int64_t i = 0; i < BATCH * 3; i++) {
            uint64_t key = weft_key(weft_key(what, (uint64_t)batch), (uint64_t)i);
            double size = pow(10, 2 * weft_uniform(key, 1 << 20) - 1);
            for (int64_t d = 0; d < width; d++)
                k[i * width + d] = (float)(size * weft_normal(key, (uint64_t)d));
        }
        for (int64_t i = 0; i < BATCH * PAIRS; i++)
            memcpy(q + i * width, k + (i / PAIRS * 3 + first_of[i % PAIRS]) * width, (size_t)width * sizeof *q);
    }
}

/* All is f32: a squared distance is exact to a few units in the last place of the squared norms it is the rest of. */
static void metric_axioms(void **state)
{
    (void)state;
    static struct bench t;
    open_bench(&t);
    double tau = exp(log(2 * sqrt(t.spec.scale_width))) + 1e-6;
    int checked = 0;
    for (int batch = 0; batch < TRIPLES / BATCH; batch++) {
        fill(&t, batch);
        weft_exec_run(t.exec);
        const float *lse = weft_exec_tensor(t.exec, t.lse)->data, *norms = weft_exec_tensor(t.exec, t.norms)->data;
        for (int i = 0; i < BATCH; i++)
            for (int h = 0; h < HEADS; h++, checked++) {
                double square[PAIRS], root[PAIRS], size = 0;
                for (int p = 0; p < PAIRS; p++) {
                    int at = (i * PAIRS + p) * HEADS + h;
                    square[p] = norms[at] - tau * lse[at];
                    size = fmax(size, norms[at] + fabs(tau * lse[at]));
                }
                double slack = 4e-6 * size;
                for (int p = 0; p < PAIRS; p++) {
                    assert_true(square[p] >= -slack);
                    root[p] = sqrt(fmax(square[p], 0));
                }
                assert_true(square[AA] <= slack);
                assert_true(fabs(square[AB] - square[BA]) <= slack);
                assert_true(root[AC] <= root[AB] + root[BC] + sqrt(slack));
            }
    }
    assert_int_equal(checked, TRIPLES * HEADS);
    weft_exec_free(t.exec);
    weft_net_release(&t.net);
    weft_spec_release(&t.spec);
    weft_settings_release(&t.settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(metric_axioms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
