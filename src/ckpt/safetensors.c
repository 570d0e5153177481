/* SPDX-License-Identifier: MIT
 *
 * safetensors.c - opens a safetensors file, validates its header, and reads tensors.
 */
#include "ckpt/safetensors_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- opening */

struct weft_safetensors {
    char *path;
    const unsigned char *map;
    size_t bytes;
    bool thawed;    /* whether the map is writable */
    json_t *header; /* owns the names and the metadata */
    const json_t *metadata;
    bool sums;                  /* whether the file has checksums: one for the metadata and one per tensor */
    struct weft_entry *entries; /* sorted by name */
    int count;
};

static enum weft_status map_file(struct weft_safetensors *f)
{
    void *map;
    TRY(weft_input_map(f->path, &map, &f->bytes));
    f->map = map;
    return f->bytes >= 8 ? WEFT_OK : FAIL(WEFT_FORMAT, "%s is not a safetensors file: it is too short", f->path);
}

static enum weft_status parse_header(struct weft_safetensors *f, size_t *data)
{
    uint64_t length;
    json_error_t error;
    memcpy(&length, f->map, sizeof length);
    if (length < 2 || length > WEFT_SAFETENSORS_MAX_HEADER || length > f->bytes - sizeof length ||
        f->map[sizeof length] != '{')
        return FAIL(WEFT_FORMAT, "%s is truncated or not a safetensors file: its header would have %" PRIu64 " bytes",
                    f->path, length);
    f->header = json_loadb((const char *)f->map + sizeof length, length, JSON_REJECT_DUPLICATES, &error);
    if (!f->header)
        return FAIL(WEFT_FORMAT, "%s: the header is invalid at byte %d, or a name occurs twice", f->path,
                    error.position);
    *data = sizeof length + length;
    return WEFT_OK;
}

static enum weft_status read_shape(const char *path, const json_t *shape, struct weft_entry *e)
{
    size_t ndim = json_array_size(shape);
    if (!json_is_array(shape) || ndim > WEFT_MAX_DIMS)
        return FAIL(WEFT_FORMAT, "%s: %s has no shape, or more than %d dimensions", path, e->name, WEFT_MAX_DIMS);
    e->ndim = (int)ndim;
    for (size_t i = 0; i < ndim; i++) {
        const json_t *dim = json_array_get(shape, i);
        e->dim[i] = json_integer_value(dim);
        if (!json_is_integer(dim) || e->dim[i] < 0)
            return FAIL(WEFT_FORMAT, "%s: dimension %zu of %s is not a valid size", path, i, e->name);
        if (weft_size_mul(e->bytes, (size_t)e->dim[i], &e->bytes) != WEFT_OK)
            return FAIL(WEFT_FORMAT, "%s: %s is too large to address", path, e->name);
    }
    return WEFT_OK;
}

static enum weft_status read_entry(const struct weft_safetensors *f, size_t data, const char *name,
                                   const json_t *fields, struct weft_entry *e)
{
    const char *type = json_string_value(json_object_get(fields, "dtype"));
    const json_t *offsets = json_object_get(fields, "data_offsets");
    *e = (struct weft_entry){.name = name};
    if (!weft_safetensors_is_name(name))
        return FAIL(WEFT_FORMAT, "%s: the name of a tensor is too long or has control characters", f->path);
    if (!weft_safetensors_set_type(e, type, &e->bytes) || json_array_size(offsets) != 2)
        return FAIL(WEFT_FORMAT, "%s: %s has an unknown dtype, or no data_offsets", f->path, name);
    TRY(read_shape(f->path, json_object_get(fields, "shape"), e));
    json_int_t begin = json_integer_value(json_array_get(offsets, 0)),
               end = json_integer_value(json_array_get(offsets, 1));
    if (begin < 0 || end < begin || (size_t)end > f->bytes - data || (size_t)(end - begin) != e->bytes)
        return FAIL(WEFT_FORMAT,
                    "%s: %s has %zu bytes according to its shape, but its data_offsets are %" JSON_INTEGER_FORMAT
                    " and %" JSON_INTEGER_FORMAT " of %zu: the file may be truncated",
                    f->path, name, e->bytes, begin, end, f->bytes - data);
    e->data = f->map + data + begin;
    return WEFT_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct weft_entry *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty tensors come first */
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct weft_entry *)a)->name, ((const struct weft_entry *)b)->name);
}

