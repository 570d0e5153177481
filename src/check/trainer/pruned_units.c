/* SPDX-License-Identifier: MIT
 *
 * pruned_units.c - selects the heads, channels and ranks to prune by the definition, in plain code: the parts of each
 * weight that belong to a unit, by name; its importance; the choice. pruned.c compares the masks with this choice.
 */
#include "check/trainer/stepped.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "WEIGHT SIDE FLAG": this side of the weight is divided equally among the units, in their order. Flags: k, keys and
 * values, which do not belong to units if all heads share them; q, only if M2 has no matrix p; +, belongs to the heads
 * of the next layer. */
static const char *const parts[WEFT_UNITS][24] = {
    [WEFT_UNITS_HEADS] = {"attn.wq 0",    "attn.wq_bias 0",   "attn.wq_spread 0",   "attn.wq_spread_bias 0",
                          "attn.wk 0 k",  "attn.wk_bias 0 k", "attn.wk_spread 0 k", "attn.wk_spread_bias 0 k",
                          "attn.wv 0 k",  "attn.wv_bias 0 k", "attn.wa 0 k",        "attn.wb 0 k",
                          "attn.wqr 0",   "attn.wo 1",        "attn.wg 0",          "attn.relative 0",
                          "attn.theta 0", "m3.wu 0 k",        "m3.wu_spread 0 k",   "m1.w2 0 +",
                          "m1.bias 0 +"},
    [WEFT_UNITS_CHANNELS] = {"ffn.fc 0", "ffn.fc_bias 0", "ffn.proj 1", "ffn.w1 0", "ffn.w1_bias 0", "ffn.w3 0",
                             "ffn.w3_bias 0", "ffn.w2 1", "m1.w1 1", "m2.p 1", "m2.q 0", "m2.q 1 q", "m3.w 0",
                             "m3.w_back 1"},
    [WEFT_UNITS_M1] = {"m1.w1 0", "m1.w2 1"},
    [WEFT_UNITS_M2] = {"m2.p 0", "m2.q 1"},
    [WEFT_UNITS_M3] = {"m3.wc 0", "m3.w 1", "m3.w_back 0", "m3.wu 1", "m3.wu_spread 1"},
};
/* The importance of a unit is the product of the norms of its parts of these weights. */
static const char *const factors[WEFT_UNITS][6] = {{"attn.wo 1", "attn.wv 0 k", "attn.wb 0 k"},
                                                   {"ffn.fc 0", "ffn.proj 1", "ffn.w1 0", "ffn.w3 0", "ffn.w2 1"},
                                                   {"m1.w1 0", "m1.w2 1"},
                                                   {"m2.p 0", "m2.q 1"},
                                                   {"m3.wc 0", "m3.w 1"}};

struct choice {
    const struct weft_learner *trainer;
    const struct weft_params *all;
    enum weft_units what;
    int64_t units, layers;
    double *importance; /* [layers][units] */
    double *norm;       /* [layers][units], norm of one part */
    bool *zero, *goes;  /* [layers][units]: all weights are 0; the unit is pruned */
    float *weights;     /* the weights that the choice depends on */
    bool *mask;         /* pruned elements; both are indexed like the flat arrays */
};

static const struct weft_param *find(const struct weft_params *all, int layer, const char *weight)
{
    char name[128];
    snprintf(name, sizeof name, "blocks.%d.%s", layer, weight);
    int i = weft_params_find(all, name);
    return i < 0 ? NULL : &all->list[i];
}

static int64_t plain_units(const struct weft_nn *model, enum weft_units what)
{
    static const char *const ranks[] = {[WEFT_UNITS_M1] = "m1.w1", [WEFT_UNITS_M2] = "m2.p", [WEFT_UNITS_M3] = "m3.wc"};
    if (what == WEFT_UNITS_HEADS)
        return model->spec->kv_heads > 1 ? model->spec->kv_heads : model->spec->heads;
    if (what == WEFT_UNITS_CHANNELS)
        return model->spec->ffn_width;
    const struct weft_param *w = find(&model->params, 0, ranks[what]);
    return w ? w->dim[0] : 0;
}

