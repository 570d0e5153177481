/* SPDX-License-Identifier: MIT
 *
 * config.c - implements configs: a model's name and settings, stored as strings and resolved again for every use.
 */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

struct weft_config {
    struct weft_arena arena;
    const char *model, *setting[WEFT_MAX_SETTINGS];
    int count;
};

enum weft_status weft_config_create(struct weft_config **config, const char *model)
{
    GIVEN(config);
    *config = NULL;
    GIVEN(model);
    struct weft_config *c = calloc(1, sizeof *c);
    if (!c || !(c->model = weft_arena_print(&c->arena, "%s", model))) {
        free(c);
        return FAIL(WEFT_NOMEM, "not enough memory for a config");
    }
    *config = c;
    return WEFT_OK;
}

void weft_config_free(struct weft_config *c)
{
    if (!c)
        return;
    weft_arena_release(&c->arena);
    free(c);
}

enum weft_status weft_config_set(struct weft_config *config, const char *setting)
{
    GIVEN(config);
    GIVEN(setting);
    struct weft_settings trial = {0};
    enum weft_status status = weft_settings_add(&trial, setting);
    weft_settings_release(&trial);
    TRY(status);
    if (config->count == WEFT_MAX_SETTINGS)
        return FAIL(WEFT_INVALID, "%s: a config has at most %d settings", setting, WEFT_MAX_SETTINGS);
    const char *copy = weft_arena_print(&config->arena, "%s", setting);
    if (!copy)
        return FAIL(WEFT_NOMEM, "not enough memory for a setting");
    config->setting[config->count++] = copy;
    return WEFT_OK;
}

static enum weft_status resolve_spec(const struct weft_config *c, struct weft_resolved *r)
{
    *r = (struct weft_resolved){.has_recipe = false};
    for (int i = 0; i < c->count; i++)
        TRY(weft_settings_add(&r->settings, c->setting[i]));
    TRY(weft_spec_init(&r->spec, c->model, &r->settings));
    return WEFT_OK;
}

enum weft_status weft_config_resolve(const struct weft_config *config, struct weft_resolved *r)
{
    TRY(resolve_spec(config, r));
    TRY(weft_recipe_init(&r->recipe, &r->spec, &r->settings));
    r->has_recipe = true;
    return WEFT_OK;
}

enum weft_status weft_config_resolve_model(const struct weft_config *config, struct weft_resolved *r)
{
    TRY(resolve_spec(config, r));
    r->has_recipe = weft_recipe_init(&r->recipe, &r->spec, &r->settings) == WEFT_OK;
    if (!r->has_recipe)
        weft_error_clear();
    return WEFT_OK;
}

void weft_resolved_release(struct weft_resolved *r)
{
    weft_recipe_release(&r->recipe);
    weft_spec_release(&r->spec);
    weft_settings_release(&r->settings);
}

static enum weft_status find_value(const struct weft_resolved *r, const char *name, char *value, size_t size)
{
    char text[WEFT_MAX_VALUE];
    const char *found = weft_settings_value(&r->settings, name, text);
    if (!found)
        return FAIL(WEFT_INVALID, "the model has no option %s; `weft help options` lists all", name);
    if (strlen(found) >= size)
        return FAIL(WEFT_INVALID, "a buffer of %zu bytes is too small for %s=%s", size, name, found);
    strcpy(value, found);
    return WEFT_OK;
}

enum weft_status weft_config_value(const struct weft_config *config, const char *name, char *value, size_t size)
{
    GIVEN(config);
    GIVEN(name);
    GIVEN(value);
    struct weft_resolved r;
    enum weft_status status = weft_config_resolve(config, &r);
    if (status == WEFT_OK)
        status = find_value(&r, name, value, size);
    weft_resolved_release(&r);
    return status;
}
