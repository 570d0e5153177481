/* SPDX-License-Identifier: MIT
 *
 * engine.c - the engine that multiplies with oneDNN: one thread per tile of fixed size.
 *
 * oneDNN chooses its blocking, which affects the rounding of results, by the number of rows and threads. So every
 * matmul is composed of one matmul of ROWS x (at most COLUMNS) x depth, created for one thread; fewer rows are padded
 * with zeros. Weights are packed in the format that this matmul prefers (format any); the outer product packs nothing,
 * and its depth is padded with zeros up to the planned maximum. Sums are f32 and are stored by store_inl.h, as in every
 * engine.
 *
 * Primitives are created by plan() and live as long as the process, in a list keyed by shape. oneDNN allocates in every
 * run: a map of arguments per call, and the memory objects. So a tile can fail.
 */
#include "dnn/onednn/onednn.h"
#include "dnn/store_inl.h"

#include <pthread.h>
#include <stdlib.h>

#define ROWS 32
#define BLOCKS 4
#define COLUMNS 256

struct matmul {
    int64_t columns;
    dnnl_primitive_t multiply;
    dnnl_memory_desc_t a, b, sum, scratchpad;
    dnnl_primitive_t pack[2][2]; /* [from f32 or bf16][plain or transposed] */
    dnnl_memory_desc_t source[2][2];
};

struct kernel {
    enum weft_dtype dtype;
    int64_t depth, width;
    bool outer;
    struct matmul whole, last; /* for panels of COLUMNS columns, and for the last panel, which may be narrower */
    struct kernel *next;
};

static struct kernel *kernels;
static pthread_mutex_t planning = PTHREAD_MUTEX_INITIALIZER;

static size_t bytes_of(const dnnl_memory_desc_t *md) { return dnnl_memory_desc_get_size(md); }
static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* ---- planning */

static enum weft_status describe(dnnl_memory_desc_t *md, int64_t rows, int64_t columns, dnnl_data_type_t type,
                                 int64_t row, int64_t column)
{
    DNNL(dnnl_memory_desc_init_by_strides(md, 2, (dnnl_dims_t){rows, columns}, type, (dnnl_dims_t){row, column}));
    return WEFT_OK;
}

static enum weft_status create_packers(const struct kernel *k, struct matmul *m, dnnl_engine_t cpu)
{
    static const enum weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16};
    for (int t = 0; t < 2; t++)
        for (int across = 0; across < 2; across++) {
            TRY(describe(&m->source[t][across], k->depth, m->columns, weft_dnn_onednn_type(dtypes[t]),
                         across ? 1 : k->width, across ? k->depth : 1));
            dnnl_primitive_desc_t pd;
            DNNL(dnnl_reorder_primitive_desc_create(&pd, &m->source[t][across], cpu, &m->b, cpu, NULL));
            dnnl_status_t status = dnnl_primitive_create(&m->pack[t][across], pd);
            dnnl_primitive_desc_destroy(pd);
            DNNL(status);
        }
    return WEFT_OK;
}

/* Chooses the first implementation that keeps the number of threads it was created for; the implementations named gemm
 * query the number again when they run. */
static enum weft_status choose(const struct kernel *k, const dnnl_matmul_desc_t *desc, dnnl_engine_t cpu,
                               dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_attr_t attr;
    DNNL(dnnl_primitive_attr_create(&attr));
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    dnnl_primitive_desc_iterator_t it = NULL;
    dnnl_status_t status = dnnl_primitive_desc_iterator_create(&it, desc, attr, cpu, NULL);
    for (; status == dnnl_success; status = dnnl_primitive_desc_iterator_next(it)) {
        const char *name = "";
        *pd = dnnl_primitive_desc_iterator_fetch(it);
        dnnl_primitive_desc_query(*pd, dnnl_query_impl_info_str, 0, &name);
        if (strncmp(name, "gemm", 4) != 0)
            break;
        dnnl_primitive_desc_destroy(*pd);
    }
    dnnl_primitive_desc_iterator_destroy(it);
    dnnl_primitive_attr_destroy(attr);
    if (status != dnnl_success)
        return FAIL(WEFT_UNSUPPORTED,
                    "oneDNN has no %s matmul for this processor whose results are the same for any number of threads: "
                    "unset WEFT_ENGINE",
                    weft_dtype_name(k->dtype));
    return WEFT_OK;
}

