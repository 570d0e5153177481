/* SPDX-License-Identifier: MIT
 *
 * prune - derives a smaller model from a trained one by removing heads, channels or ranks.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "text/text.h"
#include "train/record/record.h"

struct args {
    struct weft_common common;
    struct weft_shares shares; /* fractions to remove */
    const char *out;
};

#define FRACTION(field) WEFT_ARG_REAL, offsetof(struct args, shares.field), .initial = "0", .min = 0, .max = 1
static const struct weft_arg table[] = {
    {"heads", 'H', "FRACTION", FRACTION(heads), .help = "Remove this fraction of the heads in every layer"},
    {"channels", 'C', "FRACTION", FRACTION(channels), .help = "Remove this fraction of the feed-forward channels"},
    {"ranks", 'R', "FRACTION", FRACTION(ranks),
     .help = "Remove this fraction of the ranks of M1, M2 and M3, if they have any"},
    {"out", 'o', "DIR", WEFT_ARG_FOLDER, offsetof(struct args, out), .help = "Write the model to this new folder",
     .missing = "no output folder given: pass --out DIR"},
    {0},
};

static enum weft_status check_args(const void *args)
{
    const struct args *a = args;
    return weft_shares_any(&a->shares)
               ? WEFT_OK
               : FAIL(WEFT_INVALID, "nothing to prune: pass --heads, --channels or --ranks, as in --heads 0.25");
}

/* ---- cutting, one kind of unit after the other */

struct pruning {
    struct weft_nn *whole;
    struct weft_cuts cuts;
    struct weft_settings settings; /* settings of the smaller model */
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_result *result;
};

static enum weft_status cut(const struct args *a, struct pruning *p)
{
    static const char *const names[WEFT_UNITS] = {"heads", "channels", "m1_ranks", "m2_ranks", "m3_ranks"};
    TRY(weft_cuts_init(&p->cuts, p->whole, &a->shares, true));
    for (int i = 0; i < WEFT_UNITS; i++) {
        const struct weft_smaller *s = &p->cuts.steps[i];
        char text[64];
        if (!s->model)
            continue;
        TRY(weft_settings_add_words(&p->settings, s->settings));
        snprintf(text, sizeof text, "%lld of %lld", (long long)s->kept, (long long)s->units);
        weft_result_text(p->result, names[i], text);
    }
    return weft_recipe_forget(&a->common.recipe, &a->shares, &p->settings);
}

/* ---- the new folder */

static enum weft_status copy_tokenizer(const struct args *a, const char *folder, int64_t vocab)
{
    char path[4200];
    struct weft_tokenizer *t = NULL;
    if (!weft_tokenizer_find(folder, path))
        return WEFT_OK;
    enum weft_status status = weft_tokenizer_open(path, "", vocab, &t);
    snprintf(path, sizeof path, "%.4095s/tokenizer.json", a->out);
    if (status == WEFT_OK)
        status = weft_tokenizer_save(t, path);
    weft_tokenizer_free(t);
    return status;
}

/* The config has all options of the whole model, including training options, except that the removed kinds of
 * units are not pruned again. */
static enum weft_status save(const struct args *a, struct pruning *p, const char *folder)
{
    char path[4200];
    TRY(weft_spec_init(&p->spec, a->common.model, &p->settings));
    TRY(weft_recipe_init(&p->recipe, &p->spec, &p->settings));
    TRY(weft_folder_make(a->out));
    TRY(copy_tokenizer(a, folder, p->spec.vocab));
    snprintf(path, sizeof path, "%.4095s/model.safetensors", a->out);
    TRY(weft_nn_save(p->cuts.model, path));
    TRY(weft_config_save(&p->settings, a->out));
    return WEFT_OK;
}

static enum weft_status print(const struct args *a, const struct pruning *p)
{
    char hash[65];
    weft_params_hash(&p->cuts.model->params, hash);
    weft_result_text(p->result, "folder", a->out);
    weft_result_int(p->result, "params_before", p->whole->params.elements);
    weft_result_int(p->result, "params", p->cuts.model->params.elements);
    weft_result_text(p->result, "weights_sha256", hash);
    return weft_result_print(p->result, stdout, a->common.json);
}

static enum weft_status prune(const struct args *a, struct pruning *p)
{
    char folder[4096];
    TRY(weft_nn_folder(a->common.model, folder, sizeof folder));
    TRY(weft_nn_create(&p->whole, &a->common.spec));
    TRY(weft_weights_open(p->whole, folder));
    TRY(cut(a, p));
    TRY(save(a, p, folder));
    return print(a, p);
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    TRY(weft_model_check_folder(a->common.model));
    TRY(weft_folder_check_new(a->out));
    TRY(weft_common_init(&a->common));
    struct pruning p = {.result = weft_result_create()};
    enum weft_status status = prune(a, &p);
    weft_cuts_release(&p.cuts);
    weft_nn_free(p.whole);
    weft_recipe_release(&p.recipe);
    weft_spec_release(&p.spec);
    weft_settings_release(&p.settings);
    weft_result_free(p.result);
    return status;
}

const struct weft_cmd weft_cmd_prune = {
    .name = "prune",
    .summary = "make a smaller model: remove heads, channels or ranks",
    .doc =
        "Writes a model folder with fewer heads, feed-forward channels or ranks of mechanisms than MODEL. It removes "
        "the least important ones, where importance is the product of the norms of their weights. Every layer loses "
        "the same number, so the result is an ordinary model of a smaller size, which all commands accept. It usually "
        "needs some more training: weft train DIR --init DIR. During training, --set prune prunes single weights, and "
        "--set prune_heads, prune_channels or prune_ranks prunes the units that this command then removes.",
    .args = table,
    .takes = WEFT_TAKES_WEIGHTS | WEFT_TAKES_JSON,
    .check = check_args,
    .args_bytes = sizeof(struct args),
    .run = run,
};
