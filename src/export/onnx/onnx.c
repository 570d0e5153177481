/* SPDX-License-Identifier: MIT
 *
 * onnx.c - the file format: messages of protobuf, of which only the few that a graph needs.
 *
 * protobuf's format is numbered fields one after the other: a key (number and kind), then a number of 7 bits per byte,
 * four bytes, or a length and so many bytes, which may be a message again. Writing it takes less code than calling a
 * generated writer, and the program needs no library and no generator for it.
 *
 * Tensors of 1024 bytes and more stand in model.onnx.data at multiples of 4096, which readers map into memory: a
 * message must be smaller than 2 GB.
 */
#include "export/onnx/onnx.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages */

enum kind { VARINT = 0, BYTES = 2, FIXED32 = 5 };

static void append(struct weft_proto *m, const void *data, size_t bytes)
{
    size_t need;
    m->failed = m->failed || weft_size_add(m->used, bytes, &need) != WEFT_OK;
    if (!m->failed && need > m->room) {
        size_t room = need < SIZE_MAX / 2 ? 2 * need : need;
        unsigned char *larger = realloc(m->data, room);
        m->failed = !larger;
        m->data = larger ? larger : m->data;
        m->room = larger ? room : m->room;
    }
    if (m->failed || !bytes)
        return;
    memcpy(m->data + m->used, data, bytes);
    m->used = need;
}

static void append_varint(struct weft_proto *m, uint64_t n)
{
    unsigned char bytes[10];
    size_t used = 0;
    for (; n >= 128; n >>= 7)
        bytes[used++] = (unsigned char)(n | 128);
    bytes[used++] = (unsigned char)n;
    append(m, bytes, used);
}

static void put_key(struct weft_proto *m, int field, enum kind kind) { append_varint(m, (uint64_t)field << 3 | kind); }

static void put_int(struct weft_proto *m, int field, int64_t n)
{
    put_key(m, field, VARINT);
    append_varint(m, (uint64_t)n);
}

static void put_float(struct weft_proto *m, int field, float x)
{
    put_key(m, field, FIXED32);
    append(m, &x, sizeof x);
}

static void put_bytes(struct weft_proto *m, int field, const void *data, size_t bytes)
{
    put_key(m, field, BYTES);
    append_varint(m, bytes);
    append(m, data, bytes);
}

static void put_text(struct weft_proto *m, int field, const char *text) { put_bytes(m, field, text, strlen(text)); }

/* Takes over the inner message and releases it. */
static void put_message(struct weft_proto *m, int field, struct weft_proto *inner)
{
    put_bytes(m, field, inner->data, inner->used);
    m->failed = m->failed || inner->failed;
    free(inner->data);
    *inner = (struct weft_proto){0};
}

/* ---- the messages of a graph; the numbers are the fields' in onnx.proto */

static void put_pair(struct weft_proto *m, int field, const char *key, const char *value)
{
    struct weft_proto pair = {0};
    put_text(&pair, 1, key);
    put_text(&pair, 2, value);
    put_message(m, field, &pair);
}

static void put_attr(struct weft_proto *node, const struct weft_onnx_attr *attr)
{
    struct weft_proto m = {0};
    put_text(&m, 1, attr->name);
    if (attr->type == WEFT_ATTR_FLOAT)
        put_float(&m, 2, (float)attr->real);
    for (int i = 0; i < attr->count; i++)
        put_int(&m, attr->type == WEFT_ATTR_INT ? 3 : 8, attr->list[i]);
    put_int(&m, 20, attr->type);
    put_message(node, 5, &m);
}

void weft_onnx_node(struct weft_onnx *g, const char *type, const struct weft_onnx_attr *attr, const char *const *inputs,
                    const char *const *outputs)
{
    struct weft_proto m = {0};
    for (const char *const *x = inputs; *x; x++)
        put_text(&m, 1, *x);
    for (const char *const *y = outputs; *y; y++)
        put_text(&m, 2, *y);
    put_text(&m, 3, outputs[0]);
    put_text(&m, 4, type);
    if (attr)
        put_attr(&m, attr);
    put_message(&g->nodes, 1, &m);
}

static void put_value(struct weft_proto *list, int field, const char *name, enum weft_onnx_type type,
                      const struct weft_onnx_shape *shape)
{
    struct weft_proto m = {0}, kind = {0}, tensor = {0}, dims = {0};
    for (int i = 0; i < shape->ndim; i++) {
        struct weft_proto dim = {0};
        if (shape->dim[i].symbol)
            put_text(&dim, 2, shape->dim[i].symbol);
        else
            put_int(&dim, 1, shape->dim[i].size);
        put_message(&dims, 1, &dim);
    }
    put_int(&tensor, 1, type);
    put_message(&tensor, 2, &dims);
    put_message(&kind, 1, &tensor);
    put_text(&m, 1, name);
    put_message(&m, 2, &kind);
    put_message(list, field, &m);
}

void weft_onnx_input(struct weft_onnx *g, const char *name, enum weft_onnx_type type, struct weft_onnx_shape shape)
{
    put_value(&g->inputs, 11, name, type, &shape);
}

