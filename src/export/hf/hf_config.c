/* SPDX-License-Identifier: MIT
 *
 * hf_config.c - converts a model's options to and from Hugging Face's config.json.
 *
 */
#include "base/opt.h"
#include "export/hf/hf.h"

#include <math.h>
#include <string.h>

/* ---- writing */

struct making {
    const struct weft_hf_family *family;
    const struct weft_spec *spec;
    json_t *config;
};

/* Returns the derived value of an option whose own value may be left open; NULL: use the option's value. */
static json_t *resolved(const struct making *m, const char *name)
{
    const struct weft_spec *s = m->spec;
    if (strcmp(name, "head_width") == 0)
        return json_integer(s->head);
    if (strcmp(name, "kv_heads") == 0)
        return json_integer(s->kv_heads);
    if (strcmp(name, "ffn_width") == 0)
        return json_integer(s->ffn_width);
    if (strcmp(name, "norm_eps") == 0 && s->norm_eps == 0)
        return json_real(strcmp(m->family->preset, "gpt2") == 0 ? 1e-5 : 1e-6);
    return NULL;
}

static void make_one(void *context, const struct weft_opt *opt, const char *value)
{
    const struct making *m = context;
    int64_t whole;
    double real;
    for (const struct weft_hf_size *s = m->family->sizes; s->ours; s++) {
        if (!s->theirs || strcmp(s->ours, opt->name) != 0)
            continue;
        json_t *to = resolved(m, opt->name);
        if (!to && opt->type == WEFT_OPT_BOOL)
            to = json_boolean(strcmp(value, "yes") == 0);
        if (!to && opt->type == WEFT_OPT_INT && weft_text_int(value, &whole))
            to = json_integer(whole);
        if (!to && weft_text_real(value, &real))
            to = json_real(real);
        json_object_set_new(m->config, s->theirs, to);
    }
}

static json_t *constants(const struct weft_hf_family *f, const struct weft_spec *spec)
{
    if (strcmp(f->type, "gpt2") == 0)
        return json_pack("{s:s, s:f, s:f, s:f, s:b, s:b, s:b}", "activation_function", "gelu_new", "attn_pdrop", 0.0,
                         "embd_pdrop", 0.0, "resid_pdrop", 0.0, "scale_attn_weights", 1,
                         "scale_attn_by_inverse_layer_idx", 0, "reorder_and_upcast_attn", 0);
    json_t *c = json_pack("{s:s, s:f, s:b}", "hidden_act", "silu", "attention_dropout", 0.0, "attention_bias",
                          strcmp(f->type, "llama") == 0 ? spec->bias : strcmp(f->type, "qwen2") == 0);
    if (strcmp(f->type, "llama") == 0)
        json_object_set_new(c, "mlp_bias", json_boolean(spec->bias));
    else
        json_object_set_new(c, "use_sliding_window", json_false());
    return c;
}

enum weft_status weft_hf_config_make(const struct weft_hf_family *family, const struct weft_spec *spec, json_t **config)
{
    struct making m = {family, spec,
                       json_pack("{s:[s], s:s, s:s, s:b}", "architectures", family->architecture, "model_type",
                                 family->type, "dtype", "float32", "use_cache", 1)};
    json_t *more = constants(family, spec);
    if (m.config)
        weft_spec_each(spec, &m, make_one);
    json_object_update(m.config, more);
    json_decref(more);
    if (json_object_get(m.config, "rope_theta"))
        json_object_set_new(m.config, "rope_parameters", weft_hf_rope_make(spec));
    *config = m.config;
    return m.config ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a config");
}

/* ---- reading */

/* Keys that do not affect the computation, or that affect only training. */
static const char *const ignored[] = {"architectures",
                                      "model_type",
                                      "dtype",
                                      "torch_dtype",
                                      "use_cache",
                                      "transformers_version",
                                      "_name_or_path",
                                      "initializer_range",
                                      "bos_token_id",
                                      "eos_token_id",
                                      "pad_token_id",
                                      "attn_pdrop",
                                      "embd_pdrop",
                                      "resid_pdrop",
                                      "attention_dropout",
                                      "summary_type",
                                      "summary_use_proj",
                                      "summary_activation",
                                      "summary_proj_to_labels",
                                      "summary_first_dropout",
                                      "task_specific_params",
                                      "n_ctx",
                                      "pretraining_tp",
                                      "rope_parameters",
                                      "rope_scaling",
                                      "max_window_layers",
                                      "return_dict",
                                      "output_hidden_states",
                                      "output_attentions",
                                      "chunk_size_feed_forward",
                                      "id2label",
                                      "label2id",
                                      "problem_type",
                                      "is_encoder_decoder",
                                      "is_llama_config",
                                      "gradient_checkpointing",
                                      NULL};

/* Keys that are accepted only with this value, as JSON. */
static const struct {
    const char *key, *value;
} fixed[] = {{"activation_function", "\"gelu_new\""},
             {"hidden_act", "\"silu\""},
             {"scale_attn_weights", "true"},
             {"scale_attn_by_inverse_layer_idx", "false"},
             {"reorder_and_upcast_attn", "false"},
             {"add_cross_attention", "false"},
             {"use_sliding_window", "false"},
             {"rope_interleaved", "false"},
             {"layer_types", NULL},
             {"sliding_window", NULL},
             {NULL, NULL}};

