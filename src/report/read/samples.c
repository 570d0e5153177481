/* SPDX-License-Identifier: MIT
 *
 * samples.c - checks whether the arms of a comparison were scored on the same samples. If not, their losses are means
 * over different tokens, and a difference in nats per token is meaningless.
 */
#include "base/fields.h"
#include "ckpt/ckpt.h"
#include "report/read/results.h"

#include <stdio.h>
#include <string.h>

enum weft_status weft_run_data_hash(const char *folder, char hash[65])
{
    char path[4096], file[4200];
    int64_t step;
    struct weft_safetensors *f = NULL;
    *hash = '\0';
    TRY(weft_ckpt_latest(folder, NULL, NULL, &step, path, sizeof path));
    if (step < 0)
        return WEFT_OK;
    snprintf(file, sizeof file, "%s/optimizer.safetensors", path);
    if (weft_safetensors_open(&f, file) != WEFT_OK) {
        weft_error_clear(); /* a comparison does not need a checkpoint */
        return WEFT_OK;
    }
    const char *found = weft_safetensors_metadata(f, "data_sha256");
    if (found && weft_is_sha256(found))
        memcpy(hash, found, 65);
    weft_safetensors_close(f);
    return WEFT_OK;
}

struct list {
    char text[256];
};

static void add(struct list *l, const char *option, const char *a, const char *b)
{
    size_t used = strlen(l->text);
    snprintf(l->text + used, sizeof l->text - used, "%s%s is %.40s in A and %.40s in B", used ? ", " : "", option, a,
             b);
}

static void compare(const struct weft_results *r, const char *option, struct list *l)
{
    const char *a = weft_result_option(&r->arm[0], option), *b = weft_result_option(&r->arm[1], option);
    if (weft_results_differ(r, option))
        add(l, option, a ? a : "not set", b ? b : "not set");
}

/* Options of the task have the owner "task=NAME". */
static void compare_task(const struct weft_results *r, bool data_known, struct list *l)
{
    const char *task = weft_result_option(&r->arm[0], "task");
    const struct weft_owner *owner;
    char name[80];
    snprintf(name, sizeof name, "task=%.60s", task ? task : "");
    for (int i = 0; (owner = weft_train_owner_at(i)); i++)
        for (int k = 0; strcmp(owner->name, name) == 0 && k < owner->count; k++)
            if (!data_known || strcmp(owner->options[k].name, "data") != 0)
                compare(r, owner->options[k].name, l);
}

enum weft_status weft_results_check_samples(struct weft_results *r)
{
    const struct weft_result_arm *a = &r->arm[0], *b = &r->arm[1];
    struct list l = {""};
    bool data_known = *a->data_sha256 && *b->data_sha256; /* then the names of the data folders do not matter */
    compare(r, "task", &l);
    compare(r, "vocab", &l);
    compare(r, "eval_samples", &l);
    if (!weft_results_differ(r, "task"))
        compare_task(r, data_known, &l);
    if (a->sample_tokens != b->sample_tokens)
        compare(r, "context", &l);
    if (data_known && strcmp(a->data_sha256, b->data_sha256) != 0)
        snprintf(l.text + strlen(l.text), sizeof l.text - strlen(l.text), "%sthe contents of the data differ",
                 *l.text ? ", " : "");
    if (!*l.text)
        return WEFT_OK;
    r->not_comparable = weft_arena_print(&r->arena, "%s", l.text);
    return r->not_comparable ? WEFT_OK : WEFT_NOMEM;
}
