/* SPDX-License-Identifier: MIT
 *
 * dnn.c - runs matmuls on an engine: selects the engine for a dtype, packs operands, and addresses groups. cut.c cuts
 * outputs into tiles of work.
 */
#include "dnn/engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACK_PANELS 16 /* panels or row blocks packed by one tile of work */

/* ---- engines */

static const struct level {
    const struct weft_dnn_engine *f32, *bf16;
    const struct weft_dnn_tiles *tiles;
} levels[] = {
    [WEFT_ISA_BASE] = {&weft_dnn_loop, &weft_dnn_loop, &weft_dnn_tiles_loop},
#ifndef WEFT_BASE_ONLY
    [WEFT_ISA_V3] = {&weft_dnn_loop_v3, &weft_dnn_loop_v3, &weft_dnn_tiles_loop_v3},
    [WEFT_ISA_V4] = {&weft_dnn_loop_v4, &weft_dnn_loop_v4, &weft_dnn_tiles_loop_v4},
    [WEFT_ISA_AMX] = {&weft_dnn_loop_v4, &weft_dnn_amx, &weft_dnn_tiles_amx},
#endif
};

static const struct level *level(void)
{
    return &levels[weft_min((int)weft_isa(), (int)(sizeof levels / sizeof *levels) - 1)];
}

const struct weft_dnn_tiles *weft_dnn_tiles(void) { return level()->tiles; }

const struct weft_dnn_rival *weft_dnn_rival;

static char wanted[32]; /* WEFT_ENGINE as first read: a plan made for one engine must not run on another */

static void read_wish(void)
{
    const char *wish = getenv("WEFT_ENGINE");
    snprintf(wanted, sizeof wanted, "%s", wish ? wish : "");
}

static bool rival_wanted(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_wish);
    return weft_dnn_rival && strcmp(wanted, weft_dnn_rival->name) == 0;
}

static const struct weft_dnn_engine *engine_of(enum weft_dtype dtype)
{
    if (rival_wanted())
        return weft_dnn_rival->engine;
    return dtype == WEFT_BF16 ? level()->bf16 : level()->f32;
}

static enum weft_status choose_engine(enum weft_dtype dtype, const struct weft_dnn_engine **engine)
{
    if (rival_wanted())
        weft_note_once("engine", "with WEFT_ENGINE=%s, results are not bit-identical to those of Weft's own engines",
                       wanted);
    else if (*wanted)
        return FAIL(WEFT_UNSUPPORTED,
                    "WEFT_ENGINE=%s: this program has no such engine; unset WEFT_ENGINE, or build with `make "
                    "ONEDNN=yes` for the engine onednn",
                    wanted);
    *engine = engine_of(dtype);
    return WEFT_OK;
}

const char *weft_dnn_path(void)
{
    static _Thread_local char text[64];
    if (!rival_wanted())
        return weft_isa_name(weft_isa());
    snprintf(text, sizeof text, "%s-%s", weft_isa_name(weft_isa()), wanted);
    return text;
}

bool weft_dnn_same_bits(const char *path, const char *other)
{
    return strcmp(path, other) == 0 || (!strchr(path, '-') && !strchr(other, '-'));
}

const char *weft_dnn_describe(void)
{
    static _Thread_local char text[96];
    snprintf(text, sizeof text, "f32: %s; bf16: %s", engine_of(WEFT_F32)->name, engine_of(WEFT_BF16)->name);
    return text;
}

void weft_dnn_note_speed(enum weft_dtype dtype)
{
    if (dtype == WEFT_BF16 && engine_of(WEFT_BF16) == engine_of(WEFT_F32))
        weft_note_once("bf16",
                       "this processor has no AMX: bf16 gives bit-identical results, but is no faster than f32");
}

/* ---- tiles of work */

struct call {
    const struct weft_dnn_engine *engine;
    struct weft_dnn_job job; /* group 0 */
    struct weft_dnn_cut cut;
    size_t a_group, b_group, out_group, addend_group, strips_group; /* stride between groups in bytes */
    int64_t bias_group;
    char *local;
    size_t local_stride;
    _Atomic enum weft_status status; /* error of a failed tile, or WEFT_OK */
};

