/* SPDX-License-Identifier: MIT
 *
 * export - a trained model in the format of another program.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "export/hf.h"
#include "export/parity.h"
#include "nn/part.h"

#include <stdio.h>
#include <string.h>

struct args {
    struct weft_common common;
    int format;
    const char *out;
    bool check;
};

/* What was written. */
struct written {
    const char *architecture;
    char hash[65];
    struct weft_parity parity;
};

/* ---- formats */

/* A standard architecture if there is one for the model. */
static const struct weft_hf_family *choose(const struct weft_spec *spec)
{
    const struct weft_hf_family *family = NULL;
    if (weft_hf_family_of(spec, &family) == WEFT_OK)
        return family;
    weft_note_once("own architecture", "%s. It is written with its own code: load it with trust_remote_code=True",
                   weft_error());
    return &weft_hf_own;
}

static enum weft_status write_hf(const struct args *a, const struct weft_nn *model, const char *folder,
                                 struct written *w)
{
    const struct weft_hf_family *family = choose(model->spec);
    w->architecture = family->architecture;
    TRY(weft_hf_export(model, family, a->out));
    TRY(weft_tokenizer_copy(folder, a->out, model->spec->vocab));
    return WEFT_OK;
}

/* In the order of the names. */
static const char *const formats[] = {"hf", NULL};
static enum weft_status (*const writers[])(const struct args *, const struct weft_nn *, const char *,
                                           struct written *) = {write_hf};

static const struct weft_arg table[] = {
    {"format", 'f', "FORMAT", WEFT_ARG_CHOICE, offsetof(struct args, format), .choices = formats,
     .help = "hf: a folder of Hugging Face", .missing = "in which format? Give --format hf"},
    {"out", 'o', "DIR", WEFT_ARG_FOLDER, offsetof(struct args, out), .help = "The new folder",
     .missing = "export where to? Give --out DIR"},
    {"check", 'c', NULL, WEFT_ARG_FLAG, offsetof(struct args, check),
     .help = "Run the program that reads the format, if it is installed, and compare its logits with Weft's"},
    {0},
};

/* ---- the check */

/* M2 chooses tokens: of two that are equally good, the other program may choose the other one, and differs from there
 * on. */
static bool chooses(const struct weft_spec *spec)
{
    for (int i = 0; i < spec->mechanism_count; i++)
        if (strcmp(spec->mechanism[i].part->name, "m2") == 0)
            return true;
    return false;
}

static enum weft_status refuse(const struct args *a, const struct weft_parity *p)
{
    char failed[4200];
    snprintf(failed, sizeof failed, "%.4095s.failed", a->out);
    bool moved = rename(a->out, failed) == 0;
    return FAIL(WEFT_CHECK,
                "%s computes something else: %lld of %lld tokens have the same logits, and the largest difference is "
                "%.2g of the largest logit. What was exported is in %s",
                p->program, (long long)p->agree, (long long)p->tokens, p->difference, moved ? failed : a->out);
}

/* In f32, in which the other programs compute. */
static enum weft_status compare(const struct args *a, struct weft_nn *model, const char *folder, struct weft_parity *p)
{
    TRY(weft_nn_load(model, folder));
    TRY(weft_parity_check(model, formats[a->format], a->out, p));
    if (*p->missing)
        weft_note_once("parity", "nothing was checked: %s (WEFT_PYTHON can name another Python)", p->missing);
    else if (p->agree < (chooses(model->spec) ? p->tokens / 2 : p->tokens))
        return refuse(a, p);
    return WEFT_OK;
}

static enum weft_status check(const struct args *a, const char *folder, struct weft_parity *p)
{
    struct weft_spec spec;
    struct weft_nn *model = NULL;
    TRY(weft_spec_vary(&spec, &a->common.spec, "dtype=f32"));
    enum weft_status status = weft_nn_create(&model, &spec);
    if (status == WEFT_OK)
        status = compare(a, model, folder, p);
    weft_nn_free(model);
    weft_spec_release(&spec);
    return status;
}

/* ---- the command */

static enum weft_status write_out(const struct args *a, struct weft_nn *model, const char *folder, struct written *w)
{
    TRY(weft_nn_load(model, folder));
    weft_params_hash(&model->params, w->hash);
    TRY(writers[a->format](a, model, folder, w));
    return WEFT_OK;
}

static enum weft_status print(const struct args *a, const struct written *w)
{
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "folder", a->out);
    weft_result_text(r, "architecture", w->architecture);
    weft_result_text(r, "weights_sha256", w->hash);
    if (a->check)
        weft_result_text(r, "checked_by", *w->parity.program ? w->parity.program : "nothing");
    if (*w->parity.program) {
        weft_result_real(r, "difference", w->parity.difference);
        weft_result_int(r, "tokens", w->parity.tokens);
        weft_result_int(r, "tokens_agree", w->parity.agree);
    }
    enum weft_status status = weft_result_print(r, stdout, a->common.json);
    weft_result_free(r);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    char folder[4096];
    struct weft_nn *model = NULL;
    struct written w = {0};
    if (!weft_model_is_folder(a->common.model))
        return FAIL(WEFT_INVALID, "%s is not a folder with weights: give a run, a checkpoint or a model folder",
                    a->common.model);
    TRY(weft_folder_check_new(a->out));
    TRY(weft_common_init(&a->common));
    TRY(weft_nn_folder(a->common.model, folder, sizeof folder));
    enum weft_status status = weft_nn_create(&model, &a->common.spec);
    if (status == WEFT_OK)
        status = write_out(a, model, folder, &w);
    weft_nn_free(model);
    if (status == WEFT_OK && a->check)
        status = check(a, folder, &w.parity);
    TRY(status);
    return print(a, &w);
}

const struct weft_cmd weft_cmd_export = {
    .name = "export",
    .summary = "write a model in the format of another program",
    .doc =
        "Writes a trained model as a folder that transformers, and programs that read the same, load: config.json, "
        "model.safetensors in f32, and tokenizer.json. GPT-2, Llama, Qwen2 and Qwen3 are written under these names and "
        "need no code of Weft. Any other model comes with code for exactly this model, in plain PyTorch "
        "(modeling_weft.py), which transformers loads with trust_remote_code=True.",
    .args = table,
    .takes = WEFT_TAKES_MODEL | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
