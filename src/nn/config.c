/* SPDX-License-Identifier: MIT
 *
 * config.c - resolves a MODEL argument: the name of a preset, a config file, or a folder with a config.json.
 */
#include "nn/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static enum weft_status load(const char *path, struct weft_settings *s, const struct weft_preset **preset)
{
    const char *near = NULL;
    s->preset_name = NULL;
    TRY(weft_settings_load(s, path));
    if (!s->preset_name)
        return FAIL(WEFT_FORMAT, "%s does not name a preset: add one, for example \"preset\": \"gpt2\"", path);
    *preset = weft_preset_find(s->preset_name, &near);
    if (!*preset)
        return FAIL(WEFT_FORMAT, "%s: there is no preset \"%s\"%s%s%s `weft help models` lists all", path,
                    s->preset_name, near ? ": did you mean " : "", near ? near : "", near ? "?" : ".");
    return WEFT_OK;
}

enum weft_status weft_model_find(const char *model, struct weft_settings *s, const struct weft_preset **preset)
{
    const char *near = NULL, *path = model;
    struct stat st;
    *preset = weft_preset_find(model, &near);
    if (!*preset) {
        if (stat(model, &st))
            return FAIL(errno == ENOENT ? WEFT_INVALID : WEFT_IO,
                        "there is no preset \"%s\"%s%s%s, and no file or folder of that name%s%s. `weft help models` "
                        "lists the presets",
                        model, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "",
                        errno == ENOENT ? "" : ": ", errno == ENOENT ? "" : strerror(errno));
        if (S_ISDIR(st.st_mode) && !(path = weft_arena_print(&s->arena, "%s/config.json", model)))
            return FAIL(WEFT_NOMEM, "not enough memory for a path");
        TRY(load(path, s, preset));
    }
    s->preset_name = (*preset)->name;
    return WEFT_OK;
}
