/* SPDX-License-Identifier: MIT
 *
 * import - a model of another program as a model folder of Weft.
 */
#include "base/fields.h"
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "cmd/cmd.h"
#include "export/gguf.h"

#include <stdlib.h>

struct args {
    struct weft_common common;
    const char *path, *out;
    bool no_tokenizer;
    struct weft_gguf *gguf; /* NULL: PATH is a folder */
};

static const struct weft_arg table[] = {
    {NULL, 0, "PATH", WEFT_ARG_FILE, offsetof(struct args, path),
     .help = "A folder of Hugging Face, with config.json and safetensors, or a GGUF file",
     .missing = "import what? Give a folder with config.json and model.safetensors, or a GGUF file"},
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
    if (a->gguf)
        return weft_gguf_config(a->gguf, family, &a->common.settings);
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

/* NULL: there is none, or it is not wanted. */
static enum weft_status open_tokenizer(const struct args *a, struct weft_tokenizer **t)
{
    char path[4200];
    int64_t vocab = a->common.spec.vocab;
    if (a->no_tokenizer)
        return WEFT_OK;
    if (a->gguf)
        TRY(weft_gguf_tokenizer(a->gguf, t));
    else if (weft_tokenizer_find(a->path, path))
        TRY(weft_tokenizer_open(path, "", vocab, t));
    if (*t && weft_tokenizer_vocab(*t) > vocab)
        return FAIL(WEFT_INVALID, "%s: the tokenizer has %d tokens, but the model %lld", a->path,
                    weft_tokenizer_vocab(*t), (long long)vocab);
    return WEFT_OK;
}

/* The folder is made when all has been read. */
static enum weft_status save(struct args *a, const struct weft_nn *model, const struct weft_tokenizer *t)
{
    char path[4200];
    TRY(weft_folder_make(a->out));
    snprintf(path, sizeof path, "%.4095s/tokenizer.json", a->out);
    if (t)
        TRY(weft_tokenizer_save(t, path));
    snprintf(path, sizeof path, "%.4095s/model.safetensors", a->out);
    TRY(weft_nn_save(model, path));
    TRY(save_config(a));
    return WEFT_OK;
}

static enum weft_status import(struct args *a, struct weft_nn *model, const struct weft_hf_family *family)
{
    struct weft_tokenizer *t = NULL;
    TRY(a->gguf ? weft_gguf_weights(model, family, a->gguf) : weft_hf_weights(model, family, a->path));
    enum weft_status status = open_tokenizer(a, &t);
    if (status == WEFT_OK)
        status = save(a, model, t);
    weft_tokenizer_free(t);
    return status;
}

static enum weft_status import_and_print(struct args *a)
{
    char hash[65] = "";
    const struct weft_hf_family *family = NULL;
    struct weft_nn *model = NULL;
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

static enum weft_status run(void *args)
{
    struct args *a = args;
    TRY(weft_folder_check_new(a->out));
    if (!weft_is_folder(a->path))
        TRY(weft_gguf_open(&a->gguf, a->path));
    enum weft_status status = import_and_print(a);
    weft_gguf_close(a->gguf);
    return status;
}

const struct weft_cmd weft_cmd_import = {
    .name = "import",
    .summary = "take over a model of another program",
    .doc =
        "Makes a model folder of a folder of Hugging Face, with weights as safetensors, or of a GGUF file, in f32, f16 "
        "or bf16: GPT-2, Llama, Qwen2 or dense Qwen3. The model can then be evaluated, decoded, trained on (weft "
        "train --init) and changed. Whatever in config.json, or in the metadata of the file, changes what the model "
        "computes and is not understood is refused by name.",
    .args = table,
    .takes = WEFT_TAKES_SET | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