static double plain_share(const struct weft_shares *s, enum weft_units what)
{
    return what == WEFT_UNITS_HEADS ? s->heads : what == WEFT_UNITS_CHANNELS ? s->channels : s->ranks;
}

/* ---- the parts of units */

/* Calls `visit` for each element of a weight with its unit and layer along a side. */
static void visit_side(struct choice *c, const struct weft_param *w, int layer, int side,
                       void (*visit)(struct choice *c, int64_t unit, int64_t at))
{
    int64_t stride = 1;
    for (int d = side + 1; d < w->ndim; d++)
        stride *= w->dim[d];
    for (int64_t e = 0; e < w->count; e++)
        visit(c, layer * c->units + e / stride % w->dim[side] * c->units / w->dim[side], w->offset + e);
}

static void visit_part(struct choice *c, const char *part, void (*visit)(struct choice *c, int64_t unit, int64_t at))
{
    char weight[64], flag = ' ';
    int side;
    sscanf(part, "%63s %d %c", weight, &side, &flag);
    for (int layer = 0; layer < c->layers; layer++) {
        const struct weft_param *w = find(c->all, layer, weight);
        bool shared = flag == 'k' && c->trainer->model->spec->kv_heads == 1;
        bool other = flag == 'q' && find(c->all, layer, "m2.p");
        if (w && !shared && !other)
            visit_side(c, w, layer + (flag == '+'), side, visit);
    }
}

/* Weights not named above belong to parts that were added. For them, the sizes of a smaller model show which sides
 * belong to units. */
static bool is_named(const char *name)
{
    char weight[64];
    int layer;
    for (int what = 0; what < WEFT_UNITS; what++)
        for (int i = 0; parts[what][i]; i++)
            if (sscanf(name, "blocks.%d.%63s", &layer, weight) == 2 &&
                strncmp(weight, parts[what][i], strlen(weight)) == 0 && parts[what][i][strlen(weight)] == ' ')
                return true;
    return false;
}

static void visit_others(struct choice *c, void (*visit)(struct choice *c, int64_t unit, int64_t at))
{
    const struct weft_param *smaller = c->trainer->units[c->what].model->params.list;
    int layer;
    for (int i = 0; i < c->all->count; i++)
        for (int d = 0; !is_named(c->all->list[i].name) && d < c->all->list[i].ndim; d++)
            if (smaller[i].dim[d] != c->all->list[i].dim[d] && sscanf(smaller[i].name, "blocks.%d", &layer) == 1)
                visit_side(c, &c->all->list[i], layer, d, visit);
}

static void visit_all(struct choice *c, void (*visit)(struct choice *c, int64_t unit, int64_t at))
{
    for (int i = 0; parts[c->what][i]; i++)
        visit_part(c, parts[c->what][i], visit);
    visit_others(c, visit);
}

/* ---- importance */

static void begin_norm(struct choice *c, int64_t unit, int64_t at)
{
    (void)at;
    c->norm[unit] = 0;
}

static void add_square(struct choice *c, int64_t unit, int64_t at)
{
    c->norm[unit] += (double)c->weights[at] * c->weights[at];
}

static void note_zero(struct choice *c, int64_t unit, int64_t at)
{
    if (c->weights[at] != 0)
        c->zero[unit] = false;
}

static void multiply(struct choice *c, const char *part)
{
    int64_t all = c->layers * c->units;
    for (int64_t n = 0; n < all; n++)
        c->norm[n] = 1; /* stays 1 if the weight is not in the model */
    visit_part(c, part, begin_norm);
    visit_part(c, part, add_square);
    for (int64_t n = 0; n < all; n++)
        c->importance[n] *= sqrt(c->norm[n]);
}

