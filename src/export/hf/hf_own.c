/* SPDX-License-Identifier: MIT
 *
 * hf_own.c - writes and reads models that match no architecture of transformers, as an architecture of Weft's own, with
 * its code in the folder (hf_code.c) and all of Weft's options in config.json.
 *
 * Weights have Weft's names with PyTorch's endings: wq and wq_bias are wq.weight and wq.bias of a Linear, and gain is
 * the weight of a norm.
 */
#include "export/hf/hf.h"
#include "nn/part.h"
#include "ops/types.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct weft_hf_family weft_hf_own = {.type = "weft", .architecture = "WeftForCausalLM", .preset = "gpt2"};

/* ---- names */

static void replace_end(char name[128], const char *end, const char *by)
{
    snprintf(name + strlen(name) - strlen(end), strlen(end) + 16, "%s", by);
}

const struct weft_hf_name *weft_hf_own_name(const struct weft_param *w, char theirs[128])
{
    static const struct weft_hf_name as_it_is;
    snprintf(theirs, 128, "%.100s", w->name);
    bool is_linear = w->ndim == 2 && w->group <= WEFT_TRAINED_HEAD && !w->init_blocks;
    if (w->role == WEFT_HEAD)
        snprintf(theirs, 128, "lm_head.weight");
    else if (weft_ends_in(theirs, "_bias"))
        replace_end(theirs, "_bias", ".bias");
    else if (weft_ends_in(theirs, "_gain"))
        replace_end(theirs, "_gain", "_norm.weight");
    else if (weft_ends_in(theirs, ".gain"))
        replace_end(theirs, ".gain", ".weight");
    else if (is_linear)
        replace_end(theirs, "", ".weight");
    return &as_it_is;
}

/* ---- config.json */

struct making {
    json_t *config, *options;
};

/* Returns whether the code of a model reads the option under its own name. */
static bool is_read(const char *name)
{
    static const char *const read[] = {"ra_alpha", "ra_window", "m1_alpha", "m1_width", "m2_alpha", "m2_rank",
                                       "m2_topk",  "m2_rms",    "m3_alpha", "ws_heads", NULL};
    const char *const *at = read;
    while (*at && strcmp(*at, name) != 0)
        at++;
    return *at;
}

static void make_one(void *context, const struct weft_opt *opt, const char *value)
{
    const struct making *m = context;
    int64_t whole;
    double real;
    json_object_set_new(m->options, opt->name, json_string(value));
    if (!is_read(opt->name))
        return;
    if (opt->type == WEFT_OPT_INT && weft_text_int(value, &whole))
        json_object_set_new(m->config, opt->name, json_integer(whole));
    else if (weft_text_real(value, &real))
        json_object_set_new(m->config, opt->name, json_real(real));
}

/* Returns the sizes that follow from the options. */
static json_t *sizes(const struct weft_nn *model)
{
    const struct weft_spec *s = model->spec;
    bool rms = strcmp(weft_spec_norm(s)->part.name, "rmsnorm") == 0;
    bool w2 = strcmp(weft_spec_geom(s)->part.name, "w2") == 0;
    json_t *c = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b}", "vocab_size", (json_int_t)s->vocab,
                          "hidden_size", (json_int_t)s->width, "num_hidden_layers", (json_int_t)s->layers,
                          "num_attention_heads", (json_int_t)s->heads, "num_key_value_heads", (json_int_t)s->kv_heads,
                          "head_dim", (json_int_t)s->head, "intermediate_size", (json_int_t)s->ffn_width,
                          "max_position_embeddings", (json_int_t)s->context, "norm_eps",
                          weft_spec_norm_eps(s, rms ? 1e-6 : 1e-5), "qk_norm_eps", weft_spec_norm_eps(s, 1e-6),
                          "tie_word_embeddings", s->tie);
    json_object_set_new(c, "mean_width", json_integer(s->mean));
    json_object_set_new(c, "spread_width", json_integer(s->spread));
    json_object_set_new(c, "rotated_width", json_integer(s->rotated));
    json_object_set_new(c, "score_divisor", json_real(weft_spec_divisor(s)));
    json_object_set_new(c, "tau", json_real(w2 ? 2 * weft_spec_divisor(s) : s->head_wider));
    json_object_set_new(c, "narrow", json_real(1 / s->wider));
    return c;
}

/* Returns the angle by which each pair rotates per token. */
static json_t *frequencies(const struct weft_spec *s)
{
    const struct weft_rope_turns *t = s->part[WEFT_POS].options;
    json_t *list = json_array();
    for (int64_t i = 0; i < s->rotated / 2; i++)
        json_array_append_new(list, json_real(weft_rope_frequency(t, i, s->rotated)));
    return list;
}

/* Adds a width that is given by a dimension of a weight. */
static void add_width(json_t *config, const char *key, const struct weft_nn *model, const char *weight, int dim)
{
    int i = weft_params_find(&model->params, weight);
    if (i >= 0)
        json_object_set_new(config, key, json_integer(model->params.list[i].dim[dim]));
}

enum weft_status weft_hf_own_config(const struct weft_nn *model, json_t **config)
{
    struct making m = {json_pack("{s:[s], s:s, s:{s:s, s:s}, s:s, s:b}", "architectures", weft_hf_own.architecture,
                                 "model_type", weft_hf_own.type, "auto_map", "AutoConfig",
                                 "configuration_weft.WeftConfig", "AutoModelForCausalLM",
                                 "modeling_weft.WeftForCausalLM", "dtype", "float32", "use_cache", 1),
                       json_object()};
    json_t *more = sizes(model);
    weft_spec_each(model->spec, &m, make_one);
    json_object_update(m.config, more);
    json_decref(more);
    if (strcmp(weft_spec_pos(model->spec)->part.name, "rope") == 0)
        json_object_set_new(m.config, "frequencies", frequencies(model->spec));
    add_width(m.config, "latent_width", model, "blocks.0.attn.wdk", 0);
    add_width(m.config, "latent_width", model, "blocks.0.m3.wc", 0);
    add_width(m.config, "relative_max", model, "blocks.0.attn.relative", 1);
    json_object_set_new(m.config, "weft", m.options);
    *config = m.config;
    return m.config && m.options ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a config");
}

enum weft_status weft_hf_own_read(const json_t *config, const char *where, struct weft_settings *settings)
{
    const json_t *options = json_object_get(config, "weft");
    const char *key;
    json_t *value;
    if (!json_is_object(options))
        return FAIL(WEFT_FORMAT, "%s has no key \"weft\" with the model's options", where);
    json_object_foreach((json_t *)options, key, value)
    {
        char text[160];
        const char *string = json_string_value(value);
        if (!string || strlen(key) > 64 || strlen(string) > 64)
            return FAIL(WEFT_FORMAT, "%s: the value of the option %.64s is not a string", where, key);
        snprintf(text, sizeof text, "%.64s=%.64s", key, string);
        TRY(weft_settings_add(settings, text));
    }
    return WEFT_OK;
}