static void run_tile(void *context, int64_t tile, int thread)
{
    struct call *c = context;
    const struct weft_dnn_engine *e = c->engine;
    struct weft_dnn_job job = c->job;
    int64_t across = tile % c->cut.across, down = tile / c->cut.across % c->cut.down;
    size_t group = (size_t)(tile / (c->cut.across * c->cut.down));
    job.a.data = (const char *)job.a.data + group * c->a_group;
    job.b += group * c->b_group;
    if (job.strips)
        job.strips += group * c->strips_group;
    job.out = (char *)job.out + group * c->out_group;
    if (job.addend)
        job.addend = (const char *)job.addend + group * c->addend_group;
    if (job.bias)
        job.bias += (int64_t)group * c->bias_group;
    int64_t row = down * c->cut.blocks * e->block, panel = across * c->cut.panels;
    int64_t row_end = weft_min(row + c->cut.blocks * e->block, job.rows);
    int64_t panel_end = weft_min(panel + c->cut.panels, weft_div_up(job.width, e->panel));
    struct weft_counter *counter = weft_counter();
    if (counter)
        atomic_fetch_add(&counter->products,
                         (row_end - row) * job.depth * (weft_min(panel_end * e->panel, job.width) - panel * e->panel));
    enum weft_status status =
        e->tile(&job, row, row_end, panel, panel_end, c->local + (size_t)thread * c->local_stride);
    if (status != WEFT_OK)
        atomic_store(&c->status, status);
}

/* Reports a failure. Kernels return nothing, so the failure is deferred until the code that runs them collects it
 * (weft_deferred). */
static void report(const struct weft_dnn_engine *e, enum weft_status status, int64_t depth, int64_t width)
{
    if (status != WEFT_OK)
        weft_defer(FAIL(status,
                        "%s could not compute a matmul of depth %lld and width %lld: the machine may be out of memory",
                        e->name, (long long)depth, (long long)width));
}

static void run(struct call *c, int64_t groups)
{
    weft_parallel(groups * c->cut.down * c->cut.across, run_tile, c);
    report(c->engine, atomic_load(&c->status), c->job.depth, c->job.width);
}

/* ---- packing */

struct packing {
    const struct weft_dnn_engine *engine;
    const struct weft_dnn_plan *plan;
    struct weft_dnn_matrix w; /* group 0 */
    int64_t depth;            /* depth of the matrix; may be less than planned */
    size_t w_group, b_group;
    int64_t down, across; /* number of tiles of work */
    char *packed;
    _Atomic enum weft_status status;
};

static void pack_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    struct packing *k = context;
    const struct weft_dnn_engine *e = k->engine;
    int64_t first = tile % k->across * PACK_PANELS, piece = tile / k->across % k->down;
    size_t group = (size_t)(tile / (k->across * k->down));
    struct weft_dnn_matrix w = k->w;
    w.data = (const char *)w.data + group * k->w_group;
    int64_t depth0 = piece * e->pack_depth, depth1 = e->pack_depth ? depth0 + e->pack_depth : k->depth;
    for (int64_t p = first; p < first + PACK_PANELS && p * e->panel < k->plan->width; p++) {
        enum weft_status status = e->pack(k->plan, &w, depth0, weft_min(depth1, k->depth), p * e->panel,
                                          weft_min(e->panel, k->plan->width - p * e->panel),
                                          k->packed + group * k->b_group + (size_t)p * k->plan->panel_bytes);
        if (status != WEFT_OK)
            atomic_store(&k->status, status);
    }
}

static size_t packed_group(const struct weft_dnn_engine *e, const struct weft_dnn_plan *plan)
{
    return (size_t)weft_div_up(plan->width, e->panel) * plan->panel_bytes;
}

static void pack(struct packing *k, int64_t groups)
{
    k->b_group = packed_group(k->engine, k->plan);
    k->down = k->engine->pack_depth ? weft_div_up(k->depth, k->engine->pack_depth) : 1;
    k->across = weft_div_up(weft_div_up(k->plan->width, k->engine->panel), PACK_PANELS);
    weft_parallel(groups * k->down * k->across, pack_tile, k);
    report(k->engine, atomic_load(&k->status), k->depth, k->plan->width);
}

static enum weft_status packed_bytes(const struct weft_dnn_engine *e, const struct weft_dnn_plan *plan, int64_t groups,
                                     size_t *bytes)
{
    TRY(weft_size_mul((size_t)weft_div_up(plan->width, e->panel), plan->panel_bytes, bytes));
    TRY(weft_size_mul(*bytes, (size_t)groups, bytes));
    return WEFT_OK;
}

static struct weft_dnn_plan plan_of(const struct weft_dnn_shape *s, bool outer)
{
    return (struct weft_dnn_plan){.dtype = s->dtype,
                                  .depth = outer ? s->max_rows : s->depth,
                                  .width = outer ? s->depth : s->width,
                                  .outer = outer};
}

