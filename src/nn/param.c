/* SPDX-License-Identifier: MIT
 *
 * param.c - declares, allocates, initialises and hashes named weights.
 */
#include "nn/param.h"

#include "ckpt/ckpt.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Elements per tile when weights are initialised in parallel, and the alignment of a weight in the flat arrays. */
enum { FILL_TILE = 1 << 16, ALIGN = WEFT_PARAM_ALIGN / sizeof(float) };

void weft_params_scope(struct weft_params *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->scope, sizeof p->scope, format, args);
    va_end(args);
}

static enum weft_status grow(struct weft_params *p)
{
    if (p->count < p->room)
        return WEFT_OK;
    int room = p->room ? 2 * p->room : 64;
    void *list = realloc(p->list, (size_t)room * sizeof *p->list);
    if (!list)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of %d weights", room);
    p->list = list;
    p->room = room;
    return WEFT_OK;
}

/* ---- declaring */

const char *weft_role_name(enum weft_role role)
{
    static const char *const names[] = {"vector", "table", "head", "matrix", "matrix into the stream", "taps"};
    return names[role];
}

static enum weft_trained_as group_of(const struct weft_param *w)
{
    static const enum weft_trained_as by_role[] = {
        [WEFT_VECTOR] = WEFT_TRAINED_VECTOR,      [WEFT_TABLE] = WEFT_TRAINED_EMBEDDING,
        [WEFT_HEAD] = WEFT_TRAINED_HEAD,          [WEFT_MATRIX] = WEFT_TRAINED_MATRIX,
        [WEFT_INTO_STREAM] = WEFT_TRAINED_MATRIX, [WEFT_TAPS] = WEFT_TRAINED_MATRIX};
    if (w->group != WEFT_TRAINED_BY_ROLE)
        return w->group;
    return w->role == WEFT_VECTOR && w->count == 1 ? WEFT_TRAINED_SCALAR : by_role[w->role];
}

/* Fills in the fields that follow from the declaration, and records the declarer. */
static void record(const struct weft_params *p, struct weft_param *w)
{
    w->group = group_of(w);
    w->decay = w->group <= WEFT_TRAINED_HEAD;
    w->rate = w->rate > 0 ? w->rate : 1;
    w->part = p->part;
    w->half = p->half;
    w->layer = p->layer;
    w->rows_layer = p->rows_layer;
}

static enum weft_status declare(struct weft_params *p, struct weft_param w)
{
    TRY(grow(p));
    w.name = weft_arena_print(&p->arena, "%s%s%s", p->scope, *p->scope ? "." : "", w.name);
    if (!w.name)
        return FAIL(WEFT_NOMEM, "not enough memory for the names of weights");
    if (weft_params_find(p, w.name) >= 0)
        return FAIL(WEFT_INVALID, "two weights are named %s", w.name);
    size_t count = 1, end, bytes;
    for (int i = 0; i < w.ndim; i++)
        TRY(weft_size_mul(count, (size_t)w.dim[i], &count));
    TRY(weft_size_add((size_t)p->total, count + ALIGN, &end));
    TRY(weft_size_mul(end, sizeof(double), &bytes)); /* reference executions store weights as f64 */
    if ((w.ndim < 2) != (w.role == WEFT_VECTOR))
        return FAIL(WEFT_INVALID, "%s has %d dimension%s, but its role is %s: declare a matching role", w.name, w.ndim,
                    w.ndim == 1 ? "" : "s", weft_role_name(w.role));
    w.count = (int64_t)count;
    record(p, &w);
    w.offset = p->total;
    p->elements += w.count;
    p->total = weft_round_up(w.offset + w.count, ALIGN);
    p->list[p->count++] = w;
    return WEFT_OK;
}

void weft_params_add(struct weft_params *p, struct weft_param w)
{
    if (p->status == WEFT_OK)
        p->status = declare(p, w);
}

