/* SPDX-License-Identifier: MIT
 *
 * dropout_scores.c - checks dropout of attention's probabilities at all positions, with inputs that make the mask
 * visible: all scores are 0, so each of the t+1 probabilities of row t is 1/(t+1); and the value at position j is 1 in
 * element j and 0 elsewhere. So element j of row t's output is 1/((t+1)(1-p)) if j is kept, and 0 otherwise.
 */
#include "check/probe/dropout.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

enum { T = 160, B = 2, ROWS = B * T, HEADS = 2, WIDTH = 8, TILES = (T + WEFT_KEY_TILE - 1) / WEFT_KEY_TILE };
enum { CALLS = 2, STEPS = 8, BITS = B * HEADS * T * T }; /* calls: one for each of two layers */

struct scores {
    struct weft_graph *g;
    struct weft_exec *exec;
    struct weft_rows at;
    struct weft_value *v, *out[CALLS];
};

static struct weft_value *numbers(struct weft_graph *g, const char *name, struct weft_shape shape)
{
    return weft_graph_input(g, name, WEFT_I32, shape);
}

static enum weft_status build(struct scores *s, enum weft_dtype compute, double p)
{
    struct weft_dim rows = weft_fixed(ROWS), sequences = weft_fixed(B);
    s->g = weft_graph_new(compute);
    s->at = (struct weft_rows){.seq = numbers(s->g, "seq", WEFT_SHAPE(rows)),
                               .pos = numbers(s->g, "pos", WEFT_SHAPE(rows)),
                               .tiles = numbers(s->g, "tiles", WEFT_SHAPE(sequences, weft_fixed(TILES))),
                               .sample = numbers(s->g, "sample", WEFT_SHAPE(sequences)),
                               .step_key = numbers(s->g, "step_key", WEFT_SHAPE(weft_fixed(4)))};
    s->v = weft_graph_input(s->g, "v", compute, WEFT_SHAPE(rows, weft_fixed(HEADS * T)));
    struct weft_attention a = {.q = weft_graph_input(s->g, "q", compute, WEFT_SHAPE(rows, weft_fixed(HEADS * WIDTH))),
                               .k = weft_graph_input(s->g, "k", compute, WEFT_SHAPE(rows, weft_fixed(HEADS * WIDTH))),
                               .v = s->v,
                               .rows = s->at,
                               .heads = HEADS,
                               .kv_heads = HEADS,
                               .dropout = p,
                               .site = 1};
    for (a.layer = 0; a.layer < CALLS; a.layer++) {
        s->out[a.layer] = weft_attention(s->g, &a);
        TRY(weft_graph_status(s->g));
        weft_graph_output(s->g, s->out[a.layer]);
    }
    TRY(weft_exec_create(&s->exec, s->g, WEFT_FAST));
    return WEFT_OK;
}

static int32_t *ints(const struct scores *s, const struct weft_value *v) { return weft_exec_tensor(s->exec, v)->data; }

static void fill(const struct scores *s)
{
    for (int r = 0; r < ROWS; r++) {
        ints(s, s->at.seq)[r] = r / T;
        ints(s, s->at.pos)[r] = r % T;
        for (int h = 0; h < HEADS; h++)
            weft_tensor_set(weft_exec_tensor(s->exec, s->v), (r * HEADS + h) * T + r % T, 1);
    }
    for (int b = 0; b < B; b++) {
        for (int j = 0; j < TILES; j++)
            ints(s, s->at.tiles)[b * TILES + j] = b * T + j * WEFT_KEY_TILE;
    }
}

/* ---- masks, [B, HEADS, T, T] */

struct found {
    int64_t dropped, all, wrong;
    unsigned char bits[STEPS][CALLS][BITS];
};

