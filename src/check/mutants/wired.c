/* SPDX-License-Identifier: MIT
 *
 * wired.c - mutants with parts that are declared, counted and reported, but have no effect.
 */
#include "check/mutants/mutants.h"

#include <assert.h>
#include <string.h>

static void unwire(const struct weft_mechanism *wired)
{
    struct weft_mechanism *m = WEFT_BREAK_PART(weft_mechanism, *wired);
    m->hidden = NULL;
    m->reads = NULL;
    m->heads = NULL;
    m->latent = NULL;
    m->keys = NULL;
}

static void unwire_m1(void) { unwire(&weft_recip_m1); }
static void unwire_m2(void) { unwire(&weft_recip_m2); }
static void unwire_m3(void) { unwire(&weft_recip_m3); }

static void one_weight_more(struct weft_params *p, const struct weft_spec *spec, const void *options)
{
    weft_ffn_gelu.part.params(p, spec, options);
    weft_params_matrix(p, "spare", weft_grows(spec, spec->width), weft_grows(spec, spec->width), WEFT_DEVIATION);
}

static void declare_spare(void) { WEFT_BREAK_PART(weft_ffn, weft_ffn_gelu)->part.params = one_weight_more; }

static struct weft_value *rotate_keys_only(struct weft_build *b, const void *options, struct weft_value *x,
                                           int64_t heads, enum weft_side side)
{
    return side == WEFT_KEY ? weft_pos_rope.rotate(b, options, x, heads, side) : x;
}

static void leave_queries(void) { WEFT_BREAK_PART(weft_pos, weft_pos_rope)->rotate = rotate_keys_only; }

static struct weft_value *rotate_by_default(struct weft_build *b, const void *options, struct weft_value *x,
                                            int64_t heads, enum weft_side side)
{
    return weft_rope(b->g, x, b->position, heads, &(struct weft_rope_turns){.base = 10000});
}

static void ignore_base(void) { WEFT_BREAK_PART(weft_pos, weft_pos_rope)->rotate = rotate_by_default; }

/* per_head_scalar as published: it gives zeros. */
static void zero(struct weft_tensor *t)
{
    memset(t->data, 0, (size_t)weft_tensor_count(t) * weft_dtype_bytes(t->dtype));
}

static void give_zeros(const struct weft_call *call) { zero(call->out[0]); }

static void give_zero_gradients(const struct weft_call *call) /* not the other gradient, which accumulates */
{
    if (call->gin[0])
        zero(call->gin[0]);
}

static void zero_buckets(void)
{
    static const enum weft_op_id ids[] = {WEFT_OP_bucket_mean, WEFT_OP_bucket_spread};
    for (int i = 0; i < 2; i++) {
        struct weft_op *op = weft_break_op(ids[i]);
        op->fwd.run = op->fwd.ref = give_zeros;
        op->bwd.run = op->bwd.ref = give_zero_gradients;
    }
}

/* Reports the z-loss, but leaves out its gradient with respect to the logits. */
static void forget_z(const struct weft_call *call, void (*kernel)(const struct weft_call *))
{
    static const double none = 0;
    struct weft_call gradients = *call, reported = *call;
    assert(weft_sound_op(WEFT_OP_cross_entropy)->attr_bytes == sizeof none); /* the attribute is only the coefficient */
    gradients.attr = &none;
    memset(reported.gin, 0, sizeof reported.gin);
    kernel(&gradients);
    kernel(&reported);
}

static void forget_z_run(const struct weft_call *call)
{
    forget_z(call, weft_sound_op(WEFT_OP_cross_entropy)->bwd.run);
}
static void forget_z_ref(const struct weft_call *call)
{
    forget_z(call, weft_sound_op(WEFT_OP_cross_entropy)->bwd.ref);
}
static void detach_z(void)
{
    struct weft_op *op = weft_break_op(WEFT_OP_cross_entropy);
    op->bwd.run = forget_z_run;
    op->bwd.ref = forget_z_ref;
}

const struct weft_mutant weft_mutants_wired[] = {
    {"M1 is not wired in", "m1=yes", .gate = WEFT_GATE_LIVE, .check = "m1=yes has an effect", .install = unwire_m1},
    {"M2 is not wired in", "m2=yes", .gate = WEFT_GATE_LIVE, .check = "m2=yes has an effect", .install = unwire_m2},
    {"M3 is not wired in", "attn=latent latent_width=12 m3=yes", .gate = WEFT_GATE_LIVE,
     .check = "m3=yes has an effect", .install = unwire_m3},
    {"a weight that nothing uses", "ffn=gelu", .gate = WEFT_GATE_LIVE, .check = "every weight has a gradient",
     .install = declare_spare},
    {"per_head_scalar gives zeros", "attn=latent latent_width=12 m3=yes m3_tying=per_head_scalar",
     .gate = WEFT_GATE_LIVE, .check = "every weight has a gradient", .install = zero_buckets},
    {"the z-loss has no gradient", "logits_z=0.01", .gate = WEFT_GATE_LIVE, .check = "logits_z=0.01 has an effect",
     .install = detach_z},
    {"keys are rotated, queries are not", "pos=rope", .gate = WEFT_GATE_LIVE,
     .check = "only distances between positions", .install = leave_queries},
    {"rope_base is ignored", "pos=rope rope_base=500", .gate = WEFT_GATE_LIVE, .check = "not at their defaults",
     .install = ignore_base},
    {0},
};