/* The format requires every byte to belong to exactly one tensor. Checking this detects overlaps and truncation. */
static enum weft_status check_offsets(struct weft_safetensors *f, size_t data)
{
    const unsigned char *next = f->map + data;
    if (f->count)
        qsort(f->entries, (size_t)f->count, sizeof *f->entries, by_offset);
    for (int i = 0; i < f->count; next += f->entries[i++].bytes)
        if (f->entries[i].data != next)
            return FAIL(WEFT_FORMAT, "%s: %s overlaps another tensor or leaves a gap", f->path, f->entries[i].name);
    if (next != f->map + f->bytes)
        return FAIL(WEFT_FORMAT, "%s has %zu bytes after its last tensor", f->path, (size_t)(f->map + f->bytes - next));
    return WEFT_OK;
}

static enum weft_status read_metadata(struct weft_safetensors *f, json_t *metadata)
{
    const char *name;
    json_t *value;
    if (!json_is_object(metadata))
        return FAIL(WEFT_FORMAT, "%s: __metadata__ is not an object", f->path);
    json_object_foreach(metadata, name, value)
    {
        if (!json_is_string(value))
            return FAIL(WEFT_FORMAT, "%s: a value in __metadata__ is not a string", f->path);
        f->sums |= strncmp(name, WEFT_SAFETENSORS_SUM, strlen(WEFT_SAFETENSORS_SUM)) ==
                   0; /* one key with this prefix suffices, because other keys may be damaged */
    }
    f->metadata = metadata;
    const char *sum = weft_safetensors_metadata(f, WEFT_SAFETENSORS_SUM);
    if (f->sums && (!sum || strcmp(sum, weft_safetensors_sum_metadata(metadata).text)))
        return FAIL(WEFT_FORMAT, "%s: the metadata is damaged: the checksum does not match", f->path);
    return WEFT_OK;
}

static enum weft_status read_header(struct weft_safetensors *f)
{
    size_t data = 0;
    const char *name;
    json_t *fields;
    TRY(parse_header(f, &data));
    f->entries = calloc(json_object_size(f->header) + 1, sizeof *f->entries);
    if (!f->entries)
        return FAIL(WEFT_NOMEM, "not enough memory for the tensors of %s", f->path);
    json_object_foreach(f->header, name, fields)
    {
        if (strcmp(name, WEFT_SAFETENSORS_METADATA) == 0)
            TRY(read_metadata(f, fields));
        else
            TRY(read_entry(f, data, name, fields, &f->entries[f->count++]));
    }
    TRY(check_offsets(f, data));
    if (f->count)
        qsort(f->entries, (size_t)f->count, sizeof *f->entries, by_name);
    return WEFT_OK;
}

enum weft_status weft_safetensors_open(struct weft_safetensors **f, const char *path)
{
    *f = calloc(1, sizeof **f);
    if (!*f || !((*f)->path = strdup(path))) {
        free(*f);
        *f = NULL;
        return FAIL(WEFT_NOMEM, "not enough memory to open %s", path);
    }
    enum weft_status status = map_file(*f);
    if (status == WEFT_OK)
        status = read_header(*f);
    if (status != WEFT_OK) {
        weft_safetensors_close(*f);
        *f = NULL;
    }
    return status;
}

void weft_safetensors_close(struct weft_safetensors *f)
{
    if (!f)
        return;
    if (f->map)
        munmap((void *)(uintptr_t)f->map, f->bytes);
    json_decref(f->header);
    free(f->entries);
    free(f->path);
    free(f);
}

/* ---- reading */

int weft_safetensors_count(const struct weft_safetensors *f) { return f->count; }

const struct weft_entry *weft_safetensors_at(const struct weft_safetensors *f, int i) { return &f->entries[i]; }

const struct weft_entry *weft_safetensors_find(const struct weft_safetensors *f, const char *name)
{
    struct weft_entry key = {.name = name};
    return f->count ? bsearch(&key, f->entries, (size_t)f->count, sizeof key, by_name) : NULL;
}