void weft_params_vector(struct weft_params *p, const char *name, int64_t n, double constant)
{
    weft_params_add(p, (struct weft_param){
                           .name = name, .ndim = 1, .dim = {n}, .init = WEFT_INIT_CONSTANT, .init_value = constant});
}

/* With this scaling, each weight has the same effect on the loss at any width (G. Yang et al., arXiv:2203.03466; for
 * sides that do not grow together, the spectral condition of arXiv:2310.17813). */
void weft_param_scale(struct weft_param *w, double out_wider, double in_wider)
{
    w->init_value *= sqrt(fmin(1, out_wider / in_wider) / in_wider);
    w->rate = 1 / in_wider;
}

static void matrix(struct weft_params *p, enum weft_role role, const char *name, struct weft_fan out,
                   struct weft_fan in, double deviation)
{
    struct weft_param w = {.name = name, .ndim = 2, .dim = {out.size, in.size}, .role = role, .init_value = deviation};
    weft_param_scale(&w, out.wider, in.wider);
    weft_params_add(p, w);
}

void weft_params_matrix(struct weft_params *p, const char *name, struct weft_fan out, struct weft_fan in,
                        double deviation)
{
    matrix(p, WEFT_MATRIX, name, out, in, deviation);
}

static void rows(struct weft_params *p, enum weft_role role, const char *name, int64_t count, int64_t width)
{
    weft_params_add(p, (struct weft_param){
                           .name = name, .ndim = 2, .dim = {count, width}, .role = role, .init_value = WEFT_DEVIATION});
}

void weft_params_table(struct weft_params *p, const char *name, int64_t count, int64_t width)
{
    rows(p, WEFT_TABLE, name, count, width);
}

void weft_params_head(struct weft_params *p, const char *name, int64_t count, int64_t width)
{
    rows(p, WEFT_HEAD, name, count, width);
}

static void linear(struct weft_params *p, const struct weft_spec *spec, enum weft_role role, const char *name,
                   int64_t out, int64_t in, double deviation, bool biased)
{
    char bias[64];
    snprintf(bias, sizeof bias, "%s_bias", name);
    matrix(p, role, name, weft_grows(spec, out), weft_grows(spec, in), deviation);
    if (biased)
        weft_params_vector(p, bias, out, 0);
}

void weft_params_linear(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out, int64_t in)
{
    linear(p, spec, WEFT_MATRIX, name, out, in, WEFT_DEVIATION, spec->bias);
}

void weft_params_biased(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out, int64_t in,
                        bool bias)
{
    linear(p, spec, WEFT_MATRIX, name, out, in, WEFT_DEVIATION, bias);
}

void weft_params_project(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out, int64_t in)
{
    linear(p, spec, WEFT_INTO_STREAM, name, out, in, WEFT_DEVIATION / sqrt(2.0 * (double)spec->layers), spec->bias);
}

void weft_params_units(struct weft_params *p, const char *name, const char *rows_of, const char *columns_of)
{
    struct weft_param *w = NULL;
    size_t scope = strlen(p->scope) + (*p->scope ? 1 : 0);
    for (int i = p->count - 1; i >= 0 && !w; i--)
        if (strcmp(p->list[i].name + weft_min(scope, strlen(p->list[i].name)), name) == 0)
            w = &p->list[i];
    if (p->status == WEFT_OK && !w)
        p->status = FAIL(WEFT_INVALID, "units were set for %s, which is not declared", name);
    if (p->status != WEFT_OK)
        return;
    w->unit[0] = rows_of;
    w->unit[1] = columns_of;
}

float *weft_params_array(const struct weft_params *p) { return weft_pages_alloc((size_t)p->total * sizeof(float)); }

void weft_params_array_free(const struct weft_params *p, float *array)
{
    weft_pages_free(array, (size_t)p->total * sizeof(float));
}

struct filling {
    const struct weft_param *w;
    float *to;
    uint64_t key;
};

