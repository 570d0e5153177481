/* SPDX-License-Identifier: MIT
 *
 * safetensors_write.c - writes tensors to a safetensors file without copying them.
 */
#include "ckpt/safetensors_format.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum weft_status entry_bytes(const struct weft_entry *e, size_t *bytes)
{
    struct weft_tensor t = {.dtype = e->dtype, .ndim = e->ndim};
    memcpy(t.dim, e->dim, sizeof t.dim);
    TRY(weft_tensor_bytes(&t, bytes));
    return WEFT_OK;
}

/* jansson returns NULL for text that is not UTF-8, and accepts NULL as an error value. */
static enum weft_status set(json_t *object, const char *name, json_t *value)
{
    if (!value || json_object_set_new(object, name, value))
        return FAIL(WEFT_INVALID, "\"%s\" and its value cannot be written: not UTF-8, or not enough memory", name);
    return WEFT_OK;
}

static json_t *list_dims(const struct weft_entry *e)
{
    json_t *shape = json_array();
    bool good = true;
    for (int i = 0; i < e->ndim; i++)
        good = json_array_append_new(shape, json_integer(e->dim[i])) == 0 && good;
    return good ? shape : (json_decref(shape), NULL);
}

static enum weft_status describe_entry(json_t *header, const struct weft_entry *e, size_t *offset)
{
    size_t bytes, end;
    assert(e->ndim >= 0 && e->ndim <= WEFT_MAX_DIMS);
    if (!weft_safetensors_is_name(e->name) || json_object_get(header, e->name))
        return FAIL(WEFT_INVALID, "\"%.*s\" is not a valid tensor name, or is used twice", WEFT_SAFETENSORS_MAX_NAME,
                    e->name);
    TRY(entry_bytes(e, &bytes));
    TRY(weft_size_add(*offset, bytes, &end));
    TRY(set(header, e->name,
            json_pack("{s:s, s:o, s:[I, I]}", "dtype", weft_safetensors_type(e), "shape", list_dims(e), "data_offsets",
                      (json_int_t)*offset, (json_int_t)end)));
    TRY(set(json_object_get(header, WEFT_SAFETENSORS_METADATA), weft_safetensors_sum_name(e).text,
            json_string(weft_safetensors_sum(e, bytes).text)));
    *offset = end;
    return WEFT_OK;
}

/* Visits the entries in file order: wide elements come first, so that all are aligned. */
typedef enum weft_status entry_fn(void *context, const struct weft_entry *e);
static enum weft_status each_entry(const struct weft_entry *entries, int count, entry_fn *visit, void *context)
{
    for (size_t width = 8; width; width /= 2)
        for (int i = 0; i < count; i++)
            if (weft_dtype_bytes(entries[i].dtype) == width)
                TRY(visit(context, &entries[i]));
    return WEFT_OK;
}

struct description {
    json_t *header;
    size_t offset;
};
static enum weft_status describe(void *context, const struct weft_entry *e)
{
    struct description *d = context;
    TRY(describe_entry(d->header, e, &d->offset));
    return WEFT_OK;
}

static enum weft_status fill_header(json_t *header, const struct weft_entry *entries, int count,
                                    const char *const *metadata)
{
    struct description d = {.header = header};
    json_t *pairs = json_object();
    TRY(set(header, WEFT_SAFETENSORS_METADATA, pairs));
    for (; metadata && metadata[0]; metadata += 2) {
        if (strncmp(metadata[0], WEFT_SAFETENSORS_SUM, strlen(WEFT_SAFETENSORS_SUM)) == 0)
            return FAIL(WEFT_INVALID, "the metadata name %s is reserved", metadata[0]);
        TRY(set(pairs, metadata[0], json_string(metadata[1])));
    }
    TRY(each_entry(entries, count, describe, &d));
    TRY(set(pairs, WEFT_SAFETENSORS_SUM, json_string(weft_safetensors_sum_metadata(pairs).text)));
    return WEFT_OK;
}

/* Alignment of the values in the file in bytes, so that kernels can read them in place. */
enum { DATA_ALIGN = 64 };

