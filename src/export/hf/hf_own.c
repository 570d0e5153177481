/* SPDX-License-Identifier: MIT
 *
 * hf_own.c - models that match no architecture of transformers, as an architecture of Weft's own: its code is printed
 * from the model's graph (export/torch), and config.json contains all of Weft's options.
 */
#include "base/embed.h"
#include "export/hf/hf.h"
#include "export/torch/torch.h"
#include "nn/part.h"

#include <stdio.h>
#include <string.h>

WEFT_EMBED(configuration, "src/export/hf/configuration_weft.py");

const struct weft_hf_family weft_hf_own = {.type = "weft", .architecture = "WeftForCausalLM", .preset = "gpt2"};

const struct weft_hf_name *weft_hf_own_name(const struct weft_param *w, char theirs[128])
{
    static const struct weft_hf_name as_it_is;
    weft_torch_weight_name(w, theirs);
    return &as_it_is;
}

/* ---- config.json */

static void add_option(void *options, const struct weft_opt *opt, const char *value)
{
    json_object_set_new(options, opt->name, json_string(value));
}

enum weft_status weft_hf_own_config(const struct weft_nn *model, json_t **config)
{
    const struct weft_spec *s = model->spec;
    json_t *options = json_object();
    weft_spec_each(s, options, add_option);
    *config =
        json_pack("{s:[s], s:s, s:{s:s, s:s}, s:s, s:b, s:b}", "architectures", weft_hf_own.architecture, "model_type",
                  weft_hf_own.type, "auto_map", "AutoConfig", "configuration_weft.WeftConfig", "AutoModelForCausalLM",
                  "modeling_weft.WeftForCausalLM", "dtype", "float32", "use_cache", 1, "tie_word_embeddings", s->tie);
    json_t *sizes =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "vocab_size", (json_int_t)s->vocab, "hidden_size",
                  (json_int_t)s->width, "num_hidden_layers", (json_int_t)s->layers, "num_attention_heads",
                  (json_int_t)s->heads, "num_key_value_heads", (json_int_t)s->kv_heads, "head_dim", (json_int_t)s->head,
                  "intermediate_size", (json_int_t)s->ffn_width, "max_position_embeddings", (json_int_t)s->context);
    json_object_update(*config, sizes);
    json_decref(sizes);
    json_object_set_new(*config, "weft", options);
    return *config && options ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a config");
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

/* ---- the code */

static const char *join(char path[4400], const char *folder, const char *name)
{
    snprintf(path, 4400, "%.4095s/%s", folder, name);
    return path;
}

enum weft_status weft_hf_own_code(const struct weft_nn *model, const char *folder)
{
    char path[4400];
    TRY(weft_torch_print(model, WEFT_TORCH_DECODER, join(path, folder, "modeling_weft.py")));
    return weft_file_replace(join(path, folder, "configuration_weft.py"), weft_embedded_configuration,
                             strlen(weft_embedded_configuration));
}