static enum weft_status create_matmul(const struct kernel *k, struct matmul *m, int64_t columns)
{
    dnnl_data_type_t type = weft_dnn_onednn_type(k->dtype);
    dnnl_engine_t cpu = NULL;
    TRY(weft_dnn_onednn_cpu(&cpu));
    m->columns = columns;
    TRY(describe(&m->a, ROWS, k->depth, type, k->depth, 1));
    TRY(describe(&m->sum, ROWS, columns, dnnl_f32, columns, 1));
    TRY(describe(&m->b, k->depth, columns, type, columns, 1));
    if (!k->outer)
        DNNL(dnnl_memory_desc_init_by_tag(&m->b, 2, (dnnl_dims_t){k->depth, columns}, type, dnnl_format_tag_any));
    dnnl_matmul_desc_t desc;
    DNNL(dnnl_matmul_desc_init(&desc, &m->a, &m->b, NULL, &m->sum));
    dnnl_primitive_desc_t pd = NULL;
    TRY(choose(k, &desc, cpu, &pd));
    m->b = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    m->scratchpad = *dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    dnnl_status_t status = dnnl_primitive_create(&m->multiply, pd);
    dnnl_primitive_desc_destroy(pd);
    DNNL(status);
    return k->outer ? WEFT_OK : create_packers(k, m, cpu);
}

static enum weft_status create_kernel(struct kernel *k)
{
    int64_t rest = k->width % COLUMNS;
    if (k->width >= COLUMNS)
        TRY(create_matmul(k, &k->whole, COLUMNS));
    if (rest)
        TRY(create_matmul(k, &k->last, rest));
    return WEFT_OK;
}

static enum weft_status find_kernel(const struct weft_dnn_plan *p, const struct kernel **found)
{
    for (struct kernel *k = kernels; k; k = k->next)
        if (k->dtype == p->dtype && k->depth == p->depth && k->width == p->width && k->outer == p->outer) {
            *found = k;
            return WEFT_OK;
        }
    struct kernel *k = calloc(1, sizeof *k);
    if (!k)
        return FAIL(WEFT_NOMEM, "not enough memory for oneDNN's primitives");
    *k = (struct kernel){.dtype = p->dtype, .depth = p->depth, .width = p->width, .outer = p->outer};
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    enum weft_status status = create_kernel(k);
    omp_set_num_threads(threads);
    if (status != WEFT_OK) {
        free(k);
        return status;
    }
    k->next = kernels;
    *found = kernels = k;
    return WEFT_OK;
}

static enum weft_status plan(struct weft_dnn_plan *p)
{
    const struct kernel *k = NULL;
    pthread_mutex_lock(&planning);
    enum weft_status status = find_kernel(p, &k);
    pthread_mutex_unlock(&planning);
    TRY(status);
    size_t b = 0, scratchpad = 0;
    for (int i = 0; i < 2; i++) {
        const struct matmul *m = i ? &k->last : &k->whole;
        if (m->columns) {
            b = (size_t)weft_max((int64_t)b, (int64_t)bytes_of(&m->b));
            scratchpad = (size_t)weft_max((int64_t)scratchpad, (int64_t)bytes_of(&m->scratchpad));
        }
    }
    p->kernel = k;
    p->panel_bytes = aligned(b);
    p->local_bytes = aligned((size_t)(ROWS * p->depth) * weft_dtype_bytes(p->dtype)) + ROWS * COLUMNS * sizeof(float) +
                     aligned(scratchpad);
    return WEFT_OK;
}

/* ---- running */

static enum weft_status execute(dnnl_primitive_t primitive, int count, const int *what,
                                const dnnl_memory_desc_t *const *md, void *const *data)
{
    dnnl_engine_t cpu = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_exec_arg_t args[4] = {{0}};
    TRY(weft_dnn_onednn_cpu(&cpu));
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    dnnl_status_t status = dnnl_stream_create(&stream, cpu, dnnl_stream_default_flags);
    for (int i = 0; i < count && status == dnnl_success; i++) {
        args[i].arg = what[i];
        status = dnnl_memory_create(&args[i].memory, md[i], cpu, data[i]);
    }
    if (status == dnnl_success)
        status = dnnl_primitive_execute(primitive, stream, count, args);
    for (int i = 0; i < count; i++)
        dnnl_memory_destroy(args[i].memory);
    dnnl_stream_destroy(stream);
    omp_set_num_threads(threads);
    DNNL(status);
    return WEFT_OK;
}

