/* SPDX-License-Identifier: MIT
 *
 * part.h - parts of a model: geometries, attentions, positions, feed-forwards, norms and mechanisms.
 *
 * Every kind of part is a struct of its own that begins with struct weft_part. A part is found by its name in a
 * registry, which the rows of parts.def fill; others can be registered at run time.
 *
 * Invariants:
 *  - A part declares its weights in params() and uses them in its other hooks under the same local names; the scope
 *    ("blocks.3.attn") is set by the caller.
 *  - Hooks get the part's own options. A hook that is called optional may be NULL.
 */
#ifndef WEFT_PART_H
#define WEFT_PART_H

#include "nn/param.h"

struct weft_build; /* build.h */
struct weft_value; /* graph.h */

/* What all kinds share. */
struct weft_part {
    enum weft_part_kind kind;
    const char *name;
    const char *summary;     /* the formula in one line */
    struct weft_owner owner; /* its options, named "kind=name": "geom=w2"; of a mechanism "name=yes" */
    size_t options_bytes;
    /* All optional. resolve: fills in what the options left open and refuses what is impossible with this spec. shrink:
     * makes its own sizes tiny, for checks; resolved again afterwards. params: its weights, in its scope (attn: without
     * the output projection; pos: those of the embedding). idle: whether the gradient of this weight is 0 by
     * mathematics, so that the gate live does not report it. */
    enum weft_status (*resolve)(struct weft_spec *spec, void *options);
    void (*shrink)(const struct weft_spec *spec, void *options);
    void (*params)(struct weft_params *p, const struct weft_spec *spec, const void *options);
    bool (*idle)(const struct weft_spec *spec, const void *options, const char *name);
    /* Optional, for pruning: why none of the units that this option counts can be left out; NULL: they can. */
    const char *(*keeps_all)(const struct weft_spec *spec, const void *options, const char *unit);
    /* Optional, for the gate live, too: whether it does nothing in this layer by design. */
    bool (*skips)(const struct weft_spec *spec, const void *options, int layer);
};

/* ---- geometry: how queries and keys are made, and what makes them close */

enum weft_side { WEFT_QUERY, WEFT_KEY };

/* Raw queries or keys: before a geometry makes vectors of them. What all heads share has 1 head. */
struct weft_qk_raw {
    enum weft_side side;
    int64_t heads;
    struct weft_value *mean;    /* [M, heads * mean] */
    struct weft_value *raw;     /* [M, heads * spread], before weft_build_spread; or NULL, and */
    struct weft_value *spread;  /* [M, spread_heads * spread], positive; both NULL where the geometry has none */
    struct weft_value *rotated; /* [M, rotated_heads * R]: more of the mean; NULL: positions rotate the mean itself */
    int64_t spread_heads, rotated_heads;
};

/* Queries or keys. */
struct weft_qk {
    struct weft_value *vectors; /* [M, heads * width] */
    struct weft_value *norms;   /* f32 [M, heads]: a score loses half of it; NULL where the geometry has none */
};

struct weft_geom {
    struct weft_part part;
    /* Norms are made when asked for. */
    struct weft_qk (*qk)(struct weft_build *b, const void *options, const struct weft_qk_raw *raw, bool norms);
    /* Optional: the factor of the scores, f32 [H]. Without it 1/sqrt(scale_width). */
    struct weft_value *(*scale)(struct weft_build *b, const void *options);
    bool own_scale; /* that factor does not depend on scale_width */
    bool linear;    /* a key is linear in its mean: it can be absorbed into the queries */
    bool normed;    /* queries and keys have norms */
    bool metric;    /* scores are minus squared distances between queries and keys, which the gate live compares */
};

/* ---- attention: what queries, keys and values are made of, and what is cached */

struct weft_attn {
    struct weft_part part;
    /* The heads' outputs [M, H * D]. */
    struct weft_value *(*build)(struct weft_build *b, const void *options, struct weft_value *x);
};

/* ---- positions */

struct weft_pos {
    struct weft_part part;
    /* All optional. embed: the embedding with positions. rotate: queries or keys [M, heads * R] rotated. bias: f32
     * [H, offsets], added to the scores by distance, with its weights in the scope of the attention. */
    struct weft_value *(*embed)(struct weft_build *b, const void *options, struct weft_value *x);
    struct weft_value *(*rotate)(struct weft_build *b, const void *options, struct weft_value *x, int64_t heads,
                                 enum weft_side side);
    struct weft_value *(*bias)(struct weft_build *b, const void *options);
    void (*bias_params)(struct weft_params *p, const struct weft_spec *spec, const void *options);
};

/* ---- feed-forward */

struct weft_ffn {
    struct weft_part part;
    /* The hidden activation [M, F]. */
    struct weft_value *(*build)(struct weft_build *b, const void *options, struct weft_value *x);
    const char *output; /* name of the projection that ends it; NULL: "proj" */
    bool gated;         /* two matrices make the hidden activation */
};

/* ---- norm */

struct weft_norm {
    struct weft_part part;
    struct weft_value *(*build)(struct weft_build *b, const void *options, struct weft_value *x);
};

/* ---- mechanism: works on the hidden activation, and may reach into attention and the next layer */

struct weft_hidden; /* build.h */

/* A mechanism in a graph that is being built. */
struct weft_instance {
    const struct weft_mechanism *mechanism;
    const void *options;              /* in this layer; NULL: this layer does without it */
    void *state;                      /* state_bytes: what it passes from hook to hook and to the next layer */
    struct weft_value *matrix, *read; /* of this layer: what reads() gave, and the base through it (hidden.c) */
};

struct weft_mechanism {
    struct weft_part part;
    const char *symbol, *help; /* of the option NAME=yes that switches it on; a NULL symbol is made of the name */
    size_t state_bytes;
    /* All optional, each called in the mechanism's scope. hidden: what it does with the hidden activation; reads: the
     * matrix [N, F] through which it reads it. heads: what it does with the heads' outputs. latent: what it does with
     * the key latent c (NULL: attention has none). keys: what it adds to raw keys (`name`: "wu" the means, "wu_spread"
     * the spreads). */
    void (*hidden)(struct weft_build *b, struct weft_instance *m, struct weft_hidden *h);
    struct weft_value *(*reads)(struct weft_build *b, struct weft_instance *m);
    struct weft_value *(*heads)(struct weft_build *b, struct weft_instance *m, struct weft_value *o);
    void (*latent)(struct weft_build *b, struct weft_instance *m, struct weft_value *x, struct weft_value **c);
    struct weft_value *(*keys)(struct weft_build *b, struct weft_instance *m, struct weft_value *k, const char *name);
};

/* ---- the registry (registry.c) */

/* The i-th part of a kind; NULL past the last. */
const struct weft_part *weft_part_at(enum weft_part_kind kind, int i);
/* Makes a part known by its name, after those of its kind; specs that other threads make meanwhile may or may not see
 * it. The part is kept. Refuses a name that is taken and a part without a hook that its kind needs. */
enum weft_status weft_part_register(const struct weft_part *part);
/* Specs that choose a part get another of its kind instead; NULL: the part itself again. For tests that break one. */
void weft_part_replace(const struct weft_part *part, const struct weft_part *by);
const struct weft_part *weft_part_in_use(const struct weft_part *part);
/* The option that chooses the part of a kind has these choices; they end with NULL. */
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
/* The weights of a part, if it has any. */
void weft_chosen_params(const struct weft_chosen *c, struct weft_params *p, const struct weft_spec *spec);
/* Whether the part declares the weight idle. */
bool weft_chosen_idle(const struct weft_chosen *c, const struct weft_spec *spec, const char *name);

#endif
