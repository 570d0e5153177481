/* SPDX-License-Identifier: MIT
 *
 * spec.c - resolves a preset and settings into a complete config.
 */
#include "nn/part.h"

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

static const char *const dtype_names[] = {"bf16", "f32", NULL};
static const char *const place_names[] = {"pre", "post", NULL};
static const char *const scaling_names[] = {"standard", "mup", NULL};

/* ---- options of the model: the choice of its parts, a switch per mechanism, the rest */

#define AT(field) offsetof(struct weft_spec, field)
static const struct weft_opt of_parts[] = {
    {"geom", WEFT_OPT_CHOICE, AT(choice.part[WEFT_GEOM]), "dot", .choices = weft_part_names[WEFT_GEOM],
     .help = "geometry: how the score of a query and a key is computed", .also = "geometry similarity"},
    {"attn", WEFT_OPT_CHOICE, AT(choice.part[WEFT_ATTN]), "full", .choices = weft_part_names[WEFT_ATTN],
     .help = "attention: how keys and values are represented and cached", .also = "attention attention_type"},
    {"pos", WEFT_OPT_CHOICE, AT(choice.part[WEFT_POS]), "learned", .choices = weft_part_names[WEFT_POS], .off = "none",
     .help = "positional encoding", .also = "position positions position_embedding pos_emb positional"},
    {"ffn", WEFT_OPT_CHOICE, AT(choice.part[WEFT_FFN]), "gelu", .choices = weft_part_names[WEFT_FFN],
     .help = "feed-forward",
     .also = "activation act act_fn activation_function hidden_act mlp feed_forward feedforward"},
    {"norm", WEFT_OPT_CHOICE, AT(choice.part[WEFT_NORM]), "layernorm", .choices = weft_part_names[WEFT_NORM],
     .help = "normalisation", .also = "normalization normalisation norm_type layer_norm"},
    {"norm_place", WEFT_OPT_CHOICE, AT(choice.norm_place), "pre", .choices = place_names,
     .help = "norms before attention and feed-forward, or after the residual sums (without a final norm)"},
};

static bool has_no_mechanism(const void *model, const void *own)
{
    return ((const struct weft_spec *)model)->mechanism_count == 0;
}

/* Returns whether no part has an auxiliary loss turned on. */
static bool has_no_losses(const void *model, const void *own)
{
    char text[WEFT_MAX_VALUE];
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++) {
        const struct weft_chosen *c = &((const struct weft_spec *)model)->part[kind];
        for (const struct weft_opt *o = c->part->owner.options; o < c->part->owner.options + c->part->owner.count; o++)
            if (o->needs && o->off && strcmp(o->needs, "aux=yes") == 0 &&
                !weft_opt_same(o, weft_opt_text(o, (const char *)c->options + o->offset, text), o->off))
                return false;
    }
    return true;
}

/* Returns whether the model and its heads have mup's reference widths. */
static bool is_usual(const void *model, const void *own)
{
    const struct weft_spec *s = model;
    return s->wider == 1 && s->head_wider == 1;
}

