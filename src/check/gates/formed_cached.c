/* SPDX-License-Identifier: MIT
 *
 * formed_cached.c - checks the forms of the graphs that read and write a cache.
 *
 * Sequences of different lengths continue in one call: one from its beginning, one with few tokens, one across the
 * boundary of a page, one at the end of the context; one has no new tokens. Pages are in shuffled order, and rings wrap
 * around. The states hold random numbers, because the form must be the same function of any state. Logits are compared,
 * and of the updated states everything that later calls can read.
 */
#include "check/gates/formed.h"
#include "infer/infer.h"

#include <stdio.h>
#include <string.h>

enum { SEQUENCES = 5, MOST_NEW = 4, TOKENS_KEY = 111, STATES_KEY = 112, SCATTER = 113, DENSE_NEW = 2 };

/* Past and new tokens of each sequence; past tokens are limited by the context. */
static const struct {
    int64_t past, fresh;
} calls[SEQUENCES] = {{0, 3}, {5, 1}, {0, 0}, {WEFT_KEY_TILE - 2, MOST_NEW}, {INT32_MAX, 2}};
enum { ROWS = 3 + 1 + 0 + MOST_NEW + 2 };

/* The sequences in the order of their rows, if they have different lengths. */
static const int64_t order[SEQUENCES] = {3, 0, 4, 2, 1};

struct stage {
    struct weft_formed formed;
    struct weft_cache_size size;
    struct weft_cache cache; /* for its page tables; the memory of the states is in `states` */
    double **states;         /* by slot */
    struct weft_arena arena;
};

static int32_t *ints(const struct stage *s, const struct weft_value *v)
{
    return weft_exec_tensor(s->formed.probe.exec, v)->data;
}

/* ---- states */

/* Fills the states with numbers between 0 and 1, which are valid even for spreads. */
static enum weft_status bind_states(struct stage *s)
{
    const struct weft_net *net = &s->formed.probe.net;
    s->states = weft_arena_alloc(&s->arena, (size_t)net->slot_count * sizeof *s->states + 1);
    for (int i = 0; s->states && i < net->slot_count; i++) {
        struct weft_value *state = net->slots[i].state;
        int64_t n = weft_graph_symbol_max(net->g, state->shape.dim[0].symbol) * net->slots[i].width;
        if (!(s->states[i] = weft_arena_alloc(&s->arena, (size_t)n * sizeof **s->states)))
            return WEFT_NOMEM;
        for (int64_t e = 0; e < n; e++)
            s->states[i][e] = 0.1 + 0.8 * weft_uniform(weft_key(STATES_KEY, (uint64_t)i), (uint64_t)e);
        weft_exec_bind(s->formed.probe.exec, state, s->states[i]);
    }
    return s->states ? WEFT_OK : WEFT_NOMEM;
}

/* Returns the row of a state that has a position of a sequence. */
static int64_t state_row(const struct stage *s, enum weft_lifetime lifetime, int64_t sequence, int64_t position)
{
    return lifetime == WEFT_PER_TOKEN ? weft_cache_store_row(&s->cache, sequence, position)
                                      : weft_cache_ring_row(&s->cache, sequence, position);
}

/* Collects the columns that later calls can read, for every batch of the form. */
static enum weft_status gather(struct stage *s, int slot, const double *got, struct weft_formed_rows *x)
{
    const struct weft_slot *own = &s->formed.probe.net.slots[slot];
    const struct weft_form_frame *f = &s->formed.frame;
    size_t most = (size_t)(f->batch * f->all), bytes = (size_t)own->width * sizeof(double);
    double *a = weft_arena_alloc(&s->formed.arena, most * bytes), *b = weft_arena_alloc(&s->formed.arena, most * bytes);
    int32_t *seq = weft_arena_alloc(&s->formed.arena, most * sizeof *seq);
    int32_t *pos = weft_arena_alloc(&s->formed.arena, most * sizeof *pos);
    if (!a || !b || !seq || !pos)
        return WEFT_NOMEM;
    *x = (struct weft_formed_rows){own->name, a, b, .width = own->width, .seq = seq, .pos = pos};
    for (int64_t batch = 0; batch < f->batch; batch++) {
        int64_t last = (batch + 1) * f->fresh - 1, sequence = f->seq[last];
        int64_t first = own->lifetime == WEFT_PER_TOKEN ? 0 : f->pos[last] - s->size.window;
        for (int64_t j = weft_max(0, first); j <= f->pos[last]; j++, x->rows++) {
            int64_t row = state_row(s, own->lifetime, sequence, j);
            memcpy(a + x->rows * own->width, got + (batch * f->all + j) * own->width, bytes);
            memcpy(b + x->rows * own->width, s->states[slot] + row * own->width, bytes);
            seq[x->rows] = (int32_t)sequence;
            pos[x->rows] = (int32_t)j;
        }
    }
    return WEFT_OK;
}

