/* SPDX-License-Identifier: MIT
 *
 * safetensors.c - tensors in a file as Hugging Face's format has them: the length of a header in 8 bytes, the header in
 * JSON, and the values, little-endian and without gaps.
 *
 *     {"__metadata__": {"name": "text", ...}, "wte": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *
 * The format has no checksums; they are put into the metadata, where other programs leave them alone:
 * "weft.checksum.wte" of the tensor's name, type, shape and values, so that a damaged header shows too, and
 * "weft.checksum" of all the metadata, in any order, for some programs do not keep it.
 */
#include "ckpt/ckpt.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values and checksums are read and written as they lie");

#define METADATA "__metadata__"
#define SUM "weft.checksum"
enum { LONGEST_HEADER = 1 << 24 /* some eighty thousand tensors */, LONGEST_NAME = 512 };

static const struct type {
    const char *name;
    size_t bytes;
    int dtype; /* -1: none of ours */
} types[] = {{"F64", 8, WEFT_F64}, {"F32", 4, WEFT_F32}, {"I32", 4, WEFT_I32}, {"BF16", 2, WEFT_BF16},
             {"F16", 2, -1},       {"I64", 8, -1},       {"U64", 8, -1},       {"U32", 4, -1},
             {"I16", 2, -1},       {"U16", 2, -1},       {"I8", 1, -1},        {"U8", 1, -1},
             {"BOOL", 1, -1},      {"F8_E4M3", 1, -1},   {"F8_E5M2", 1, -1}};
enum { TYPES = sizeof types / sizeof types[0] };

static const struct type *type_of(enum weft_dtype dtype)
{
    const struct type *t = types;
    while (t->dtype != (int)dtype)
        t++;
    return t;
}

static const char *type_name(const struct weft_entry *e) { return e->foreign ? e->foreign : type_of(e->dtype)->name; }

/* What may end up on a terminal: short, and without control characters. */
static bool is_name(const char *name)
{
    const char *end = name;
    while ((unsigned char)*end >= ' ' && *end != 0x7f)
        end++;
    return !*end && end - name <= LONGEST_NAME;
}

/* ---- checksums */

struct hex {
    char text[17];
};
static struct hex hex(uint64_t sum)
{
    struct hex h;
    snprintf(h.text, sizeof h.text, "%016" PRIx64, sum);
    return h;
}

static uint64_t sum_text(uint64_t before, const char *text) { return weft_checksum(before, text, strlen(text)); }

static struct hex sum_entry(const struct weft_entry *e, size_t bytes)
{
    uint64_t sum = sum_text(sum_text(0, e->name), type_name(e));
    sum = weft_checksum(sum, e->dim, (size_t)e->ndim * sizeof *e->dim);
    return hex(weft_checksum(sum, e->data, bytes));
}

static struct hex sum_metadata(json_t *metadata)
{
    uint64_t sum = 0;
    const char *name;
    json_t *value;
    json_object_foreach(metadata, name, value)
    {
        if (strcmp(name, SUM))
            sum += sum_text(sum_text(0, name), json_string_value(value));
    }
    return hex(sum);
}

/* What the metadata call a tensor's checksum. */
struct sum_name {
    char text[sizeof SUM + 1 + LONGEST_NAME];
};
static struct sum_name sum_name(const struct weft_entry *e)
{
    struct sum_name n;
    snprintf(n.text, sizeof n.text, SUM ".%s", e->name);
    return n;
}

/* ---- writing */

static enum weft_status entry_bytes(const struct weft_entry *e, size_t *bytes)
{
    struct weft_tensor t = {.dtype = e->dtype, .ndim = e->ndim};
    memcpy(t.dim, e->dim, sizeof t.dim);
    TRY(weft_tensor_bytes(&t, bytes));
    return WEFT_OK;
}

/* Texts must be UTF-8; jansson gives NULL for others, and takes NULL for a failure. */
static enum weft_status set(json_t *object, const char *name, json_t *value)
{
    if (!value || json_object_set_new(object, name, value))
        return FAIL(WEFT_INVALID, "\"%s\" and its value cannot be written: not UTF-8, or no memory", name);
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
    if (!is_name(e->name) || json_object_get(header, e->name))
        return FAIL(WEFT_INVALID, "\"%.*s\" is the name of another tensor, or cannot be one", LONGEST_NAME, e->name);
    TRY(entry_bytes(e, &bytes));
    TRY(weft_size_add(*offset, bytes, &end));
    TRY(set(header, e->name,
            json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_name(e), "shape", list_dims(e), "data_offsets",
                      (json_int_t)*offset, (json_int_t)end)));
    TRY(set(json_object_get(header, METADATA), sum_name(e).text, json_string(sum_entry(e, bytes).text)));
    *offset = end;
    return WEFT_OK;
}

