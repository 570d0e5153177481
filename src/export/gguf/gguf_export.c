/* SPDX-License-Identifier: MIT
 *
 * gguf_export.c - writes a model as a GGUF file.
 *
 * Values are converted while they are written, so exporting needs no more memory than the model.
 */
#include "export/gguf/gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const weft_gguf_weight_names[] = {"f32", "f16", "bf16", "q8_0", NULL};

enum { BLOCK = 32 /* number of elements that share a scale in q8_0 */ };
static const struct {
    uint32_t number, file; /* code of the tensor type, and of a file with such matrices (general.file_type) */
    int64_t elements, bytes;
} types[] = {[WEFT_GGUF_WEIGHT_F32] = {0, 0, 1, 4},
             [WEFT_GGUF_WEIGHT_F16] = {1, 1, 1, 2},
             [WEFT_GGUF_WEIGHT_BF16] = {30, 32, 1, 2},
             [WEFT_GGUF_WEIGHT_Q8_0] = {8, 7, BLOCK, 2 + BLOCK}};

struct exporting {
    const struct weft_nn *model;
    const struct weft_gguf_family *family;
    enum weft_gguf_weight weight;
    struct weft_gguf_out keys, tensors;
    uint64_t offset; /* offset of the next tensor's values */
    struct weft_file file;
    unsigned char *buffer; /* values that have not been written yet */
    size_t used, room;
    uint64_t written; /* bytes of the file, including the buffer */
};

/* ---- one tensor: one of Weft's weights, or several that form one tensor in GGUF */

struct tensor {
    const struct weft_hf_name *rule;
    char name[128];
    struct weft_hf_place place; /* place of the first of Weft's weights */
    enum weft_gguf_weight weight;
};

/* Sets *first to false if an earlier weight is in the same tensor. */
static enum weft_status find_tensor(const struct exporting *x, const struct weft_param *w, struct tensor *t,
                                    bool *first)
{
    t->rule = weft_hf_name(&x->family->names, w, t->name);
    if (!t->rule)
        return FAIL(WEFT_INVALID, "GGUF's %s has no weight %s", x->family->names.type, w->name);
    t->place = weft_hf_place(t->rule, w);
    t->weight = w->ndim < 2 || strcmp(w->name, "wpe") == 0 ? WEFT_GGUF_WEIGHT_F32 : x->weight;
    if (t->place.columns % types[t->weight].elements) {
        weft_note_once(t->rule->ours, "%s has rows of %lld elements, not a multiple of %d: it is written as f16",
                       t->name, (long long)t->place.columns, BLOCK);
        t->weight = WEFT_GGUF_WEIGHT_F16;
    }
    *first = t->rule->piece == 0;
    return WEFT_OK;
}

static uint64_t round_up(uint64_t n) { return (uint64_t)weft_round_up((int64_t)n, WEFT_GGUF_ALIGNMENT); }

/* Writes the description of the tensor whose values come next. */
static void put_tensor(struct exporting *x, const char *name, int dims, const int64_t *dim,
                       enum weft_gguf_weight weight)
{
    uint32_t ndim = (uint32_t)dims;
    weft_gguf_put_text(&x->tensors, name);
    weft_gguf_put(&x->tensors, &ndim, sizeof ndim);
    for (int i = dims - 1; i >= 0; i--)
        weft_gguf_put(&x->tensors, &dim[i], sizeof dim[i]);
    weft_gguf_put(&x->tensors, &types[weight].number, sizeof types[weight].number);
    weft_gguf_put(&x->tensors, &x->offset, sizeof x->offset);
    x->tensors.count++;
}

static void describe_rope(struct exporting *x)
{
    int64_t half = x->model->spec->rotated / 2;
    if (weft_gguf_rope_listed(x->model->spec))
        put_tensor(x, "rope_freqs.weight", 1, &half, WEFT_GGUF_WEIGHT_F32);
}

static enum weft_status describe(struct exporting *x, const struct weft_param *w)
{
    struct tensor t;
    bool first;
    size_t bytes;
    TRY(find_tensor(x, w, &t, &first));
    if (!first)
        return WEFT_OK;
    put_tensor(x, t.name, t.place.ndim, t.place.dim, t.weight);
    TRY(weft_size_mul((size_t)t.place.dim[0], t.place.ndim > 1 ? (size_t)t.place.dim[1] : 1, &bytes));
    TRY(weft_size_mul(bytes / (size_t)types[t.weight].elements, (size_t)types[t.weight].bytes, &bytes));
    x->offset = round_up(x->offset + bytes);
    return WEFT_OK;
}

/* ---- values */

/* Encodes a block: a scale, and 32 elements in units of the scale. */
static void encode_block(const float *from, unsigned char *to)
{
    float most = 0;
    for (int i = 0; i < BLOCK; i++)
        most = fabsf(from[i]) > most ? fabsf(from[i]) : most;
    float scale = most / 127, inverse = scale != 0 ? 1 / scale : 0;
    uint16_t half = weft_f16_from_f32(scale);
    memcpy(to, &half, sizeof half);
    for (int i = 0; i < BLOCK; i++)
        to[2 + i] = (unsigned char)(int8_t)roundf(from[i] * inverse);
}