static enum weft_status compare_state(struct stage *s, int slot)
{
    const struct weft_slot *own = &s->formed.probe.net.slots[slot];
    const struct weft_form_frame *f = &s->formed.frame;
    if (!own->state->latest)
        return WEFT_OK;
    int64_t columns = own->lifetime == WEFT_PER_SEQUENCE ? f->sequences : f->batch * f->all;
    const double *got = weft_formed_result(&s->formed, own->name, own->state->latest, columns * own->width);
    if (!got)
        return WEFT_OK;
    struct weft_formed_rows x = {own->name, got, s->states[slot], columns, own->width};
    if (own->lifetime != WEFT_PER_SEQUENCE)
        TRY(gather(s, slot, got, &x));
    weft_formed_compare(&s->formed, &x);
    return WEFT_OK;
}

/* ---- calls */

/* Writes the new rows of a sequence, starting at `row`; returns the next row. */
static int64_t write_rows(struct stage *s, int64_t sequence, int64_t past, int64_t fresh, int64_t row)
{
    const struct weft_net *net = &s->formed.probe.net;
    weft_cache_extend(&s->cache, sequence, fresh);
    for (int64_t i = past; i < past + fresh; i++, row++) {
        ints(s, net->at.seq)[row] = (int32_t)sequence;
        ints(s, net->at.pos)[row] = ints(s, net->position)[row] = (int32_t)i;
        ints(s, net->store)[row] = weft_cache_store_row(&s->cache, sequence, i);
        ints(s, net->ring)[row] = weft_cache_ring_row(&s->cache, sequence, i);
    }
    return row;
}

static void write_call(struct stage *s, bool dense)
{
    const struct weft_net *net = &s->formed.probe.net;
    struct weft_exec *exec = s->formed.probe.exec;
    int64_t past[SEQUENCES], fresh[SEQUENCES], row = 0, context = s->size.length;
    for (int64_t i = 0; i < SEQUENCES; i++) {
        fresh[i] = weft_min(dense ? DENSE_NEW : calls[i].fresh, context);
        past[i] = weft_min(dense ? WEFT_KEY_TILE - 1 : calls[i].past, context - fresh[i]);
        weft_cache_extend(&s->cache, i, past[i]);
    }
    for (int64_t i = 0; i < SEQUENCES; i++) {
        int64_t sequence = dense ? i : order[i];
        row = write_rows(s, sequence, past[sequence], fresh[sequence], row);
    }
    memcpy(ints(s, net->at.tiles), s->cache.store, (size_t)(SEQUENCES * s->cache.tiles) * sizeof *s->cache.store);
    weft_exec_count(exec, net->rows, row);
    weft_exec_count(exec, net->store_rows, s->cache.high);
    weft_probe_fill(&s->formed.probe, TOKENS_KEY);
}

static enum weft_status run_call(struct stage *s, bool dense, const char *check)
{
    const struct weft_net *net = &s->formed.probe.net;
    bool ran;
    TRY(weft_cache_bind(&s->cache, net, s->formed.probe.exec));
    TRY(bind_states(s));
    write_call(s, dense);
    TRY(weft_formed_begin(&s->formed));
    weft_formed_want(&s->formed, net->logits);
    for (int i = 0; i < net->slot_count; i++)
        weft_formed_want(&s->formed, net->slots[i].state->latest);
    TRY(weft_formed_run(&s->formed, dense, check, &ran));
    if (!ran)
        return WEFT_OK;
    for (int i = 0; i < net->slot_count; i++)
        TRY(compare_state(s, i));
    TRY(weft_formed_output(&s->formed, "logits", net->logits));
    weft_formed_report(&s->formed, check);
    return WEFT_OK;
}

static enum weft_status check_call(struct stage *s, bool dense, const char *graph)
{
    char check[96];
    snprintf(check, sizeof check, "%s: error of the form, sequences of %s lengths", graph,
             dense ? "equal" : "different");
    enum weft_status status = weft_cache_init(&s->cache, &s->formed.probe.net, &s->size);
    if (status == WEFT_OK)
        status = run_call(s, dense, check);
    weft_cache_release(&s->cache);
    weft_arena_release(&s->arena);
    s->arena = (struct weft_arena){0};
    return status;
}

/* Sets *apart to whether the model decodes differently. */
static enum weft_status check_use(const struct weft_trial *t, enum weft_use use, const char *graph, bool *apart)
{
    const struct weft_spec *spec = t->model->spec;
    struct stage s = {.size = {.sequences = SEQUENCES,
                               .length = spec->context,
                               .chunk = ROWS,
                               .window = spec->ra_alpha == 0 ? 0 : spec->ra_window,
                               .scatter = SCATTER}};
    char check[96];
    bool lowered;
    snprintf(check, sizeof check, "%s: the graph has a form", graph);
    enum weft_status status =
        weft_formed_open(&s.formed, t, t->model, use, weft_cache_net_size(&s.size, ROWS), check, &lowered);
    *apart = s.formed.probe.net.decodes_apart;
    if (status == WEFT_OK && lowered)
        status = check_call(&s, false, graph);
    if (status == WEFT_OK && lowered)
        status = check_call(&s, true, graph);
    weft_formed_close(&s.formed);
    return status;
}

enum weft_status weft_check_formed_cached(const struct weft_trial *t)
{
    bool apart;
    TRY(check_use(t, WEFT_DECODE, "DECODE", &apart));
    if (apart)
        TRY(check_use(t, WEFT_PREFILL, "PREFILL", &apart));
    return WEFT_OK;
}
