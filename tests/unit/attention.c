/* SPDX-License-Identifier: MIT
 *
 * attention.c - attention in bf16 has the same bits at every level of this processor, forward and backward, for random
 * shapes and inputs with ordinary, tiny, huge and zero values. ATTENTION=N compares at least N million results at each
 * level instead of about ten thousand.
 *
 * run-tests: 1 s, asan 2 s
 */
#include "ops/ops.h"
#include "test.h"

#include <math.h>

enum kind { ORDINARY, MIXED, SMALL, LARGE, KINDS };
static const char *const kinds[] = {"ordinary", "mixed", "small", "large"};

static uint64_t drawn;

static int64_t draw(int64_t n) { return (int64_t)weft_below(21, drawn++, (uint64_t)n); }

/* A random sign and mantissa, and an exponent in a range; now and then 0 or -0. */
static float number(enum kind kind, uint64_t key, uint64_t i)
{
    static const int low[] = {-3, -40, -64, 0}, range[] = {4, 46, 12, 7};
    struct weft_rand4 r = weft_rand(key, 0, i);
    float sign = r.u[0] & 1 ? -1 : 1;
    if (r.u[1] % 16 == 0)
        return 0 * sign;
    return sign * ldexpf(1 + (float)(r.u[2] % 128) / 128, low[kind] + (int)(r.u[3] % (unsigned)range[kind]));
}

struct trial {
    int64_t sequences, length, heads, kv_heads, k, v, offsets, window;
    bool key_bias, scale;
    double dropout;
    enum kind kind;
    uint64_t key;
};

static struct trial draw_trial(enum kind kind)
{
    static const int64_t groups[] = {1, 1, 2};
    struct trial t = {.sequences = 1 + draw(3), .length = 1 + draw(200), .kv_heads = 1 + draw(2), .kind = kind};
    t.heads = t.kv_heads * groups[draw(3)];
    t.k = 1 + draw(80);
    t.v = 1 + draw(80);
    t.offsets = draw(3) ? 0 : 1 + draw(100);
    t.window = draw(2) ? 0 : 1 + draw(100);
    t.key_bias = draw(2);
    t.scale = draw(2);
    t.dropout = draw(2) ? 0 : 0.25;
    t.key = (uint64_t)draw(1 << 30);
    return t;
}

/* ---- the graph */

enum { INPUTS = 6, RESULTS = 8 };

struct run {
    struct weft_graph *g;
    struct weft_exec *exec;
    struct weft_value *in[INPUTS], *seeds[2], *result[RESULTS];
    struct weft_rows rows;
    int results;
};

static struct weft_value *input(struct run *r, int i, const char *name, enum weft_dtype dtype, struct weft_shape shape)
{
    r->in[i] = weft_graph_input(r->g, name, dtype, shape);
    r->in[i]->wants_grad = true;
    return r->in[i];
}

static struct weft_rows make_rows(struct weft_graph *g, const struct trial *t)
{
    struct weft_dim rows = weft_fixed(t->sequences * t->length), slots = weft_fixed(t->sequences);
    return (struct weft_rows){
        .seq = weft_graph_input(g, "seq", WEFT_I32, WEFT_SHAPE(rows)),
        .pos = weft_graph_input(g, "pos", WEFT_I32, WEFT_SHAPE(rows)),
        .tiles = weft_graph_input(g, "tiles", WEFT_I32,
                                  WEFT_SHAPE(slots, weft_fixed(weft_div_up(t->length, WEFT_KEY_TILE)))),
        .sample = weft_graph_input(g, "sample", WEFT_I32, WEFT_SHAPE(slots)),
        .step_key = weft_graph_input(g, "step_key", WEFT_I32, WEFT_SHAPE(weft_fixed(4))),
    };
}

static void build(struct run *r, const struct trial *t)
{
    struct weft_graph *g = r->g = weft_graph_new(WEFT_BF16);
    struct weft_dim rows = weft_fixed(t->sequences * t->length), heads = weft_fixed(t->heads);
    r->rows = make_rows(g, t);
    struct weft_attention a = {.rows = r->rows, .heads = t->heads, .kv_heads = t->kv_heads, .dropout = t->dropout};
    a.q = input(r, 0, "q", WEFT_BF16, WEFT_SHAPE(rows, weft_fixed(t->heads * t->k)));
    a.k = input(r, 1, "k", WEFT_BF16, WEFT_SHAPE(rows, weft_fixed(t->kv_heads * t->k)));
    a.v = input(r, 2, "v", WEFT_BF16, WEFT_SHAPE(rows, weft_fixed(t->kv_heads * t->v)));
    a.scale = t->scale ? input(r, 3, "scale", WEFT_F32, WEFT_SHAPE(heads)) : NULL;
    a.key_bias = t->key_bias ? input(r, 4, "key_bias", WEFT_F32, WEFT_SHAPE(rows, heads)) : NULL;
    a.pos_bias = t->offsets ? input(r, 5, "pos_bias", WEFT_F32, WEFT_SHAPE(heads, weft_fixed(t->offsets))) : NULL;
    a.q_store = t->window ? a.q : NULL;
    a.ra_window = t->window;
    a.ra_alpha = 0.5;
    struct weft_value *o = weft_attention(g, &a), *out[2] = {o, weft_sibling(o, 1)};
    for (int i = 0; i < 2; i++) {
        r->seeds[i] = weft_graph_input(g, i ? "dlse" : "do", WEFT_F32, out[i]->shape);
        weft_graph_output(g, out[i]);
        r->result[r->results++] = out[i];
    }
    check(weft_graph_backward_from(g, 2, out, r->seeds));
    for (int i = 0; i < INPUTS; i++)
        if (r->in[i])
            r->result[r->results++] = weft_graph_gradient(r->in[i]);
}

