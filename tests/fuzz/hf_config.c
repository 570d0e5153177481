/* SPDX-License-Identifier: MIT
 *
 * hf_config.c - any bytes as a Hugging Face config.json: an accepted model can be exported, and the export is accepted
 * as the same model.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "base/fields.h"
#include "export/hf/hf.h"

#include <string.h>

/* config.json of the model: of an architecture that transformers has, or of Weft's own. */
static enum weft_status make(const struct weft_spec *spec, json_t **made)
{
    const struct weft_hf_family *family = NULL;
    struct weft_nn *model = NULL;
    if (weft_hf_family_of(spec, &family) == WEFT_OK)
        return weft_hf_config_make(family, spec, made);
    enum weft_status status = spec->layers > 64 ? WEFT_INVALID : weft_nn_create(&model, spec);
    if (status == WEFT_OK)
        status = weft_hf_own_config(model, made);
    weft_nn_free(model);
    return status;
}

/* Converts a config to the options of a model, and these back to a config. */
static enum weft_status import(const char *path, char **options, char **config)
{
    static struct weft_settings settings;
    struct weft_spec spec = {0};
    const struct weft_hf_family *family = NULL;
    json_t *object = NULL, *made = NULL;
    size_t bytes;
    enum weft_status status = weft_fields_load(path, &object);
    const char *type = json_string_value(json_object_get(object, "model_type"));
    if (status == WEFT_OK)
        status = type ? weft_hf_family_find(type, path, &family) : WEFT_FORMAT;
    if (status == WEFT_OK)
        status = weft_hf_config_read(family, object, path, &settings);
    if (status == WEFT_OK)
        status = weft_spec_init(&spec, family->preset, &settings);
    if (status == WEFT_OK)
        status = weft_settings_finish(&settings);
    if (status == WEFT_OK) {
        settings.preset_name = family->preset;
        FILE *f = open_memstream(options, &bytes);
        MUST(f && weft_settings_save(&settings, f) == WEFT_OK && fclose(f) == 0);
        status = make(&spec, &made);
        MUST(status == WEFT_OK || family == &weft_hf_own);
        MUST(status != WEFT_OK || (*config = json_dumps(made, 0)));
    }
    json_decref(made);
    json_decref(object);
    weft_spec_release(&spec);
    weft_settings_release(&settings);
    settings = (struct weft_settings){0};
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *options[3] = {0}, *config[3] = {0};
    if (import(fuzz_file(data, size), &options[0], &config[0]) == WEFT_OK) {
        for (int i = 1; i < 3; i++)
            MUST(import(fuzz_file(config[i - 1], strlen(config[i - 1])), &options[i], &config[i]) == WEFT_OK);
        MUST(strcmp(options[1], options[2]) == 0 && strcmp(config[0], config[1]) == 0);
    }
    for (int i = 0; i < 3; i++) {
        free(options[i]);
        free(config[i]);
    }
    return 0;
}
