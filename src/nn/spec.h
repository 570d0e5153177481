/* SPDX-License-Identifier: MIT
 *
 * spec.h - the resolved config of a model: its sizes, and the chosen parts with their options.
 *
 * Invariant: a resolved spec can be built. Resolving rejects impossible combinations of options and gives the reason.
 */
#ifndef WEFT_SPEC_H
#define WEFT_SPEC_H

#include "base/opt.h"

/* Kinds of parts. A model has exactly one part of each kind before WEFT_RECIP, resolved in this order, and any number
 * of mechanisms (WEFT_RECIP), which act on the feed-forward's hidden activation in registry order. */
enum weft_part_kind { WEFT_GEOM, WEFT_ATTN, WEFT_POS, WEFT_FFN, WEFT_NORM, WEFT_RECIP, WEFT_KINDS };
enum { WEFT_SINGLE_KINDS = WEFT_RECIP, WEFT_MAX_PARTS = 64 /* maximum number of parts per kind */ };

/* A part chosen for a model, and the struct that its option table describes. */
struct weft_chosen {
    const struct weft_part *part;
    void *options;
};

struct weft_spec {
    const char *preset;
    int64_t layers, width, heads, ffn_width, context, vocab, batch, seed;
    int64_t head_width; /* value of the option; 0: C/H */
    double norm_eps;    /* value of the option; 0: the norm's default */
    bool vocab_open;    /* vocab was not set: a task that reads data sets it from the data */
    int64_t init_key;   /* changes the initial weights and nothing else; 0: the default weights */
    double dropout;
    bool bias, tie;
    bool recompute;   /* the backward pass recomputes each layer's values instead of keeping them */
    bool output_gate; /* the input of attention gates its output */
    double ra_alpha;  /* coefficient of reciprocal attention; 0: off */
    int64_t ra_window;
    double logits_z;          /* coefficient of the squared log-sum-exp of the logits in the loss */
    bool aux;                 /* auxiliary losses are part of the training loss */
    bool learn_alpha, detach; /* mechanisms have learned mixing weights; they pass no gradient into their inputs */
    bool post;                /* norms follow the residual sums instead of preceding the parts */
    bool mup;                 /* initial weights, learning rates and scores scale with the width, see docs/scaling.md */
    int64_t mup_width, mup_head; /* width and head width at which mup changes nothing */
    enum weft_dtype compute;     /* f32 or bf16 */
    struct weft_chosen part[WEFT_SINGLE_KINDS];
    struct weft_chosen *mechanism; /* the model's mechanisms, in the order in which they act */
    int mechanism_count;
    struct weft_spec_choice {
        int part[WEFT_SINGLE_KINDS], dtype, norm_place, scaling;
        bool mechanism[WEFT_MAX_PARTS]; /* indexed as in the registry */
    } choice;                           /* filled in by the option table; resolving translates it to the fields above */

    /* The following fields are derived by the parts when they are resolved. The defaults, for parts that set nothing,
     * describe dot attention over all heads. */
    double wider, head_wider; /* C / mup_width and D / mup_head; 1 without mup */
    int64_t head;             /* D, the width of a head's values */
    int64_t mean, spread;     /* geom: widths of the two parts of a head's query or key: linear in x, and activated */
    int64_t qk_width;         /* geom: width of a head's queries and keys */
    int64_t kv_heads;         /* attn: number of key/value heads */
    int64_t latent;           /* attn: L, width of the key latent; 0: keys have no latent */
    int64_t rotated;          /* attn: number of columns per head that positions rotate */
    double scale_width;       /* attn: scores are initially divided by the square root of this, see weft_spec_divisor */
    struct weft_arena arena;
};

/* Reads the model (a preset, a config file, or a folder with one) and the settings; an impossible combination is an
 * error. Does not call weft_settings_finish, because training has yet to read its own settings. */
enum weft_status weft_spec_init(struct weft_spec *spec, const char *model, struct weft_settings *settings);
void weft_spec_release(struct weft_spec *spec);
/* Returns the i-th owner of options: the model itself, then every part; NULL past the last. For help and generated
 * pages. */
const struct weft_owner *weft_nn_owner_at(int i);

/* ---- specs derived from a spec (spec_made.c), released like any other */

/* Derives a tiny model with the same parts, for checks that take seconds. */
enum weft_status weft_spec_shrink(struct weft_spec *twin, const struct weft_spec *spec);
/* Derives the spec that results from additional settings, "name=value", separated by spaces. */
enum weft_status weft_spec_vary(struct weft_spec *other, const struct weft_spec *spec, const char *settings);
/* Visits every option of the model and of its parts, with the option's value in the syntax of a setting. */
void weft_spec_each(const struct weft_spec *spec, void *context,
                    void (*visit)(void *context, const struct weft_opt *opt, const char *value));
/* Returns whether the model has the mechanism of this name. */
bool weft_spec_uses(const struct weft_spec *spec, const char *mechanism);
/* Returns the epsilon of a norm whose default is `own`. */
double weft_spec_norm_eps(const struct weft_spec *spec, double own);
/* Returns the initial divisor of the scores: the root of scale_width; under mup, growth beyond mup_head counts in full,
 * not as its root. */
double weft_spec_divisor(const struct weft_spec *spec);
/* Derives the values that the options leave open, part by part (spec.c). */
enum weft_status weft_spec_resolve(struct weft_spec *spec);

/* ---- presets (presets.c) and finding a model (config.c) */

extern const struct weft_preset weft_presets[]; /* the last entry has the name NULL */
/* Returns the name of the i-th preset; NULL past the last. */
const char *weft_preset_at(int i, const char **summary);
/* Returns the preset of this name. If there is none, returns NULL and sets *near to the closest name, which may also be
 * NULL. */
const struct weft_preset *weft_preset_find(const char *name, const char **near);
/* Finds the model that a MODEL argument names: a preset, a config file or a folder with config.json. Loads the settings
 * of such a file. */
enum weft_status weft_model_find(const char *model, struct weft_settings *settings, const struct weft_preset **preset);

#endif
