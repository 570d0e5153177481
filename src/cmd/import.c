/* SPDX-License-Identifier: MIT
 *
 * import - converts a model from a different program to a model folder.
 */
#include "base/fields.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "export/gguf/gguf.h"

#include <stdlib.h>
#include <unistd.h>

struct args {
    struct weft_common common;
    const char *path, *out;
    bool no_tokenizer;
    struct weft_gguf *gguf; /* NULL: PATH is a folder */
};

static const struct weft_arg table[] = {
    {NULL, 0, "PATH", WEFT_ARG_FILE, offsetof(struct args, path),
     .help = "Hugging Face folder with config.json and safetensors, or a GGUF file",
     .missing = "nothing to import: pass a folder with config.json and model.safetensors, or a GGUF file"},
    {"out", 'o', "DIR", WEFT_ARG_FOLDER, offsetof(struct args, out), .help = "Write the model to this new folder",
     .missing = "no output folder given: pass --out DIR"},
    {"no-tokenizer", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, no_tokenizer),
     .help = "Do not import the tokenizer: the model then accepts only token ids"},
    {0},
};

/* ---- a model: unchanged, or with different settings */

struct side {
    const struct weft_hf_family *family;
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_nn *model;
};

static enum weft_status read_config(const struct args *a, struct side *s)
{
    char path[4200];
    json_t *config = NULL;
    if (a->gguf)
        return weft_gguf_config(a->gguf, &s->family, &s->settings);
    snprintf(path, sizeof path, "%.4095s/config.json", a->path);
    TRY(weft_fields_load(path, &config));
    const char *type = json_string_value(json_object_get(config, "model_type"));
    enum weft_status status =
        type ? weft_hf_family_find(type, path, &s->family)
             : FAIL(WEFT_FORMAT, "%s has no model_type: expected a Hugging Face config.json", path);
    if (status == WEFT_OK)
        status = weft_hf_config_read(s->family, config, path, &s->settings);
    json_decref(config);
    return status;
}

/* `asked`: the settings of --set. */
static enum weft_status create(const struct args *a, const struct weft_settings *asked, struct side *s)
{
    TRY(read_config(a, s));
    for (int i = 0; asked->count && i < s->settings.count; i++)
        s->settings.setting[i].shared = true; /* a different part may not have the option */
    for (int i = 0; i < asked->count; i++)
        TRY(weft_settings_put(&s->settings, asked->setting[i]));
    s->settings.preset_name = s->family->preset;
    TRY(weft_spec_init(&s->spec, s->family->preset, &s->settings));
    TRY(weft_settings_finish(&s->settings));
    TRY(weft_nn_create(&s->model, &s->spec));
    return WEFT_OK;
}

static void release(struct side *s)
{
    weft_nn_free(s->model);
    weft_spec_release(&s->spec);
    weft_settings_release(&s->settings);
}

/* Leaves *t NULL if there is no tokenizer or --no-tokenizer is given. */
static enum weft_status open_tokenizer(const struct args *a, int64_t vocab, struct weft_tokenizer **t)
{
    char path[4200];
    if (a->no_tokenizer)
        return WEFT_OK;
    if (a->gguf)
        TRY(weft_gguf_tokenizer(a->gguf, t));
    else if (weft_tokenizer_find(a->path, path))
        TRY(weft_tokenizer_open(path, "", vocab, t));
    if (*t && weft_tokenizer_vocab(*t) > vocab)
        return FAIL(WEFT_INVALID, "%s: the tokenizer has %d tokens, but the model has %lld", a->path,
                    weft_tokenizer_vocab(*t), (long long)vocab);
    return WEFT_OK;
}

/* Creates the folder only after everything has been read. */
static enum weft_status save(const struct args *a, const struct weft_nn *model, const struct weft_tokenizer *t)
{
    char path[4200];
    TRY(weft_folder_make(a->out));
    snprintf(path, sizeof path, "%.4095s/tokenizer.json", a->out);
    if (t)
        TRY(weft_tokenizer_save(t, path));
    snprintf(path, sizeof path, "%.4095s/model.safetensors", a->out);
    TRY(weft_nn_save(model, path));
    return WEFT_OK;
}