static void read_mask(const struct scores *s, int call, double p, double rounding, struct found *f,
                      unsigned char bits[BITS])
{
    const struct weft_tensor *o = weft_exec_tensor(s->exec, s->out[call]);
    for (int i = 0; i < BITS; i++) {
        int b = i / (HEADS * T * T), h = i / (T * T) % HEADS, t = i / T % T, j = i % T;
        double y = weft_tensor_get(o, ((int64_t)(b * T + t) * HEADS + h) * T + j) * (t + 1) * (1 - p);
        bits[i] = j <= t && y == 0;
        f->all += j <= t;
        f->dropped += bits[i];
        f->wrong += j > t ? y != 0 : y != 0 && fabs(y - 1) > rounding;
    }
}

/* Returns, in sigmas, how far the number of pairs of dropped elements, `lag` apart and below the diagonal, deviates
 * from chance. */
static double dependence(const unsigned char *a, const unsigned char *b, int lag, double p)
{
    int64_t both = 0, all = 0;
    for (int i = 0; i + lag < BITS; i++) {
        int t = i / T % T, j = i % T, u = (i + lag) / T % T, k = (i + lag) % T;
        both += j <= t && k <= u ? a[i] & b[i + lag] : 0;
        all += j <= t && k <= u;
    }
    return weft_count_sigmas(both, all, p * p);
}

static void report(const struct weft_trial *t, const struct found *f, double p)
{
    const unsigned char *own = f->bits[0][0];
    double worst = 0, rate = weft_count_sigmas(f->dropped, f->all, p);
    const char *where = "two steps or far samples";
    const struct {
        const char *what;
        const unsigned char *other;
        int lag;
    } pairs[] = {{"two layers", f->bits[0][1], 0}, {"two samples", own, HEADS * T * T}, {"two heads", own, T * T},
                 {"neighbouring queries", own, T}, {"neighbouring keys", own, 1},       {"keys 16 apart", own, 16},
                 {"keys 64 apart", own, 64}};
    for (int step = 1; step < STEPS; step++)
        worst = fmax(worst, dependence(own, f->bits[step][0], 0, p));
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        double sigmas = dependence(own, pairs[i].other, pairs[i].lag, p);
        if (!(sigmas <= worst)) {
            worst = sigmas;
            where = pairs[i].what;
        }
    }
    weft_trial_report(t, rate <= 6, rate, 6, "dropout of attention's probabilities: share of zeros, in sigmas",
                      "%lld of %lld, p = %g", (long long)f->dropped, (long long)f->all, p);
    weft_trial_report(t, f->wrong == 0, (double)f->wrong, 0,
                      "dropout of attention's probabilities: what is kept and not x / (1-p)",
                      "the factor of kept values is not 1 / (1-p)");
    weft_trial_report(t, worst <= 6, worst, 6,
                      "dropout of attention's probabilities: masks drop the same by chance only, in sigmas",
                      "the masks of %s", where);
}

enum weft_status weft_check_dropout_scores(const struct weft_trial *t, enum weft_dtype compute, double dropout)
{
    static const int64_t steps[STEPS] = {0, 1, 64, 1000, 4096, (int64_t)1 << 32},
                         samples[STEPS] = {[STEPS - 2] = 4096, [STEPS - 1] = 10000};
    static struct found f;
    struct scores s = {0};
    enum weft_status status = build(&s, compute, dropout);
    f = (struct found){0};
    if (status == WEFT_OK)
        fill(&s);
    for (int step = 0; status == WEFT_OK && step < STEPS; step++) {
        for (int b = 0; b < B; b++)
            ints(&s, s.at.sample)[b] = (int32_t)(5 + b + samples[step]);
        ints(&s, s.at.step_key)[2] = (int32_t)steps[step];
        ints(&s, s.at.step_key)[3] = (int32_t)(steps[step] >> 32);
        status = weft_exec_prepare(s.exec);
        if (status == WEFT_OK)
            status = weft_exec_run(s.exec);
        for (int call = 0; status == WEFT_OK && call < CALLS; call++)
            read_mask(&s, call, dropout, compute == WEFT_F32 ? 1e-5 : 0.02, &f, f.bits[step][call]);
    }
    if (status == WEFT_OK)
        report(t, &f, dropout);
    weft_exec_free(s.exec);
    weft_graph_free(s.g);
    return status;
}
