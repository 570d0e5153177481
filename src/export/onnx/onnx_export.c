/* SPDX-License-Identifier: MIT
 *
 * onnx_export.c - a model as a folder of ONNX: model.onnx with model.onnx.data, config.json, and genai_config.json
 * where onnxruntime-genai can run it.
 */
#include "export/hf/hf.h"
#include "export/onnx/print.h"
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

/* Returns whether the cache is what onnxruntime-genai keeps: in every layer one key and one value per token, both of
 * one width. */
static bool genai_runs(const struct weft_printer *p, const struct weft_spec *spec)
{
    const struct weft_net *net = p->net;
    bool runs = net->slot_count == 2 * spec->layers;
    for (int i = 0; runs && i < net->slot_count; i++) {
        const struct weft_printed_slot *s = &p->slots[i], *first = p->slots;
        runs = net->slots[i].lifetime == WEFT_PER_TOKEN && s->heads == first->heads && s->width == first->width &&
               strcmp(strrchr(s->name, '.'), strrchr(p->slots[i % 2].name, '.')) == 0;
    }
    return runs;
}

/* Adds the names of a layer's key and value to the object of other names. */
static json_t *names(const struct weft_printer *p, const char *when, const char *const more[])
{
    static const char *const keys[] = {"key", "value"};
    json_t *list = json_object();
    for (; *more; more++)
        json_object_set_new(list, *more, json_string(*more));
    for (int i = 0; i < 2; i++) {
        char entry[32];
        snprintf(entry, sizeof entry, "%s_%s_names", strcmp(when, "present") == 0 ? "present" : "past", keys[i]);
        json_object_set_new(list, entry, json_sprintf("%s.%%d%s", when, strrchr(p->slots[i].name, '.')));
    }
    return list;
}

static json_t *genai_config(const struct weft_printer *p, const struct weft_spec *s)
{
    static const char *const in[] = {"input_ids", "attention_mask", "position_ids", NULL};
    static const char *const out[] = {"logits", NULL};
    json_t *decoder = json_pack(
        "{s:s, s:{s:[]}, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "filename", "model.onnx", "session_options",
        "provider_options", "head_size", (json_int_t)p->slots->width, "hidden_size", (json_int_t)s->width,
        "num_attention_heads", (json_int_t)s->heads, "num_hidden_layers", (json_int_t)s->layers, "num_key_value_heads",
        (json_int_t)p->slots->heads, "inputs", names(p, "past_key_values", in), "outputs", names(p, "present", out));
    return json_pack("{s:{s:s, s:I, s:I, s:o}, s:{s:I, s:b}}", "model", "type", "decoder", "vocab_size",
                     (json_int_t)s->vocab, "context_length", (json_int_t)s->context, "decoder", decoder, "search",
                     "max_length", (json_int_t)s->context, "past_present_share_buffer", 0);
}

static enum weft_status write_genai(const struct weft_printer *p, const struct weft_spec *spec, int32_t end,
                                    const char *path)
{
    if (!genai_runs(p, spec))
        return WEFT_OK;
    json_t *config = genai_config(p, spec), *model = json_object_get(config, "model");
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

static void print(struct weft_printer *p)
{
    struct weft_onnx_shape tokens = {2, {{"batch", 0}, {"length", 0}}}, logits = tokens, all = tokens;
    logits.dim[logits.ndim++].size = p->g->model->spec->vocab;
    all.dim[1].symbol = "total";
    weft_onnx_input(p->g, "input_ids", WEFT_ONNX_INT64, tokens);
    weft_onnx_input(p->g, "attention_mask", WEFT_ONNX_INT64, all);
    weft_onnx_input(p->g, "position_ids", WEFT_ONNX_INT64, tokens);
    weft_onnx_output(p->g, "logits", WEFT_ONNX_FLOAT, logits);
    weft_print_nodes(p);
}

/* Draws the graph that decodes, and lowers it. */
static enum weft_status lower(struct weft_net *net, struct weft_form *form, const struct weft_nn *model)
{
    struct weft_net_size size = {.sequences = 1, .length = model->spec->context};
    size.store_rows = size.ring_rows = size.length;
    TRY(weft_net_draw(net, model, WEFT_DECODE, size));
    TRY(weft_form_init(form, net->g, false, model->spec->context));
    return weft_form_check_causal(form, "ONNX");
}

/* Copies the names of slots, which are the graph's, so that they can be used after it. */
static enum weft_status keep_names(struct weft_printer *p, struct weft_arena *arena)
{
    for (int i = 0; i < p->net->slot_count; i++)
        if (p->slots[i].name && !(p->slots[i].name = weft_arena_print(arena, "%s", p->slots[i].name)))
            return WEFT_NOMEM;
    return WEFT_OK;
}

static enum weft_status write_model(struct weft_printer *p, struct weft_arena *arena, const struct weft_nn *model,
                                    const char *folder)
{
    struct weft_onnx g;
    TRY(weft_onnx_begin(&g, model, folder));
    p->g = &g;
    print(p);
    p->g = NULL;
    enum weft_status kept = keep_names(p, arena), status = weft_onnx_end(&g);
    return status == WEFT_OK ? kept : status;
}

static enum weft_status write_config(const struct weft_spec *spec, const char *path)
{
    json_t *config = NULL;
    enum weft_status status = make_config(spec, &config);
    if (status == WEFT_OK)
        status = weft_hf_json_write(config, path);
    json_decref(config);
    return status;
}

/* Writes all files, with the form of the model. */
static enum weft_status write_folder(struct weft_printer *p, struct weft_arena *arena, const struct weft_nn *model,
                                     int32_t end, const char *folder)
{
    char path[4200];
    p->of = weft_arena_alloc(arena, (size_t)p->form->count * sizeof *p->of + 1);
    p->slots = weft_arena_alloc(arena, (size_t)p->net->slot_count * sizeof *p->slots + 1);
    if (!p->of || !p->slots)
        return WEFT_NOMEM;
    TRY(weft_folder_make(folder));
    TRY(write_model(p, arena, model, folder));
    snprintf(path, sizeof path, "%s/genai_config.json", folder);
    TRY(write_genai(p, model->spec, end, path));
    snprintf(path, sizeof path, "%s/config.json", folder);
    return write_config(model->spec, path);
}

enum weft_status weft_onnx_export(const struct weft_nn *model, int32_t end, const char *folder)
{
    struct weft_net net = {0};
    struct weft_form form = {0};
    enum weft_status status = lower(&net, &form, model);
    struct weft_printer p = {.net = &net, .form = &form, .window = model->spec->ra_window};
    if (status == WEFT_OK)
        status = write_folder(&p, &form.arena, model, end, folder);
    weft_form_release(&form);
    weft_net_release(&net);
    return status;
}
