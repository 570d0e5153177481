/* SPDX-License-Identifier: MIT
 *
 * record.c - reads and writes the result of the gates in a run's folder. The result is valid for the same config,
 * program and instruction set. A study's run also stores the hash of the plan in this file; its log repeats the hash.
 */
#include "train/record/record.h"
#include "base/fields.h"
#include "base/json.h"
#include "check/check.h"
#include "ckpt/ckpt.h"
#include "dnn/dnn.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct record {
    const char *config;
    char program[65];
    int same; /* number of entries that equal this run's */
    struct weft_gates *gates;
};
enum { SAME = 3 };

static enum weft_status read_entry(void *context, const char *name, const char *value)
{
    struct record *s = context;
    if (strcmp(name, "config_sha256") == 0)
        s->same += strcmp(value, s->config) == 0;
    else if (strcmp(name, "program_sha256") == 0)
        s->same += strcmp(value, s->program) == 0;
    else if (strcmp(name, "isa") == 0)
        s->same += strcmp(value, weft_dnn_path()) == 0;
    else if (strcmp(name, "plan_sha256") == 0)
        snprintf(s->gates->plan_sha256, sizeof s->gates->plan_sha256, "%s", weft_is_sha256(value) ? value : "");
    else if (strcmp(name, "checks") == 0)
        s->gates->checks = atoi(value);
    else if (strcmp(name, "failed") == 0)
        s->gates->failed = atoi(value);
    return WEFT_OK;
}

enum weft_status weft_gate_record_load(const char *path, const char *config_sha256, bool *same,
                                       struct weft_gates *gates)
{
    struct record s = {.config = config_sha256, .gates = gates};
    *same = false;
    if (access(path, F_OK))
        return WEFT_OK;
    TRY(weft_program_hash(s.program));
    TRY(weft_json_load(path, read_entry, &s));
    *same = s.same == SAME && (gates->checks > 0 || weft_gates_skipped());
    return WEFT_OK;
}

enum weft_status weft_gate_record_save(const char *path, const char *config_sha256, const struct weft_gates *gates)
{
    char program[65], names[256] = "", *text = NULL;
    const char *gate, *summary;
    size_t bytes = 0, used = 0;
    TRY(weft_program_hash(program));
    for (int i = 0; (gate = weft_gate_at(i, &summary)) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? " " : "", gate);
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "config_sha256", config_sha256);
    weft_result_text(r, "program_sha256", program);
    weft_result_text(r, "isa", weft_dnn_path());
    if (*gates->plan_sha256)
        weft_result_text(r, "plan_sha256", gates->plan_sha256);
    weft_result_text(r, "gates", gates->checks ? names : WEFT_GATES_NOT_RUN);
    weft_result_text(r, "sizes", gates->sizes);
    weft_result_int(r, "checks", gates->checks);
    weft_result_int(r, "failed", gates->failed);
    FILE *to = open_memstream(&text, &bytes);
    enum weft_status status =
        to ? weft_result_print(r, to, true) : FAIL(WEFT_NOMEM, "not enough memory for the result of the gates");
    weft_result_free(r);
    if (to)
        fclose(to);
    if (status == WEFT_OK)
        status = weft_file_replace(path, text, bytes);
    free(text);
    return status;
}
