/* SPDX-License-Identifier: MIT
 *
 * logged.c - compares the log of a run with plain code: losses, learning rates, gradient norms, tokens, and the scores
 * of validation and test. Every step must have each of its records exactly once.
 */
#define _GNU_SOURCE
#include "base/fields.h"
#include "check/trainer/scores.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 64 };

struct worst {
    double error;
    char where[96];
};
struct reading {
    const struct weft_expected *steps;
    int count;
    struct worst numbers, scores;
    int losses[MOST_STEPS], scored[MOST_STEPS]; /* number of records of each step */
};

static void note(struct worst *w, int step, const char *name, double error, double real, double plain)
{
    if (error <= w->error)
        return;
    w->error = isnan(error) ? INFINITY : error;
    snprintf(w->where, sizeof w->where, "step %d: %s is %g, expected %g", step, name, real, plain);
}

/* Returns the number in a field; NAN: there is none. */
static double field(const json_t *line, const char *name)
{
    const json_t *value = json_object_get(line, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void compare(struct reading *r, const json_t *line, int step, const char *name, double plain)
{
    double real = field(line, name);
    if (!isnan(plain))
        note(&r->numbers, step, name, fabs(real - plain) / fmax(1e-9, fabs(plain)), real, plain);
}

static void read_losses(struct reading *r, const json_t *line, int step)
{
    const struct weft_expected *e = &r->steps[step - 1];
    r->losses[step - 1]++;
    for (int i = 0; i < e->losses.count; i++) {
        double real = field(line, e->losses.list[i].name), plain = e->losses.list[i].value;
        note(&r->numbers, step, e->losses.list[i].name, fabs(real - plain) / fmax(1e-3, fabs(plain)), real, plain);
    }
    compare(r, line, step, "lr", e->lr);
    compare(r, line, step, "grad_norm", e->norm);
    compare(r, line, step, "tokens", (double)e->tokens);
}

static void read_score(struct reading *r, const json_t *line, int step, const struct weft_plain_score *plain,
                       const char *split)
{
    char name[32];
    double n = (double)weft_max(1, plain->tokens);
    snprintf(name, sizeof name, "%s_loss", split);
    double loss = field(line, name);
    note(&r->scores, step, name, weft_score_loss_error(plain, loss), loss, plain->loss / n);
    snprintf(name, sizeof name, "%s_accuracy", split);
    double accuracy = field(line, name);
    note(&r->scores, step, name, weft_score_accuracy_error(plain, accuracy), accuracy, (double)plain->right / n);
}

static void read_line(struct reading *r, const json_t *line)
{
    int step = (int)json_integer_value(json_object_get(line, "step"));
    if (step < 1 || step > r->count)
        return;
    if (json_object_get(line, "lr"))
        read_losses(r, line, step);
    if (json_object_get(line, "val_loss")) {
        r->scored[step - 1]++;
        read_score(r, line, step, &r->steps[step - 1].val, "val");
        if (r->steps[step - 1].tested)
            read_score(r, line, step, &r->steps[step - 1].test, "test");
    }
}

static enum weft_status read_log(struct reading *r, FILE *log, const char *path)
{
    struct weft_lines lines = {.file = log, .path = path};
    enum weft_status status = weft_lines_next(&lines);
    while (status == WEFT_OK && lines.bytes) {
        json_t *object = NULL;
        status = weft_fields_line(path, lines.number, lines.text, lines.bytes, &object);
        if (status == WEFT_OK)
            read_line(r, object);
        json_decref(object);
        if (status == WEFT_OK)
            status = weft_lines_next(&lines);
    }
    weft_lines_release(&lines);
    return status;
}

static void report(const struct weft_trial *t, const struct reading *r, const char *what)
{
    const double limit = 1e-4;
    char name[160];
    int wrong = 0, at = 0;
    for (int i = r->count - 1; i >= 0; i--)
        if (r->losses[i] != 1 || r->scored[i] != r->steps[i].scored) {
            wrong++;
            at = i + 1;
        }
    snprintf(name, sizeof name, "%s: steps of %d whose records are missing or too many in the log", what, r->count);
    weft_trial_report(t, wrong == 0, wrong, 0, name, "step %d", at);
    snprintf(name, sizeof name, "%s: losses, rates and norms in the log against plain ones", what);
    weft_trial_report(t, r->numbers.error <= limit, r->numbers.error, limit, name, "%s", r->numbers.where);
    snprintf(name, sizeof name, "%s: scores in the log against plain ones", what);
    weft_trial_report(t, r->scores.error <= limit, r->scores.error, limit, name, "%s", r->scores.where);
}

enum weft_status weft_check_log(const struct weft_trial *t, const char *folder, const struct weft_expected *steps,
                                int count, const char *what)
{
    char path[4096];
    struct reading r = {.steps = steps, .count = (int)weft_min(count, MOST_STEPS)};
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    FILE *log = fopen(path, "re");
    if (!log)
        return FAIL(WEFT_IO, "%s cannot be read: %s", path, strerror(errno));
    enum weft_status status = read_log(&r, log, path);
    fclose(log);
    if (status == WEFT_OK)
        report(t, &r, what);
    return status;
}
