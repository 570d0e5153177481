/* SPDX-License-Identifier: MIT
 *
 * formed.c - mutants of forms: ops whose kernels are sound, but whose form computes something else.
 */
#include "check/mutants/mutants.h"
#include "graph/form.h"

static void times(struct weft_form *f, const struct weft_node *node, enum weft_op_id id, double factor)
{
    weft_sound_op(id)->lower(f, node);
    weft_form_out(f, 0, weft_times_of(f, f->of_value[node->out[0]->id], factor));
}

static void lower_sign(struct weft_form *f, const struct weft_node *node) { times(f, node, WEFT_OP_head_bias, -1); }
static void change_sign(void) { weft_break_op(WEFT_OP_head_bias)->lower = lower_sign; }

/* A mean that starts in every call. */
static void lower_call(struct weft_form *f, const struct weft_node *node)
{
    enum { STATE = 4 };
    struct weft_node bare = *node;
    bare.in[STATE] = NULL;
    weft_sound_op(WEFT_OP_prefix_mean)->lower(f, &bare);
}

static void forget_state(void) { weft_break_op(WEFT_OP_prefix_mean)->lower = lower_call; }

/* Returns the old state, without the new rows. */
static void lower_old(struct weft_form *f, const struct weft_node *node) { weft_form_out(f, 0, weft_form_in(f, 0)); }
static void store_nothing(void) { weft_break_op(WEFT_OP_store)->lower = lower_old; }

static void leave_dropout(void) { weft_break_op(WEFT_OP_dropout)->lower = lower_old; }

static void leave_rope(void) { weft_break_op(WEFT_OP_rope)->lower = NULL; }

#define FORMED(name) .gate = WEFT_GATE_FORMED, .check = name
const struct weft_mutant weft_mutants_formed[] = {
    {"w2's form adds the norms of keys", "geom=w2 pos=rope", FORMED("FORWARD: error of the form"),
     .culprit = "geom=w2 in layer", .install = change_sign},
    {"the form of a running mean starts in every call", "m1=yes m1_mode=prefix", FORMED("DECODE: error of the form"),
     .culprit = "m1=yes in layer", .install = forget_state},
    {"a form that forgets the new keys", "attn=latent latent_width=12", FORMED("DECODE: error of the form"),
     .install = store_nothing},
    {"a form without dropout", "ffn=gelu", FORMED("TRAIN: error of the form"), .install = leave_dropout},
    {"an op without a form", "pos=rope", FORMED("FORWARD: the graph has a form"), .culprit = "pos=rope in layer",
     .install = leave_rope},
    {0},
};