static enum weft_status import(const struct args *a, const struct side *s)
{
    struct weft_tokenizer *t = NULL;
    TRY(a->gguf ? weft_gguf_weights(s->model, s->family, a->gguf) : weft_hf_weights(s->model, s->family, a->path));
    enum weft_status status = open_tokenizer(a, s->spec.vocab, &t);
    if (status == WEFT_OK)
        status = save(a, s->model, t);
    weft_tokenizer_free(t);
    return status;
}

/* Creates the model with the new settings, and copies the weights that fit from the folder just written. */
static enum weft_status change(const struct args *a, struct side *s, struct weft_fits *fits)
{
    char path[4200];
    snprintf(path, sizeof path, "%.4095s/model.safetensors", a->out);
    TRY(weft_nn_init(s->model));
    enum weft_status status = weft_nn_adopt(s->model, path, true, weft_fits_add, fits);
    if (status == WEFT_OK)
        return weft_nn_save(s->model, path);
    unlink(path);
    snprintf(path, sizeof path, "%.4095s/tokenizer.json", a->out);
    unlink(path);
    rmdir(a->out);
    return status;
}

/* ---- the command */

static enum weft_status print(const struct args *a, const struct side *s, const struct weft_fits *fits)
{
    static const char *const words[] = {"copied", "extended", "new", "left"};
    char hash[65];
    bool changed = fits->count[WEFT_FIT_EXTENDED] || fits->count[WEFT_FIT_NEW] || fits->count[WEFT_FIT_LEFT];
    struct weft_result *r = weft_result_create();
    weft_params_hash(&s->model->params, hash);
    weft_result_text(r, "folder", a->out);
    weft_result_text(r, "architecture", s->family->architecture);
    weft_result_int(r, "params", s->model->params.elements);
    weft_result_text(r, "weights_sha256", hash);
    for (int i = 0; changed && i <= WEFT_FIT_LEFT; i++)
        weft_result_int(r, words[i], fits->count[i]);
    if (changed)
        weft_fits_print(fits, stderr);
    return weft_result_finish(r, stdout, a->common.json);
}

static enum weft_status import_all(const struct args *a, struct side *theirs, struct side *ours)
{
    static const struct weft_settings nothing;
    const struct weft_settings *asked = &a->common.settings;
    struct weft_fits fits = {0};
    TRY(create(a, &nothing, theirs));
    if (asked->count)
        TRY(create(a, asked, ours)); /* so that an invalid setting fails before anything is written */
    TRY(import(a, theirs));
    if (asked->count)
        TRY(change(a, ours, &fits));
    struct side *result = asked->count ? ours : theirs;
    TRY(weft_config_save(&result->settings, a->out));
    return print(a, result, &fits);
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    TRY(weft_folder_check_new(a->out));
    if (!weft_is_folder(a->path))
        TRY(weft_gguf_open(&a->gguf, a->path));
    struct side theirs = {0}, ours = {0};
    enum weft_status status = import_all(a, &theirs, &ours);
    release(&theirs);
    release(&ours);
    weft_gguf_close(a->gguf);
    return status;
}

const struct weft_cmd weft_cmd_import = {
    .name = "import",
    .summary = "import a model from a different program",
    .doc = "Converts a Hugging Face folder with safetensors weights, or a GGUF file in f32, f16 or bf16, to a model "
           "folder: GPT-2, Llama, Qwen2 or dense Qwen3. The model can then be evaluated, trained further (weft train "
           "--init), changed, and used to generate text. With --set, as in --set geom=w2, it becomes a different "
           "model: weights that fit by name and shape are copied, the others are new, and both are listed. An "
           "unsupported entry of config.json, or of the metadata of the GGUF file, is an error if it changes the "
           "computation, and the message names the entry.",
    .args = table,
    .takes = WEFT_TAKES_SET | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