/* Returns whether all elements are within the type's range. */
static bool encode(enum weft_gguf_weight weight, const float *from, int64_t n, unsigned char *to)
{
    uint16_t half = 0;
    bool within = true;
    for (int64_t i = 0; weight == WEFT_GGUF_WEIGHT_Q8_0 && i < n; i += BLOCK) {
        encode_block(from + i, to + i / BLOCK * (2 + BLOCK));
        memcpy(&half, to + i / BLOCK * (2 + BLOCK), sizeof half);
        within = within && half < 0x7c00;
    }
    for (int64_t i = 0; (weight == WEFT_GGUF_WEIGHT_F16 || weight == WEFT_GGUF_WEIGHT_BF16) && i < n; i++) {
        half = weight == WEFT_GGUF_WEIGHT_F16 ? weft_f16_from_f32(from[i]) : weft_bf16_from_f32(from[i]);
        memcpy(to + 2 * i, &half, sizeof half);
        within = within && (weight == WEFT_GGUF_WEIGHT_BF16 || (half & 0x7fff) < 0x7c00);
    }
    if (weight == WEFT_GGUF_WEIGHT_F32)
        memcpy(to, from, (size_t)n * sizeof *from);
    return within;
}

/* Reserves space for `bytes` bytes in the buffer. */
static enum weft_status reserve(struct exporting *x, size_t bytes, unsigned char **at)
{
    if (x->used + bytes > x->room) {
        TRY(weft_file_add(&x->file, x->buffer, x->used));
        x->used = 0;
    }
    *at = x->buffer + x->used;
    x->used += bytes;
    x->written += bytes;
    return WEFT_OK;
}

static enum weft_status pad(struct exporting *x)
{
    unsigned char *at;
    size_t bytes = (size_t)(round_up(x->written) - x->written);
    TRY(reserve(x, bytes, &at));
    memset(at, 0, bytes);
    return WEFT_OK;
}

/* Writes one of Weft's weights with its rows in GGUF's order. */
static enum weft_status write_piece(struct exporting *x, const struct weft_param *w, const struct tensor *t)
{
    const float *from = x->model->params.weights + w->offset;
    int64_t columns = t->place.columns;
    size_t bytes = (size_t)(columns / types[t->weight].elements * types[t->weight].bytes);
    unsigned char *at;
    for (int64_t i = 0; i < t->place.rows; i++) {
        int64_t ours = weft_gguf_row(x->family, x->model->spec, w->name, i);
        TRY(reserve(x, bytes, &at));
        if (!encode(t->weight, from + ours * columns, columns, at))
            return FAIL(WEFT_INVALID, "%s has elements that %s cannot represent: pass --type bf16 or --type f32",
                        w->name, weft_gguf_weight_names[t->weight]);
    }
    return WEFT_OK;
}

/* Returns Weft's weight for a rule, in the same block as a given weight. */
static const struct weft_param *beside(const struct weft_params *p, const struct weft_param *w,
                                       const struct weft_hf_name *rule)
{
    char name[128];
    const char *dot = strchr(w->name + strlen("blocks."), '.');
    snprintf(name, sizeof name, "%.*s%s", (int)(dot - w->name), w->name, strstr(rule->ours, "%d") + 2);
    return &p->list[weft_params_find(p, name)];
}

static enum weft_status write_values(struct exporting *x, const struct weft_param *w)
{
    struct tensor t;
    bool first;
    TRY(find_tensor(x, w, &t, &first));
    if (!first)
        return WEFT_OK;
    TRY(write_piece(x, w, &t));
    for (int k = 1; k < t.rule->pieces; k++)
        TRY(write_piece(x, beside(&x->model->params, w, t.rule + k), &t));
    TRY(pad(x));
    return WEFT_OK;
}

/* Writes rope_freqs.weight, the last tensor. */
static enum weft_status write_rope(struct exporting *x)
{
    const struct weft_spec *spec = x->model->spec;
    unsigned char *at;
    for (int64_t i = 0; weft_gguf_rope_listed(spec) && i < spec->rotated / 2; i++) {
        float factor = weft_gguf_rope_factor(spec, i);
        TRY(reserve(x, sizeof factor, &at));
        memcpy(at, &factor, sizeof factor);
    }
    TRY(pad(x));
    return WEFT_OK;
}

/* ---- metadata */

/* Adds the sizes that config.json has under different names. */
static void add_sizes(struct exporting *x, const struct weft_hf_family *hf, const json_t *config)
{
    char name[128];
    for (const struct weft_hf_size *s = x->family->names.sizes; s->ours; s++)
        for (const struct weft_hf_size *h = hf->sizes; h->ours; h++) {
            if (strcmp(s->ours, h->ours) != 0)
                continue;
            const json_t *value = json_object_get(config, h->theirs);
            snprintf(name, sizeof name, "%s.%s", x->family->names.type, s->theirs);
            if (json_is_integer(value))
                weft_gguf_add_u32(&x->keys, name, (uint32_t)json_integer_value(value));
            else
                weft_gguf_add_f32(&x->keys, name, (float)json_number_value(value));
        }
}

