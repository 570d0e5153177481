/* SPDX-License-Identifier: MIT
 *
 * import - a model of another program as a model folder of Weft.
 */
#include "base/fields.h"
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "cmd/cmd.h"
#include "export/hf.h"

#include <stdlib.h>

struct args {
    struct weft_common common;
    const char *path, *out;
    bool no_tokenizer;
};

static const struct weft_arg table[] = {
    {NULL, 0, "PATH", WEFT_ARG_FOLDER, offsetof(struct args, path),
     .help = "A folder of Hugging Face: config.json and safetensors",
     .missing = "import what? Give a folder with config.json and model.safetensors"},
    {"out", 'o', "DIR", WEFT_ARG_FOLDER, offsetof(struct args, out), .help = "The new model folder",
     .missing = "import where to? Give --out DIR"},
    {"no-tokenizer", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, no_tokenizer),
     .help = "Leave the tokenizer behind: the model then takes token ids only"},
    {0},
};

static enum weft_status save_config(const struct args *a)
{
    char path[4200], *text = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "%.4095s/config.json", a->out);
    FILE *to = open_memstream(&text, &bytes);
    enum weft_status status = to ? weft_settings_save(&a->common.settings, to) : WEFT_OK;
    if (!to || fclose(to))
        status = FAIL(WEFT_NOMEM, "not enough memory for a config");
    if (status == WEFT_OK)
        status = weft_file_replace(path, text, bytes);
    free(text);
    return status;
}

static enum weft_status read_config(struct args *a, const struct weft_hf_family **family)
{
    char path[4200];
    json_t *config = NULL;
    snprintf(path, sizeof path, "%.4095s/config.json", a->path);
    TRY(weft_fields_load(path, &config));
    const char *type = json_string_value(json_object_get(config, "model_type"));
    enum weft_status status = type ? weft_hf_family_find(type, path, family)
                                   : FAIL(WEFT_FORMAT, "%s has no model_type: is it of Hugging Face?", path);
    if (status == WEFT_OK)
        status = weft_hf_config_read(*family, config, path, &a->common.settings);
    json_decref(config);
    return status;
}

static enum weft_status import(struct args *a, struct weft_nn *model, const struct weft_hf_family *family)
{
    char path[4200];
    TRY(weft_hf_weights(model, family, a->path));
    TRY(weft_folder_make(a->out));
    if (!a->no_tokenizer)
        TRY(weft_tokenizer_copy(a->path, a->out, a->common.spec.vocab));
    snprintf(path, sizeof path, "%.4095s/model.safetensors", a->out);
    TRY(weft_nn_save(model, path));
    TRY(save_config(a));
    return WEFT_OK;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    char hash[65] = "";
    const struct weft_hf_family *family = NULL;
    struct weft_nn *model = NULL;
    TRY(weft_folder_check_new(a->out));
    TRY(read_config(a, &family));
    a->common.model = family->preset;
    a->common.settings.preset_name = family->preset;
    TRY(weft_spec_init(&a->common.spec, family->preset, &a->common.settings));
    TRY(weft_settings_finish(&a->common.settings));
    enum weft_status status = weft_nn_create(&model, &a->common.spec);
    if (status == WEFT_OK)
        status = import(a, model, family);
    if (status == WEFT_OK)
        weft_params_hash(&model->params, hash);
    int64_t params = model ? model->params.elements : 0;
    weft_nn_free(model);
    TRY(status);
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "folder", a->out);
    weft_result_text(r, "architecture", family->architecture);
    weft_result_int(r, "params", params);
    weft_result_text(r, "weights_sha256", hash);
    status = weft_result_print(r, stdout, a->common.json);
    weft_result_free(r);
    return status;
}

const struct weft_cmd weft_cmd_import = {
    .name = "import",
    .summary = "take over a model of another program",
    .doc = "Makes a model folder of a folder of Hugging Face: GPT-2, Llama, Qwen2 or dense Qwen3, with weights as "
           "safetensors. The model can then be evaluated, decoded, trained on (weft train --init) and changed. "
           "Whatever in "
           "config.json changes what the model computes and is not understood is refused by name.",
    .args = table,
    .takes = WEFT_TAKES_SET | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
