/* SPDX-License-Identifier: MIT
 *
 * export - writes a trained model in the format of a different program.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "export/gguf/gguf.h"
#include "export/hf/hf.h"
#include "export/onnx/onnx.h"
#include "export/parity.h"
#include "train/record/record.h"

#include <stdio.h>
#include <unistd.h>

struct args {
    struct weft_common common;
    int format, type;
    const char *out;
    bool check, unchecked;
};

/* Result of the export. */
struct written {
    const char *architecture;
    char hash[65];
    struct weft_parity parity;
};

/* ---- formats: each writes a model and its tokenizer, which may be NULL */

/* Returns the model's standard architecture if it has one, otherwise Weft's own. */
static const struct weft_hf_family *choose(const struct weft_spec *spec)
{
    const struct weft_hf_family *family = NULL;
    if (weft_hf_family_of(spec, &family) == WEFT_OK)
        return family;
    weft_note_once("own architecture", "%s. It is exported with its own code: load it with trust_remote_code=True",
                   weft_error());
    weft_error_clear();
    return &weft_hf_own;
}

static enum weft_status write_hf(const struct args *a, const struct weft_nn *model, const struct weft_tokenizer *t,
                                 const char **architecture)
{
    const struct weft_hf_family *family = choose(model->spec);
    *architecture = family->architecture;
    TRY(weft_hf_export(model, family, a->out));
    TRY(weft_hf_tokenizer(t, model->spec->context, a->out));
    return WEFT_OK;
}

static enum weft_status write_onnx(const struct args *a, const struct weft_nn *model, const struct weft_tokenizer *t,
                                   const char **architecture)
{
    *architecture = "opset 17";
    TRY(weft_onnx_export(model, weft_tokenizer_end(t), a->out));
    TRY(weft_hf_tokenizer(t, model->spec->context, a->out));
    return WEFT_OK;
}

static enum weft_status write_gguf(const struct args *a, const struct weft_nn *model, const struct weft_tokenizer *t,
                                   const char **architecture)
{
    enum weft_gguf_weight weight = a->type < 0 ? WEFT_GGUF_WEIGHT_F32 : (enum weft_gguf_weight)a->type;
    const struct weft_hf_family *family = NULL;
    TRY(weft_hf_family_of(model->spec, &family));
    *architecture = weft_gguf_family_of(model->spec, family)->names.type;
    TRY(weft_folder_make_parents(a->out));
    TRY(weft_gguf_export(model, t, weight, a->out));
    return WEFT_OK;
}

static enum weft_status write_torch(const struct args *a, const struct weft_nn *model, const struct weft_tokenizer *t,
                                    const char **architecture)
{
    *architecture = "PyTorch";
    TRY(weft_hf_export_module(model, a->out));
    TRY(weft_hf_tokenizer(t, model->spec->context, a->out));
    return WEFT_OK;
}

enum { HF, ONNX, GGUF, TORCH };
static const char *const names[] = {[HF] = "hf", [ONNX] = "onnx", [GGUF] = "gguf", [TORCH] = "torch", NULL};
static const struct {
    enum weft_status (*write)(const struct args *a, const struct weft_nn *model, const struct weft_tokenizer *t,
                              const char **architecture);
    const char *name;
    bool file; /* it writes one file, not a folder */
} formats[] = {[HF] = {write_hf, "Hugging Face"},
               [ONNX] = {write_onnx, "ONNX"},
               [GGUF] = {write_gguf, "GGUF", true},
               [TORCH] = {write_torch, "PyTorch"}};

static const struct weft_arg table[] = {
    {"format", 'f', "FORMAT", WEFT_ARG_CHOICE, offsetof(struct args, format), .choices = names,
     .help = "Write this format: hf (a Hugging Face folder), onnx (a folder with model.onnx), gguf (a file for "
             "llama.cpp) or torch (a folder with model.py)",
     .missing = "no format given: pass --format hf, onnx, gguf or torch"},
    {"out", 'o', "PATH", WEFT_ARG_FILE, offsetof(struct args, out),
     .help = "Write to this new folder or, with gguf, to this new file", .missing = "no output given: pass --out PATH"},
    {"type", 't', "TYPE", WEFT_ARG_CHOICE, offsetof(struct args, type), .choices = weft_gguf_weight_names,
     .help = "Store matrices in gguf in this type (default: f32)"},
    {"check", 'c', NULL, WEFT_ARG_FLAG, offsetof(struct args, check),
     .help = "Fail if the program that reads the format is missing; if it is installed, logits are always compared"},
    {"no-check", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, unchecked),
     .help = "Do not compare the logits with those of the program that reads the format"},
    {0},
};

static enum weft_status check_args(const void *args)
{
    const struct args *a = args;
    if (a->check && a->unchecked)
        return FAIL(WEFT_INVALID, "--check and --no-check are mutually exclusive");
    if (a->check && a->type > WEFT_GGUF_WEIGHT_F32)
        return FAIL(WEFT_INVALID,
                    "--check works only with --type f32, because it compares with the model's own weights");
    return a->type < 0 || a->format == GGUF ? WEFT_OK : FAIL(WEFT_INVALID, "--type works only with --format gguf");
}

static enum weft_status check_out(const struct args *a)
{
    if (!formats[a->format].file)
        return weft_folder_check_new(a->out);
    if (access(a->out, F_OK) == 0)
        return FAIL(WEFT_INVALID, "%s already exists: pass a new file with --out", a->out);
    return WEFT_OK;
}