static enum weft_status add_keys(struct exporting *x, const struct weft_hf_family *hf,
                                 const struct weft_tokenizer *tokenizer)
{
    static const char *const widths[] = {"attention.value_length", "rope.dimension_count"};
    const struct weft_spec *spec = x->model->spec;
    char name[128];
    json_t *config = NULL;
    weft_gguf_add_text(&x->keys, "general.architecture", x->family->names.type);
    weft_gguf_add_text(&x->keys, "general.type", "model");
    weft_gguf_add_u32(&x->keys, "general.file_type", types[x->weight].file);
    if (x->weight == WEFT_GGUF_WEIGHT_Q8_0)
        weft_gguf_add_u32(&x->keys, "general.quantization_version", 2);
    TRY(weft_hf_config_make(hf, spec, &config));
    add_sizes(x, hf, config);
    json_decref(config);
    for (size_t i = 0; strcmp(hf->type, "gpt2") != 0 && i < sizeof widths / sizeof *widths; i++) {
        snprintf(name, sizeof name, "%s.%s", x->family->names.type, widths[i]);
        weft_gguf_add_u32(&x->keys, name, (uint32_t)spec->head);
    }
    TRY(weft_gguf_rope_write(&x->keys, x->family->names.type, spec));
    TRY(weft_gguf_add_tokenizer(&x->keys, tokenizer, spec->vocab));
    return WEFT_OK;
}

/* ---- the file */

static enum weft_status write_file(struct exporting *x, const char *keys, size_t key_bytes, const char *tensors,
                                   size_t tensor_bytes)
{
    const struct weft_params *p = &x->model->params;
    uint32_t version = WEFT_GGUF_VERSION;
    TRY(weft_file_add(&x->file, WEFT_GGUF_MAGIC, 4));
    TRY(weft_file_add(&x->file, &version, sizeof version));
    TRY(weft_file_add(&x->file, &x->tensors.count, sizeof x->tensors.count));
    TRY(weft_file_add(&x->file, &x->keys.count, sizeof x->keys.count));
    TRY(weft_file_add(&x->file, keys, key_bytes));
    TRY(weft_file_add(&x->file, tensors, tensor_bytes));
    x->written = 4 + sizeof version + 2 * sizeof(uint64_t) + key_bytes + tensor_bytes;
    TRY(pad(x));
    for (int i = 0; i < p->count; i++)
        TRY(write_values(x, &p->list[i]));
    TRY(write_rope(x));
    TRY(weft_file_add(&x->file, x->buffer, x->used));
    return WEFT_OK;
}

/* Builds the header in memory, because it begins with its counts. */
static enum weft_status write_all(struct exporting *x, const struct weft_hf_family *hf,
                                  const struct weft_tokenizer *tokenizer, const char *path)
{
    const struct weft_params *p = &x->model->params;
    char *text[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    x->keys.to = open_memstream(&text[0], &bytes[0]);
    x->tensors.to = open_memstream(&text[1], &bytes[1]);
    bool whole = x->keys.to && x->tensors.to && x->buffer;
    enum weft_status status = whole ? add_keys(x, hf, tokenizer) : WEFT_OK;
    for (int i = 0; whole && status == WEFT_OK && i < p->count; i++)
        status = describe(x, &p->list[i]);
    if (whole && status == WEFT_OK)
        describe_rope(x);
    whole = (!x->keys.to || weft_output_close(x->keys.to)) && whole;
    whole = (!x->tensors.to || weft_output_close(x->tensors.to)) && whole;
    if (!whole)
        status = FAIL(WEFT_NOMEM, "not enough memory for the header of %s", path);
    if (status == WEFT_OK)
        status = weft_file_begin(&x->file, path);
    if (status == WEFT_OK)
        status = weft_file_end(&x->file, write_file(x, text[0], bytes[0], text[1], bytes[1]));
    free(text[0]);
    free(text[1]);
    return status;
}

enum weft_status weft_gguf_export(const struct weft_nn *model, const struct weft_tokenizer *tokenizer,
                                  enum weft_gguf_weight weight, const char *path)
{
    const struct weft_hf_family *hf;
    TRY(weft_hf_family_of(model->spec, &hf));
    struct exporting x = {
        .model = model, .family = weft_gguf_family_of(model->spec, hf), .weight = weight, .room = 1 << 20};
    for (int i = 0; i < model->params.count; i++) {
        const struct weft_param *w = &model->params.list[i];
        x.room = (size_t)weft_max((int64_t)x.room, w->ndim > 1 ? 4 * w->dim[1] : 4);
    }
    x.buffer = malloc(x.room);
    enum weft_status status = write_all(&x, hf, tokenizer, path);
    free(x.buffer);
    return status;
}
