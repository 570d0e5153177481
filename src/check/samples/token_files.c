/* SPDX-License-Identifier: MIT
 *
 * token_files.c - a plain reader of token files, written from docs/data.md, for comparison with the real one. It seeks
 * to each token's place in its file and assembles the token from its bytes. The two share only the rule for file names.
 */
#include "check/samples/samples.h"
#include "text/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEADER = 256 * 4, MAGIC_OF_2_BYTES = 20240520, MAGIC_OF_4_BYTES = 20240801, CHUNK = 4096 };

struct file {
    char *path;
    int64_t begin, tokens; /* place in the stream; number of tokens */
    int64_t header, width; /* sizes in bytes */
    dev_t device;
    ino_t inode;
};

struct weft_token_files {
    struct file *file;
    int64_t count, tokens;
    FILE *open;
    const struct file *opened; /* the file that is open */
};

static int64_t number(const unsigned char *bytes, int64_t width)
{
    uint32_t value = 0;
    for (int64_t i = 0; i < width; i++)
        value |= (uint32_t)bytes[i] << 8 * i;
    return (int32_t)value;
}

/* ---- opening */

static enum weft_status add_name(struct weft_token_files *f, const char *folder, const char *name)
{
    struct file *more = realloc(f->file, (size_t)(f->count + 1) * sizeof *more);
    size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = malloc(bytes);
    f->file = more ? more : f->file;
    if (!more || !path) {
        free(path);
        return FAIL(WEFT_NOMEM, "not enough memory for the list of token files");
    }
    snprintf(path, bytes, "%s/%s", folder, name);
    f->file[f->count++] = (struct file){.path = path};
    return WEFT_OK;
}

static enum weft_status list_names(struct weft_token_files *f, const char *folder, const char *split)
{
    DIR *d = opendir(folder);
    enum weft_status status = d ? WEFT_OK : FAIL(WEFT_IO, "%s cannot be read: %s", folder, strerror(errno));
    for (const struct dirent *e; status == WEFT_OK && (e = readdir(d));)
        if (weft_is_shard(e->d_name, split))
            status = add_name(f, folder, e->d_name);
    if (d)
        closedir(d);
    return status;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static enum weft_status read_header(struct file *f)
{
    unsigned char bytes[12] = {0};
    struct stat info;
    FILE *file;
    TRY(weft_input_open(f->path, &file));
    size_t got = fread(bytes, 1, sizeof bytes, file);
    bool known = fstat(fileno(file), &info) == 0;
    fclose(file);
    if (!known)
        return FAIL(WEFT_IO, "%s cannot be read: %s", f->path, strerror(errno));
    int64_t magic = got == sizeof bytes ? number(bytes, 4) : 0;
    bool has_header = magic == MAGIC_OF_2_BYTES || magic == MAGIC_OF_4_BYTES;
    f->width = magic == MAGIC_OF_4_BYTES ? 4 : 2;
    f->header = has_header ? HEADER : 0;
    f->tokens = has_header ? number(bytes + 8, 4) : (int64_t)info.st_size / 2;
    f->device = info.st_dev;
    f->inode = info.st_ino;
    return WEFT_OK;
}

static enum weft_status open_all(struct weft_token_files *f, const char *folder, const char *split)
{
    TRY(list_names(f, folder, split));
    if (f->count > 1)
        qsort(f->file, (size_t)f->count, sizeof *f->file, by_path);
    for (int64_t i = 0; i < f->count; i++) {
        TRY(read_header(&f->file[i]));
        f->file[i].begin = f->tokens;
        f->tokens += f->file[i].tokens;
    }
    return WEFT_OK;
}

enum weft_status weft_token_files_open(struct weft_token_files **f, const char *folder, const char *split)
{
    *f = calloc(1, sizeof **f);
    if (!*f)
        return FAIL(WEFT_NOMEM, "not enough memory to read %s", folder);
    return open_all(*f, folder, split);
}

void weft_token_files_close(struct weft_token_files *f)
{
    for (int64_t i = 0; f && i < f->count; i++)
        free(f->file[i].path);
    if (f && f->open)
        fclose(f->open);
    free(f ? f->file : NULL);
    free(f);
}

/* ---- numbers of files and tokens */

int64_t weft_token_files_tokens(const struct weft_token_files *f) { return f->tokens; }

int64_t weft_token_files_count(const struct weft_token_files *f) { return f->count; }

int64_t weft_token_files_begin(const struct weft_token_files *f, int64_t file) { return f->file[file].begin; }

int64_t weft_token_files_shared(const struct weft_token_files *a, const struct weft_token_files *b, const char **path)
{
    int64_t shared = 0;
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t k = 0; k < b->count; k++)
            if (a->file[i].device == b->file[k].device && a->file[i].inode == b->file[k].inode && shared++ == 0)
                *path = b->file[k].path;
    return shared;
}

/* ---- reading */

/* Returns the file that contains a token, searching from the place where it would be if all files were equally long. */
static const struct file *find(const struct weft_token_files *f, int64_t token)
{
    int64_t i = (int64_t)((double)token / (double)f->tokens * (double)(f->count - 1));
    while (token < f->file[i].begin)
        i--;
    while (token >= f->file[i].begin + f->file[i].tokens)
        i++;
    return &f->file[i];
}

static bool go_to(struct weft_token_files *f, const struct file *file, int64_t token)
{
    if (f->opened != file) {
        if (f->open)
            fclose(f->open);
        f->open = NULL;
        f->opened = NULL;
        if (weft_input_open(file->path, &f->open) != WEFT_OK)
            return false;
        f->opened = file;
    }
    return fseeko(f->open, file->header + (token - file->begin) * file->width, SEEK_SET) == 0;
}

bool weft_token_files_read(struct weft_token_files *f, int64_t first, int64_t count, int32_t *to)
{
    unsigned char bytes[CHUNK];
    while (count > 0 && first < f->tokens) {
        const struct file *file = find(f, first);
        int64_t n = weft_min(CHUNK / file->width, weft_min(count, file->begin + file->tokens - first));
        if (!go_to(f, file, first) || fread(bytes, (size_t)file->width, (size_t)n, f->open) != (size_t)n)
            return false;
        for (int64_t i = 0; i < n; i++)
            *to++ = (int32_t)number(bytes + i * file->width, file->width);
        first += n;
        count -= n;
    }
    return count == 0;
}