void weft_onnx_output(struct weft_onnx *g, const char *name, enum weft_onnx_type type, struct weft_onnx_shape shape)
{
    put_value(&g->outputs, 12, name, type, &shape);
}

/* ---- constants */

enum { DATA, MODEL }; /* the files: data appear first, which the model refers to */
enum { DATA_FROM = 1024, DATA_ALIGN = 4096 };
static const char data_name[] = "model.onnx.data";

static enum weft_status tensor_bytes(const struct weft_onnx_shape *shape, enum weft_onnx_type type, size_t *bytes)
{
    *bytes = type == WEFT_ONNX_FLOAT ? sizeof(float) : sizeof(int64_t);
    for (int i = 0; i < shape->ndim; i++)
        TRY(weft_size_mul(*bytes, (size_t)shape->dim[i].size, bytes));
    return WEFT_OK;
}

/* Appends to the file of data, and says where. */
static enum weft_status add_data(struct weft_onnx *g, struct weft_proto *m, const void *data, size_t bytes)
{
    static const char zeros[DATA_ALIGN];
    char offset[24], length[24];
    int64_t at = weft_round_up(g->data_bytes, DATA_ALIGN);
    TRY(weft_file_add(&g->file[DATA], zeros, (size_t)(at - g->data_bytes)));
    TRY(weft_file_add(&g->file[DATA], data, bytes));
    g->data_bytes = at + (int64_t)bytes;
    snprintf(offset, sizeof offset, "%" PRId64, at);
    snprintf(length, sizeof length, "%zu", bytes);
    put_pair(m, 13, "location", data_name);
    put_pair(m, 13, "offset", offset);
    put_pair(m, 13, "length", length);
    put_int(m, 14, 1);
    return WEFT_OK;
}

void weft_onnx_tensor(struct weft_onnx *g, const char *name, enum weft_onnx_type type,
                      const struct weft_onnx_shape *shape, const void *data)
{
    struct weft_proto m = {0};
    size_t bytes = 0;
    weft_onnx_fail(g, tensor_bytes(shape, type, &bytes));
    for (int i = 0; i < shape->ndim; i++)
        put_int(&m, 1, shape->dim[i].size);
    put_int(&m, 2, type);
    put_text(&m, 8, name);
    if (g->status == WEFT_OK && bytes < DATA_FROM)
        put_bytes(&m, 9, data, bytes);
    else if (g->status == WEFT_OK)
        weft_onnx_fail(g, add_data(g, &m, data, bytes));
    put_message(&g->tensors, 5, &m);
}

/* ---- the file */

enum { IR_VERSION = 8, OPSET = 17 };

enum weft_status weft_onnx_begin(struct weft_onnx *g, const struct weft_nn *model, const char *folder)
{
    char path[4200];
    *g = (struct weft_onnx){.model = model};
    snprintf(path, sizeof path, "%s/%s", folder, data_name);
    TRY(weft_file_begin(&g->file[DATA], path));
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    enum weft_status status = weft_file_begin(&g->file[MODEL], path);
    return status == WEFT_OK ? WEFT_OK : weft_file_end(&g->file[DATA], status);
}

void weft_onnx_fail(struct weft_onnx *g, enum weft_status status)
{
    if (g->status == WEFT_OK)
        g->status = status;
}

static struct weft_proto whole(struct weft_onnx *g)
{
    struct weft_proto graph = {0}, m = {0}, opset = {0};
    struct weft_proto *parts[] = {&g->nodes, &g->tensors, &g->inputs, &g->outputs};
    put_text(&graph, 2, "weft");
    for (int i = 0; i < 4; i++) {
        append(&graph, parts[i]->data, parts[i]->used);
        graph.failed = graph.failed || parts[i]->failed;
    }
    put_text(&opset, 1, "");
    put_int(&opset, 2, OPSET);
    put_int(&m, 1, IR_VERSION);
    put_text(&m, 2, "weft");
    put_text(&m, 3, WEFT_VERSION);
    put_message(&m, 7, &graph);
    put_message(&m, 8, &opset);
    return m;
}

static enum weft_status write_model(struct weft_onnx *g)
{
    struct weft_proto m = whole(g);
    enum weft_status status = WEFT_OK;
    if (m.failed)
        status = FAIL(WEFT_NOMEM, "not enough memory for the graph of %s", g->file[MODEL].path);
    else if (m.used > INT32_MAX)
        status = FAIL(WEFT_INVALID,
                      "%s would have %zu bytes without its weights, but the format allows 2 GB: the "
                      "model has too many layers",
                      g->file[MODEL].path, m.used);
    else
        status = weft_file_add(&g->file[MODEL], m.data, m.used);
    free(m.data);
    return status;
}

enum weft_status weft_onnx_end(struct weft_onnx *g)
{
    if (g->status == WEFT_OK)
        g->status = write_model(g);
    g->status = weft_files_end(g->file, 2, g->status);
    struct weft_proto *parts[] = {&g->nodes, &g->tensors, &g->inputs, &g->outputs};
    for (int i = 0; i < 4; i++)
        free(parts[i]->data);
    weft_arena_release(&g->arena);
    return g->status;
}