const char *weft_safetensors_metadata(const struct weft_safetensors *f, const char *name)
{
    return json_string_value(json_object_get(f->metadata, name));
}

enum weft_status weft_safetensors_verify(const struct weft_safetensors *f, const struct weft_entry *e)
{
    for (int i = 0; !e && i < f->count; i++)
        TRY(weft_safetensors_verify(f, &f->entries[i]));
    if (!e || !f->sums)
        return WEFT_OK;
    const char *sum = weft_safetensors_metadata(f, weft_safetensors_sum_name(e).text);
    if (!sum || strcmp(sum, weft_safetensors_sum(e, e->bytes).text))
        return FAIL(WEFT_FORMAT, "%s: %s is damaged: the checksum does not match", f->path, e->name);
    return WEFT_OK;
}

enum weft_status weft_safetensors_thaw(struct weft_safetensors *f)
{
    if (!f->thawed && mprotect((void *)(uintptr_t)f->map, f->bytes, PROT_READ | PROT_WRITE))
        return FAIL(WEFT_NOMEM, "not enough memory to change the values of %s", f->path);
    f->thawed = true;
    return WEFT_OK;
}

void weft_safetensors_drop(const struct weft_safetensors *f)
{
    if (!f->thawed)
        madvise((void *)(uintptr_t)f->map, f->bytes, MADV_DONTNEED);
}

enum weft_status weft_safetensors_check(const char *path)
{
    struct weft_safetensors *f;
    TRY(weft_safetensors_open(&f, path));
    enum weft_status status = weft_safetensors_verify(f, NULL);
    weft_safetensors_close(f);
    return status;
}

/* Values in a file may be unaligned, so they are copied through a buffer. */
static void convert(const struct weft_entry *e, const struct weft_tensor *to)
{
    double buffer[512];
    size_t from_size = weft_dtype_bytes(e->dtype), to_size = weft_dtype_bytes(to->dtype);
    int64_t count = weft_tensor_count(to), piece = (int64_t)(sizeof buffer / from_size);
    for (int64_t done = 0; done < count; done += piece) {
        int64_t n = weft_min(piece, count - done);
        memcpy(buffer, (const char *)e->data + (size_t)done * from_size, (size_t)n * from_size);
        weft_convert((char *)to->data + (size_t)done * to_size, to->dtype, buffer, e->dtype, n);
    }
}

struct shape {
    char text[96];
};
static struct shape shape(int ndim, const int64_t *dim)
{
    struct shape s = {"["};
    for (int i = 0; i < ndim; i++)
        snprintf(s.text + strlen(s.text), sizeof s.text - strlen(s.text), "%s%" PRId64, i ? ", " : "", dim[i]);
    strcat(s.text, "]");
    return s;
}

enum weft_status weft_safetensors_read(const struct weft_safetensors *f, const char *name, const struct weft_tensor *to)
{
    const struct weft_entry *e = weft_safetensors_find(f, name);
    if (!e)
        return FAIL(WEFT_FORMAT, "%s has no tensor %s", f->path, name);
    if (e->ndim != to->ndim || memcmp(e->dim, to->dim, (size_t)e->ndim * sizeof *e->dim))
        return FAIL(WEFT_FORMAT, "%s: %s has shape %s, but the model needs %s: the file may be from a different model",
                    f->path, name, shape(e->ndim, e->dim).text, shape(to->ndim, to->dim).text);
    bool floats = !e->foreign && weft_dtype_is_float(e->dtype) && weft_dtype_is_float(to->dtype);
    if (e->foreign || (e->dtype != to->dtype && !floats))
        return FAIL(WEFT_UNSUPPORTED, "%s: %s has type %s, which cannot be read as %s", f->path, name,
                    weft_safetensors_type(e), weft_dtype_name(to->dtype));
    TRY(weft_safetensors_verify(f, e));
    if (e->dtype != to->dtype)
        convert(e, to);
    else if (e->bytes)
        memcpy(to->data, e->data, e->bytes);
    return WEFT_OK;
}