static void weigh(struct choice *c)
{
    for (int64_t n = 0; n < c->layers * c->units; n++) {
        c->importance[n] = 1;
        c->zero[n] = true;
        c->goes[n] = false;
    }
    for (int i = 0; factors[c->what][i]; i++)
        multiply(c, factors[c->what][i]);
    visit_all(c, note_zero);
}

/* A rank of M3 is pruned in all layers together: its importance is the sum of squares over layers, and it counts as
 * zero if it is zero in all of them. */
static void weigh_alike(struct choice *c)
{
    for (int64_t u = 0; u < c->units; u++) {
        double sum = 0;
        bool zero = true;
        for (int64_t n = u; n < c->layers * c->units; n += c->units) {
            sum += c->importance[n] * c->importance[n];
            zero &= c->zero[n];
        }
        for (int64_t n = u; n < c->layers * c->units; n += c->units) {
            c->importance[n] = sum;
            c->zero[n] = zero;
        }
    }
}

/* ---- the choice */

/* Units that are zero come first, then the least important; ties go to the higher index. */
static bool is_first(const struct choice *c, int64_t a, int64_t b)
{
    bool nothing[2] = {c->zero[a] && c->importance[a] == 0, c->zero[b] && c->importance[b] == 0};
    if (nothing[0] != nothing[1])
        return nothing[0];
    return c->importance[a] != c->importance[b] ? c->importance[a] < c->importance[b] : a > b;
}

static void take_one(struct choice *c, int64_t layer)
{
    int64_t best = -1;
    for (int64_t n = layer * c->units; n < (layer + 1) * c->units; n++)
        if (!c->goes[n] && (best < 0 || is_first(c, n, best)))
            best = n;
    c->goes[best] = true;
}

static void clear(struct choice *c, int64_t unit, int64_t at)
{
    if (!c->goes[unit])
        return;
    c->weights[at] = 0;
    c->mask[at] = true;
}

static enum weft_status prune_kind(struct choice *c, double share)
{
    size_t room = (size_t)(c->layers * c->units);
    int64_t count = (int64_t)floor(share * (double)c->units + 0.5); /* rounded to nearest */
    c->importance = calloc(room, sizeof *c->importance);
    c->norm = calloc(room, sizeof *c->norm);
    c->zero = calloc(room, sizeof *c->zero);
    c->goes = calloc(room, sizeof *c->goes);
    if (!c->importance || !c->norm || !c->zero || !c->goes)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    weigh(c);
    if (c->what == WEFT_UNITS_M3)
        weigh_alike(c);
    for (int64_t n = 0; n < c->layers * count; n++)
        take_one(c, n / count);
    visit_all(c, clear);
    return WEFT_OK;
}

enum weft_status weft_plain_units(const struct weft_learner *trainer, const struct weft_shares *shares, float *weights,
                                  bool *mask)
{
    const struct weft_nn *model = trainer->model;
    enum weft_status status = WEFT_OK;
    for (int what = 0; status == WEFT_OK && what < WEFT_UNITS; what++) {
        struct choice c = {.trainer = trainer, .all = &model->params, .what = (enum weft_units)what};
        c.units = plain_units(model, c.what);
        c.layers = model->spec->layers;
        c.weights = weights;
        c.mask = mask;
        if (plain_share(shares, c.what) == 0 || c.units == 0)
            continue;
        status = prune_kind(&c, plain_share(shares, c.what));
        free(c.importance);
        free(c.norm);
        free(c.zero);
        free(c.goes);
    }
    return status;
}

struct weft_shares weft_plain_shares(const struct weft_shares *s, const struct weft_nn *model)
{
    struct weft_shares fit = *s;
    double *share[WEFT_UNITS] = {&fit.heads, &fit.channels, &fit.ranks, &fit.ranks, &fit.ranks};
    for (int what = 0; what < WEFT_UNITS; what++) {
        double units = (double)plain_units(model, (enum weft_units)what);
        if (*share[what] > 0 && units > 0)
            *share[what] = units == 1 ? 0 : fmin(fmax(*share[what], 1 / units), 1 - 1 / units);
    }
    return fit;
}
