/* SPDX-License-Identifier: MIT
 *
 * config.c - what a MODEL argument means: a preset's name, a config file, or a folder with a config.json in it.
 */
#include "nn/nn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The preset's name as its table has it, or NULL; then *near is the nearest one, which may be NULL too. */
static const char *find_preset(const char *name, const char **near)
{
    const char *names[64], *summary;
    int n = 0;
    for (; n < 64 && (names[n] = weft_preset_at(n, &summary)); n++)
        if (strcmp(name, names[n]) == 0)
            return names[n];
    *near = weft_suggest(name, names, n);
    return NULL;
}

static enum weft_status load(const char *path, struct weft_settings *s)
{
    const char *near = NULL;
    s->preset_name = NULL;
    TRY(weft_settings_load(s, path));
    if (!s->preset_name)
        return FAIL(WEFT_FORMAT, "%s names no preset: add one, for example \"preset\": \"gpt2\"", path);
    const char *preset = find_preset(s->preset_name, &near);
    if (!preset)
        return FAIL(WEFT_FORMAT, "%s: there is no preset \"%s\"%s%s%s `weft help models` lists all", path,
                    s->preset_name, near ? ": did you mean " : "", near ? near : "", near ? "?" : ".");
    s->preset_name = preset;
    return WEFT_OK;
}

enum weft_status weft_model_find(const char *model, struct weft_settings *s, const char **preset)
{
    const char *near = NULL, *path = model;
    struct stat st;
    s->preset_name = find_preset(model, &near);
    if (!s->preset_name) {
        if (stat(model, &st))
            return FAIL(errno == ENOENT ? WEFT_INVALID : WEFT_IO,
                        "there is no preset \"%s\"%s%s%s, and neither file nor folder of that name: %s. `weft help "
                        "models` lists the presets",
                        model, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", strerror(errno));
        if (S_ISDIR(st.st_mode) && !(path = weft_arena_print(&s->arena, "%s/config.json", model)))
            return FAIL(WEFT_NOMEM, "no memory for a path");
        TRY(load(path, s));
    }
    *preset = s->preset_name;
    return WEFT_OK;
}
