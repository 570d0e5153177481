/* SPDX-License-Identifier: MIT
 *
 * ffn/ws - WsFFN: swiglu with additional heads z = (x w1) wz that do not affect the output but shape w1 in training:
 *
 *     ws_z = lambda_z mean |z|^2        ws_c = lambda_c InfoNCE of the heads' mean z over each sequence (ops/info_nce)
 *     ws_logits = lambda_logits cross-entropy of the next token with logits = head (z wl)
 *
 * `head` is the model's output head, so wl maps F to C. F is split into n heads of width F/n. In the form `block`, wz
 * has one square block per head, F^2/n parameters; in the form `dense`, it is F x F, initially block-diagonal, and
 * costs F/(3C) of the feed-forward. z exists only in the uses TRAIN and WATCH, so decoding and exports do not need wz
 * and wl.
 */
#include "nn/build.h"
#include "nn/parts.h"
#include "ops/ops.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { FORM_BLOCK, FORM_DENSE };

struct ws {
    int64_t heads;
    int form, positives;
    bool logits;
    double tau, lambda_z, lambda_c, lambda_logits;
};

static const char *const forms[] = {"block", "dense", NULL};
static const char *const positives[] = {"self", "halves", NULL}; /* in the order of enum weft_positives */

static bool has_no_aux(const void *model, const void *own) { return !((const struct weft_spec *)model)->aux; }

static bool has_no_contrast(const void *model, const void *own)
{
    return !((const struct weft_spec *)model)->aux || ((const struct ws *)own)->lambda_c == 0;
}

#define AT(field) offsetof(struct ws, field)
static const struct weft_opt options[] = {
    {"ws_heads", WEFT_OPT_INT, AT(heads), "8", 1, 4096, .help = "n, number of heads that F is split into"},
    {"ws_form", WEFT_OPT_CHOICE, AT(form), "block", .choices = forms,
     .help = "input of each head: its own block of F, or all of F"},
    {"ws_positives", WEFT_OPT_CHOICE, AT(positives), "self", .choices = positives, .idle = has_no_contrast,
     .help = "positive of a context vector: itself, or the other half of its sequence"},
    {"ws_tau", WEFT_OPT_REAL, AT(tau), "0.07", 1e-3, 1e3, .idle = has_no_contrast,
     .help = "temperature of the contrastive loss"},
    {"ws_lambda_z", WEFT_OPT_REAL, AT(lambda_z), "1e-5", 0, 1e6, .off = "0", .needs = "aux=yes",
     .help = "coefficient of mean |z|^2"},
    {"ws_lambda_c", WEFT_OPT_REAL, AT(lambda_c), "5e-3", 0, 1e6, .off = "0", .needs = "aux=yes",
     .help = "coefficient of the contrastive loss"},
    {"ws_logits", WEFT_OPT_BOOL, AT(logits), "no",
     .help = "next-token prediction from every layer's z in training, through the model's output head"},
    {"ws_lambda_logits", WEFT_OPT_REAL, AT(lambda_logits), "0.1", 0, 1e6, .off = "0", .needs = "ws_logits=yes",
     .idle = has_no_aux, .help = "coefficient of the cross-entropy of these predictions"},
};

static enum weft_status resolve(struct weft_spec *spec, void *opts)
{
    const struct ws *o = opts;
    if (spec->ffn_width % o->heads)
        return FAIL(WEFT_INVALID, "ffn_width=%lld is not a multiple of ws_heads=%lld: change one of them",
                    (long long)spec->ffn_width, (long long)o->heads);
    return WEFT_OK;
}

static void shrink(const struct weft_spec *spec, void *opts)
{
    struct ws *o = opts;
    o->heads = o->heads > 1 ? 4 : 1;
    /* make the auxiliary losses about as large as the main loss, so that checks detect errors in them */
    o->lambda_z *= 1e4;
    o->lambda_c *= 1e2;
}