static bool is_ignored(const char *key)
{
    const char *const *at = ignored;
    while (*at && strcmp(*at, key) != 0)
        at++;
    return *at;
}

static enum weft_status refuse(const char *where, const char *key, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    enum weft_status status =
        FAIL(WEFT_INVALID, "%s: unknown key \"%s\" with the value %.200s, which may change what the model computes",
             where, key, text ? text : "");
    free(text);
    return status;
}

/* Sizes must be above 0, because 0 means that an option is not set. */
static enum weft_status add_size(struct weft_settings *s, const char *name, const json_t *value, const char *where)
{
    if (json_is_number(value) && !(json_number_value(value) > 0))
        return FAIL(WEFT_FORMAT, "%s: the value of %s is not above 0", where, name);
    return weft_hf_setting(s, name, value, where);
}

/* Checks that a key has the only value that Weft supports. */
static enum weft_status check_fixed(const json_t *config, const char *key, const json_t *value, const char *where)
{
    for (int i = 0; fixed[i].key; i++) {
        if (strcmp(fixed[i].key, key) != 0)
            continue;
        if (!fixed[i].value) /* they belong to use_sliding_window, which must be false */
            return json_is_null(value) || json_is_false(json_object_get(config, "use_sliding_window"))
                       ? WEFT_OK
                       : refuse(where, key, value);
        json_t *wanted = json_loads(fixed[i].value, JSON_DECODE_ANY, NULL);
        bool same = json_equal(wanted, value);
        json_decref(wanted);
        return same ? WEFT_OK : refuse(where, key, value);
    }
    return refuse(where, key, value);
}

static enum weft_status read_key(const struct weft_hf_family *f, const json_t *config, const char *key,
                                 const json_t *value, const char *where, struct weft_settings *s)
{
    if (is_ignored(key) || strcmp(key, "rope_theta") == 0)
        return WEFT_OK;
    for (const struct weft_hf_size *size = f->sizes; size->ours; size++)
        if (size->theirs && strcmp(size->theirs, key) == 0)
            return json_is_null(value) ? WEFT_OK : add_size(s, size->ours, value, where);
    if (strcmp(key, "attention_bias") == 0 || strcmp(key, "mlp_bias") == 0) {
        bool attention = json_is_true(json_object_get(config, "attention_bias"));
        bool both = attention && json_is_true(json_object_get(config, "mlp_bias"));
        if (json_is_false(value) && !both)
            return WEFT_OK;
        if (strcmp(f->type, "qwen2") == 0)
            return WEFT_OK; /* Qwen2 always has biases for the queries, keys and values */
        return both && strcmp(f->type, "llama") == 0 ? weft_settings_add(s, "bias=yes") : refuse(where, key, value);
    }
    return check_fixed(config, key, value, where);
}

/* The defaults of transformers for missing keys differ from Weft's. */
static enum weft_status add_defaults(const struct weft_hf_family *f, const json_t *config, struct weft_settings *s)
{
    bool gpt2 = strcmp(f->type, "gpt2") == 0;
    if (!json_object_get(config, "tie_word_embeddings"))
        TRY(weft_settings_add(s, gpt2 ? "tie=yes" : "tie=no"));
    if (gpt2 && !json_object_get(config, "layer_norm_epsilon"))
        TRY(weft_settings_add(s, "norm_eps=1e-5"));
    if (!gpt2 && !json_object_get(config, "rms_norm_eps"))
        TRY(weft_settings_add(s, "norm_eps=1e-6"));
    if (strcmp(f->type, "qwen2") == 0)
        TRY(weft_settings_add(s, "qkv_bias=yes"));
    if (strcmp(f->type, "qwen3") == 0)
        TRY(weft_settings_add(s, "qk_norm=yes"));
    if (strcmp(f->type, "qwen3") == 0 && !json_object_get(config, "head_dim"))
        TRY(weft_settings_add(s, "head_width=128"));
    return WEFT_OK;
}

/* Requires the sizes for which transformers has defaults instead of guessing them. */
static enum weft_status check_sizes(const struct weft_hf_family *f, const json_t *config, const char *where)
{
    static const char *const needed[] = {"layers", "width", "heads", "context", "vocab"};
    for (const struct weft_hf_size *size = f->sizes; size->ours; size++)
        for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
            if (strcmp(size->ours, needed[i]) == 0 && !json_is_integer(json_object_get(config, size->theirs)))
                return FAIL(WEFT_FORMAT, "%s has no integer %s", where, size->theirs);
    return WEFT_OK;
}

enum weft_status weft_hf_config_read(const struct weft_hf_family *family, const json_t *config, const char *where,
                                     struct weft_settings *settings)
{
    const char *key;
    json_t *value;
    if (family == &weft_hf_own)
        return weft_hf_own_read(config, where, settings);
    TRY(check_sizes(family, config, where));
    json_object_foreach((json_t *)config, key, value) TRY(read_key(family, config, key, value, where, settings));
    TRY(add_defaults(family, config, settings));
    if (strcmp(family->preset, "llama") == 0)
        TRY(weft_hf_rope_read(config, where, settings));
    return WEFT_OK;
}
