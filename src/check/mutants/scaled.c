/* SPDX-License-Identifier: MIT
 *
 * scaled.c - mutants that do not scale with the width as scaling=mup requires.
 */
#include "check/mutants/mutants.h"

#include <math.h>
#include <string.h>

/* Declares a part's weights, but sets the learning-rate factor of those with this name to 1. */
static void declare(const struct weft_part *part, struct weft_params *p, const struct weft_spec *spec,
                    const void *options, const char *name)
{
    int before = p->count;
    part->params(p, spec, options);
    for (int i = before; i < p->count; i++)
        if (strcmp(strrchr(p->list[i].name, '.') + 1, name) == 0)
            p->list[i].rate = 1;
}

#define FORGET(name, kind, part_of, weight)                                                                            \
    static void name##_params(struct weft_params *p, const struct weft_spec *spec, const void *options)                \
    {                                                                                                                  \
        declare(&(part_of).part, p, spec, options, weight);                                                            \
    }                                                                                                                  \
    static void name(void) { WEFT_BREAK_PART(kind, part_of)->part.params = name##_params; }

FORGET(forget_fc, weft_ffn, weft_ffn_gelu, "fc")
FORGET(forget_gate, weft_ffn, weft_ffn_swiglu, "w3")
FORGET(forget_queries, weft_attn, weft_attn_full, "wq")
FORGET(forget_values, weft_attn, weft_attn_full, "wv")
FORGET(forget_latent, weft_attn, weft_attn_latent, "wdk")
FORGET(forget_m1, weft_mechanism, weft_recip_m1, "w1")
FORGET(forget_m2, weft_mechanism, weft_recip_m2, "p")
FORGET(forget_m3, weft_mechanism, weft_recip_m3, "w_back")

/* Squares the factors, so that learning rates fall with the square of the width. */
static void twice_params(struct weft_params *p, const struct weft_spec *spec, const void *options)
{
    int before = p->count;
    weft_ffn_gelu.part.params(p, spec, options);
    for (int i = before; i < p->count; i++)
        p->list[i].rate *= p->list[i].rate;
}
static void twice(void) { WEFT_BREAK_PART(weft_ffn, weft_ffn_gelu)->part.params = twice_params; }

static struct weft_value *by_root(struct weft_build *b, const void *options)
{
    return weft_fill(b->g, 1 / sqrt(b->spec->scale_width), WEFT_SHAPE(weft_fixed(b->spec->heads)));
}
static void divide_by_root(void) { WEFT_BREAK_PART(weft_geom, weft_geom_dot)->scale = by_root; }

/* The temperature starts at 1. */
static void cold_params(struct weft_params *p, const struct weft_spec *spec, const void *options)
{
    weft_params_vector(p, "theta", spec->heads, 0);
}
static void begin_cold(void) { WEFT_BREAK_PART(weft_geom, weft_geom_w2)->part.params = cold_params; }

#define MUP "scaling=mup mup_width=16 mup_head=4 "
#define GROWS .gate = WEFT_GATE_SCALED, .check = "no step does more"
#define SCORES .gate = WEFT_GATE_SCALED, .check = "scores are divided"

const struct weft_mutant weft_mutants_scaled[] = {
    {"a feed-forward's matrix has the learning rate of a narrow model", MUP, GROWS, .install = forget_fc},
    {"a gate's matrix has the learning rate of a narrow model", MUP "ffn=swiglu", GROWS, .install = forget_gate},
    {"queries have the learning rate of a narrow model", MUP, GROWS, .install = forget_queries},
    {"values have the learning rate of a narrow model", MUP, GROWS, .install = forget_values},
    {"latents have the learning rate of a narrow model", MUP "attn=latent", GROWS, .install = forget_latent},
    {"M1 has the learning rate of a narrow model", MUP "m1=yes", GROWS, .install = forget_m1},
    {"M2 has the learning rate of a narrow model", MUP "m2=yes", GROWS, .install = forget_m2},
    {"M3 has the learning rate of a narrow model", MUP "m3=yes m3_tying=untied", GROWS, .install = forget_m3},
    {"learning rates fall with the square of the width", MUP, .gate = WEFT_GATE_SCALED, .check = "no step does less",
     .install = twice},
    {"scores are divided by the root", MUP, SCORES, .install = divide_by_root},
    {"a temperature ignores the width", MUP "geom=w2", SCORES, .install = begin_cold},
    {0},
};
