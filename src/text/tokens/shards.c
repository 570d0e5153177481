/* SPDX-License-Identifier: MIT
 *
 * shards.c - reads token files as one stream. Files are memory-mapped and closed again, so their number is limited by
 * the maximum number of mappings (65530 by default on Linux), not by the limit on open files. A token is found by
 * binary search over the files.
 */
#include "base/json.h"
#include "text/tokens/internal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct data {          /* data.json, for one split */
    const char *split; /* only while opening */
    bool found;
    int64_t version, vocab, end, documents, tokens, bytes, files;
    char tokenizer[65];
};

struct weft_shards {
    struct weft_shard *shards;
    int64_t count, room;
    int64_t tokens;
    int32_t max_token;
    struct data data;
};

int64_t weft_shards_tokens(const struct weft_shards *s) { return s->tokens; }

int64_t weft_shards_files(const struct weft_shards *s) { return s->count; }

int64_t weft_shards_documents(const struct weft_shards *s) { return s->data.documents; }

int64_t weft_shards_bytes(const struct weft_shards *s) { return s->data.bytes; }

int32_t weft_shards_end(const struct weft_shards *s)
{
    bool known = s->data.found && s->data.end >= 0 && s->data.end <= s->max_token;
    return known ? (int32_t)s->data.end : -1;
}

const char *weft_shards_tokenizer(const struct weft_shards *s) { return s->data.tokenizer; }

int32_t weft_shards_max_token(const struct weft_shards *s) { return s->max_token; }

int64_t weft_shards_windows(const struct weft_shards *s, int64_t length)
{
    assert(length > 0);
    return s->tokens > length ? (s->tokens - 1) / length : 0;
}

/* ---- hash trees */

static bool has_trees(const struct weft_shards *s)
{
    for (int64_t i = 0; i < s->count; i++)
        if (!s->shards[i].tree)
            return false;
    return true;
}

void weft_shards_root(const struct weft_shards *s, struct weft_sha256 *sha)
{
    for (const struct weft_shard *f = s->shards; f < s->shards + s->count; f++) {
        unsigned char root[32];
        assert(f->tree);
        weft_tree_root(f->tree, root);
        weft_sha256_add(sha, &f->count, sizeof f->count);
        weft_sha256_add(sha, root, sizeof root);
    }
}

bool weft_shards_hash(const struct weft_shards *s, char hash[65])
{
    struct weft_sha256 sha;
    hash[0] = 0;
    if (!has_trees(s))
        return false;
    weft_sha256_init(&sha);
    weft_shards_root(s, &sha);
    weft_sha256_hex(&sha, hash);
    return true;
}

struct indexing {
    weft_tree_fn *progress;
    void *context;
    int64_t before, all;
};

static void follow(void *context, int64_t done, int64_t all)
{
    const struct indexing *i = context;
    (void)all;
    if (i->progress)
        i->progress(i->context, i->before + done, i->all);
}

enum weft_status weft_shards_index(struct weft_shards *s, weft_tree_fn *progress, void *context)
{
    struct indexing now = {progress, context, 0, 0};
    for (int64_t i = 0; i < s->count; i++)
        now.all += s->shards[i].tree ? 0 : (int64_t)s->shards[i].bytes;
    for (struct weft_shard *f = s->shards; f < s->shards + s->count; f++) {
        bool written;
        if (f->tree)
            continue;
        TRY(weft_tree_make(&f->tree, f->path, f->map, f->bytes, follow, &now, &written));
        if (!written)
            weft_note_once(f->path, "%s.tree cannot be written: every run will hash the file again", f->path);
        now.before += (int64_t)f->bytes;
    }
    return WEFT_OK;
}

/* ---- reading */

static const struct weft_shard *find(const struct weft_shards *s, int64_t token)
{
    int64_t low = 0, high = s->count - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (s->shards[middle].first <= token)
            low = middle;
        else
            high = middle - 1;
    }
    return &s->shards[low];
}

