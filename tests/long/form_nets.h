/* SPDX-License-Identifier: MIT
 *
 * form_nets.h - small nets in all uses, and the values that their forms compute, for tests/long/forms.c. Sequences and
 * lengths differ from those of the gate.
 */
#ifndef WEFT_TEST_FORM_NETS_H
#define WEFT_TEST_FORM_NETS_H

#include "check/probe/gate.h"
#include "damage_hook.h"
#include "form_values.h"
#include "infer/infer.h"

enum {
    WHOLE_SEQUENCES = 3,
    CACHED_SEQUENCES = 4,
    CACHED_ROWS = 12,
    TOKENS_KEY = 501,
    STATES_KEY = 502,
    DROPS_KEY = 503
};
enum { USES = 5 };
static const enum weft_use uses[USES] = {WEFT_FORWARD, WEFT_EVAL, WEFT_TRAIN, WEFT_DECODE, WEFT_PREFILL};
static const char *const use_names[USES] = {"FORWARD", "EVAL", "TRAIN", "DECODE", "PREFILL"};

/* A graph of a net, its form's atoms in order, and the values of the sound form. */
struct use {
    struct weft_probe probe;
    struct weft_cache cache;
    struct weft_cache_size size; /* of cached uses */
    struct weft_form_frame frame;
    struct weft_arena arena; /* of a run */
    struct call *calls;
    int call_count;
    struct values sound;
    bool cached;
};
struct net {
    char name[32];
    struct weft_spec spec, tiny, dropping;
    struct weft_nn *twin, trained; /* `trained` is the twin with dropout */
    struct use use[USES];
    int use_count;
};

/* ---- inputs */

static inline int32_t *ints_of(const struct use *u, const struct weft_value *v)
{
    return weft_exec_tensor(u->probe.exec, v)->data;
}

/* States hold numbers between 0 and 1, which are valid even for spreads. */
static inline const double *state_values(struct use *u, const struct weft_value *v, int64_t *count)
{
    int64_t width = 1;
    for (int i = 1; i < v->shape.ndim; i++)
        width *= v->shape.dim[i].times;
    *count = weft_graph_symbol_max(u->probe.net.g, v->shape.dim[0].symbol) * v->shape.dim[0].times * width;
    double *x = weft_arena_alloc(&u->arena, (size_t)*count * sizeof *x);
    for (int64_t i = 0; x && i < *count; i++)
        x[i] = 0.05 + 0.9 * weft_uniform(weft_key_name(STATES_KEY, v->name), (uint64_t)i);
    return x;
}

static inline const double *read_source(void *context, const struct weft_atom *source, int64_t *count)
{
    struct use *u = context;
    struct weft_value *const *values;
    enum weft_kind kind = source->kind == WEFT_ATOM_weight  ? WEFT_PARAM
                          : source->kind == WEFT_ATOM_state ? WEFT_STATE
                                                            : WEFT_INPUT;
    const struct weft_value *v = NULL;
    for (int i = 0, n = weft_graph_values(u->probe.net.g, &values); i < n; i++)
        if (values[i]->kind == kind && strcmp(values[i]->name, source->name) == 0)
            v = values[i];
    if (!v)
        return NULL;
    if (kind == WEFT_STATE)
        return state_values(u, v, count);
    const struct weft_tensor *x = weft_exec_tensor(u->probe.exec, v);
    *count = weft_tensor_count(x);
    double *copy = weft_arena_alloc(&u->arena, (size_t)*count * sizeof *copy + 1);
    for (int64_t i = 0; copy && i < *count; i++)
        copy[i] = weft_tensor_get(x, i);
    return copy;
}

static inline bool drops_element(void *context, const struct weft_drop *d, int64_t row, int64_t head, int64_t column)
{
    const struct use *u = context;
    uint64_t key = weft_key(weft_key(DROPS_KEY, (uint64_t)d->layer), (uint64_t)d->site);
    key = weft_key(weft_key(key, (uint64_t)u->frame.seq[row]), (uint64_t)u->frame.pos[row]);
    return weft_uniform(weft_key(key, (uint64_t)head), (uint64_t)column) < d->p;
}

static inline void set_rows(struct use *u, bool dense)
{
    const struct weft_net *net = &u->probe.net;
    int64_t rows = weft_tensor_count(weft_exec_tensor(u->probe.exec, net->tokens));
    int64_t sequences = weft_exec_tensor(u->probe.exec, net->at.tiles)->dim[0];
    u->frame = (struct weft_form_frame){.batch = dense ? sequences : rows,
                                        .sequences = sequences,
                                        .seq = ints_of(u, net->at.seq),
                                        .pos = ints_of(u, net->at.pos),
                                        .tiles = ints_of(u, net->at.tiles),
                                        .ring_tiles = net->ring_tiles ? ints_of(u, net->ring_tiles) : NULL,
                                        .tile = WEFT_KEY_TILE,
                                        .tile_count = net->tiles,
                                        .read = read_source,
                                        .drops = drops_element,
                                        .context = u};
    u->frame.fresh = rows / u->frame.batch;
    for (int64_t r = 0; r < rows; r++)
        u->frame.all = weft_max(u->frame.all, u->frame.pos[r] + 1);
}

