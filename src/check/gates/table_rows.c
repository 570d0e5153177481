/* SPDX-License-Identifier: MIT
 *
 * table_rows.c - checks, in the model itself at its full context, that every row of a table that the batch reaches has
 * its own gradient. A table as a whole has a gradient even if its later rows are never read, or wrong rows are read
 * instead; but if two positions share a row, some other row has none.
 *
 * The batch reaches the rows of its tokens and, in tables indexed by position or distance, the rows of all positions
 * and distances of the context.
 */
#include "check/probe/gate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS_KEY = 75 };

double weft_dropped_whole(const struct weft_spec *spec, int64_t rows)
{
    double expected = (double)rows * pow(spec->dropout, (double)spec->width);
    return expected < 1e-9 ? 0 : ceil(expected + 6 * sqrt(expected) + 1);
}

/* The rows or columns of a table: their number, and the layout of the elements in each. */
struct side {
    int64_t count, length, step, stride;
};

static struct side side_of(const struct weft_param *w)
{
    if (w->extend == WEFT_EXTEND_COLUMNS)
        return (struct side){w->dim[1], w->dim[0], w->dim[1], 1};
    return (struct side){w->dim[0], w->dim[1], 1, w->dim[1]};
}

static bool has_gradient(const float *grads, struct side s, int64_t row)
{
    for (int64_t i = 0; i < s.length; i++)
        if (grads[row * s.stride + i * s.step] != 0)
            return true;
    return false;
}

/* Marks the rows of a table that the batch reaches. */
static void find_reached(const struct weft_itself *it, const struct weft_param *w, bool *reached, int64_t count)
{
    const int32_t *tokens = weft_exec_tensor(it->train.exec, it->train.net.tokens)->data;
    if (w->extend != WEFT_EXTEND_NOT)
        for (int64_t i = 0; i < weft_min(count, it->length); i++)
            reached[i] = true;
    else if (count == it->model->spec->vocab)
        for (int64_t i = 0; i < it->sequences * it->length; i++)
            reached[tokens[i]] = true;
}

struct found {
    int64_t tables, rows, dead, first;
    const char *table;
};

static enum weft_status look_at(const struct weft_itself *it, const struct weft_param *w, struct found *f)
{
    struct side s = side_of(w);
    bool *reached = calloc((size_t)s.count, 1);
    if (!reached)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    find_reached(it, w, reached, s.count);
    f->tables++;
    for (int64_t i = 0; i < s.count; i++) {
        f->rows += reached[i];
        if (!reached[i] || has_gradient((float *)it->train.grads + w->offset, s, i))
            continue;
        if (f->dead++ == 0) {
            f->table = w->name;
            f->first = i;
        }
    }
    free(reached);
    return WEFT_OK;
}

enum weft_status weft_check_table_rows(const struct weft_trial *t)
{
    struct weft_itself *it = t->itself;
    const struct weft_params *p = &it->model->params;
    struct found f = {.table = ""};
    char name[160];
    weft_probe_fill(&it->train, TOKENS_KEY);
    weft_probe_run(&it->train);
    for (int i = 0; i < p->count; i++)
        if (p->list[i].role == WEFT_TABLE && !weft_weight_is_idle(it->model->spec, &p->list[i]))
            TRY(look_at(it, &p->list[i], &f));
    double limit = weft_dropped_whole(it->model->spec, f.rows);
    snprintf(name, sizeof name, "rows of %lld tables that the batch reaches without a gradient (of %lld)",
             (long long)f.tables, (long long)f.rows);
    weft_trial_report(t, (double)f.dead <= limit, (double)f.dead, limit, name, "%s: row %lld", f.table,
                      (long long)f.first);
    return WEFT_OK;
}
