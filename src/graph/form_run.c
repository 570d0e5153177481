/* SPDX-License-Identifier: MIT
 *
 * form_run.c - runs a form in f64, atom by atom, in plain loops. Every number, index and truth is a double.
 *
 * Dimensions at run time follow from those of the inputs; types matter only for atoms that create dimensions.
 */
#include "graph/form_run.h"

#include <stdlib.h>
#include <string.h>

/* ---- all atoms */

static void number(struct run *r)
{
    r->out->ndim = 0;
    if (weft_run_alloc(r))
        *r->out->data = r->atom->value;
}

static void array(struct run *r)
{
    weft_array_set(r->frame, r->out, &r->atom->type);
    if (weft_run_alloc(r))
        memcpy(r->out->data, r->atom->data, (size_t)weft_array_count(r->out) * sizeof(double));
}

/* Computes x in the first run; later runs keep this value, as if it did not depend on anything. */
static void stop(struct run *r)
{
    struct weft_form_results *kept = r->results;
    int id = r->atom->id;
    int64_t count = weft_array_count(r->in[0]);
    *r->out = *r->in[0];
    if (!weft_run_alloc(r))
        return;
    if (!kept->stopped[id] && (kept->stopped[id] = malloc((size_t)count * sizeof(double) + 1))) {
        memcpy(kept->stopped[id], r->in[0]->data, (size_t)count * sizeof(double));
        kept->stopped_count[id] = count;
    }
    if (!kept->stopped[id])
        r->status = FAIL(WEFT_NOMEM, "not enough memory to run a form");
    else if (kept->stopped_count[id] != count)
        r->status = FAIL(WEFT_INVALID, "a form with stop cannot be run again with other sizes: start new results");
    else
        memcpy(r->out->data, kept->stopped[id], (size_t)count * sizeof(double));
}

static void run_atom(struct run *r)
{
    enum weft_atom_kind kind = r->atom->kind;
    if (kind <= WEFT_ATOM_state || kind >= WEFT_ATOM_drop)
        weft_run_rows(r);
    else if (kind == WEFT_ATOM_number)
        number(r);
    else if (kind == WEFT_ATOM_array)
        array(r);
    else if (kind <= WEFT_ATOM_to || kind == WEFT_ATOM_expand)
        weft_run_elementwise(r);
    else if (kind == WEFT_ATOM_matmul)
        weft_run_matmul(r);
    else if (kind <= WEFT_ATOM_softmax)
        weft_run_along(r);
    else if (kind == WEFT_ATOM_reshape)
        weft_run_reshape(r);
    else if (kind == WEFT_ATOM_permute)
        weft_run_permute(r);
    else if (kind <= WEFT_ATOM_pad)
        weft_run_rearrange(r);
    else if (kind == WEFT_ATOM_take)
        weft_run_take(r);
    else if (kind == WEFT_ATOM_top)
        weft_run_top(r);
    else if (kind == WEFT_ATOM_stop)
        stop(r);
    else
        weft_run_along_index(r);
}

/* ---- the run: only atoms that a wanted one needs, each freed after its last reader */

enum weft_status weft_form_results_init(struct weft_form_results *r, const struct weft_form *f)
{
    size_t n = (size_t)f->count + 1;
    *r = (struct weft_form_results){.atoms = f->count};
    r->of = calloc(n, sizeof *r->of);
    r->count = calloc(n, sizeof *r->count);
    r->wanted = calloc(n, sizeof *r->wanted);
    r->stopped = calloc(n, sizeof *r->stopped);
    r->stopped_count = calloc(n, sizeof *r->stopped_count);
    if (!r->of || !r->count || !r->wanted || !r->stopped || !r->stopped_count)
        return FAIL(WEFT_NOMEM, "not enough memory for the results of a form");
    return WEFT_OK;
}

void weft_form_results_release(struct weft_form_results *r)
{
    for (int i = 0; i < r->atoms; i++) {
        if (r->of)
            free(r->of[i]);
        if (r->stopped)
            free(r->stopped[i]);
    }
    free(r->of);
    free(r->count);
    free(r->wanted);
    free(r->stopped);
    free(r->stopped_count);
    *r = (struct weft_form_results){0};
}

/* Counts how often each atom is read by atoms that are needed; 0: it is not needed. A wanted atom is never freed. */
static void count_readers(const struct weft_form *f, const bool *wanted, int *readers)
{
    for (int i = f->count - 1; i >= 0; i--) {
        readers[i] += wanted[i];
        for (int k = 0; readers[i] && k < 3; k++)
            if (f->list[i]->in[k])
                readers[f->list[i]->in[k]->id]++;
    }
}

static void drop_inputs(const struct weft_atom *a, struct weft_array *arrays, int *readers)
{
    for (int k = 0; k < 3; k++)
        if (a->in[k] && --readers[a->in[k]->id] == 0) {
            free(arrays[a->in[k]->id].data);
            arrays[a->in[k]->id].data = NULL;
        }
}

enum weft_status weft_form_run(const struct weft_form *f, const struct weft_form_frame *frame,
                               struct weft_form_results *results)
{
    struct weft_array *arrays = calloc((size_t)f->count + 1, sizeof *arrays);
    int *readers = calloc((size_t)f->count + 1, sizeof *readers);
    enum weft_status status = arrays && readers ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory to run a form");
    if (status == WEFT_OK)
        count_readers(f, results->wanted, readers);
    for (int i = 0; i < f->count && status == WEFT_OK; i++) {
        const struct weft_atom *a = f->list[i];
        if (!readers[i])
            continue;
        struct run r = {.atom = a, .frame = frame, .out = &arrays[i], .results = results};
        for (int k = 0; k < 3; k++)
            r.in[k] = a->in[k] ? &arrays[a->in[k]->id] : NULL;
        run_atom(&r);
        status = r.status;
        drop_inputs(a, arrays, readers);
    }
    for (int i = 0; arrays && i < f->count; i++) {
        free(results->of[i]);
        results->of[i] = NULL;
        if (results->wanted[i] && status == WEFT_OK) {
            results->of[i] = arrays[i].data;
            results->count[i] = weft_array_count(&arrays[i]);
        } else {
            free(arrays[i].data);
        }
    }
    free(arrays);
    free(readers);
    return status;
}
