/* SPDX-License-Identifier: MIT
 *
 * part.h - parts of a model: geometries, attentions, positions, feed-forwards, norms and mechanisms.
 *
 * Every kind of part is a struct that begins with struct weft_part. Parts are found by name in a registry that is
 * filled from the rows of parts.def; more parts can be registered at run time.
 *
 * Invariants:
 *  - A part declares its weights in params() and uses them under the same local names in its other hooks; the caller
 *    sets the scope ("blocks.3.attn").
 *  - Hooks receive the part's own options. Optional hooks may be NULL.
 */
#ifndef WEFT_PART_H
#define WEFT_PART_H

#include "nn/param.h"

struct weft_build; /* build.h */
struct weft_value; /* graph.h */

/* The fields that all kinds of parts have in common. */
struct weft_part {
    enum weft_part_kind kind;
    const char *name;
    const char *summary;     /* the formula in one line */
    struct weft_owner owner; /* its options; named, for example, "geom=w2" or, for a mechanism, "m1=yes" */
    size_t options_bytes;
    /* These four hooks are optional. resolve() derives the values that the options leave open and rejects combinations
     * that are impossible with this spec. shrink() makes the part's own sizes tiny, for checks; resolve() runs again
     * afterwards. params() declares the part's weights in its scope (attn: without the output projection; pos: weights
     * of the embedding). idle() returns whether the gradient of this weight is identically 0, so that the gate live
     * does not report it. */
    enum weft_status (*resolve)(struct weft_spec *spec, void *options);
    void (*shrink)(const struct weft_spec *spec, void *options);
    void (*params)(struct weft_params *p, const struct weft_spec *spec, const void *options);
    bool (*idle)(const struct weft_spec *spec, const void *options, const char *name);
    /* Optional, for pruning: returns why the units counted by this option cannot be removed, or NULL if they can. */
    const char *(*keeps_all)(const struct weft_spec *spec, const void *options, const char *unit);
    /* Optional, used by the gate live: returns whether the part does nothing in this layer by design. */
    bool (*skips)(const struct weft_spec *spec, const void *options, int layer);
};

/* ---- geometry: how queries and keys are computed and compared */

enum weft_side { WEFT_QUERY, WEFT_KEY };

/* Queries or keys before the geometry turns them into vectors. A value shared by all heads has one head. */
struct weft_qk_raw {
    enum weft_side side;
    int64_t heads;
    struct weft_value *mean;    /* [M, heads * mean] */
    struct weft_value *raw;     /* [M, heads * spread], input of weft_build_spread; NULL if `spread` is given */
    struct weft_value *spread;  /* [M, spread_heads * spread], positive; `raw` and `spread` are NULL without spreads */
    struct weft_value *rotated; /* [M, rotated_heads * R]: rotated columns to add to the mean; NULL: rotate the mean */
    int64_t spread_heads, rotated_heads;
};

/* Queries or keys as the scores use them. */
struct weft_qk {
    struct weft_value *vectors; /* [M, heads * width] */
    struct weft_value *norms;   /* f32 [M, heads]: half of it, scaled, is subtracted from a score; NULL without norms */
};

struct weft_geom {
    struct weft_part part;
    /* Returns queries or keys; computes norms only if `norms` is true. */
    struct weft_qk (*qk)(struct weft_build *b, const void *options, const struct weft_qk_raw *raw, bool norms);
    /* Optional: returns the factor of the scores, f32 [H]; default: 1/sqrt(scale_width). */
    struct weft_value *(*scale)(struct weft_build *b, const void *options);
    bool own_scale; /* the factor does not depend on scale_width */
    bool linear;    /* keys are linear in their means and can be absorbed into the queries */
    bool normed;    /* queries and keys have norms */
    bool metric;    /* scores are negated squared distances between queries and keys; the gate live checks this */
};

/* ---- attention: how queries, keys and values are computed and cached */

struct weft_attn {
    struct weft_part part;
    /* Returns the heads' outputs [M, H * D]. */
    struct weft_value *(*build)(struct weft_build *b, const void *options, struct weft_value *x);
};

/* ---- positions */

struct weft_pos {
    struct weft_part part;
    /* All hooks are optional. embed() adds positions to the embedding. rotate() rotates queries or keys [M, heads * R].
     * bias() returns f32 [H, offsets], which is added to the scores by distance; bias_params() declares its weights in
     * the scope of the attention. */
    struct weft_value *(*embed)(struct weft_build *b, const void *options, struct weft_value *x);
    struct weft_value *(*rotate)(struct weft_build *b, const void *options, struct weft_value *x, int64_t heads,
                                 enum weft_side side);
    struct weft_value *(*bias)(struct weft_build *b, const void *options);
    void (*bias_params)(struct weft_params *p, const struct weft_spec *spec, const void *options);
};

