/* SPDX-License-Identifier: MIT
 *
 * archive.c - writes files in the ustar format (POSIX.1-1988), compressed by zstd in one frame with a checksum.
 */
#define _GNU_SOURCE
#include "report/archive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum { BLOCK = 512, PIECE = 1 << 17, LEVEL = 9 };

struct weft_archive {
    const char *path; /* owned by the caller */
    char *writing;    /* temporary path until the archive is finished */
    FILE *file;
    ZSTD_CCtx *zstd;
    char in[PIECE], out[PIECE];
};

static enum weft_status write_failed(const struct weft_archive *a)
{
    return FAIL(WEFT_IO, "%s cannot be written: %s", a->writing, strerror(errno));
}

static enum weft_status compress(struct weft_archive *a, const void *data, size_t bytes, ZSTD_EndDirective end)
{
    ZSTD_inBuffer in = {data, bytes, 0};
    for (size_t left = 1; in.pos < in.size || (end == ZSTD_e_end && left);) {
        ZSTD_outBuffer out = {a->out, sizeof a->out, 0};
        left = ZSTD_compressStream2(a->zstd, &out, &in, end);
        if (ZSTD_isError(left))
            return FAIL(WEFT_NOMEM, "zstd: %s", ZSTD_getErrorName(left));
        if (fwrite(a->out, 1, out.pos, a->file) != out.pos)
            return write_failed(a);
    }
    return WEFT_OK;
}

enum weft_status weft_archive_create(struct weft_archive **archive, const char *path)
{
    struct weft_archive *a = *archive = calloc(1, sizeof *a);
    if (!a || !(a->zstd = ZSTD_createCCtx()) || asprintf(&a->writing, "%s.writing", path) < 0)
        return FAIL(WEFT_NOMEM, "not enough memory for an archive");
    a->path = path;
    ZSTD_CCtx_setParameter(a->zstd, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(a->zstd, ZSTD_c_checksumFlag, 1);
    a->file = fopen(a->writing, "wbe");
    return a->file ? WEFT_OK : write_failed(a);
}

/* ---- a header */

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2];
    char user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header occupies one block");

/* Splits a long name at a slash. */
static bool set_name(struct header *h, const char *name)
{
    size_t n = strlen(name);
    const char *cut = name;
    if (n > sizeof h->name)
        cut = strchr(name + n - sizeof h->name - 1, '/');
    if (!cut || cut - name > (ptrdiff_t)sizeof h->prefix)
        return false;
    memcpy(h->prefix, name, (size_t)(cut - name));
    cut += cut > name;
    memcpy(h->name, cut, strlen(cut));
    return true;
}

/* Writes the size in octal or, for 8 GiB and above, in binary, which current tar programs can read. */
static void set_size(struct header *h, int64_t size)
{
    if (size < (int64_t)1 << 33) {
        snprintf(h->size, sizeof h->size, "%011llo", (long long)size);
        return;
    }
    h->size[0] = (char)0x80;
    for (int i = 0; i < 8; i++)
        h->size[11 - i] = (char)(size >> 8 * i);
}

static enum weft_status add_header(struct weft_archive *a, const char *name, int64_t size)
{
    struct header h = {.mode = "0000644", .uid = "0000000", .gid = "0000000", .mtime = "00000000000", .type = '0'};
    unsigned sum = 0;
    memcpy(h.magic, "ustar", sizeof h.magic);
    memcpy(h.version, "00", sizeof h.version);
    memset(h.checksum, ' ', sizeof h.checksum);
    if (!set_name(&h, name))
        return FAIL(WEFT_INVALID, "the name %.300s is too long for an archive", name);
    set_size(&h, size);
    for (size_t i = 0; i < sizeof h; i++)
        sum += ((const unsigned char *)&h)[i];
    snprintf(h.checksum, sizeof h.checksum, "%06o", sum);
    return compress(a, &h, sizeof h, ZSTD_e_continue);
}

static enum weft_status fill_block(struct weft_archive *a, int64_t size)
{
    static const char zeros[BLOCK];
    return compress(a, zeros, (size_t)(-size & (BLOCK - 1)), ZSTD_e_continue);
}

/* ---- files */

static enum weft_status add_content(struct weft_archive *a, FILE *from, int64_t size, const char *path, char hash[65])
{
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    for (int64_t left = size, n; left; left -= n) {
        n = (int64_t)fread(a->in, 1, (size_t)weft_min(left, PIECE), from);
        if (n == 0)
            return FAIL(WEFT_IO, "%s was truncated while it was read, or cannot be read", path);
        weft_sha256_add(&sha, a->in, (size_t)n);
        TRY(compress(a, a->in, (size_t)n, ZSTD_e_continue));
    }
    weft_sha256_hex(&sha, hash);
    return fill_block(a, size);
}

enum weft_status weft_archive_add_file(struct weft_archive *a, const char *name, const char *path, char hash[65])
{
    FILE *from;
    struct stat st;
    TRY(weft_input_open(path, &from));
    enum weft_status status =
        fstat(fileno(from), &st) ? FAIL(WEFT_IO, "%s cannot be read: %s", path, strerror(errno)) : WEFT_OK;
    if (status == WEFT_OK)
        status = add_header(a, name, st.st_size);
    if (status == WEFT_OK)
        status = add_content(a, from, st.st_size, path, hash);
    fclose(from);
    return status;
}

enum weft_status weft_archive_add_text(struct weft_archive *a, const char *name, const char *text, char hash[65])
{
    size_t bytes = strlen(text);
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, text, bytes);
    weft_sha256_hex(&sha, hash);
    TRY(add_header(a, name, (int64_t)bytes));
    TRY(compress(a, text, bytes, ZSTD_e_continue));
    TRY(fill_block(a, (int64_t)bytes));
    return WEFT_OK;
}

/* Ends the archive with two blocks of zeros. */
enum weft_status weft_archive_finish(struct weft_archive *a)
{
    static const char zeros[2 * BLOCK];
    TRY(compress(a, zeros, sizeof zeros, ZSTD_e_end));
    bool closed = weft_output_close(a->file);
    a->file = NULL;
    if (!closed || rename(a->writing, a->path))
        return write_failed(a);
    free(a->writing);
    a->writing = NULL;
    return WEFT_OK;
}

void weft_archive_free(struct weft_archive *a)
{
    if (!a)
        return;
    if (a->file)
        fclose(a->file);
    if (a->writing)
        unlink(a->writing);
    ZSTD_freeCCtx(a->zstd);
    free(a->writing);
    free(a);
}
