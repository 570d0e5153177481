/* SPDX-License-Identifier: MIT
 *
 * model.c - implements models: creation from configs and folders, weights, description, and gates.
 */
#include "api/api.h"
#include "check/check.h"
#include "ckpt/ckpt.h"
#include "train/account.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 4096 };

enum weft_status weft_threads_valid(int threads)
{
    if (threads < 0 || threads > MOST_THREADS)
        return FAIL(WEFT_INVALID, "threads is %d: pass 1 to %d, or 0 for the default", threads, MOST_THREADS);
    return WEFT_OK;
}

/* ---- creation */

typedef enum weft_status resolve_fn(const struct weft_config *config, struct weft_resolved *r);

static enum weft_status create(struct weft_model **model, const struct weft_config *config, int threads,
                               resolve_fn *resolve)
{
    *model = NULL;
    TRY(weft_threads_valid(threads));
    struct weft_model *m = calloc(1, sizeof *m);
    if (!m)
        return FAIL(WEFT_NOMEM, "not enough memory for a model");
    m->threads = threads;
    enum weft_status status = resolve(config, &m->resolved);
    if (status == WEFT_OK)
        status = weft_nn_create(&m->nn, &m->resolved.spec);
    if (status == WEFT_OK)
        *model = m;
    else
        weft_model_free(m);
    return status;
}

enum weft_status weft_model_create(struct weft_model **model, const struct weft_config *config, int threads)
{
    GIVEN(model);
    *model = NULL;
    GIVEN(config);
    TRY(create(model, config, threads, weft_config_resolve));
    return WEFT_OK;
}

void weft_model_free(struct weft_model *m)
{
    if (!m)
        return;
    weft_nn_free(m->nn);
    weft_resolved_release(&m->resolved);
    free(m);
}

/* Opens a folder's config and adds `setting` unless it is NULL. */
static enum weft_status open_config(struct weft_model **model, const char *folder, const char *setting, int threads)
{
    struct weft_config *config;
    TRY(weft_config_create(&config, folder));
    enum weft_status status = setting ? weft_config_set(config, setting) : WEFT_OK;
    if (status == WEFT_OK)
        status = create(model, config, threads, weft_config_resolve_model);
    weft_config_free(config);
    return status;
}

/* Frees a model whose weights could not be loaded. */
static enum weft_status finish_open(struct weft_model **model, enum weft_status status)
{
    if (status != WEFT_OK) {
        weft_model_free(*model);
        *model = NULL;
    }
    return status;
}

enum weft_status weft_model_open(struct weft_model **model, const char *folder, int threads)
{
    char path[4096];
    GIVEN(model);
    *model = NULL;
    GIVEN(folder);
    TRY(weft_nn_folder(folder, path, sizeof path));
    TRY(open_config(model, path, NULL, threads));
    return finish_open(model, weft_model_load(*model, path));
}

/* First opens the model as it was saved, to verify its hashes. The path is resolved once, so that both loads use the
 * same checkpoint even if a run writes a newer one. */
enum weft_status weft_model_open_at(struct weft_model **model, const char *folder, int64_t context, int threads)
{
    char path[4096], setting[40];
    GIVEN(model);
    *model = NULL;
    GIVEN(folder);
    TRY(weft_nn_folder(folder, path, sizeof path));
    TRY(weft_model_open(model, path, threads));
    if (context == (*model)->nn->spec->context)
        return WEFT_OK;
    weft_model_free(*model);
    *model = NULL;
    snprintf(setting, sizeof setting, "context=%lld", (long long)context);
    TRY(open_config(model, path, setting, threads));
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, (*model)->threads);
    enum weft_status status = weft_nn_load_at((*model)->nn, path, NULL, NULL);
    weft_threads_leave(&scope);
    return finish_open(model, status);
}

/* ---- weights */

enum weft_status weft_model_has_weights(const struct weft_model *m)
{
    if (!m->nn->params.weights)
        return FAIL(WEFT_INVALID, "the model has no weights yet: call weft_model_init or weft_model_load first");
    return WEFT_OK;
}

enum weft_status weft_model_init(struct weft_model *model)
{
    GIVEN(model);
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, model->threads);
    enum weft_status status = weft_nn_init(model->nn);
    weft_threads_leave(&scope);
    return status;
}

enum weft_status weft_model_load(struct weft_model *model, const char *path)
{
    GIVEN(model);
    GIVEN(path);
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, model->threads);
    enum weft_status status = weft_weights_open(model->nn, path);
    weft_threads_leave(&scope);
    return status;
}