static double initial_value(const struct filling *f, int64_t i)
{
    const struct weft_param *w = f->w;
    int64_t columns = w->dim[w->ndim - 1], block = w->init_blocks ? columns / w->init_blocks : columns;
    if (w->init_blocks && i / columns / block != i % columns / block)
        return 0;
    if (w->init == WEFT_INIT_NORMAL)
        return w->init_value * weft_normal(f->key, (uint64_t)i);
    return w->init == WEFT_INIT_UNIFORM ? w->init_value * (2 * weft_uniform(f->key, (uint64_t)i) - 1) : w->init_value;
}

static void fill_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct filling *f = context;
    int64_t end = weft_min(f->w->count, (tile + 1) * FILL_TILE);
    for (int64_t i = tile * FILL_TILE; i < end; i++)
        f->to[i] = (float)initial_value(f, i);
}

enum weft_status weft_params_alloc(struct weft_params *p)
{
    if (p->file)
        TRY(weft_safetensors_thaw(p->file));
    if (!p->weights)
        p->weights = weft_params_array(p);
    if (!p->weights)
        return FAIL(WEFT_NOMEM, "the model's %lld weights do not fit in memory: make it smaller",
                    (long long)p->elements);
    return WEFT_OK;
}

enum weft_status weft_params_init(struct weft_params *p, uint64_t seed)
{
    TRY(weft_params_alloc(p));
    for (int i = 0; i < p->count; i++) {
        struct filling f = {&p->list[i], p->weights + p->list[i].offset, weft_key_name(seed, p->list[i].name)};
        weft_parallel(weft_div_up(f.w->count, FILL_TILE), fill_tile, &f);
    }
    return WEFT_OK;
}

void weft_params_drop(const struct weft_params *p)
{
    if (p->file)
        weft_safetensors_drop(p->file);
}

void weft_params_release(struct weft_params *p)
{
    if (p->file)
        weft_safetensors_close(p->file);
    else
        weft_params_array_free(p, p->weights);
    free(p->list);
    weft_arena_release(&p->arena);
    *p = (struct weft_params){0};
}

int weft_params_find(const struct weft_params *p, const char *name)
{
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->list[i].name, name) == 0)
            return i;
    return -1;
}

void weft_param_hash(const struct weft_params *p, int i, char hex[65])
{
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, p->weights + p->list[i].offset, (size_t)p->list[i].count * sizeof(float));
    weft_sha256_hex(&sha, hex);
}

/* A weight is hashed in blocks: first the blocks in parallel, then the hashes of the blocks in order. */
enum { BLOCK = 1 << 18, BLOCKS = 256 };

struct blocks {
    const float *values;
    int64_t count;
    char hex[BLOCKS][65];
};

static void hash_block(void *context, int64_t i, int thread)
{
    (void)thread;
    struct blocks *b = context;
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, b->values + i * BLOCK, (size_t)weft_min(BLOCK, b->count - i * BLOCK) * sizeof(float));
    weft_sha256_hex(&sha, b->hex[i]);
}

static void add_blocks(struct weft_sha256 *sha, const float *values, int64_t count)
{
    struct blocks b;
    for (int64_t at = 0; at < count; at += (int64_t)BLOCK * BLOCKS) {
        b.values = values + at;
        b.count = weft_min((int64_t)BLOCK * BLOCKS, count - at);
        int64_t n = weft_div_up(b.count, BLOCK);
        weft_parallel(n, hash_block, &b);
        for (int64_t i = 0; i < n; i++)
            weft_sha256_add(sha, b.hex[i], 64);
    }
}

void weft_array_hash(const struct weft_params *p, const float *array, char hex[65])
{
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        weft_sha256_add(&sha, w->name, strlen(w->name) + 1);
        weft_sha256_add(&sha, w->dim, (size_t)w->ndim * sizeof w->dim[0]);
        add_blocks(&sha, array + w->offset, w->count);
    }
    weft_sha256_hex(&sha, hex);
}

void weft_params_hash(const struct weft_params *p, char hex[65]) { weft_array_hash(p, p->weights, hex); }
