/* SPDX-License-Identifier: MIT
 *
 * initial.c - writes and checks initial.json, which contains a hash of every initial weight of a run. It allows
 * checking that runs of different models had equal initial values of the weights that they share: weights with the same
 * name, shape, rule and init_key.
 */
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "train/record/internal.h"

#include <stdlib.h>
#include <string.h>

struct hashing {
    const struct weft_params *params;
    char (*hex)[65];
};

static void hash_weight(void *context, int64_t i, int thread)
{
    const struct hashing *h = context;
    (void)thread;
    weft_param_hash(h->params, (int)i, h->hex[i]);
}

static void print_rule(const struct weft_param *w, int64_t key, char *text, size_t size)
{
    static const char *const rules[] = {
        [WEFT_INIT_NORMAL] = "normal", [WEFT_INIT_CONSTANT] = "constant", [WEFT_INIT_UNIFORM] = "uniform"};
    size_t used = 0;
    for (int i = 0; i < w->ndim; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "x" : "", (long long)w->dim[i]);
    used += (size_t)snprintf(text + used, size - used, " %s %.17g", rules[w->init], w->init_value);
    if (w->init_blocks)
        used += (size_t)snprintf(text + used, size - used, " in %lld blocks", (long long)w->init_blocks);
    snprintf(text + used, size - used, " key %lld", (long long)key);
}

static struct weft_result *make_entries(const struct weft_nn *model, char (*hex)[65])
{
    const struct weft_params *p = &model->params;
    struct weft_result *r = weft_result_create();
    weft_parallel(p->count, hash_weight, &(struct hashing){p, hex});
    for (int i = 0; i < p->count; i++) {
        char rule[320], text[400];
        print_rule(&p->list[i], model->spec->init_key, rule, sizeof rule);
        snprintf(text, sizeof text, "%s: %s", rule, hex[i]);
        weft_result_text(r, p->list[i].name, text);
    }
    return r;
}

/* Creates the text, which the caller frees even after a failure. */
static enum weft_status make_text(const struct weft_nn *model, char **text, size_t *bytes)
{
    char(*hex)[65] = calloc((size_t)model->params.count, sizeof *hex);
    FILE *memory = open_memstream(text, bytes);
    enum weft_status status = WEFT_NOMEM;
    if (hex && memory) {
        struct weft_result *r = make_entries(model, hex);
        status = weft_result_print(r, memory, true);
        weft_result_free(r);
    }
    if (memory && fclose(memory))
        status = WEFT_NOMEM;
    free(hex);
    if (status != WEFT_OK)
        return FAIL(WEFT_NOMEM, "not enough memory for the hashes of the initial weights");
    return WEFT_OK;
}

enum weft_status weft_initial_save(const struct weft_nn *model, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    enum weft_status status = make_text(model, &text, &bytes);
    if (status == WEFT_OK)
        status = weft_file_replace(path, text, bytes);
    free(text);
    return status;
}

enum weft_status weft_initial_check(const struct weft_nn *model, const char *path)
{
    char *text = NULL, *found = NULL;
    size_t bytes = 0, found_bytes = 0;
    enum weft_status status = make_text(model, &text, &bytes);
    if (status == WEFT_OK)
        status = weft_slurp(path, (size_t)1 << 28, &found, &found_bytes);
    if (status == WEFT_OK && (bytes != found_bytes || memcmp(text, found, bytes) != 0))
        status = FAIL(WEFT_CHECK, "%s does not match the initial weights of this run", path);
    free(text);
    free(found);
    return status;
}