static inline void fill_whole(struct use *u, bool dense)
{
    struct weft_net *net = &u->probe.net;
    int64_t context = u->probe.model->spec->context;
    const int64_t lengths[WHOLE_SEQUENCES] = {weft_min(5, context), weft_min(2, context), context};
    if (dense)
        weft_probe_rows(&u->probe, WHOLE_SEQUENCES, weft_min(11, context), NULL);
    else
        weft_probe_rows(&u->probe, WHOLE_SEQUENCES, 0, lengths);
    weft_probe_fill(&u->probe, TOKENS_KEY);
    if (net->use == WEFT_TRAIN)
        weft_net_step_key(net, u->probe.exec, 1, 2, 3);
    for (int64_t r = 3; net->targets && r < weft_tensor_count(weft_exec_tensor(u->probe.exec, net->targets)); r += 7)
        ints_of(u, net->targets)[r] = -1;
}

/* The rows of a call that continues sequences of different lengths, or of equal lengths. */
static inline void fill_cached(struct use *u, bool dense)
{
    static const int64_t pasts[] = {2, WEFT_KEY_TILE + 1, 0, 1}, news[] = {1, 2, 4, 2};
    const struct weft_net *net = &u->probe.net;
    int64_t row = 0, context = u->size.length;
    for (int64_t s = 0; s < CACHED_SEQUENCES; s++) {
        int64_t fresh = weft_min(dense ? 3 : news[s], context), past = weft_min(dense ? 4 : pasts[s], context - fresh);
        weft_cache_clear(&u->cache, s);
        weft_cache_extend(&u->cache, s, past + fresh);
        for (int64_t i = past; i < past + fresh; i++, row++) {
            ints_of(u, net->at.seq)[row] = (int32_t)s;
            ints_of(u, net->at.pos)[row] = ints_of(u, net->position)[row] = (int32_t)i;
            ints_of(u, net->store)[row] = weft_cache_store_row(&u->cache, s, i);
            ints_of(u, net->ring)[row] = weft_cache_ring_row(&u->cache, s, i);
        }
    }
    memcpy(ints_of(u, net->at.tiles), u->cache.store,
           (size_t)(CACHED_SEQUENCES * u->cache.tiles) * sizeof *u->cache.store);
    weft_exec_count(u->probe.exec, net->rows, row);
    weft_probe_fill(&u->probe, TOKENS_KEY);
}

/* ---- running */

static inline void want_value(const struct weft_form *f, struct weft_form_results *r, const struct weft_value *v)
{
    if (v && f->of_value[v->id])
        r->wanted[f->of_value[v->id]->id] = true;
}

/* Adds the part of an updated state that later calls can read: the columns of each batch up to its last row, of rings
 * only those in the window. */
static inline void add_state(const struct use *u, const struct weft_slot *slot, const double *x, struct values *to)
{
    const struct weft_form_frame *f = &u->frame;
    if (slot->lifetime == WEFT_PER_SEQUENCE) {
        add_values(to, x, f->sequences * slot->width);
        return;
    }
    for (int64_t b = 0; b < f->batch; b++) {
        int64_t last = f->pos[(b + 1) * f->fresh - 1];
        int64_t first = slot->lifetime == WEFT_PER_TOKEN ? 0 : weft_max(0, last - u->size.window);
        add_values(to, x + (b * f->all + first) * slot->width, (last + 1 - first) * slot->width);
    }
}

static inline void add_results(const struct use *u, const struct weft_form *f, const struct weft_form_results *r,
                               struct values *to)
{
    const struct weft_net *net = &u->probe.net;
    struct weft_value *const *values;
    for (int i = 0, n = weft_graph_values(net->g, &values); i < n; i++) {
        const struct weft_atom *a = f->of_value[i];
        if (a && r->of[a->id] && values[i]->is_output && values[i]->kind == WEFT_VALUE)
            add_values(to, r->of[a->id], r->count[a->id]);
    }
    for (int i = 0; i < net->slot_count; i++) {
        const struct weft_value *latest = net->slots[i].state->latest;
        const struct weft_atom *a = latest ? f->of_value[latest->id] : NULL;
        if (a && r->of[a->id])
            add_state(u, &net->slots[i], r->of[a->id], to);
    }
}