static const struct matmul *matmul_of(const struct weft_dnn_plan *p, int64_t columns)
{
    const struct kernel *k = p->kernel;
    return columns == COLUMNS ? &k->whole : &k->last;
}

/* Copies rows x columns elements to row-major rows of `width`, padded with zeros. */
static void copy(const struct weft_dnn_matrix *m, int64_t row, int64_t rows, int64_t column, int64_t columns,
                 int64_t width, char *to)
{
    size_t size = weft_dtype_bytes(m->dtype);
    const char *from = m->data;
    for (int64_t i = 0; i < rows; i++, to += (size_t)width * size) {
        if (m->across)
            for (int64_t j = 0; j < columns; j++)
                memcpy(to + (size_t)j * size, from + (size_t)((column + j) * m->stride + row + i) * size, size);
        else
            memcpy(to, from + (size_t)((row + i) * m->stride + column) * size, (size_t)columns * size);
        memset(to + (size_t)columns * size, 0, (size_t)(width - columns) * size);
    }
}

static enum weft_status pack(const struct weft_dnn_plan *p, const struct weft_dnn_matrix *w, int64_t depth0,
                             int64_t depth1, int64_t column, int64_t columns, void *panel)
{
    const struct matmul *m = matmul_of(p, columns);
    size_t size = weft_dtype_bytes(w->dtype), line = (size_t)columns * size;
    if (p->outer) {
        copy(w, depth0, depth1 - depth0, column, columns, columns, panel);
        memset((char *)panel + (size_t)depth1 * line, 0, (size_t)(p->depth - depth1) * line);
        return WEFT_OK;
    }
    int t = w->dtype == WEFT_BF16;
    const char *from = (const char *)w->data + (size_t)(w->across ? column * w->stride : column) * size;
    TRY(execute(m->pack[t][w->across], 2, (int[]){DNNL_ARG_FROM, DNNL_ARG_TO},
                (const dnnl_memory_desc_t *[]){&m->source[t][w->across], &m->b}, (void *[]){(void *)from, panel}));
    return WEFT_OK;
}

static enum weft_status tile(const struct weft_dnn_job *job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1,
                             void *local)
{
    const struct weft_dnn_plan *p = job->plan;
    size_t row_bytes = (size_t)p->depth * weft_dtype_bytes(p->dtype);
    float *sum = local;
    char *scratchpad = (char *)local + ROWS * COLUMNS * sizeof *sum;
    for (int64_t r = row0; r < row1; r += ROWS) {
        int64_t rows = weft_min(ROWS, row1 - r);
        char *a = (char *)local + p->local_bytes - aligned(ROWS * row_bytes);
        copy(&job->a, r, rows, 0, job->depth, p->depth, a);
        memset(a + (size_t)rows * row_bytes, 0, (size_t)(ROWS - rows) * row_bytes);
        for (int64_t i = panel0; i < panel1; i++) {
            int64_t columns = weft_min(COLUMNS, job->width - i * COLUMNS);
            const struct matmul *m = matmul_of(p, columns);
            void *b = (void *)(job->b + (size_t)i * p->panel_bytes);
            TRY(execute(m->multiply, 4, (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD},
                        (const dnnl_memory_desc_t *[]){&m->a, &m->b, &m->sum, &m->scratchpad},
                        (void *[]){a, b, sum, scratchpad}));
            store_block(job, r, rows, i * COLUMNS, columns, sum, columns);
        }
    }
    return WEFT_OK;
}

static const struct weft_dnn_engine engine = {
    .name = "oneDNN, one thread per tile",
    .block = ROWS,
    .blocks = BLOCKS,
    .panel = COLUMNS,
    .panels = 2,
    .tiles_outer = 8,
    .plan = plan,
    .pack = pack,
    .tile = tile,
};

static const struct weft_dnn_rival rival = {"onednn", &engine, weft_dnn_onednn_bare};

/* Linking this file into a program is enough to register the engine. */
__attribute__((constructor)) static void offer(void) { weft_dnn_rival = &rival; }
