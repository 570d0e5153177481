/* SPDX-License-Identifier: MIT
 *
 * looks.c - runs a study from look to look: the next seeds are trained only while a verdict is open. Every look at an
 * arm is recorded once, in looks.jsonl.
 */
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "report/read/results.h"
#include "study/queue.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 24 };

static enum weft_status is_open(const char *folder, bool *open)
{
    struct weft_results r;
    enum weft_status status = weft_results_load(&r, folder);
    if (status == WEFT_OK)
        status = weft_looks_record(&r);
    *open = status == WEFT_OK && weft_results_open(&r);
    weft_results_release(&r);
    return status;
}

enum weft_status weft_queue_run_looks(struct weft_queue *q)
{
    bool open = true;
    for (int k = 0; k < q->study->look_count && open; k++) {
        TRY(weft_queue_run(q, q->study->look[k]));
        if ((q->signal && *q->signal) || weft_queue_failure(q))
            return WEFT_OK;
        if (k + 1 < q->study->look_count)
            TRY(is_open(q->folder, &open));
    }
    q->concluded = true;
    return WEFT_OK;
}

/* ---- the record */

static void print_look(const struct weft_result_arm *arm, FILE *to)
{
    const struct weft_comparison *c = &arm->found.against;
    const double figures[] = {c->alpha, c->mean, c->family.low, c->family.high};
    static const char *const names[] = {"level", "mean", "low", "high"};
    char real[40];
    fprintf(to, "{\"arm\": \"%s\", \"look\": %d, \"seeds\": %lld", arm->name, arm->found.look, (long long)c->seeds);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        weft_json_real(figures[i], real, sizeof real);
        fprintf(to, ", \"%s\": %s", names[i], isfinite(figures[i]) ? real : "null");
    }
    fprintf(to, ", \"verdict\": \"%s\"}\n", arm->found.verdict);
}

static bool is_recorded(const char *text, const struct weft_result_arm *arm)
{
    char start[160];
    snprintf(start, sizeof start, "{\"arm\": \"%s\", \"look\": %d,", arm->name, arm->found.look);
    return text && strstr(text, start);
}

static enum weft_status record(const struct weft_results *r, const char *path, char **before)
{
    size_t bytes = 0;
    char *text = NULL;
    int added = 0;
    if (access(path, F_OK) == 0)
        TRY(weft_slurp(path, MOST_BYTES, before, &bytes));
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        fputs(*before ? *before : "", to);
    for (int i = 1; to && i < r->arm_count; i++)
        if (r->arm[i].found.look && !is_recorded(*before, &r->arm[i])) {
            print_look(&r->arm[i], to);
            added++;
        }
    bool whole = to && weft_output_close(to);
    enum weft_status status = WEFT_OK;
    if (!whole)
        status = FAIL(WEFT_NOMEM, "not enough memory for %s", path);
    else if (added)
        status = weft_file_replace(path, text, strlen(text));
    free(text);
    return status;
}

enum weft_status weft_looks_record(const struct weft_results *r)
{
    char path[4096], *before = NULL;
    if (snprintf(path, sizeof path, "%s/looks.jsonl", r->folder) >= (int)sizeof path)
        return FAIL(WEFT_INVALID, "the path of the study's folder is too long");
    enum weft_status status = record(r, path, &before);
    free(before);
    return status;
}