static const struct weft_opt of_model[] = {
    {"learn_alpha", WEFT_OPT_BOOL, AT(learn_alpha), "no", .idle = has_no_mechanism,
     .help = "learned mixing weights for M1, M2 and M3"},
    {"detach", WEFT_OPT_BOOL, AT(detach), "no", .idle = has_no_mechanism,
     .help = "no gradient into the inputs of M1, M2 and M3"},
    {"output_gate", WEFT_OPT_BOOL, AT(output_gate), "no", .off = "no",
     .help = "gate on attention's output: sigmoid(x Wg), per head and channel"},
    {"ra_alpha", WEFT_OPT_REAL, AT(ra_alpha), "0", -1e3, 1e3, .symbol = "RA_MLA_RA_ALPHA", .off = "0",
     .help = "reciprocal attention: coefficient of the score from j to i in the score from i to j; 0: off"},
    {"ra_window", WEFT_OPT_INT, AT(ra_window), "64", 1, 1 << 20, .symbol = "RA_MLA_RA_WINDOW", .needs = "ra_alpha!=0",
     .help = "number of preceding tokens within reach of reciprocal attention"},
    {"dtype", WEFT_OPT_CHOICE, AT(choice.dtype), "bf16", .choices = dtype_names, .only_plan = true,
     .help = "dtype of matmuls and saved activations; sums and weights are f32"},
    {"layers", WEFT_OPT_INT, AT(layers), "2", 1, 1024, .help = "N, number of blocks",
     .also = "n_layer n_layers num_layers num_hidden_layers depth"},
    {"width", WEFT_OPT_INT, AT(width), "128", 1, 1 << 20, .help = "C, width of the residual stream",
     .also = "d_model n_embd hidden_size dim embed_dim"},
    {"heads", WEFT_OPT_INT, AT(heads), "4", 1, 4096, .help = "H, number of query heads",
     .also = "n_head n_heads num_heads num_attention_heads"},
    {"head_width", WEFT_OPT_INT, AT(head_width), "0", 0, 1 << 20, .help = "D, width of a head; 0: C/H"},
    {"ffn_width", WEFT_OPT_INT, AT(ffn_width), "0", 0, 1 << 22,
     .help = "F, width of the feed-forward; 0: 4C, or 8C/3 rounded up to a multiple of 64 if it is gated",
     .also = "d_ff ffn_dim n_inner intermediate_size"},
    {"context", WEFT_OPT_INT, AT(context), "128", 1, 1 << 24, .only_plan = true,
     .help = "T, maximum sequence length in tokens",
     .also = "block_size seq_len sequence_length max_seq_len context_length n_positions n_ctx max_position_embeddings"},
    {"vocab", WEFT_OPT_INT, AT(vocab), "0", 0, 1 << 24,
     .help = "V, vocabulary size; 0: taken from the data if the task reads any, else 64", .also = "vocab_size n_vocab"},
    {"batch", WEFT_OPT_INT, AT(batch), "32", 1, 1 << 20, .only_plan = true,
     .help = "B, number of sequences in a micro-batch", .also = "batch_size micro_batch_size"},
    {"dropout", WEFT_OPT_REAL, AT(dropout), "0", 0, 0.99,
     .help = "dropout probability for embedding, attention probabilities, attention output and feed-forward output"},
    {"bias", WEFT_OPT_BOOL, AT(bias), "yes", .help = "biases in the linear layers"},
    {"tie", WEFT_OPT_BOOL, AT(tie), "yes", .help = "one matrix shared by the embedding and the output layer",
     .also = "tie_embeddings tie_word_embeddings weight_tying"},
    {"norm_eps", WEFT_OPT_REAL, AT(norm_eps), "0", 0, 1,
     .help = "epsilon added to the variance or mean square in norms; 0: 1e-5 for layernorm, 1e-6 for rmsnorm"},
    {"logits_z", WEFT_OPT_REAL, AT(logits_z), "0", 0, 1e6, .off = "0",
     .help = "coefficient of the squared log-sum-exp of the logits in the loss"},
    {"aux", WEFT_OPT_BOOL, AT(aux), "yes", .idle = has_no_losses, .help = "auxiliary losses of the parts"},
    {"recompute", WEFT_OPT_BOOL, AT(recompute), "no", .only_plan = true,
     .help = "recomputation of each layer's activations in the backward pass: less memory, an extra forward pass, "
             "identical results"},
    {"scaling", WEFT_OPT_CHOICE, AT(choice.scaling), "standard", .choices = scaling_names, .idle = is_usual,
     .help = "mup: initial weights, learning rates, scores and logits scale with the width, so that the best learning "
             "rate does not change"},
    {"mup_width", WEFT_OPT_INT, AT(mup_width), "1024", 1, 1 << 20, .needs = "scaling=mup",
     .help = "width at which mup equals standard"},
    {"mup_head", WEFT_OPT_INT, AT(mup_head), "64", 1, 1 << 20, .needs = "scaling=mup",
     .help = "head width at which mup scores equal standard scores"},
    {"seed", WEFT_OPT_INT, AT(seed), "1", 0, 9.2e18, .help = "seed of initial weights, data and dropout"},
    {"init_key", WEFT_OPT_INT, AT(init_key), "0", 0, 9.2e18,
     .help = "key of the initial weights; it changes nothing else, so the difference between two keys is noise"},
};

enum { OF_PARTS = sizeof of_parts / sizeof *of_parts, OF_MODEL = sizeof of_model / sizeof *of_model };
/* The option tables, indexed by the number of mechanisms. A table never changes once it has been returned. */
static struct table {
    struct weft_opt options[OF_PARTS + WEFT_MAX_PARTS + OF_MODEL];
    struct weft_owner owner;
} tables[WEFT_MAX_PARTS + 1];

static struct weft_opt switch_of(const struct weft_mechanism *m, int i)
{
    return (struct weft_opt){m->part.name,    WEFT_OPT_BOOL,       AT(choice.mechanism) + (size_t)i * sizeof(bool),
                             .initial = "no", .symbol = m->symbol, .off = "no",
                             .help = m->help};
}

static void fill(struct table *t, int mechanisms)
{
    struct weft_opt *to = t->options;
    memcpy(to, of_parts, sizeof of_parts);
    for (int i = 0; i < mechanisms; i++)
        to[OF_PARTS + i] = switch_of((const struct weft_mechanism *)weft_part_at(WEFT_RECIP, i), i);
    memcpy(to + OF_PARTS + mechanisms, of_model, sizeof of_model);
    t->owner = (struct weft_owner){"model", to, OF_PARTS + mechanisms + OF_MODEL};
}

/* Returns the model's option table, including switches for mechanisms registered since the last call. */
static const struct weft_owner *model_owner(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int mechanisms = 0;
    while (weft_part_at(WEFT_RECIP, mechanisms))
        mechanisms++;
    struct table *t = &tables[mechanisms];
    pthread_mutex_lock(&lock);
    if (!t->owner.count)
        fill(t, mechanisms);
    pthread_mutex_unlock(&lock);
    return &t->owner;
}