static enum weft_status add_header(struct weft_file *f, const char *text)
{
    size_t bytes = strlen(text);
    uint64_t length = (uint64_t)(weft_round_up((int64_t)(sizeof length + bytes), DATA_ALIGN) - (int64_t)sizeof length);
    if (length > WEFT_SAFETENSORS_MAX_HEADER)
        return FAIL(WEFT_INVALID, "%s would have a header of %" PRIu64 " bytes, but the limit is %d: use several files",
                    f->path, length, WEFT_SAFETENSORS_MAX_HEADER);
    TRY(weft_file_add(f, &length, sizeof length));
    TRY(weft_file_add(f, text, bytes));
    char spaces[DATA_ALIGN];
    memset(spaces, ' ', sizeof spaces);
    TRY(weft_file_add(f, spaces, length - bytes));
    return WEFT_OK;
}

static enum weft_status add_values(void *context, const struct weft_entry *e)
{
    size_t bytes;
    struct weft_file *f = context;
    TRY(entry_bytes(e, &bytes));
    if (e->data)
        TRY(weft_file_add(f, e->data, bytes));
    else if (ftruncate(f->fd, lseek(f->fd, (off_t)bytes, SEEK_END)))
        return FAIL(WEFT_IO, "%s cannot be extended: %s", f->path, strerror(errno));
    return WEFT_OK;
}

static enum weft_status add_all(struct weft_file *f, const char *header, const struct weft_entry *entries, int count)
{
    TRY(add_header(f, header));
    TRY(each_entry(entries, count, add_values, f));
    return WEFT_OK;
}

enum weft_status weft_safetensors_write(const char *path, const struct weft_entry *entries, int count,
                                        const char *const *metadata)
{
    struct weft_file f;
    json_t *header = json_object();
    char *text = NULL;
    enum weft_status status = fill_header(header, entries, count, metadata);
    if (status == WEFT_OK && !(text = json_dumps(header, JSON_COMPACT)))
        status = FAIL(WEFT_NOMEM, "not enough memory for the header of %s", path);
    json_decref(header);
    if (status == WEFT_OK)
        status = weft_file_begin(&f, path);
    if (status == WEFT_OK)
        status = weft_file_end(&f, add_all(&f, text, entries, count));
    free(text);
    return status;
}

/* ---- values that are written later */

struct offsets {
    const struct weft_entry *entries;
    size_t *list, next;
};
static enum weft_status note_offset(void *context, const struct weft_entry *e)
{
    struct offsets *o = context;
    size_t bytes;
    TRY(entry_bytes(e, &bytes));
    o->list[e - o->entries] = o->next;
    TRY(weft_size_add(o->next, bytes, &o->next));
    return WEFT_OK;
}

static enum weft_status put(int fd, const char *path, const void *data, size_t bytes, size_t offset)
{
    const char *from = data;
    while (bytes) {
        ssize_t n = pwrite(fd, from, (size_t)weft_min((int64_t)bytes, 1 << 26), (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return FAIL(WEFT_IO, "%s cannot be written: %s", path, strerror(errno));
        from += n;
        bytes -= (size_t)n;
        offset += (size_t)n;
    }
    return WEFT_OK;
}

static enum weft_status put_pieces(int fd, const char *path, const size_t *offsets, const struct weft_piece *pieces,
                                   int64_t count)
{
    uint64_t header;
    if (pread(fd, &header, sizeof header, 0) != sizeof header || header > WEFT_SAFETENSORS_MAX_HEADER)
        return FAIL(WEFT_IO, "%s has no header", path);
    for (int64_t i = 0; i < count; i++)
        TRY(put(fd, path, pieces[i].data, pieces[i].bytes,
                sizeof header + header + offsets[pieces[i].entry] + pieces[i].offset));
    if (fsync(fd))
        return FAIL(WEFT_IO, "%s cannot be synced to disk: %s", path, strerror(errno));
    return WEFT_OK;
}

enum weft_status weft_safetensors_fill(const char *path, const struct weft_entry *entries, int count,
                                       const struct weft_piece *pieces, int64_t piece_count)
{
    struct offsets o = {entries, calloc((size_t)count, sizeof *o.list), 0};
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    enum weft_status status = fd < 0    ? FAIL(WEFT_IO, "%s cannot be opened: %s", path, strerror(errno))
                              : !o.list ? FAIL(WEFT_NOMEM, "not enough memory for the tensors of %s", path)
                                        : each_entry(entries, count, note_offset, &o);
    if (status == WEFT_OK)
        status = put_pieces(fd, path, o.list, pieces, piece_count);
    if (fd >= 0)
        close(fd);
    free(o.list);
    return status;
}
