/* SPDX-License-Identifier: MIT
 *
 * onnx_export.c - a model as a folder of ONNX: model.onnx with model.onnx.data, config.json, and genai_config.json
 * where onnxruntime-genai can run it.
 */
#include "export/hf/hf.h"
#include "export/hf/own_parts.h"
#include "export/onnx/onnx.h"
#include "nn/part.h"

#include <string.h>

/* ---- config.json: of transformers where it has the model, else its sizes alone */

static enum weft_status make_config(const struct weft_spec *spec, json_t **config)
{
    const struct weft_hf_family *family;
    if (weft_hf_family_of(spec, &family) == WEFT_OK)
        return weft_hf_config_make(family, spec, config);
    weft_error_clear();
    *config =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "model_type", "weft", "hidden_size", (json_int_t)spec->width,
                  "max_position_embeddings", (json_int_t)spec->context, "num_attention_heads", (json_int_t)spec->heads,
                  "num_hidden_layers", (json_int_t)spec->layers, "vocab_size", (json_int_t)spec->vocab);
    return *config ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a config");
}

/* ---- genai_config.json */

/* onnxruntime-genai keeps one key and one value per token and layer, both of one width, and nothing else. */
static bool genai_runs(const struct weft_onnx *g, int64_t *heads, int64_t *width)
{
    const struct weft_spec *s = g->spec;
    bool latent = s->latent > 0;
    if (!weft_onnx_is(g, WEFT_GEOM, "dot") || s->ra_alpha != 0 || weft_spec_uses(g->spec, "m2"))
        return false;
    if (weft_spec_uses(g->spec, "m1") && weft_onnx_whole(g, "m1_mode") != 0)
        return false;
    if (latent && (s->rotated || weft_onnx_whole(g, "latent_shared")))
        return false;
    *heads = latent ? 1 : s->kv_heads;
    *width = latent ? s->latent : s->head;
    return true;
}

static json_t *names(const char *when, const char *const more[])
{
    json_t *list = json_object();
    for (; *more; more++)
        json_object_set_new(list, *more, json_string(*more));
    json_object_set_new(list, strcmp(when, "present") == 0 ? "present_key_names" : "past_key_names",
                        json_sprintf("%s.%%d.key", when));
    json_object_set_new(list, strcmp(when, "present") == 0 ? "present_value_names" : "past_value_names",
                        json_sprintf("%s.%%d.value", when));
    return list;
}

static json_t *genai_config(const struct weft_spec *s, int64_t heads, int64_t width)
{
    static const char *const in[] = {"input_ids", "attention_mask", "position_ids", NULL};
    static const char *const out[] = {"logits", NULL};
    json_t *decoder = json_pack("{s:s, s:{s:[]}, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "filename", "model.onnx",
                                "session_options", "provider_options", "head_size", (json_int_t)width, "hidden_size",
                                (json_int_t)s->width, "num_attention_heads", (json_int_t)s->heads, "num_hidden_layers",
                                (json_int_t)s->layers, "num_key_value_heads", (json_int_t)heads, "inputs",
                                names("past_key_values", in), "outputs", names("present", out));
    return json_pack("{s:{s:s, s:I, s:I, s:o}, s:{s:I, s:b}}", "model", "type", "decoder", "vocab_size",
                     (json_int_t)s->vocab, "context_length", (json_int_t)s->context, "decoder", decoder, "search",
                     "max_length", (json_int_t)s->context, "past_present_share_buffer", 0);
}

static enum weft_status write_genai(const struct weft_spec *spec, int32_t end, const char *path)
{
    int64_t heads, width;
    struct weft_onnx g = {.spec = spec};
    if (!genai_runs(&g, &heads, &width))
        return WEFT_OK;
    json_t *config = genai_config(spec, heads, width), *model = json_object_get(config, "model");
    if (end >= 0) {
        json_object_set_new(model, "eos_token_id", json_integer(end));
        json_object_set_new(model, "pad_token_id", json_integer(end));
    }
    enum weft_status status =
        config ? weft_hf_json_write(config, path) : FAIL(WEFT_NOMEM, "not enough memory for %s", path);
    json_decref(config);
    return status;
}

/* ---- the folder */

static enum weft_status write_model(const struct weft_nn *model, const char *folder)
{
    struct weft_onnx g;
    TRY(weft_onnx_begin(&g, model, folder));
    weft_onnx_build(&g);
    TRY(weft_onnx_end(&g));
    return WEFT_OK;
}

enum weft_status weft_onnx_export(const struct weft_nn *model, int32_t end, const char *folder)
{
    json_t *config = NULL;
    char path[4200];
    TRY(weft_own_parts_check(model->spec, "ONNX"));
    TRY(weft_folder_make(folder));
    TRY(write_model(model, folder));
    snprintf(path, sizeof path, "%s/genai_config.json", folder);
    TRY(write_genai(model->spec, end, path));
    snprintf(path, sizeof path, "%s/config.json", folder);
    enum weft_status status = make_config(model->spec, &config);
    if (status == WEFT_OK)
        status = weft_hf_json_write(config, path);
    json_decref(config);
    return status;
}
