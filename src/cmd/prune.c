/* SPDX-License-Identifier: MIT
 *
 * prune - a smaller model of a trained one: heads, channels or ranks left out.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "text/text.h"

#include <string.h>

struct args {
    struct weft_common common;
    double heads, channels, ranks; /* shares that are left out; 0: none */
    const char *out;
};

#define SHARE(field) WEFT_ARG_REAL, offsetof(struct args, field), .initial = "0", .min = 0, .max = 1
static const struct weft_arg table[] = {
    {"heads", 'H', "SHARE", SHARE(heads), .help = "Leave out this share of the heads of every layer"},
    {"channels", 'C', "SHARE", SHARE(channels), .help = "The same of the feed-forward's channels"},
    {"ranks", 'R', "SHARE", SHARE(ranks), .help = "The same of the ranks of M1, M2 and M3, where they have some"},
    {"out", 'o', "DIR", WEFT_ARG_FOLDER, offsetof(struct args, out), .help = "The new model folder",
     .missing = "prune where to? Give --out DIR"},
    {0},
};

static enum weft_status check_args(const void *args)
{
    const struct args *a = args;
    return a->heads + a->channels + a->ranks > 0 ? WEFT_OK
                                                 : FAIL(WEFT_INVALID, "leave out what? Give --heads, --channels or "
                                                                      "--ranks, as in --heads 0.25");
}

/* ---- cutting, one kind after the other */

struct pruning {
    struct weft_nn *whole;
    struct weft_smaller steps[WEFT_UNITS];
    const struct weft_nn *now;
    struct weft_settings settings; /* of the smaller model */
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_result *result;
};

static const struct {
    const char *name;
    size_t share;
} cuts[WEFT_UNITS] = {
    [WEFT_UNITS_HEADS] = {"heads", offsetof(struct args, heads)},
    [WEFT_UNITS_CHANNELS] = {"channels", offsetof(struct args, channels)},
    [WEFT_UNITS_M1] = {"m1_ranks", offsetof(struct args, ranks)},
    [WEFT_UNITS_M2] = {"m2_ranks", offsetof(struct args, ranks)},
    [WEFT_UNITS_M3] = {"m3_ranks", offsetof(struct args, ranks)},
};

static enum weft_status cut(const struct args *a, struct pruning *p, int i)
{
    double share = *(const double *)((const char *)a + cuts[i].share);
    struct weft_smaller *s = &p->steps[i];
    char text[64];
    if (share == 0 || weft_nn_units(p->now, (enum weft_units)i) == 0)
        return WEFT_OK;
    TRY(weft_nn_cut(s, p->now, (enum weft_units)i, share));
    TRY(weft_settings_add_words(&p->settings, s->settings));
    p->now = s->model;
    snprintf(text, sizeof text, "%lld of %lld", (long long)s->kept, (long long)s->units);
    weft_result_text(p->result, cuts[i].name, text);
    return WEFT_OK;
}

static enum weft_status cut_all(const struct args *a, struct pruning *p)
{
    if (a->ranks > 0 && !weft_nn_units(p->now, WEFT_UNITS_M1) && !weft_nn_units(p->now, WEFT_UNITS_M2) &&
        !weft_nn_units(p->now, WEFT_UNITS_M3))
        return FAIL(WEFT_INVALID, "%s has no mechanism with ranks: leave out --ranks", a->common.model);
    for (int i = 0; i < WEFT_UNITS; i++)
        TRY(cut(a, p, i));
    return WEFT_OK;
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

/* The config has all options of the whole model's, those of its training too. */
static enum weft_status save(const struct args *a, struct pruning *p, const char *folder)
{
    char path[4200];
    TRY(weft_spec_init(&p->spec, a->common.model, &p->settings));
    TRY(weft_recipe_init(&p->recipe, &p->spec, &p->settings));
    TRY(weft_folder_make(a->out));
    TRY(copy_tokenizer(a, folder, p->spec.vocab));
    snprintf(path, sizeof path, "%.4095s/model.safetensors", a->out);
    TRY(weft_nn_save(p->now, path));
    TRY(weft_config_save(&p->settings, a->out));
    return WEFT_OK;
}

static enum weft_status print(const struct args *a, const struct pruning *p)
{
    char hash[65];
    weft_params_hash(&p->now->params, hash);
    weft_result_text(p->result, "folder", a->out);
    weft_result_int(p->result, "params_before", p->whole->params.elements);
    weft_result_int(p->result, "params", p->now->params.elements);
    weft_result_text(p->result, "weights_sha256", hash);
    return weft_result_print(p->result, stdout, a->common.json);
}

static enum weft_status prune(const struct args *a, struct pruning *p)
{
    char folder[4096];
    TRY(weft_nn_folder(a->common.model, folder, sizeof folder));
    TRY(weft_nn_create(&p->whole, &a->common.spec));
    TRY(weft_nn_load(p->whole, folder));
    p->now = p->whole;
    TRY(cut_all(a, p));
    TRY(save(a, p, folder));
    return print(a, p);
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    if (!weft_model_is_folder(a->common.model))
        return FAIL(WEFT_INVALID, "%s is not a folder with weights: give a run, a checkpoint or a model folder",
                    a->common.model);
    TRY(weft_folder_check_new(a->out));
    TRY(weft_common_init(&a->common));
    struct pruning p = {.result = weft_result_create()};
    enum weft_status status = prune(a, &p);
    for (int i = WEFT_UNITS - 1; i >= 0; i--)
        weft_smaller_release(&p.steps[i]);
    weft_nn_free(p.whole);
    weft_recipe_release(&p.recipe);
    weft_spec_release(&p.spec);
    weft_settings_release(&p.settings);
    weft_result_free(p.result);
    return status;
}

const struct weft_cmd weft_cmd_prune = {
    .name = "prune",
    .summary = "make a smaller model: leave out heads, channels or ranks",
    .doc =
        "Makes a model folder with fewer heads, channels of the feed-forward, or ranks of mechanisms than MODEL has, "
        "those of the least importance left out: the product of the norms of their weights. Every layer loses the "
        "same number, so the result is an ordinary model with other sizes, which all commands take. It usually "
        "needs some more training: weft train DIR --init DIR. Single weights are pruned in training: --set prune.",
    .args = table,
    .takes = WEFT_TAKES_MODEL | WEFT_TAKES_JSON,
    .check = check_args,
    .args_bytes = sizeof(struct args),
    .run = run,
};