enum weft_status weft_dnn_pack_bytes(const struct weft_dnn_shape *s, size_t *bytes)
{
    const struct weft_dnn_engine *e = NULL;
    struct weft_dnn_plan plan = plan_of(s, false);
    TRY(choose_engine(s->dtype, &e));
    TRY(e->plan(&plan));
    TRY(packed_bytes(e, &plan, s->groups, bytes));
    return WEFT_OK;
}

void weft_dnn_pack(const struct weft_dnn_shape *s, enum weft_pack how, const void *w, enum weft_dtype w_dtype,
                   void *packed)
{
    struct packing k = {.engine = engine_of(s->dtype),
                        .w = {w, w_dtype, how == WEFT_PACK_Y ? s->depth : s->width, how == WEFT_PACK_Y},
                        .w_group = (size_t)(s->depth * s->width) * weft_dtype_bytes(w_dtype),
                        .depth = s->depth,
                        .packed = packed};
    struct weft_dnn_plan plan = plan_of(s, false);
    enum weft_status status = k.engine->plan(&plan); /* makes the same plan as weft_dnn_pack_bytes */
    k.plan = &plan;
    if (status == WEFT_OK)
        pack(&k, s->groups);
    else
        weft_defer(status);
}

/* ---- matmuls */

struct weft_dnn_product {
    const struct weft_dnn_engine *engine;
    struct weft_dnn_shape shape;
    struct weft_dnn_plan plan;
    enum weft_dtype out;
};

enum weft_status weft_dnn_product_plan(const struct weft_dnn_shape *s, enum weft_dtype out, struct weft_arena *arena,
                                       struct weft_dnn_product **product, size_t *scratch, size_t *local)
{
    struct weft_dnn_product *p = weft_arena_alloc(arena, sizeof *p);
    if (!p)
        return FAIL(WEFT_NOMEM, "not enough memory to plan a matmul of %lld by %lld", (long long)s->depth,
                    (long long)s->width);
    *p = (struct weft_dnn_product){.shape = *s, .plan = plan_of(s, false), .out = out};
    TRY(choose_engine(s->dtype, &p->engine));
    TRY(p->engine->plan(&p->plan));
    *product = p;
    *scratch = 0;
    *local = p->plan.local_bytes;
    return WEFT_OK;
}

void weft_dnn_product_run(const struct weft_dnn_product *p, int64_t rows, const void *a, const void *packed,
                          const float *bias, const void *addend, enum weft_dtype addend_dtype, void *out, void *scratch,
                          void *local, size_t local_stride)
{
    (void)scratch;
    const struct weft_dnn_shape *s = &p->shape;
    int64_t side = s->batched ? 1 : s->groups, apart = s->batched ? rows : 1;
    if (rows == 0)
        return;
    struct call c = {
        .engine = p->engine,
        .job = {.plan = &p->plan,
                .rows = rows,
                .depth = s->depth,
                .width = s->width,
                .a = {a, s->dtype, side * s->depth, false},
                .b = packed,
                .bias = bias,
                .addend = addend,
                .addend_dtype = addend_dtype,
                .out = out,
                .out_dtype = p->out,
                .out_stride = side * s->width},
        .a_group = (size_t)(apart * s->depth) * weft_dtype_bytes(s->dtype),
        .b_group = packed_group(p->engine, &p->plan),
        .out_group = (size_t)(apart * s->width) * weft_dtype_bytes(p->out),
        .addend_group = (size_t)(apart * s->width) * weft_dtype_bytes(addend_dtype),
        .bias_group = s->width,
        .local = local,
        .local_stride = local_stride,
    };
    c.cut = weft_dnn_cut(c.engine, &c.job, s->groups, c.b_group);
    run(&c, s->groups);
}

/* ---- outer products: in each group, A is dy transposed, so its rows are the n columns of dy; B is x, and the depth
 * runs over the rows of dy and x */

struct weft_dnn_outer {
    const struct weft_dnn_engine *engine;
    struct weft_dnn_shape shape;
    struct weft_dnn_plan plan;
    size_t strips; /* offset of the strips packed ahead, which follow x in scratch */
    bool packs_ahead;
};

