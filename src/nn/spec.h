/* SPDX-License-Identifier: MIT
 *
 * spec.h - the resolved config of a model: sizes, and the parts that were chosen with their options.
 *
 * Invariants: a spec that was resolved can be built. What is impossible was refused there, with the reason.
 */
#ifndef WEFT_SPEC_H
#define WEFT_SPEC_H

#include "base/opt.h"

/* Kinds of parts. A model has exactly one part of each kind before WEFT_RECIP, resolved in this order, and any number
 * of mechanisms (WEFT_RECIP), which work on the feed-forward's hidden activation in the order of the registry. */
enum weft_part_kind { WEFT_GEOM, WEFT_ATTN, WEFT_POS, WEFT_FFN, WEFT_NORM, WEFT_RECIP, WEFT_KINDS };
enum { WEFT_SINGLE_KINDS = WEFT_RECIP, WEFT_MAX_PARTS = 64 /* of a kind */ };

/* A part of a model and the struct that its option table describes. */
struct weft_chosen {
    const struct weft_part *part;
    void *options;
};

struct weft_spec {
    const char *preset;
    int64_t layers, width, heads, ffn_width, context, vocab, batch, seed;
    int64_t head_width; /* as asked for; 0: C/H */
    double norm_eps;    /* likewise; 0: the norm's own */
    bool vocab_open;    /* vocab was not set: a task that reads data sets it to theirs */
    int64_t init_key;   /* not 0: another draw of the initial weights, and of nothing else */
    double dropout;
    bool bias, tie;
    bool recompute;   /* the backward pass recomputes each layer's values instead of keeping them */
    bool output_gate; /* attention's output is gated by its input */
    double ra_alpha;  /* of reciprocal attention; 0: none */
    int64_t ra_window;
    double logits_z;             /* factor of the squared log-sum-exp of the logits in the loss */
    bool aux;                    /* auxiliary losses are trained */
    bool learn_alpha, detach;    /* of the mechanisms: learned mixing weights, no gradient into what they read */
    bool post;                   /* norms stand behind the sums instead of before the parts */
    bool mup;                    /* sizes of weights, learning rates and scores follow the width, see docs/scaling.md */
    int64_t mup_width, mup_head; /* the width, and that of a head, at which nothing changes by that */
    enum weft_dtype compute;     /* f32 or bf16 */
    struct weft_chosen part[WEFT_SINGLE_KINDS];
    struct weft_chosen *mechanism; /* those in this model, in the order in which they work */
    int mechanism_count;
    struct weft_spec_choice {
        int part[WEFT_SINGLE_KINDS], dtype, norm_place, scaling;
        bool mechanism[WEFT_MAX_PARTS]; /* by its number in the registry */
    } choice;                           /* where the option table writes choices; the fields above say what they mean */

    /* What the parts derive from the options when they are resolved. Where a part does not say, these are the values of
     * dot attention over all heads. */
    double wider, head_wider; /* C / mup_width and D / mup_head; 1 without mup */
    int64_t head;             /* D, the width of a head's values */
    int64_t mean, spread;     /* geom: of each head of queries and keys, what is linear in x, and what is activated */
    int64_t qk_width;         /* geom: of a head's queries and keys */
    int64_t kv_heads;         /* attn */
    int64_t latent;           /* attn: L, width of the key latent; 0: keys are not made of one */
    int64_t rotated;          /* attn: width of what positions rotate in a head */
    double scale_width;       /* attn: scores start with the factor 1/sqrt of this, see weft_spec_divisor */
    struct weft_arena arena;
};

/* Reads the model (a preset, a config file, or a folder with one) and the settings, and refuses what is impossible. The
 * settings are not finished: training has its own. */
enum weft_status weft_spec_init(struct weft_spec *spec, const char *model, struct weft_settings *settings);
void weft_spec_release(struct weft_spec *spec);
/* The model's own options, then those of every part; NULL past the last. For help and generated pages. */
const struct weft_owner *weft_nn_owner_at(int i);

/* ---- specs made of a spec (spec_made.c), released like any */

/* A model of the same parts at a tiny size, for checks that take seconds. */
enum weft_status weft_spec_shrink(struct weft_spec *twin, const struct weft_spec *spec);
/* The same model with more settings, "name=value", separated by spaces. */
enum weft_status weft_spec_vary(struct weft_spec *other, const struct weft_spec *spec, const char *settings);
/* Every option of the model and of its parts, with its value as one would write it. */
void weft_spec_each(const struct weft_spec *spec, void *context,
                    void (*visit)(void *context, const struct weft_opt *opt, const char *value));
/* Whether a mechanism of this name is in the model. */
bool weft_spec_uses(const struct weft_spec *spec, const char *mechanism);
/* The eps of a norm whose own is this. */
double weft_spec_norm_eps(const struct weft_spec *spec, double own);
/* What scores begin divided by: the root of scale_width, and as it grows that width itself under mup. */
double weft_spec_divisor(const struct weft_spec *spec);
/* Resolves what the options leave open, part by part (spec.c). */
enum weft_status weft_spec_resolve(struct weft_spec *spec);

/* ---- presets (presets.c) and where a model comes from (config.c) */

extern const struct weft_preset weft_presets[]; /* end with a NULL name */
/* The i-th preset's name; NULL past the last. */
const char *weft_preset_at(int i, const char **summary);
/* The preset of this name; NULL: there is none, and *near, which may be NULL too, is the nearest name. */
const struct weft_preset *weft_preset_find(const char *name, const char **near);
/* MODEL as commands take it: a preset's name, a config file or a folder with config.json, whose settings are loaded. */
enum weft_status weft_model_find(const char *model, struct weft_settings *settings, const struct weft_preset **preset);

#endif
