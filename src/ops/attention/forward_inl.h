/* SPDX-License-Identifier: MIT
 *
 * forward_inl.h - the forward pass of attention.c (see its opening comment for the formulas).
 *
 * A unit of work is a span of rows and a key head. Its queries stay in local memory while the loop visits their visible
 * keys, tile by tile.
 */
#ifndef WEFT_ATTENTION_FWD_H
#define WEFT_ATTENTION_FWD_H

#include "ops/attention/tile_inl.h"

struct forward {
    float *q, *sum;      /* queries, and running sums of weighted values, [group][ROW_TILE] rows each */
    float *top, *weight; /* [group][ROW_TILE]: running maximum of logits and sum of exponentials */
    float *k, *v, *s;    /* the key tile, transposed; the value tile; the tile of scores */
    struct reciprocal ra;
};

static struct forward lay_forward(const struct sizes *n, struct space *s)
{
    return (struct forward){
        .q = take_floats(s, n->group * ROW_TILE, n->k_padded),
        .sum = take_floats(s, n->group * ROW_TILE, n->v_padded),
        .top = take_floats(s, n->group, ROW_TILE),
        .weight = take_floats(s, n->group, ROW_TILE),
        .k = take_floats(s, n->k_padded, WEFT_KEY_TILE),
        .v = take_floats(s, WEFT_KEY_TILE, n->v_padded),
        .s = take_floats(s, ROW_TILE, WEFT_KEY_TILE),
        .ra = lay_reciprocal(n, n->own_heads / n->kv_heads, s),
    };
}

static enum weft_status vector_plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct sizes n = sizes_of(max);
    struct space scratch = {0}, local = {0};
    (void)take(&scratch, n.rows, 1, sizeof(struct span));
    (void)lay_forward(&n, &local);
    return book(booking, &scratch, &local);
}

/* Rescales the sums of row r so far to the new maximum, then replaces the row's products by weights exp(logit - top).
 * `at` is the row's index in the unit. */
static void online_softmax(const struct job *job, const struct forward *f, const struct tile *t, int64_t r, int64_t at)
{
    float *s = f->s + r * WEFT_KEY_TILE, *sum = f->sum + at * job->n.v_padded;
    vf x[KEY_VECS], keep[KEY_VECS], high = vset(-INFINITY), total = vset(0);
    for (int c = 0; c < KEY_VECS; c++) {
        x[c] = logits(t, r, c * VLANES, vload_f32(s + c * VLANES, VLANES));
        high = vmax(x[c], high);
    }
    float top = vhighest(high);
    if (top > f->top[at]) {
        float factor = vexp1(f->top[at] - top);
        f->top[at] = top;
        f->weight[at] *= factor;
        for (int64_t d = 0; d < job->n.v_padded; d += VLANES)
            vstore_f32(sum + d, VLANES, vload_f32(sum + d, VLANES) * vset(factor));
    }
    vf base = vset(f->top[at] == -INFINITY ? 0 : f->top[at]); /* -inf: all keys have that bias */
    keep_factors(job, t, r, keep);
    for (int c = 0; c < KEY_VECS; c++) {
        vf p = vexp(x[c] - base);
        total = total + p;
        vstore_f32(s + c * VLANES, VLANES, p * keep[c]);
    }
    f->weight[at] += vsum(total);
}

/* Adds weights times values to the sums. On the diagonal tile, each row stops at its own key. */
static void add_values(const struct tile *t, const float *s, const float *v, int64_t padded, float *sum)
{
    if (t->i >= t->j + WEFT_KEY_TILE - 1) {
        product(t->rows, padded, WEFT_KEY_TILE, (struct left){s, WEFT_KEY_TILE, 1}, v, padded, sum, padded);
        return;
    }
    for (int64_t r = 0; r < t->rows; r++, s += WEFT_KEY_TILE, sum += padded)
        product(1, padded, t->i + r - t->j + 1, (struct left){s, WEFT_KEY_TILE, 1}, v, padded, sum, padded);
}

static void start_rows(const struct job *job, const struct forward *f, struct span span, int64_t first_head)
{
    const struct sizes *n = &job->n;
    for (int64_t g = 0; g < n->group; g++) {
        int64_t at = g * ROW_TILE;
        widen(f->q + at * n->k_padded, n->k_padded, head_of(job->call->in[Q], span.row, first_head + g, n->heads),
              span.rows);
        memset(f->sum + at * n->v_padded, 0, (size_t)(span.rows * n->v_padded) * sizeof(float));
        for (int64_t r = 0; r < span.rows; r++) {
            f->top[at + r] = -INFINITY;
            f->weight[at + r] = 0;
        }
    }
}

static void finish_rows(const struct job *job, const struct forward *f, struct span span, int64_t first_head)
{
    const struct sizes *n = &job->n;
    float *lse = job->call->out[LSE]->data;
    for (int64_t g = 0; g < n->group; g++) {
        float *sum = f->sum + g * ROW_TILE * n->v_padded;
        for (int64_t r = 0; r < span.rows; r++) {
            int64_t at = g * ROW_TILE + r;
            lse[(span.row + r) * n->heads + first_head + g] = f->top[at] + vlog1(f->weight[at]);
            for (int64_t d = r * n->v_padded; d < (r + 1) * n->v_padded; d += VLANES)
                vstore_f32(sum + d, VLANES, vload_f32(sum + d, VLANES) * vset(1 / f->weight[at]));
        }
        narrow(head_of(job->call->out[O], span.row, first_head + g, n->heads), sum, n->v_padded, span.rows);
    }
}

static void run_unit(void *context, int64_t unit, int thread)
{
    const struct job *job = context;
    const struct weft_call *call = job->call;
    const struct sizes *n = &job->n;
    struct space local = {.base = call->local + (size_t)thread * call->local_stride};
    struct forward f = lay_forward(n, &local);
    struct span span = job->spans[unit / n->kv_heads];
    int64_t kv = unit % n->kv_heads;
    struct tile t = {0};
    set_rows(job, &t, span);
    t.mask_key = mask_key(call, t.seq);
    start_rows(job, &f, span, kv * n->group);
    start_reciprocal(job, &t, &f.ra, kv * n->group, n->group);
    for (int64_t j = 0; j < t.i + t.rows; j += WEFT_KEY_TILE) {
        set_keys(job, &t, j);
        widen_transposed(f.k, head_of(call->in[K], t.key_row, kv, n->kv_heads), t.keys);
        widen(f.v, n->v_padded, head_of(call->in[V], t.key_row, kv, n->kv_heads), t.keys);
        for (int64_t g = 0; g < n->group; g++) {
            set_head(job, &t, kv * n->group + g);
            set_pos_bias(job, &t);
            load_reciprocal(job, &t, &f.ra, g);
            scores(&t, f.q + g * ROW_TILE * n->k_padded, n->k, n->k_padded, f.k, f.s);
            count_tile(n, t.i, t.rows, j, n->k + n->v, n->own);
            for (int64_t r = 0; r < t.rows; r++)
                online_softmax(job, &f, &t, r, g * ROW_TILE + r);
            add_values(&t, f.s, f.v, n->v_padded, f.sum + g * ROW_TILE * n->v_padded);
        }
    }
    finish_rows(job, &f, span, kv * n->group);
}

static void vector_run(const struct weft_call *call)
{
    struct job job = {.call = call, .attr = call->attr, .n = sizes_of(call), .spans = (struct span *)call->scratch};
    job.span_count = cut_spans(call->in[SEQ], call->in[POS], ROW_TILE, job.spans);
    weft_parallel(job.span_count * job.n.kv_heads, run_unit, &job);
}

#endif