const struct weft_owner *weft_nn_owner_at(int i)
{
    if (i == 0)
        return model_owner();
    i--;
    for (int kind = 0; kind < WEFT_KINDS; kind++)
        for (int n = 0; weft_part_at(kind, n); n++)
            if (i-- == 0)
                return &weft_part_at(kind, n)->owner;
    return NULL;
}

/* ---- resolving */

/* Reads the options of a part that the spec has chosen. If `chosen` is NULL, only declares the options, so that setting
 * one is an error that explains the reason. */
static enum weft_status take(struct weft_spec *s, struct weft_settings *settings, const struct weft_part *part,
                             struct weft_chosen *chosen)
{
    if (chosen) {
        chosen->part = weft_part_in_use(part);
        chosen->options = weft_arena_alloc(&s->arena, part->options_bytes + 1);
        if (!chosen->options)
            return FAIL(WEFT_NOMEM, "not enough memory for options");
    }
    TRY(weft_settings_take(settings, &part->owner, chosen ? chosen->options : NULL));
    return WEFT_OK;
}

static enum weft_status take_parts(struct weft_spec *s, struct weft_settings *settings)
{
    const struct weft_part *part;
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++)
        for (int i = 0; (part = weft_part_at(kind, i)); i++)
            TRY(take(s, settings, part, i == s->choice.part[kind] ? &s->part[kind] : NULL));
    s->mechanism = weft_arena_alloc(&s->arena, WEFT_MAX_PARTS * sizeof *s->mechanism);
    if (!s->mechanism)
        return FAIL(WEFT_NOMEM, "not enough memory for mechanisms");
    for (int i = 0; (part = weft_part_at(WEFT_RECIP, i)); i++) {
        bool on = s->choice.mechanism[i];
        TRY(take(s, settings, part, on ? &s->mechanism[s->mechanism_count] : NULL));
        s->mechanism_count += on;
    }
    return WEFT_OK;
}

static enum weft_status resolve_one(struct weft_spec *s, const struct weft_chosen *c)
{
    if (c->part->resolve)
        TRY(c->part->resolve(s, c->options));
    return WEFT_OK;
}

enum weft_status weft_spec_resolve(struct weft_spec *s)
{
    if (!s->head_width && s->width % s->heads)
        return FAIL(WEFT_INVALID, "width=%lld is not a multiple of heads=%lld: change one of them, or set head_width",
                    (long long)s->width, (long long)s->heads);
    s->head = s->mean = s->qk_width = s->rotated = s->head_width ? s->head_width : s->width / s->heads;
    s->scale_width = (double)s->head;
    s->spread = s->latent = 0;
    s->wider = s->mup ? (double)s->width / (double)s->mup_width : 1;
    s->head_wider = s->mup ? (double)s->head / (double)s->mup_head : 1;
    s->kv_heads = s->heads;
    if (s->ffn_width == 0)
        s->ffn_width = weft_spec_ffn(s)->gated ? weft_round_up(weft_div_up(8 * s->width, 3), 64) : 4 * s->width;
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++)
        TRY(resolve_one(s, &s->part[kind]));
    for (int i = 0; i < s->mechanism_count; i++)
        TRY(resolve_one(s, &s->mechanism[i]));
    return WEFT_OK;
}

bool weft_spec_uses(const struct weft_spec *spec, const char *mechanism)
{
    for (int i = 0; i < spec->mechanism_count; i++)
        if (strcmp(spec->mechanism[i].part->name, mechanism) == 0)
            return true;
    return false;
}

double weft_spec_norm_eps(const struct weft_spec *spec, double own)
{
    return spec->norm_eps > 0 ? spec->norm_eps : own;
}

double weft_spec_divisor(const struct weft_spec *spec) { return sqrt(spec->scale_width * spec->head_wider); }

enum { DEFAULT_VOCAB = 64 };

enum weft_status weft_spec_init(struct weft_spec *s, const char *model, struct weft_settings *settings)
{
    const struct weft_preset *preset;
    *s = (struct weft_spec){0};
    TRY(weft_model_find(model, settings, &preset));
    s->preset = preset->name;
    settings->preset = preset->settings;
    TRY(weft_settings_take(settings, model_owner(), s));
    if (s->vocab == 1)
        return FAIL(WEFT_INVALID, "vocab=1 leaves nothing to predict: set 2 or more, or 0 for the default");
    s->vocab_open = s->vocab == 0;
    if (s->vocab_open)
        s->vocab = DEFAULT_VOCAB;
    s->compute = s->choice.dtype == 0 ? WEFT_BF16 : WEFT_F32;
    s->post = s->choice.norm_place == 1;
    s->mup = s->choice.scaling == 1;
    TRY(take_parts(s, settings));
    TRY(weft_spec_resolve(s));
    return WEFT_OK;
}

void weft_spec_release(struct weft_spec *s)
{
    weft_arena_release(&s->arena);
    *s = (struct weft_spec){0};
}