enum weft_status weft_shards_read(const struct weft_shards *s, int64_t first, int64_t count, int32_t *tokens)
{
    assert(first >= 0 && count >= 0 && first + count <= s->tokens);
    for (const struct weft_shard *f = count ? find(s, first) : NULL; count > 0; f++) {
        int64_t at = first - f->first, n = weft_min(count, f->count - at);
        if (f->tree)
            TRY(weft_tree_check(f->tree, f->path, f->map, (size_t)(f->header + at * f->width), (size_t)(n * f->width)));
        for (int64_t i = 0; i < n; i++) {
            uint32_t token = weft_shard_token(f, at + i);
            if (token > (uint32_t)s->max_token)
                return FAIL(WEFT_FORMAT, "%s: token %lld is %u, but the maximum is %d: the file is damaged", f->path,
                            (long long)(at + i), token, s->max_token);
            tokens[i] = (int32_t)token;
        }
        first += n;
        tokens += n;
        count -= n;
    }
    return WEFT_OK;
}

/* ---- folders */

/* Adds a file and takes ownership of its path. */
static enum weft_status add_path(struct weft_shards *s, char *path)
{
    if (path && s->count == s->room) {
        int64_t room = s->room ? 2 * s->room : 16;
        struct weft_shard *more = realloc(s->shards, (size_t)room * sizeof *more);
        if (more) {
            s->shards = more;
            s->room = room;
        }
    }
    if (!path || s->count == s->room) {
        free(path);
        return FAIL(WEFT_NOMEM, "not enough memory for the list of token files");
    }
    s->shards[s->count++] = (struct weft_shard){.path = path};
    return WEFT_OK;
}

bool weft_is_shard(const char *name, const char *split)
{
    size_t n = strlen(name), word = strlen(split);
    if (n < 4 || strcmp(name + n - 4, ".bin") != 0)
        return false;
    for (const char *at = name; (at = strstr(at, split)); at++)
        if ((at == name || strchr("_-.", at[-1])) && at[word] && strchr("_-.", at[word]))
            return true;
    return false;
}

bool weft_shards_exist(const char *folder, const char *split)
{
    DIR *d = opendir(folder);
    bool found = false;
    for (const struct dirent *e; d && !found && (e = readdir(d));)
        found = weft_is_shard(e->d_name, split);
    if (d)
        closedir(d);
    return found;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct weft_shard *)a)->path, ((const struct weft_shard *)b)->path);
}

static char *join(const char *folder, const char *name)
{
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s", folder, name);
    return path;
}

static enum weft_status list_folder(struct weft_shards *s, const char *folder, const char *split)
{
    DIR *d = opendir(folder);
    if (!d)
        return FAIL(WEFT_IO, "%s cannot be read: %s", folder, strerror(errno));
    enum weft_status status = WEFT_OK;
    for (const struct dirent *e; status == WEFT_OK && (e = readdir(d));)
        if (weft_is_shard(e->d_name, split))
            status = add_path(s, join(folder, e->d_name));
    closedir(d);
    if (status != WEFT_OK)
        return status;
    if (s->count == 0)
        return FAIL(WEFT_IO, "%s has no token files for %s, such as %s_000000.bin or %s.bin", folder, split, split,
                    split);
    qsort(s->shards, (size_t)s->count, sizeof *s->shards, by_path);
    return WEFT_OK;
}

static enum weft_status data_entry(void *context, const char *name, const char *value)
{
    struct data *d = context;
    size_t word = strlen(d->split);
    const struct {
        const char *name;
        int64_t *value;
        bool of_split;
    } rows[] = {
        {"version", &d->version, false}, {"vocab", &d->vocab, false}, {"documents", &d->documents, true},
        {"tokens", &d->tokens, true},    {"bytes", &d->bytes, true},  {"files", &d->files, true},
        {"end", &d->end, false},
    };
    if (strcmp(name, "tokenizer_sha256") == 0)
        snprintf(d->tokenizer, sizeof d->tokenizer, "%s", value);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *rest = name;
        if (rows[i].of_split)
            rest = strncmp(name, d->split, word) == 0 && name[word] == '_' ? name + word + 1 : "";
        if (strcmp(rest, rows[i].name) == 0)
            *rows[i].value = strtoll(value, NULL, 10);
    }
    return WEFT_OK;
}

static enum weft_status read_data(struct weft_shards *s, const char *folder, const char *split)
{
    char *path = join(folder, "data.json");
    s->data.split = split;
    s->data.end = -1;
    if (!path)
        return FAIL(WEFT_NOMEM, "not enough memory to read %s", folder);
    enum weft_status status = WEFT_OK;
    if (access(path, F_OK) == 0) {
        status = weft_json_load(path, data_entry, &s->data);
        s->data.found = true;
    }
    if (status == WEFT_OK && s->data.found &&
        (s->data.version != 1 || s->data.vocab < 1 || s->data.vocab > INT32_MAX || s->data.bytes < 0 ||
         s->data.documents < 0))
        status = FAIL(WEFT_FORMAT, "%s: version, vocab, bytes or documents are missing or out of range", path);
    free(path);
    return status;
}