static void params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    const struct ws *o = opts;
    int64_t F = spec->ffn_width, wide = F / o->heads;
    struct weft_param wz = {.name = "wz",
                            .role = WEFT_MATRIX,
                            .init = WEFT_INIT_UNIFORM,
                            .init_value = 1 / sqrt((double)wide / spec->wider)};
    weft_ffn_swiglu.part.params(p, spec, NULL);
    if (o->form == FORM_BLOCK) {
        wz.ndim = 3;
        wz.dim[0] = o->heads;
        wz.dim[1] = wz.dim[2] = wide;
    } else {
        wz.ndim = 2;
        wz.dim[0] = wz.dim[1] = F;
        wz.init_blocks = o->heads;
    }
    weft_param_scale(&wz, spec->wider, spec->wider);
    weft_params_add(p, wz);
    if (o->logits)
        weft_params_matrix(p, "wl", weft_grows(spec, spec->width), weft_grows(spec, F), WEFT_DEVIATION);
}

/* Returns whether a weight has no gradient: wz and wl have none without the auxiliary losses that read them. */
static bool idle(const struct weft_spec *spec, const void *opts, const char *name)
{
    const struct ws *o = opts;
    bool logits = o->logits && o->lambda_logits > 0;
    if (strcmp(name, "wl") == 0)
        return !spec->aux || !logits;
    return strcmp(name, "wz") == 0 && (!spec->aux || (o->lambda_z == 0 && o->lambda_c == 0 && !logits));
}

static const char *keeps_all(const struct weft_spec *spec, const void *opts, const char *unit)
{
    return strcmp(unit, "ffn_width") == 0 ? "ffn=ws divides the channels into heads by index: no channel can be removed"
                                          : NULL;
}

/* Returns the cross-entropy of the logits from the model's own head, averaged over the scored tokens of the
 * micro-batch. */
static struct weft_value *cross_entropy(struct weft_build *b, const struct ws *o, struct weft_value *z)
{
    struct weft_value *x = weft_build_narrow(b, weft_build_product(b, z, "wl"));
    struct weft_value *mean = weft_cross_entropy(b->g, x, weft_build_head(b), b->net->targets, NULL, 0);
    return weft_mix(b->g, NULL, mean, weft_fill(b->g, o->lambda_logits, WEFT_SHAPE(weft_fixed(1))));
}

static void add_losses(struct weft_build *b, const struct ws *o, struct weft_value *up)
{
    struct weft_value *z = weft_build_product(b, up, "wz");
    if (o->lambda_z > 0)
        weft_build_loss(b, "ws_z", weft_square_mean(b->g, z, o->heads, o->lambda_z / b->spec->wider));
    if (o->lambda_c > 0)
        weft_build_loss(
            b, "ws_c",
            weft_info_nce(b->g, z, &b->rows, o->heads, (enum weft_positives)o->positives, o->tau, o->lambda_c));
    if (o->logits && o->lambda_logits > 0)
        weft_build_loss(b, "ws_logits", cross_entropy(b, o, z));
}

/* Reports two metrics: the similarity of the heads in the vectors that ws_c contrasts, and the mass of a dense wz
 * outside its blocks. */
static void watch(struct weft_build *b, const struct ws *o, struct weft_value *up)
{
    if (o->heads == 1)
        return;
    struct weft_value *mean = weft_prefix_mean(b->g, weft_build_product(b, up, "wz"), &b->rows, NULL, false);
    weft_build_watch(b, "head_similarity", weft_head_similarity(b->g, weft_sibling(mean, 1), o->heads));
    if (o->form == FORM_DENSE)
        weft_build_watch(b, "off_block_mass", weft_off_block(b->g, weft_build_weight(b, "wz"), o->heads));
}

static struct weft_value *build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    struct weft_value *up = weft_build_linear(b, x, "w1"), *gate = weft_build_linear(b, x, "w3");
    if (b->use == WEFT_TRAIN && b->spec->aux)
        add_losses(b, opts, up);
    if (b->use == WEFT_WATCH)
        watch(b, opts, up);
    return weft_swiglu(b->g, gate, up);
}

const struct weft_ffn weft_ffn_ws = {
    .part = {.kind = WEFT_FFN,
             .name = "ws",
             .summary = "swiglu whose up-projection is shaped by contrastive heads in training",
             .owner = WEFT_OWNER("ffn=ws", options),
             .options_bytes = sizeof(struct ws),
             .resolve = resolve,
             .shrink = shrink,
             .params = params,
             .idle = idle,
             .keeps_all = keeps_all},
    .build = build,
    .output = "w2",
    .gated = true,
};