static void fill(struct run *r, const struct trial *t)
{
    for (int i = 0; i < INPUTS + 2; i++) {
        const struct weft_value *v = i < INPUTS ? r->in[i] : r->seeds[i - INPUTS];
        for (int64_t e = 0; v && e < weft_tensor_count(weft_exec_tensor(r->exec, v)); e++)
            weft_tensor_set(weft_exec_tensor(r->exec, v), e, number(t->kind, t->key + (uint64_t)i, (uint64_t)e));
    }
    int64_t tiles = weft_div_up(t->length, WEFT_KEY_TILE);
    for (int64_t i = 0; i < t->sequences * t->length; i++) {
        weft_tensor_set(weft_exec_tensor(r->exec, r->rows.seq), i, (double)(i / t->length));
        weft_tensor_set(weft_exec_tensor(r->exec, r->rows.pos), i, (double)(i % t->length));
    }
    for (int64_t i = 0; i < t->sequences * tiles; i++)
        weft_tensor_set(weft_exec_tensor(r->exec, r->rows.tiles), i,
                        (double)(i / tiles * t->length + i % tiles * WEFT_KEY_TILE));
    for (int64_t i = 0; t->dropout > 0 && i < t->sequences; i++)
        weft_tensor_set(weft_exec_tensor(r->exec, r->rows.sample), i, (double)(7 * i));
    for (int64_t i = 0; t->dropout > 0 && i < 4; i++)
        weft_tensor_set(weft_exec_tensor(r->exec, r->rows.step_key), i, (double)(3 * i));
}

static void run_at(struct run *r, const struct trial *t, int levels_below)
{
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, 0);
    weft_isa_lower(levels_below);
    build(r, t);
    check(weft_exec_create(&r->exec, r->g, WEFT_FAST));
    fill(r, t);
    check(weft_exec_prepare(r->exec));
    check(weft_exec_run(r->exec));
    weft_threads_leave(&scope);
}

static void close_run(struct run *r)
{
    weft_exec_free(r->exec);
    weft_graph_free(r->g);
}

/* ---- comparing */

static int64_t compare(const struct run *a, const struct run *b, const struct trial *t, int below)
{
    int64_t count = 0;
    for (int i = 0; i < a->results; i++) {
        const struct weft_tensor *x = weft_exec_tensor(a->exec, a->result[i]);
        const struct weft_tensor *y = weft_exec_tensor(b->exec, b->result[i]);
        for (int64_t e = 0; e < weft_tensor_count(x); e++, count++) {
            double p = weft_tensor_get(x, e), q = weft_tensor_get(y, e);
            if (memcmp(&p, &q, sizeof p) != 0 && !(isnan(p) && isnan(q)))
                fail_msg(
                    "%s numbers, %d levels below: element %lld of result %d is %a and not %a (k %lld, v %lld, length "
                    "%lld, window %lld)",
                    kinds[t->kind], below, (long long)e, i, q, p, (long long)t->k, (long long)t->v,
                    (long long)t->length, (long long)t->window);
        }
    }
    return count;
}

static int64_t compare_levels(enum kind kind)
{
    struct trial t = draw_trial(kind);
    struct run best = {0};
    int64_t count = 0;
    run_at(&best, &t, 0);
    for (int below = 1; below <= (int)weft_isa(); below++) {
        struct run other = {0};
        run_at(&other, &t, below);
        count = compare(&best, &other, &t, below);
        close_run(&other);
    }
    close_run(&best);
    return count;
}

static void all_levels_agree(void **state)
{
    (void)state;
    const char *millions = getenv("ATTENTION");
    int64_t wanted = millions ? atoll(millions) * 1000000 : 20000, count = 0;
    if (weft_isa() == WEFT_ISA_BASE)
        skip();
    while (count < wanted)
        for (enum kind kind = 0; kind < KINDS; kind++)
            count += compare_levels(kind);
    print_message("# %lld results of attention at each of %d levels below %s\n", (long long)count, (int)weft_isa(),
                  weft_isa_name(weft_isa()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_levels_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
