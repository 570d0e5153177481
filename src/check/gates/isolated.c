/* SPDX-License-Identifier: MIT
 *
 * isolated.c - checks that no bit of a sequence's rows depends on its place in the batch or on the other sequences.
 *
 * A batch is run twice: unchanged, and with every sequence moved one place further and different tokens in the first.
 * The sequences that only moved must keep the bits of their rows: logits of FORWARD on the twin, losses of EVAL on the
 * model itself.
 */
#include "check/probe/gate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_KEY = 81, SEQUENCES = 3, MOST = 70 };

/* Returns the results of the graph's rows, with `width` values each. */
static const float *rows_of(const struct weft_probe *p, int64_t *width)
{
    const struct weft_value *v = p->net.logits ? p->net.logits : p->net.nll;
    const struct weft_tensor *x = weft_exec_tensor(p->exec, v);
    *width = p->net.logits ? weft_tensor_width(x) : 1;
    return x->data;
}

static int32_t *ints(const struct weft_probe *p, const struct weft_value *v)
{
    return v ? weft_exec_tensor(p->exec, v)->data : NULL;
}

/* Moves the tokens or targets of every sequence to the next one. The first sequence gets those of the last, plus
 * `shift`. */
static void move(int32_t *numbers, int32_t *last, int64_t sequences, int64_t length, int64_t shift, int64_t vocab)
{
    if (!numbers)
        return;
    memcpy(last, numbers + (sequences - 1) * length, (size_t)length * sizeof *last);
    memmove(numbers + length, numbers, (size_t)((sequences - 1) * length) * sizeof *last);
    for (int64_t i = 0; i < length; i++)
        numbers[i] = (int32_t)((last[i] + shift) % vocab);
}

static enum weft_status check(const struct weft_trial *t, struct weft_probe *p, int64_t sequences, int64_t length,
                              const char *graph)
{
    int64_t width, rows = sequences * length, differing = 0, first = 0;
    char name[160];
    weft_probe_fill(p, TOKENS_KEY);
    weft_probe_run(p);
    const float *now = rows_of(p, &width);
    size_t each = (size_t)width * sizeof *now;
    char *before = malloc((size_t)rows * each);
    int32_t *last = malloc((size_t)length * sizeof *last);
    if (!before || !last) {
        free(before);
        free(last);
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    }
    memcpy(before, now, (size_t)rows * each);
    move(ints(p, p->net.tokens), last, sequences, length, 1, p->model->spec->vocab);
    move(ints(p, p->net.targets), last, sequences, length, 0, p->model->spec->vocab);
    weft_probe_run(p);
    now = rows_of(p, &width);
    for (int64_t row = rows - 1; row >= length; row--)
        if (memcmp(before + (size_t)(row - length) * each, now + row * width, each) != 0 ||
            !isfinite(now[row * width])) {
            differing++;
            first = row;
        }
    snprintf(name, sizeof name, "%s: rows that differ elsewhere in another batch (%lld x %lld)", graph,
             (long long)sequences, (long long)length);
    weft_trial_report(t, differing == 0, (double)differing, 0, name, "position %lld of sequence %lld",
                      (long long)(first % length), (long long)(first / length));
    free(before);
    free(last);
    return WEFT_OK;
}

enum weft_status weft_gate_isolated(const struct weft_trial *t)
{
    struct weft_probe p;
    int64_t length = weft_min(MOST, t->model->spec->context);
    enum weft_status status = weft_probe_open(
        &p, t->model, WEFT_FORWARD, (struct weft_net_size){.sequences = SEQUENCES, .length = length}, WEFT_FAST);
    if (status == WEFT_OK) {
        weft_probe_rows(&p, SEQUENCES, length, NULL);
        status = check(t, &p, SEQUENCES, length, "FORWARD");
    }
    weft_probe_close(&p);
    return status;
}

enum weft_status weft_gate_isolated_itself(const struct weft_trial *t)
{
    struct weft_itself *it = t->itself;
    TRY(weft_itself_eval(it));
    return check(t, &it->eval, it->sequences, it->length, "EVAL");
}
