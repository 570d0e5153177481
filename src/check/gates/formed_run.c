/* SPDX-License-Identifier: MIT
 *
 * formed_run.c - runs a graph and its form on the same inputs, and compares their values.
 */
#include "check/gates/formed.h"
#include "check/op/mask.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the form's inputs */

static const struct weft_tensor *tensor(const struct weft_formed *s, const struct weft_value *v)
{
    return weft_exec_tensor(s->probe.exec, v);
}

static int32_t *ints(const struct weft_formed *s, const struct weft_value *v) { return tensor(s, v)->data; }

static enum weft_kind kind_of(const struct weft_atom *source)
{
    return source->kind == WEFT_ATOM_weight ? WEFT_PARAM : source->kind == WEFT_ATOM_state ? WEFT_STATE : WEFT_INPUT;
}

/* Returns the elements of a tensor in f64. */
static const double *numbers(struct weft_formed *s, const struct weft_tensor *x, int64_t *count)
{
    *count = weft_tensor_count(x);
    if (x->dtype == WEFT_F64)
        return x->data;
    double *copy = weft_arena_alloc(&s->arena, (size_t)*count * sizeof *copy + 1);
    for (int64_t i = 0; copy && i < *count; i++)
        copy[i] = weft_tensor_get(x, i);
    return copy;
}

static const double *read_value(void *context, const struct weft_atom *source, int64_t *count)
{
    struct weft_formed *s = context;
    struct weft_value *const *values;
    for (int i = 0, n = weft_graph_values(s->probe.net.g, &values); i < n; i++)
        if (values[i]->kind == kind_of(source) && strcmp(values[i]->name, source->name) == 0)
            return numbers(s, tensor(s, values[i]), count);
    return NULL;
}

static bool drops(void *context, const struct weft_drop *d, int64_t row, int64_t head, int64_t column)
{
    const struct weft_formed *s = context;
    const struct weft_rows *at = &s->probe.net.at;
    int32_t sample = ints(s, at->sample)[s->frame.seq[row]];
    return weft_mask_drops(d, ints(s, at->step_key), sample, s->frame.pos[row], head, column);
}

/* ---- running */

/* Turns a failure of the form into a failed check. Running out of memory remains a failure. */
static enum weft_status refuse(const struct weft_trial *t, enum weft_status status, const char *check)
{
    if (status == WEFT_OK || status == WEFT_NOMEM)
        return status;
    weft_trial_report(t, false, INFINITY, WEFT_FORMED_LIMIT, check, "%s", weft_error());
    weft_error_clear();
    return WEFT_OK;
}

enum weft_status weft_formed_open(struct weft_formed *s, const struct weft_trial *t, const struct weft_nn *model,
                                  enum weft_use use, struct weft_net_size size, const char *check, bool *lowered)
{
    *s = (struct weft_formed){.t = t, .probe = {.model = model, .dtype = WEFT_F64}};
    *lowered = false;
    TRY(weft_net_draw(&s->probe.net, model, use, size));
    TRY(weft_probe_plan(&s->probe, WEFT_REFERENCE));
    enum weft_status status = weft_form_init(&s->form, s->probe.net.g, use == WEFT_TRAIN, model->spec->context);
    *lowered = status == WEFT_OK;
    return refuse(t, status, check);
}

void weft_formed_close(struct weft_formed *s)
{
    weft_form_results_release(&s->results);
    weft_form_release(&s->form);
    weft_probe_close(&s->probe);
    weft_arena_release(&s->arena);
    *s = (struct weft_formed){0};
}

/* (The values of stop outlast a run, but are those of its rows.) */
enum weft_status weft_formed_begin(struct weft_formed *s)
{
    weft_form_results_release(&s->results);
    return weft_form_results_init(&s->results, &s->form);
}

void weft_formed_want(struct weft_formed *s, const struct weft_value *v)
{
    const struct weft_atom *a = v ? s->form.of_value[v->id] : NULL;
    if (a)
        s->results.wanted[a->id] = true;
}

