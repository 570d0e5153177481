/* SPDX-License-Identifier: MIT
 *
 * export - a trained model in the format of another program.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "export/hf.h"

static const char *const formats[] = {"hf", NULL};

struct args {
    struct weft_common common;
    int format;
    const char *out;
};

static const struct weft_arg table[] = {
    {"format", 'f', "FORMAT", WEFT_ARG_CHOICE, offsetof(struct args, format), .choices = formats,
     .help = "hf: a folder of Hugging Face", .missing = "in which format? Give --format hf"},
    {"out", 'o', "DIR", WEFT_ARG_FOLDER, offsetof(struct args, out), .help = "The new folder",
     .missing = "export where to? Give --out DIR"},
    {0},
};

static enum weft_status write_out(const struct args *a, struct weft_nn *model, const char *folder)
{
    TRY(weft_nn_load(model, folder));
    TRY(weft_hf_export(model, a->out));
    TRY(weft_tokenizer_copy(folder, a->out, a->common.spec.vocab));
    return WEFT_OK;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    char folder[4096], hash[65] = "";
    struct weft_nn *model = NULL;
    const struct weft_hf_family *family = NULL;
    if (!weft_model_is_folder(a->common.model))
        return FAIL(WEFT_INVALID, "%s is not a folder with weights: give a run, a checkpoint or a model folder",
                    a->common.model);
    TRY(weft_folder_check_new(a->out));
    TRY(weft_common_init(&a->common));
    TRY(weft_hf_family_of(&a->common.spec, &family));
    TRY(weft_nn_folder(a->common.model, folder, sizeof folder));
    enum weft_status status = weft_nn_create(&model, &a->common.spec);
    if (status == WEFT_OK)
        status = write_out(a, model, folder);
    if (status == WEFT_OK)
        weft_params_hash(&model->params, hash);
    weft_nn_free(model);
    TRY(status);
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "folder", a->out);
    weft_result_text(r, "architecture", family->architecture);
    weft_result_text(r, "weights_sha256", hash);
    status = weft_result_print(r, stdout, a->common.json);
    weft_result_free(r);
    return status;
}

const struct weft_cmd weft_cmd_export = {
    .name = "export",
    .summary = "write a model in the format of another program",
    .doc =
        "Writes a trained model as a folder that transformers, and programs that read the same, load without any code "
        "of Weft: config.json, model.safetensors in f32, and tokenizer.json. A model that no architecture of theirs "
        "can be is refused, with what stands against it.",
    .args = table,
    .takes = WEFT_TAKES_MODEL | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
