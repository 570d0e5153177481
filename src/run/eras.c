/* SPDX-License-Identifier: MIT
 *
 * eras.c - rebuilds the configurations of a run from its log, checkpoints and config.
 */
#include "run/eras.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4096 };

/* ---- one config */

/* `path` is a folder with a config.json. The era's values override it. */
static enum weft_status configure(struct weft_configured *c, const char *path, const struct weft_era *era,
                                  const char *data)
{
    char setting[ROOM + 32];
    for (int i = 0; era && i < WEFT_CHANGES; i++) {
        snprintf(setting, sizeof setting, "%s=%s", weft_may_change(i), era->value[i] ? era->value[i] : "");
        if (era->value[i])
            TRY(weft_settings_add(&c->settings, setting));
    }
    snprintf(setting, sizeof setting, "data=%.4095s", data ? data : "");
    if (data)
        TRY(weft_settings_add(&c->settings, setting));
    TRY(weft_spec_init(&c->spec, path, &c->settings));
    TRY(weft_recipe_init(&c->recipe, &c->spec, &c->settings));
    return WEFT_OK;
}

static void release(struct weft_configured *c)
{
    weft_recipe_release(&c->recipe);
    weft_spec_release(&c->spec);
    weft_settings_release(&c->settings);
}

static enum weft_status find_hash(const struct weft_configured *c, char hash[65])
{
    char *config = NULL;
    enum weft_status status = weft_record_config(&c->settings, &config, hash);
    free(config);
    return status;
}

/* ---- all eras */

static enum weft_status configure_era(struct weft_configured_eras *c, int i, const char *checkpoint, const char *data)
{
    const struct weft_era *era = &c->eras.list[i];
    struct weft_configured_era *to = &c->list[i];
    TRY(configure(&to->recorded, checkpoint, era, NULL));
    bool moved = data && strcmp(to->recorded.recipe.task->name, "text") == 0;
    TRY(configure(&to->repeated, checkpoint, era, moved ? data : NULL));
    return WEFT_OK;
}

/* Checks the hash of an era's config in the log. */
static enum weft_status check_hash(const struct weft_configured_eras *c, int i, const char *folder)
{
    const struct weft_era *era = &c->eras.list[i];
    char hash[65];
    TRY(find_hash(&c->list[i].recorded, hash));
    if ((i > 0 && !*era->config_sha256) || strcmp(hash, era->config_sha256) == 0)
        return WEFT_OK;
    return FAIL(WEFT_CHECK,
                "the options of the run in %s after step %" PRId64
                " do not match their hash in its log: the log or a config was edited or written by an earlier release. "
                "The log has %s, the options have %s",
                folder, era->step, *era->config_sha256 ? era->config_sha256 : "none", hash);
}

/* Checks the run's own config. It is written when training begins or resumes, after the record of changes, so it may
 * still be the previous era's. */
static enum weft_status check_own(const struct weft_configured_eras *c, const char *folder)
{
    struct weft_configured *own = calloc(1, sizeof *own);
    char is[65] = "", last[65], before[65] = "";
    int count = c->eras.count;
    enum weft_status status = own ? configure(own, folder, NULL, NULL) : FAIL(WEFT_NOMEM, "not enough memory");
    if (status == WEFT_OK)
        status = find_hash(own, is);
    if (own)
        release(own);
    free(own);
    TRY(status);
    TRY(find_hash(&c->list[count - 1].recorded, last));
    if (count > 1 && c->eras.only_begun)
        TRY(find_hash(&c->list[count - 2].recorded, before));
    if (strcmp(is, last) != 0 && strcmp(is, before) != 0)
        return FAIL(WEFT_CHECK,
                    "%s/config.json does not match the newest checkpoint and the log: one of them was edited", folder);
    return WEFT_OK;
}

static enum weft_status read_eras(struct weft_configured_eras *c, const char *folder, const char *checkpoint)
{
    struct weft_configured *newest = calloc(1, sizeof *newest);
    enum weft_status status =
        newest ? configure(newest, checkpoint, NULL, NULL) : FAIL(WEFT_NOMEM, "not enough memory");
    if (status == WEFT_OK)
        status = weft_eras_read(&c->eras, folder, checkpoint, &newest->settings);
    if (newest)
        release(newest);
    free(newest);
    return status;
}

enum weft_status weft_configured_eras_init(struct weft_configured_eras *c, const char *folder, int64_t newest,
                                           const char *data)
{
    char checkpoint[ROOM];
    *c = (struct weft_configured_eras){0};
    snprintf(checkpoint, sizeof checkpoint, "%s/step-%09" PRId64, folder, newest);
    TRY(read_eras(c, folder, checkpoint));
    c->list = calloc((size_t)c->eras.count, sizeof *c->list);
    if (!c->list)
        return FAIL(WEFT_NOMEM, "not enough memory for the options of %s", folder);
    for (int i = 0; i < c->eras.count; i++) {
        TRY(configure_era(c, i, checkpoint, data));
        TRY(check_hash(c, i, folder));
    }
    TRY(check_own(c, folder));
    return WEFT_OK;
}

enum weft_status weft_configured_eras_open(struct weft_configured_eras *c, int era)
{
    struct weft_configured *repeated = &c->list[era].repeated;
    return weft_recipe_open(&repeated->recipe, &repeated->spec);
}

void weft_configured_eras_release(struct weft_configured_eras *c)
{
    for (int i = 0; c->list && i < c->eras.count; i++) {
        release(&c->list[i].recorded);
        release(&c->list[i].repeated);
    }
    free(c->list);
    weft_eras_release(&c->eras);
    *c = (struct weft_configured_eras){0};
}