static void set_frame(struct weft_formed *s, bool dense)
{
    const struct weft_net *net = &s->probe.net;
    int64_t rows = weft_tensor_count(tensor(s, net->tokens)), sequences = tensor(s, net->at.tiles)->dim[0];
    struct weft_form_frame *f = &s->frame;
    *f = (struct weft_form_frame){.batch = dense ? sequences : rows,
                                  .sequences = sequences,
                                  .seq = ints(s, net->at.seq),
                                  .pos = ints(s, net->at.pos),
                                  .tiles = ints(s, net->at.tiles),
                                  .ring_tiles = net->ring_tiles ? ints(s, net->ring_tiles) : NULL,
                                  .tile = WEFT_KEY_TILE,
                                  .tile_count = net->tiles,
                                  .read = read_value,
                                  .drops = drops,
                                  .context = s};
    f->fresh = rows / f->batch;
    for (int64_t r = 0; r < rows; r++)
        f->all = weft_max(f->all, f->pos[r] + 1);
}

enum weft_status weft_formed_run(struct weft_formed *s, bool dense, const char *check, bool *ran)
{
    set_frame(s, dense);
    enum weft_status status = weft_form_run(&s->form, &s->frame, &s->results);
    *ran = status == WEFT_OK;
    TRY(refuse(s->t, status, check));
    if (*ran) /* after the form, because the graph updates the states that both read */
        weft_probe_run(&s->probe);
    return WEFT_OK;
}

/* ---- comparing */

const double *weft_formed_result(struct weft_formed *s, const char *name, const struct weft_value *v, int64_t count)
{
    const struct weft_atom *a = s->form.of_value[v->id];
    if (a && s->results.of[a->id] && s->results.count[a->id] == count)
        return s->results.of[a->id];
    s->error = INFINITY;
    snprintf(s->where, sizeof s->where, "%s: %lld elements in the form, %lld in the graph", name,
             (long long)(a ? s->results.count[a->id] : 0), (long long)count);
    return NULL;
}

static double rms_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += isfinite(x[i]) ? x[i] * x[i] : 0;
    return sqrt(sum / (double)weft_max(1, n));
}

static void describe(struct weft_formed *s, const struct weft_formed_rows *x, int64_t i)
{
    char at[64] = "";
    int64_t row = i / x->width;
    if (x->seq)
        snprintf(at, sizeof at, ", position %d of sequence %d, column %lld", (int)x->pos[row], (int)x->seq[row],
                 (long long)(i % x->width));
    else if (x->rows * x->width > 1)
        snprintf(at, sizeof at, ", row %lld, column %lld", (long long)row, (long long)(i % x->width));
    snprintf(s->where, sizeof s->where, "%s%s: %.10g in the form, %.10g in the graph", x->name, at, x->got[i],
             x->want[i]);
}

void weft_formed_compare(struct weft_formed *s, const struct weft_formed_rows *x)
{
    double rms = rms_of(x->want, x->rows * x->width);
    bool failed = s->error > WEFT_FORMED_LIMIT;
    for (int64_t i = 0; i < x->rows * x->width && !failed; i++) {
        double a = x->got[i], b = x->want[i], error = a == b ? 0 : fabs(a - b) / (fabs(b) + rms);
        if (isnan(error))
            error = INFINITY;
        if (error > s->error) {
            s->error = error;
            describe(s, x, i);
        }
    }
}

enum weft_status weft_formed_output(struct weft_formed *s, const char *name, const struct weft_value *v)
{
    int64_t count;
    if (!v)
        return WEFT_OK;
    struct weft_formed_rows x = {name, .want = numbers(s, tensor(s, v), &count), .rows = 1};
    if (!x.want)
        return WEFT_NOMEM;
    if (!(x.got = weft_formed_result(s, name, v, count)))
        return WEFT_OK;
    if (v->shape.dim[0].symbol == s->probe.net.rows) {
        x.rows = s->frame.batch * s->frame.fresh;
        x.seq = s->frame.seq;
        x.pos = s->frame.pos;
    }
    x.width = count / x.rows;
    weft_formed_compare(s, &x);
    return WEFT_OK;
}

void weft_formed_report(struct weft_formed *s, const char *check)
{
    weft_trial_report(s->t, s->error <= WEFT_FORMED_LIMIT, s->error, WEFT_FORMED_LIMIT, check, "%s", s->where);
    weft_arena_release(&s->arena);
    s->arena = (struct weft_arena){0};
    s->error = 0;
}