/* The entries in the order of the file: wide elements first, so that all are aligned. */
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
    TRY(set(header, METADATA, pairs));
    for (; metadata && metadata[0]; metadata += 2) {
        if (strncmp(metadata[0], SUM, strlen(SUM)) == 0)
            return FAIL(WEFT_INVALID, "metadata cannot be called %s: that is the file's own", metadata[0]);
        TRY(set(pairs, metadata[0], json_string(metadata[1])));
    }
    TRY(each_entry(entries, count, describe, &d));
    TRY(set(pairs, SUM, json_string(sum_metadata(pairs).text)));
    return WEFT_OK;
}

static enum weft_status add_header(struct weft_file *f, const char *text)
{
    size_t bytes = strlen(text);
    uint64_t length = (uint64_t)weft_round_up((int64_t)bytes, 8);
    if (length > LONGEST_HEADER)
        return FAIL(WEFT_INVALID, "%s would have a header of %" PRIu64 " bytes, %d is the most: use several files",
                    f->path, length, LONGEST_HEADER);
    TRY(weft_file_add(f, &length, sizeof length));
    TRY(weft_file_add(f, text, bytes));
    TRY(weft_file_add(f, "       ", length - bytes));
    return WEFT_OK;
}

static enum weft_status add_values(void *context, const struct weft_entry *e)
{
    size_t bytes;
    TRY(entry_bytes(e, &bytes));
    TRY(weft_file_add(context, e->data, bytes));
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
        status = FAIL(WEFT_NOMEM, "no memory for the header of %s", path);
    json_decref(header);
    if (status == WEFT_OK)
        status = weft_file_begin(&f, path);
    if (status == WEFT_OK)
        status = weft_file_end(&f, add_all(&f, text, entries, count));
    free(text);
    return status;
}

/* ---- opening */

struct weft_safetensors {
    char *path;
    const unsigned char *map;
    size_t bytes;
    json_t *header; /* owns the names and the metadata */
    const json_t *metadata;
    bool sums;                  /* there are checksums: one for the metadata and one for each tensor */
    struct weft_entry *entries; /* in order of names */
    int count;
};

static enum weft_status map_file(struct weft_safetensors *f)
{
    struct stat st;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return FAIL(WEFT_IO, "%s cannot be read: %s", f->path, strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < 8) {
        close(fd);
        return FAIL(WEFT_FORMAT, "%s is no safetensors file: it is no file, or too short", f->path);
    }
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int error = errno;
    close(fd);
    if (map == MAP_FAILED)
        return FAIL(WEFT_IO, "%s cannot be mapped: %s", f->path, strerror(error));
    f->map = map;
    f->bytes = (size_t)st.st_size;
    return WEFT_OK;
}

static enum weft_status parse_header(struct weft_safetensors *f, size_t *data)
{
    uint64_t length;
    json_error_t error;
    memcpy(&length, f->map, sizeof length);
    if (length < 2 || length > LONGEST_HEADER || length > f->bytes - sizeof length || f->map[sizeof length] != '{')
        return FAIL(WEFT_FORMAT,
                    "%s is no safetensors file, or it was cut off: its header would have %" PRIu64 " bytes", f->path,
                    length);
    f->header = json_loadb((const char *)f->map + sizeof length, length, JSON_REJECT_DUPLICATES, &error);
    if (!f->header)
        return FAIL(WEFT_FORMAT, "%s: the header breaks off at its byte %d, or a name stands twice", f->path,
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
            return FAIL(WEFT_FORMAT, "%s: dimension %zu of %s is no size", path, i, e->name);
        if (weft_size_mul(e->bytes, (size_t)e->dim[i], &e->bytes) != WEFT_OK)
            return FAIL(WEFT_FORMAT, "%s: %s is larger than any memory", path, e->name);
    }
    return WEFT_OK;
}

