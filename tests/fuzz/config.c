/* SPDX-License-Identifier: MIT
 *
 * config.c - any bytes as a config file: an accepted config can be saved, and loading that file gives the same config.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "train/recipe.h"

#include <string.h>

static enum weft_status resolve(struct weft_settings *settings, const char *path, char **saved, size_t *bytes)
{
    struct weft_spec spec;
    struct weft_recipe recipe = {0};
    enum weft_status status = weft_spec_init(&spec, path, settings);
    if (status == WEFT_OK)
        status = weft_recipe_init(&recipe, &spec, settings);
    if (status == WEFT_OK) {
        FILE *f = open_memstream(saved, bytes);
        MUST(f && weft_settings_save(settings, f) == WEFT_OK && fclose(f) == 0);
    }
    weft_recipe_release(&recipe);
    weft_spec_release(&spec);
    weft_settings_release(settings);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct weft_settings settings;
    char *saved = NULL, *again = NULL;
    size_t bytes = 0, more = 0;
    if (resolve(&settings, fuzz_file(data, size), &saved, &bytes) == WEFT_OK) {
        MUST(resolve(&settings, fuzz_file(saved, bytes), &again, &more) == WEFT_OK);
        MUST(bytes == more && memcmp(saved, again, bytes) == 0);
    }
    free(saved);
    free(again);
    return 0;
}