/* Packs columns of dy that several tiles need, once for all of them. */
static void strip_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    struct call *c = context;
    const struct weft_dnn_engine *e = c->engine;
    const struct weft_dnn_job *job = &c->job;
    int64_t size = PACK_PANELS * e->block, across = weft_div_up(job->rows, size), row = tile % across * size;
    int64_t down = weft_div_up(job->depth, WEFT_DNN_STRIP), depth = tile / across % down * WEFT_DNN_STRIP;
    size_t group = (size_t)(tile / (across * down));
    struct weft_dnn_matrix a = job->a;
    a.data = (const char *)a.data + group * c->a_group;
    enum weft_status status =
        e->pack_rows(job->plan, &a, depth, weft_min(depth + WEFT_DNN_STRIP, job->depth), row,
                     weft_min(row + size, job->rows), (char *)job->strips + group * c->strips_group);
    if (status != WEFT_OK)
        atomic_store(&c->status, status);
}

static void pack_strips(struct call *c, char *strips, int64_t groups)
{
    int64_t across = weft_div_up(c->job.rows, PACK_PANELS * c->engine->block);
    c->job.strips = strips;
    weft_parallel(groups * across * weft_div_up(c->job.depth, WEFT_DNN_STRIP), strip_tile, c);
}

static size_t strips_group(const struct weft_dnn_outer *o)
{
    return (size_t)weft_div_up(o->shape.width, o->engine->block) * o->plan.strip_bytes;
}

/* Returns whether to pack ahead, which depends on the cut at the maximum number of rows. */
static bool packs_ahead(const struct weft_dnn_outer *o)
{
    const struct weft_dnn_shape *s = &o->shape;
    struct weft_dnn_job job = {.plan = &o->plan, .rows = s->width, .depth = s->max_rows, .width = s->depth};
    return o->engine->pack_rows &&
           weft_dnn_cut(o->engine, &job, s->groups, packed_group(o->engine, &o->plan)).across >= o->engine->pack_ahead;
}

enum weft_status weft_dnn_outer_plan(const struct weft_dnn_shape *s, struct weft_arena *arena,
                                     struct weft_dnn_outer **outer, size_t *scratch, size_t *local)
{
    struct weft_dnn_outer *o = weft_arena_alloc(arena, sizeof *o);
    if (!o)
        return FAIL(WEFT_NOMEM, "not enough memory to plan an outer product of %lld by %lld", (long long)s->width,
                    (long long)s->depth);
    *o = (struct weft_dnn_outer){.shape = *s, .plan = plan_of(s, true)};
    TRY(choose_engine(s->dtype, &o->engine));
    TRY(o->engine->plan(&o->plan));
    TRY(packed_bytes(o->engine, &o->plan, s->groups, scratch));
    o->strips = *scratch;
    o->packs_ahead = packs_ahead(o);
    if (o->packs_ahead) {
        size_t strips;
        TRY(weft_size_mul(strips_group(o), (size_t)s->groups, &strips));
        TRY(weft_size_add(*scratch, strips, scratch));
    }
    *outer = o;
    *local = o->plan.local_bytes;
    return WEFT_OK;
}

void weft_dnn_outer_run(const struct weft_dnn_outer *o, int64_t rows, const void *dy, const void *x, float *dw,
                        void *scratch, void *local, size_t local_stride)
{
    const struct weft_dnn_shape *s = &o->shape;
    int64_t n = s->width, k = s->depth, side = s->batched ? 1 : s->groups, apart = s->batched ? rows : 1;
    size_t bytes = weft_dtype_bytes(s->dtype);
    if (rows == 0)
        return;
    struct packing packing = {.engine = o->engine,
                              .plan = &o->plan,
                              .w = {x, s->dtype, side * k, false},
                              .w_group = (size_t)(apart * k) * bytes,
                              .depth = rows,
                              .packed = scratch};
    pack(&packing, s->groups);
    struct call c = {
        .engine = o->engine,
        .job = {.plan = &o->plan,
                .rows = n,
                .depth = rows,
                .width = k,
                .a = {dy, s->dtype, side * n, true},
                .b = scratch,
                .addend = dw,
                .addend_dtype = WEFT_F32,
                .out = dw,
                .out_dtype = WEFT_F32,
                .out_stride = k},
        .a_group = (size_t)(apart * n) * bytes,
        .b_group = packing.b_group,
        .out_group = (size_t)(n * k) * sizeof(float),
        .addend_group = (size_t)(n * k) * sizeof(float),
        .strips_group = strips_group(o),
        .local = local,
        .local_stride = local_stride,
    };
    c.cut = weft_dnn_cut(c.engine, &c.job, s->groups, c.b_group);
    if (o->packs_ahead && c.cut.across >= o->engine->pack_ahead)
        pack_strips(&c, (char *)scratch + o->strips, s->groups);
    run(&c, s->groups);
}