enum weft_status weft_model_save(const struct weft_model *model, const char *folder)
{
    char path[4096], hash[65], *config = NULL;
    GIVEN(model);
    GIVEN(folder);
    TRY(weft_model_has_weights(model));
    if (snprintf(path, sizeof path, "%s/model.safetensors", folder) >= (int)sizeof path)
        return FAIL(WEFT_INVALID, "the path %.64s... is too long", folder);
    TRY(weft_folder_make(folder));
    TRY(weft_nn_save(model->nn, path));
    snprintf(path, sizeof path, "%s/config.json", folder);
    enum weft_status status = weft_record_config(&model->resolved.settings, &config, hash);
    if (status == WEFT_OK)
        status = weft_file_replace(path, config, strlen(config));
    free(config);
    return status;
}

enum weft_status weft_view_weight(const struct weft_params *p, int i, float *array, struct weft_tensor_view *view)
{
    if (i < 0 || i >= p->count)
        return FAIL(WEFT_INVALID, "there is no weight %d: the model has weights 0 to %d", i, p->count - 1);
    const struct weft_param *w = &p->list[i];
    *view = (struct weft_tensor_view){
        .name = w->name, .dims = w->ndim, .count = w->count, .values = array ? array + w->offset : NULL};
    for (int d = 0; d < w->ndim; d++)
        view->dim[d] = w->dim[d];
    return WEFT_OK;
}

enum weft_status weft_model_weight(struct weft_model *model, int i, struct weft_tensor_view *view)
{
    GIVEN(model);
    GIVEN(view);
    if (model->nn->params.weights) /* the caller may change them */
        TRY(weft_params_alloc(&model->nn->params));
    TRY(weft_view_weight(&model->nn->params, i, model->nn->params.weights, view));
    return WEFT_OK;
}

int weft_model_weights(const struct weft_model *model) { return model ? model->nn->params.count : 0; }

/* ---- description and arguments */

enum weft_status weft_model_describe(const struct weft_model *model, struct weft_model_info *info)
{
    GIVEN(model);
    GIVEN(info);
    const struct weft_resolved *r = &model->resolved;
    const struct weft_spec *spec = &r->spec;
    struct weft_account a;
    TRY(weft_account(model->nn, r->has_recipe ? &r->recipe : NULL, spec->context, &a));
    *info = (struct weft_model_info){.layers = spec->layers,
                                     .width = spec->width,
                                     .heads = spec->heads,
                                     .ffn_width = spec->ffn_width,
                                     .vocab = spec->vocab,
                                     .context = spec->context,
                                     .batch = spec->batch,
                                     .micro_batches = r->has_recipe ? r->recipe.micro_batches : 1,
                                     .params = a.params,
                                     .training_bytes = a.state_bytes + a.activation_bytes,
                                     .cache_bytes = a.cache_bytes,
                                     .flops_train = a.flops_train,
                                     .flops_decode = a.flops_decode,
                                     .cache_ratio = a.cache_ratio_to_mha};
    if (model->nn->params.weights)
        weft_params_hash(&model->nn->params, info->weights_sha256);
    return WEFT_OK;
}

enum weft_status weft_tokens_valid(const struct weft_model *model, const char *what, const int32_t *tokens,
                                   int64_t count, int32_t least)
{
    int64_t vocab = model->resolved.spec.vocab;
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < least || tokens[i] >= vocab)
            return FAIL(WEFT_INVALID, "%s %lld is %d: expected %d to %lld", what, (long long)i, (int)tokens[i],
                        (int)least, (long long)vocab - 1);
    return WEFT_OK;
}

/* ---- gates */

static enum weft_status which_gates(const char *gate, unsigned *which)
{
    const char *name, *summary;
    *which = gate ? 0 : WEFT_GATES_ALL;
    for (int i = 0; gate && (name = weft_gate_at(i, &summary)); i++)
        if (strcmp(name, gate) == 0)
            *which = 1u << i;
    if (!*which)
        return FAIL(WEFT_INVALID, "there is no gate %s; `weft help gates` lists them", gate);
    return WEFT_OK;
}

static enum weft_status run_gates(const struct weft_model *model, unsigned which, struct weft_gates *report)
{
    struct weft_recipe *recipe = (struct weft_recipe *)&model->resolved.recipe; /* to open its data once */
    if (!model->resolved.has_recipe)
        return FAIL(WEFT_INVALID,
                    "the model's config has no task that fits the model, so there is no training to check");
    TRY(weft_recipe_open(recipe, &model->resolved.spec));
    TRY(weft_gates_run(&model->resolved.spec, recipe, which, report));
    if (report->failed)
        return FAIL(WEFT_CHECK, "%d of %d gate checks failed", report->failed, report->checks);
    return WEFT_OK;
}

enum weft_status weft_model_verify(const struct weft_model *model, const char *gate, weft_check_fn *fn, void *context)
{
    struct weft_gates report = {.on_check = fn, .context = context};
    struct weft_threads_scope scope;
    unsigned which;
    GIVEN(model);
    TRY(which_gates(gate, &which));
    weft_threads_enter(&scope, model->threads);
    enum weft_status status = run_gates(model, which, &report);
    weft_threads_leave(&scope);
    return status;
}
