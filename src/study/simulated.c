/* SPDX-License-Identifier: MIT
 *
 * simulated.c - reads and writes simulated.json, the record in a study's folder of the simulated studies that the
 * program ran before training (room `simulate`). The record is valid only for the program that it names.
 */
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "study/study.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum weft_status record_path(const char *folder, char path[4096])
{
    if (snprintf(path, 4096, "%s/%s", folder, WEFT_SIMULATED_FILE) >= 4096)
        return FAIL(WEFT_INVALID, "the path of the study's folder is too long");
    return WEFT_OK;
}

static enum weft_status read_entry(void *context, const char *name, const char *value)
{
    struct weft_simulated *s = context;
    if (strcmp(name, "program_sha256") == 0)
        snprintf(s->program_sha256, sizeof s->program_sha256, "%s", value);
    else if (strcmp(name, "checks") == 0)
        s->checks = (int)strtol(value, NULL, 10);
    else if (strcmp(name, "failed") == 0)
        s->failed = (int)strtol(value, NULL, 10);
    return WEFT_OK;
}

enum weft_status weft_simulated_load(const char *folder, struct weft_simulated *s)
{
    char path[4096];
    *s = (struct weft_simulated){0};
    TRY(record_path(folder, path));
    return access(path, F_OK) ? WEFT_OK : weft_json_load(path, read_entry, s);
}

enum weft_status weft_simulated_save(const char *folder, const struct weft_simulated *s)
{
    char path[4096], *text = NULL;
    size_t bytes = 0;
    TRY(record_path(folder, path));
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "program_sha256", s->program_sha256);
    weft_result_int(r, "checks", s->checks);
    weft_result_int(r, "failed", s->failed);
    FILE *to = open_memstream(&text, &bytes);
    enum weft_status status = to ? weft_result_print(r, to, true) : WEFT_OK;
    weft_result_free(r);
    if (!to || !weft_output_close(to))
        status = FAIL(WEFT_NOMEM, "not enough memory for %s", path);
    if (status == WEFT_OK)
        status = weft_file_replace(path, text, bytes);
    free(text);
    return status;
}