/* All files that were prepared together must be present and complete. */
static enum weft_status check_data(const struct weft_shards *s, const char *folder)
{
    const struct data *d = &s->data;
    if (d->files != s->count || d->tokens != s->tokens)
        return FAIL(WEFT_FORMAT,
                    "%s/data.json lists %lld tokens in %lld files for %s, but there are %lld in %lld: files were "
                    "added, removed or changed",
                    folder, (long long)d->tokens, (long long)d->files, d->split, (long long)s->tokens,
                    (long long)s->count);
    for (int64_t i = 0; i < s->count; i++)
        if (s->shards[i].header == 0)
            return FAIL(WEFT_FORMAT,
                        "%s, byte 0: no header, but the files of %s/data.json have one: the file is damaged",
                        s->shards[i].path, folder);
    return WEFT_OK;
}

/* ---- the largest token, if there is no data.json */

struct scan {
    const struct weft_shards *s;
    uint32_t *max_tokens; /* largest token id of each file */
};

static void scan_file(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct scan *scan = context;
    const struct weft_shard *f = &scan->s->shards[i];
    uint32_t max_token = 0;
    for (int64_t at = 0; at < f->count; at++) {
        uint32_t token = weft_shard_token(f, at);
        max_token = token > max_token ? token : max_token;
    }
    scan->max_tokens[i] = max_token;
    madvise(f->map, f->bytes, MADV_DONTNEED); /* so that the scan does not add to resident memory */
}

static enum weft_status find_max_token(struct weft_shards *s)
{
    struct scan scan = {s, calloc((size_t)s->count, sizeof *scan.max_tokens)};
    enum weft_status status = WEFT_OK;
    if (!scan.max_tokens)
        return FAIL(WEFT_NOMEM, "not enough memory to scan %lld files", (long long)s->count);
    weft_parallel(s->count, scan_file, &scan);
    for (int64_t i = 0; i < s->count && status == WEFT_OK; i++)
        if (scan.max_tokens[i] > INT32_MAX - 1)
            status =
                FAIL(WEFT_FORMAT, "%s contains a token %u: the file is damaged", s->shards[i].path, scan.max_tokens[i]);
        else
            s->max_token = (int32_t)weft_max(s->max_token, scan.max_tokens[i]);
    free(scan.max_tokens);
    return status;
}

/* ---- opening */

static enum weft_status open_all(struct weft_shards *s, const char *path, const char *split, bool trees)
{
    struct stat info;
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (folder) {
        TRY(list_folder(s, path, split));
        TRY(read_data(s, path, split));
    } else {
        TRY(add_path(s, strdup(path)));
    }
    for (int64_t i = 0; i < s->count; i++) {
        TRY(weft_shard_open(&s->shards[i]));
        if (trees)
            TRY(weft_tree_open(&s->shards[i].tree, s->shards[i].path, s->shards[i].bytes));
        s->shards[i].first = s->tokens;
        s->tokens += s->shards[i].count;
    }
    if (s->data.found) {
        TRY(check_data(s, path));
        s->max_token = (int32_t)(s->data.vocab - 1);
    } else {
        TRY(find_max_token(s));
    }
    return WEFT_OK;
}

static enum weft_status open_shards(struct weft_shards **out, const char *path, const char *split, bool trees)
{
    struct weft_shards *s = calloc(1, sizeof *s);
    if (!s)
        return FAIL(WEFT_NOMEM, "not enough memory to open %s", path);
    enum weft_status status = open_all(s, path, split, trees);
    if (status == WEFT_OK)
        *out = s;
    else
        weft_shards_close(s);
    return status;
}

enum weft_status weft_shards_open(struct weft_shards **s, const char *path, const char *split)
{
    return open_shards(s, path, split, true);
}

enum weft_status weft_shards_open_anew(struct weft_shards **s, const char *path, const char *split)
{
    return open_shards(s, path, split, false);
}

void weft_shards_close(struct weft_shards *s)
{
    if (!s)
        return;
    for (int64_t i = 0; i < s->count; i++) {
        weft_shard_close(&s->shards[i]);
        free(s->shards[i].path);
    }
    free(s->shards);
    free(s);
}
