/* SPDX-License-Identifier: MIT
 *
 * recip/m2 - the feed-forward gathers from the tokens that this layer's attention attends to:
 *
 *     u_s = P h_s     y_t = sum over s in S_t of w[t,s] u_s     h_t += alpha Q y_t
 *
 * w is the mean (or maximum) of attention's probabilities over the heads; S_t contains the s <= t with the k largest
 * weights, those with weights of at least m2_rms times the root mean square of all, or all (ops/attention/route.c). P
 * maps F to r, Q maps r to F; in the full form, u = h and Q is F x F. Parameters of a layer: 2 F r, or F^2. Cache per
 * token and layer: r values, or F.
 */
#include "nn/build.h"
#include "ops/ops.h"

#include <stddef.h>

enum { USUAL_RANK = 64 };
enum { FORM_LOW, FORM_FULL };

struct m2 {
    double alpha, rms;
    int form, select;
    int64_t rank, topk;
    bool renormalise, head_average;
};

static const char *const forms[] = {"low", "full", NULL};
static const char *const selects[] = {"topk", "rms", "none", NULL}; /* in the order of enum weft_route_mode */

static bool has_one_head(const void *model, const void *own) { return ((const struct weft_spec *)model)->heads == 1; }

/* Returns whether the weights sum to 1 without rescaling, as the mean of all probabilities does. */
static bool sums_to_one(const void *model, const void *own)
{
    const struct m2 *o = own;
    return o->select == WEFT_ROUTE_NONE && (o->head_average || has_one_head(model, own));
}

#define AT(field) offsetof(struct m2, field)
static const struct weft_opt options[] = {
    {"m2_alpha", WEFT_OPT_REAL, AT(alpha), "0.3", 0, 10, .off = "0", .help = "mixing weight of the gathered vectors"},
    {"m2_form", WEFT_OPT_CHOICE, AT(form), "low", .choices = forms,
     .help = "low: projection through rank r; full: an F x F matrix"},
    {"m2_rank", WEFT_OPT_INT, AT(rank), "64", 1, 1 << 16, .needs = "m2_form=low",
     .help = "r, width of the gathered vectors"},
    {"m2_select", WEFT_OPT_CHOICE, AT(select), "topk", .choices = selects, .symbol = "RA_MLA_MLP_SPARSE_MODE",
     .help = "weights to use: the k largest, those at or above m2_rms times their root mean square, or all"},
    {"m2_topk", WEFT_OPT_INT, AT(topk), "8", 1, 4096, .symbol = "RA_MLA_MLP_SPARSE_K", .needs = "m2_select=topk",
     .help = "k, number of weights to use"},
    {"m2_rms", WEFT_OPT_REAL, AT(rms), "0.5", 0, 1e6, .symbol = "RA_MLA_MLP_SPARSE_RMS_THRESHOLD",
     .needs = "m2_select=rms", .help = "threshold in units of the root mean square over the visible tokens"},
    {"m2_renormalise", WEFT_OPT_BOOL, AT(renormalise), "yes", .symbol = "RA_MLA_MLP_SPARSE_NORMALIZE",
     .idle = sums_to_one, .help = "used weights rescaled to sum to 1"},
    {"m2_head_average", WEFT_OPT_BOOL, AT(head_average), "yes", .symbol = "RA_MLA_MLP_SPARSE_HEAD_AVERAGE",
     .idle = has_one_head, .help = "yes: mean of the weights over heads; no: maximum"},
};

static void shrink(const struct weft_spec *spec, void *opts)
{
    struct m2 *o = opts;
    o->rank = 6;
    o->topk = weft_min(o->topk, 3);
}

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    const struct m2 *o = opts;
    struct weft_fan F = weft_grows(spec, spec->ffn_width);
    struct weft_fan r = o->form == FORM_LOW ? weft_stays(spec, o->rank, USUAL_RANK) : F;
    if (o->form == FORM_LOW)
        weft_params_matrix(p, "p", r, F, WEFT_DEVIATION);
    weft_params_matrix(p, "q", F, r, WEFT_DEVIATION);
    if (o->form == FORM_LOW) {
        weft_params_units(p, "p", "m2_rank", NULL);
        weft_params_units(p, "q", NULL, "m2_rank");
    }
    if (spec->learn_alpha)
        weft_params_vector(p, "alpha", 1, o->alpha);
}

/* Returns the inputs of attention, detached from the gradient if the spec sets `detach`. */
static struct weft_attention detached(struct weft_build *b)
{
    struct weft_attention a = b->attention;
    struct weft_value **of[] = {&a.q, &a.k, &a.scale, &a.key_bias, &a.pos_bias, &a.q_store, &a.q_bias};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        *of[i] = weft_build_detach(b, *of[i]);
    return a;
}

static struct weft_value *reads(struct weft_build *b, struct weft_instance *m)
{
    const struct m2 *o = m->options;
    return o->form == FORM_LOW ? weft_build_weight(b, "p") : NULL;
}

static void hidden(struct weft_build *b, struct weft_instance *m, struct weft_hidden *h)
{
    const struct m2 *o = m->options;
    struct weft_value *u = o->form == FORM_LOW ? weft_hidden_read(b, h, m) : weft_hidden_whole(b, h);
    struct weft_attention attention = detached(b);
    struct weft_route route = {.attention = &attention,
                               .lse = weft_build_detach(b, b->lse),
                               .u = weft_build_keep(b, "u", WEFT_PER_TOKEN, u),
                               .mode = (enum weft_route_mode)o->select,
                               .topk = o->topk,
                               .rms_factor = o->rms,
                               .head_max = !o->head_average,
                               .renormalise = o->renormalise};
    weft_hidden_add(b, h, weft_route(b->g, &route), weft_build_alpha(b, o->alpha), "q");
}

const struct weft_mechanism weft_recip_m2 = {
    .part = {.kind = WEFT_RECIP,
             .name = "m2",
             .summary = "h_t + alpha Q sum over s of w[t,s] P h_s, w from the attention's probabilities",
             .owner = WEFT_OWNER("m2=yes", options),
             .options_bytes = sizeof(struct m2),
             .shrink = shrink,
             .params = params},
    .hidden = hidden,
    .reads = reads,
    .symbol = "RA_MLA_MLP_CROSS_TOKEN",
    .help = "M2: the feed-forward gathers from the tokens that attention attends to",
};