/* ---- feed-forward */

struct weft_ffn {
    struct weft_part part;
    /* Returns the hidden activation [M, F]. */
    struct weft_value *(*build)(struct weft_build *b, const void *options, struct weft_value *x);
    const char *output; /* name of its output projection; NULL: "proj" */
    bool gated;         /* the hidden activation is formed by two projections */
};

/* ---- norm */

struct weft_norm {
    struct weft_part part;
    struct weft_value *(*build)(struct weft_build *b, const void *options, struct weft_value *x);
};

/* ---- mechanism: acts on the hidden activation, and may also act on attention and the next layer */

struct weft_hidden; /* build.h */

/* A mechanism in a graph under construction. */
struct weft_instance {
    const struct weft_mechanism *mechanism;
    const void *options;              /* its options in this layer; NULL: the layer does not have the mechanism */
    void *state;                      /* state_bytes bytes that are passed from hook to hook and to the next layer */
    struct weft_value *matrix, *read; /* in this layer: the result of reads(), and the base times that matrix */
};

struct weft_mechanism {
    struct weft_part part;
    const char *symbol, *help; /* for the option NAME=yes that turns it on; symbol NULL: derived from the name */
    size_t state_bytes;
    /* All hooks are optional and are called in the mechanism's scope. hidden() acts on the hidden activation, and
     * reads() returns the matrix [N, F] through which the mechanism reads the activation. heads() acts on the heads'
     * outputs. latent() acts on the key latent c (NULL: attention has none). keys() adds to raw keys (`name`: "wu" for
     * the means, "wu_spread" for the spreads). */
    void (*hidden)(struct weft_build *b, struct weft_instance *m, struct weft_hidden *h);
    struct weft_value *(*reads)(struct weft_build *b, struct weft_instance *m);
    struct weft_value *(*heads)(struct weft_build *b, struct weft_instance *m, struct weft_value *o);
    void (*latent)(struct weft_build *b, struct weft_instance *m, struct weft_value *x, struct weft_value **c);
    struct weft_value *(*keys)(struct weft_build *b, struct weft_instance *m, struct weft_value *k, const char *name);
};

/* ---- the registry (registry.c) */

/* Returns the i-th part of a kind; NULL past the last. */
const struct weft_part *weft_part_at(enum weft_part_kind kind, int i);
/* Registers a part after the others of its kind; specs that other threads create at the same time may or may not see
 * it. The registry keeps the pointer. A name that is already in use is an error, as is a missing hook that the kind
 * requires. */
enum weft_status weft_part_register(const struct weft_part *part);
/* Makes later specs use `by`, a part of the same kind, instead of `part`; NULL restores the original. For tests that
 * break a part. */
void weft_part_replace(const struct weft_part *part, const struct weft_part *by);
const struct weft_part *weft_part_in_use(const struct weft_part *part);
/* For each kind, the names of its parts, which are the choices of its option; NULL-terminated. */
extern const char *weft_part_names[WEFT_KINDS][WEFT_MAX_PARTS + 1];

/* ---- the parts of a spec */

static inline const struct weft_geom *weft_spec_geom(const struct weft_spec *s)
{
    return (const struct weft_geom *)s->part[WEFT_GEOM].part;
}
static inline const struct weft_attn *weft_spec_attn(const struct weft_spec *s)
{
    return (const struct weft_attn *)s->part[WEFT_ATTN].part;
}
static inline const struct weft_pos *weft_spec_pos(const struct weft_spec *s)
{
    return (const struct weft_pos *)s->part[WEFT_POS].part;
}
static inline const struct weft_ffn *weft_spec_ffn(const struct weft_spec *s)
{
    return (const struct weft_ffn *)s->part[WEFT_FFN].part;
}
static inline const struct weft_norm *weft_spec_norm(const struct weft_spec *s)
{
    return (const struct weft_norm *)s->part[WEFT_NORM].part;
}
/* Declares the weights of a part, if it has any. */
void weft_chosen_params(const struct weft_chosen *c, struct weft_params *p, const struct weft_spec *spec);
/* Returns whether the part declares the weight idle. */
bool weft_chosen_idle(const struct weft_chosen *c, const struct weft_spec *spec, const char *name);

#endif