static inline enum weft_status run_rows(struct use *u, const struct weft_form *f, bool dense, struct values *to)
{
    struct weft_form_results r;
    struct weft_value *const *values;
    enum weft_status status = weft_form_results_init(&r, f);
    if (u->cached)
        fill_cached(u, dense);
    else
        fill_whole(u, dense);
    set_rows(u, dense);
    for (int i = 0, n = weft_graph_values(u->probe.net.g, &values); i < n && status == WEFT_OK; i++)
        if (values[i]->is_output)
            want_value(f, &r, values[i]);
    for (int i = 0; i < u->probe.net.slot_count && status == WEFT_OK; i++)
        want_value(f, &r, u->probe.net.slots[i].state->latest);
    if (status == WEFT_OK)
        status = weft_form_run(f, &u->frame, &r);
    if (status == WEFT_OK)
        add_results(u, f, &r, to);
    weft_form_results_release(&r);
    weft_arena_release(&u->arena);
    u->arena = (struct weft_arena){0};
    return status;
}

/* Lowers the graph and runs its form on both kinds of rows. With `only_damaged`, does not run a form without damage;
 * returns whether it ran. */
static inline bool run_use(struct use *u, struct values *to, bool only_damaged)
{
    struct weft_form f;
    enum weft_status status =
        weft_form_init(&f, u->probe.net.g, u->probe.net.use == WEFT_TRAIN, u->probe.model->spec->context);
    bool runs = !only_damaged || hook.done > 0;
    for (int dense = 0; dense < 2 && runs && status == WEFT_OK; dense++)
        status = run_rows(u, &f, dense, to);
    weft_form_release(&f);
    to->failed = status != WEFT_OK;
    weft_error_clear();
    return runs;
}

/* ---- opening */

static inline enum weft_status open_use(struct net *net, int i)
{
    struct use *u = &net->use[i];
    const struct weft_spec *spec = &net->tiny;
    struct weft_net_size size = {.sequences = WHOLE_SEQUENCES, .length = spec->context};
    u->probe = (struct weft_probe){.model = uses[i] == WEFT_TRAIN ? &net->trained : net->twin, .dtype = WEFT_F64};
    u->cached = uses[i] == WEFT_DECODE || uses[i] == WEFT_PREFILL;
    u->size = (struct weft_cache_size){.sequences = CACHED_SEQUENCES,
                                       .length = spec->context,
                                       .chunk = CACHED_ROWS,
                                       .window = spec->ra_alpha == 0 ? 0 : spec->ra_window};
    if (u->cached)
        size = weft_cache_net_size(&u->size, CACHED_ROWS);
    TRY(weft_net_draw(&u->probe.net, u->probe.model, uses[i], size));
    TRY(weft_probe_plan(&u->probe, WEFT_REFERENCE));
    if (u->cached) {
        TRY(weft_cache_init(&u->cache, &u->probe.net, &u->size));
        TRY(weft_cache_bind(&u->cache, &u->probe.net, u->probe.exec));
    }
    u->calls = calloc(MOST_CALLS, sizeof *u->calls);
    hook_begin((struct hook){.mode = LIST_CALLS, .calls = u->calls});
    run_use(u, &u->sound, false);
    hook_end();
    u->call_count = hook.call + 1;
    return u->sound.failed ? FAIL(WEFT_CHECK, "%s %s: the sound form fails", net->name, use_names[i]) : WEFT_OK;
}

/* Opens a preset or, with settings, a combination, made small. */
static inline enum weft_status open_net(struct net *net, const char *name, const char *settings)
{
    snprintf(net->name, sizeof net->name, "%s", name);
    if (*settings)
        TRY(weft_combination_spec(&net->spec, settings, WEFT_F32));
    else {
        struct weft_settings none = {0};
        TRY(weft_spec_init(&net->spec, name, &none));
    }
    TRY(weft_spec_shrink(&net->tiny, &net->spec));
    net->tiny.dropout = 0;
    TRY(weft_twin_create(&net->twin, &net->tiny));
    net->dropping = net->tiny;
    net->dropping.dropout = 0.2;
    net->trained = *net->twin;
    net->trained.spec = &net->dropping;
    for (int i = 0; i < USES; i++) {
        if (uses[i] == WEFT_PREFILL && !net->use[i - 1].probe.net.decodes_apart)
            break;
        TRY(open_use(net, i));
        net->use_count++;
    }
    return WEFT_OK;
}

static inline void close_net(struct net *net)
{
    for (int i = 0; i < net->use_count; i++) {
        weft_cache_release(&net->use[i].cache);
        weft_probe_close(&net->use[i].probe);
        free(net->use[i].calls);
        free_values(&net->use[i].sound);
    }
    weft_nn_free(net->twin);
    weft_spec_release(&net->tiny);
    weft_spec_release(&net->spec);
}

#endif