static enum weft_status read_entry(const struct weft_safetensors *f, size_t data, const char *name,
                                   const json_t *fields, struct weft_entry *e)
{
    const char *type = json_string_value(json_object_get(fields, "dtype"));
    const json_t *offsets = json_object_get(fields, "data_offsets");
    int t = 0;
    while (t < TYPES && (!type || strcmp(type, types[t].name)))
        t++;
    if (!is_name(name))
        return FAIL(WEFT_FORMAT, "%s: the name of a tensor is too long or has control characters", f->path);
    if (t == TYPES || json_array_size(offsets) != 2)
        return FAIL(WEFT_FORMAT, "%s: %s has an unknown type, or no place", f->path, name);
    *e = (struct weft_entry){.name = name, .bytes = types[t].bytes};
    if (types[t].dtype < 0)
        e->foreign = types[t].name;
    else
        e->dtype = (enum weft_dtype)types[t].dtype;
    TRY(read_shape(f->path, json_object_get(fields, "shape"), e));
    json_int_t begin = json_integer_value(json_array_get(offsets, 0)),
               end = json_integer_value(json_array_get(offsets, 1));
    if (begin < 0 || end < begin || (size_t)end > f->bytes - data || (size_t)(end - begin) != e->bytes)
        return FAIL(WEFT_FORMAT,
                    "%s: %s has %zu bytes by its shape and stands at %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT
                    " of %zu: was the file cut off?",
                    f->path, name, e->bytes, begin, end, f->bytes - data);
    e->data = f->map + data + begin;
    return WEFT_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct weft_entry *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty ones first */
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct weft_entry *)a)->name, ((const struct weft_entry *)b)->name);
}

/* Every byte belongs to exactly one tensor: the format says so, and it finds overlaps and lost ends. */
static enum weft_status check_places(struct weft_safetensors *f, size_t data)
{
    const unsigned char *next = f->map + data;
    if (f->count)
        qsort(f->entries, (size_t)f->count, sizeof *f->entries, by_place);
    for (int i = 0; i < f->count; next += f->entries[i++].bytes)
        if (f->entries[i].data != next)
            return FAIL(WEFT_FORMAT, "%s: %s overlaps another tensor or leaves a gap", f->path, f->entries[i].name);
    if (next != f->map + f->bytes)
        return FAIL(WEFT_FORMAT, "%s has %zu bytes behind its last tensor", f->path,
                    (size_t)(f->map + f->bytes - next));
    return WEFT_OK;
}

static enum weft_status read_metadata(struct weft_safetensors *f, json_t *metadata)
{
    const char *name;
    json_t *value;
    if (!json_is_object(metadata))
        return FAIL(WEFT_FORMAT, "%s: the metadata are no object", f->path);
    json_object_foreach(metadata, name, value)
    {
        if (!json_is_string(value))
            return FAIL(WEFT_FORMAT, "%s: metadata are not all texts", f->path);
        f->sums |= strncmp(name, SUM, strlen(SUM)) == 0; /* by any: one name may be what is damaged */
    }
    f->metadata = metadata;
    const char *sum = weft_safetensors_metadata(f, SUM);
    if (f->sums && (!sum || strcmp(sum, sum_metadata(metadata).text)))
        return FAIL(WEFT_FORMAT, "%s: the metadata are damaged: their checksum is another", f->path);
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
        return FAIL(WEFT_NOMEM, "no memory for the tensors of %s", f->path);
    json_object_foreach(f->header, name, fields)
    {
        if (strcmp(name, METADATA) == 0)
            TRY(read_metadata(f, fields));
        else
            TRY(read_entry(f, data, name, fields, &f->entries[f->count++]));
    }
    TRY(check_places(f, data));
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
        return FAIL(WEFT_NOMEM, "no memory to open %s", path);
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

/* ---- using */

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
    const char *sum = weft_safetensors_metadata(f, sum_name(e).text);
    if (!sum || strcmp(sum, sum_entry(e, e->bytes).text))
        return FAIL(WEFT_FORMAT, "%s: %s is damaged: its checksum is another", f->path, e->name);
    return WEFT_OK;
}

enum weft_status weft_safetensors_check(const char *path)
{
    struct weft_safetensors *f;
    TRY(weft_safetensors_open(&f, path));
    enum weft_status status = weft_safetensors_verify(f, NULL);
    weft_safetensors_close(f);
    return status;
}

/* Values in a file may lie at odd addresses: they go through a buffer. */
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
        return FAIL(WEFT_FORMAT, "%s: %s is %s, but %s is wanted: is it of another model?", f->path, name,
                    shape(e->ndim, e->dim).text, shape(to->ndim, to->dim).text);
    bool floats = !e->foreign && weft_dtype_is_float(e->dtype) && weft_dtype_is_float(to->dtype);
    if (e->foreign || (e->dtype != to->dtype && !floats))
        return FAIL(WEFT_UNSUPPORTED, "%s: %s is %s, which cannot be read as %s", f->path, name, type_name(e),
                    weft_dtype_name(to->dtype));
    TRY(weft_safetensors_verify(f, e));
    if (e->dtype != to->dtype)
        convert(e, to);
    else if (e->bytes)
        memcpy(to->data, e->data, e->bytes);
    return WEFT_OK;
}