/* ---- the check */

/* Renames an export if the other program computes different logits, so that no export with the requested name is
 * wrong. */
static void set_aside(const struct args *a)
{
    char failed[4200];
    snprintf(failed, sizeof failed, "%.4095s.failed", a->out);
    if (rename(a->out, failed) == 0)
        weft_note_once("set aside", "the exported model is in %s", failed);
}

static enum weft_status judge(const struct args *a, const struct weft_parity *p)
{
    if (*p->missing && a->check)
        return FAIL(WEFT_CHECK, "%s: install it, set WEFT_PYTHON to a different Python, or export without --check",
                    p->missing);
    if (*p->missing)
        weft_note_once("parity", "nothing was checked: %s (WEFT_PYTHON selects a different Python)", p->missing);
    else if (2 * p->unclear > p->tokens)
        return FAIL(WEFT_CHECK,
                    "%s cannot be compared: the logits of %lld of %lld tokens change when the weights are rounded "
                    "differently. Pass --no-check to export it anyway",
                    p->program, (long long)p->unclear, (long long)p->tokens);
    else if (p->agree < p->tokens - p->unclear)
        return FAIL(WEFT_CHECK,
                    "%s computes different logits: only %lld of %lld tokens agree, and the largest difference is %.2g "
                    "of the largest logit",
                    p->program, (long long)p->agree, (long long)(p->tokens - p->unclear), p->difference);
    return WEFT_OK;
}

/* Compares logits in f32, the dtype that the other programs use. */
static enum weft_status compare(const struct args *a, struct weft_nn *model, const char *folder, struct weft_parity *p)
{
    TRY(weft_weights_open(model, folder));
    enum weft_status status = weft_parity_check(model, names[a->format], a->out, p);
    if (status == WEFT_OK)
        status = judge(a, p);
    if (status != WEFT_OK)
        set_aside(a);
    return status;
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
    char path[4200];
    struct weft_tokenizer *t = NULL;
    TRY(weft_weights_open(model, folder));
    weft_params_hash(&model->params, w->hash);
    enum weft_status status = WEFT_OK;
    if (weft_tokenizer_find(folder, path))
        status = weft_tokenizer_open(path, "", model->spec->vocab, &t);
    if (status == WEFT_OK)
        status = formats[a->format].write(a, model, t, &w->architecture);
    weft_tokenizer_free(t);
    return status;
}

static enum weft_status print(const struct args *a, const struct written *w)
{
    struct weft_result *r = weft_result_create();
    weft_result_text(r, formats[a->format].file ? "file" : "folder", a->out);
    weft_result_text(r, "architecture", w->architecture);
    weft_result_text(r, "weights_sha256", w->hash);
    weft_result_text(r, "checked_by", *w->parity.program ? w->parity.program : "none");
    if (*w->parity.program) {
        weft_result_real(r, "difference", w->parity.difference);
        weft_result_int(r, "tokens", w->parity.tokens);
        weft_result_int(r, "tokens_agree", w->parity.agree);
        weft_result_int(r, "tokens_unclear", w->parity.unclear);
    }
    return weft_result_finish(r, stdout, a->common.json);
}

/* Returns whether the export is checked. Quantised exports are not, because their logits differ. */
static bool is_checked(const struct args *a)
{
    if (a->type > WEFT_GGUF_WEIGHT_F32)
        weft_note_once("parity", "nothing was checked: only f32 weights can be compared");
    return !a->unchecked && a->type <= WEFT_GGUF_WEIGHT_F32;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    char folder[4096];
    struct weft_nn *model = NULL;
    struct written w = {0};
    TRY(weft_model_check_folder(a->common.model));
    TRY(check_out(a));
    TRY(weft_spec_init(&a->common.spec, a->common.model, &a->common.settings));
    TRY(weft_nn_folder(a->common.model, folder, sizeof folder));
    enum weft_status status = weft_nn_create(&model, &a->common.spec);
    if (status == WEFT_OK)
        status = write_out(a, model, folder, &w);
    weft_nn_free(model);
    if (status == WEFT_OK && is_checked(a))
        status = check(a, folder, &w.parity);
    TRY(status);
    return print(a, &w);
}

const struct weft_cmd weft_cmd_export = {
    .name = "export",
    .summary = "write a model in the format of a different program",
    .doc = "Writes a trained model in the format of a different program. hf: a folder for transformers and programs "
           "that read the same files: config.json, model.safetensors in f32, and tokenizer.json. GPT-2, Llama, Qwen2 "
           "and Qwen3 are exported under these names and need no Weft code. Any other model comes with code that is "
           "printed from its graph (modeling_weft.py), which transformers loads with trust_remote_code=True. onnx: any "
           "model as a graph of standard operators with a cache, for ONNX Runtime "
           "and others. gguf: a file for llama.cpp, with matrices in the type set by --type; only these four families. "
           "torch: any model as plain PyTorch, model.py with the logits and the loss of training, and "
           "model.safetensors; weft import reads the folder again.",
    .args = table,
    .takes = WEFT_TAKES_WEIGHTS | WEFT_TAKES_JSON,
    .check = check_args,
    .args_bytes = sizeof(struct args),
    .run = run,
};
