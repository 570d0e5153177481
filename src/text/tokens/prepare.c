/* SPDX-License-Identifier: MIT
 *
 * prepare.c - converts texts to shards in one streaming pass, with only a piece of text and its tokens in memory.
 *
 * The hash of a JSONL document's text decides its split. So adding documents never moves an existing one to a different
 * split, and a larger validation share contains the documents of a smaller one. The length of a plain text is known
 * only at its end, so all of it is written to train first, and then its tail is moved to val. The folder is written
 * under a temporary name and renamed when complete.
 */
#include "base/json.h"
#include "text/tokens/internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct split {
    struct weft_writer writer;
    struct weft_split *sum;
};

struct prepare {
    const struct weft_prepare *how;
    struct weft_prepared *sum;
    char folder[4000]; /* the temporary name */
    struct split train, val;
    struct weft_ids ids; /* ids of a piece */
    bool begun;          /* part of the document is already encoded */
};

/* ---- documents */

static enum weft_status begin_document(struct prepare *p, struct split *s)
{
    int32_t end = weft_tokenizer_end(p->how->tokenizer);
    if (s->writer.tokens > 0 && end >= 0)
        TRY(weft_writer_put(&s->writer, &end, 1));
    s->sum->documents++;
    p->begun = false;
    return WEFT_OK;
}

/* Encodes the next piece of a document, with the token that the tokenizer may put before a document. */
static enum weft_status encode(struct prepare *p, const char *text, size_t bytes)
{
    int32_t begin = weft_tokenizer_begin(p->how->tokenizer);
    TRY(weft_ids_reserve(&p->ids, 1));
    p->ids.count = !p->begun && begin >= 0;
    p->ids.id[0] = begin;
    TRY(weft_encode(p->how->tokenizer, text, bytes, false, !p->begun, &p->ids));
    p->begun = true;
    return WEFT_OK;
}

static enum weft_status add_text(struct prepare *p, struct split *s, const char *text, size_t bytes)
{
    while (bytes > 0) {
        size_t piece = weft_piece_bytes(text, bytes);
        TRY(encode(p, text, piece));
        TRY(weft_writer_put(&s->writer, p->ids.id, (int64_t)p->ids.count));
        s->sum->tokens = s->writer.tokens;
        s->sum->bytes += (int64_t)piece;
        p->sum->bytes += (int64_t)piece;
        text += piece;
        bytes -= piece;
        if (p->how->progress)
            p->how->progress(p->how->context, p->sum);
    }
    return WEFT_OK;
}

/* Returns the FNV-1a hash of a text, mixed by Philox and scaled to [0, 1). The hash decides the split of documents, so
 * it must never change. */
static double uniform_hash(const char *text, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
    return weft_uniform(hash, 0);
}

static enum weft_status line(void *context, const char *text, size_t bytes)
{
    struct prepare *p = context;
    struct split *s = uniform_hash(text, bytes) < p->how->val_share ? &p->val : &p->train;
    p->sum->documents++;
    TRY(begin_document(p, s));
    TRY(add_text(p, s, text, bytes));
    return WEFT_OK;
}

static enum weft_status piece(void *context, const char *text, size_t bytes)
{
    struct prepare *p = context;
    TRY(add_text(p, &p->train, text, bytes));
    return WEFT_OK;
}

/* Moves the last val_share of the document that starts at token `first` of train. */
static enum weft_status move_tail(struct prepare *p, int64_t first)
{
    int64_t all = p->train.writer.tokens, moved = (int64_t)((double)(all - first) * p->how->val_share);
    if (moved == 0)
        return WEFT_OK;
    TRY(begin_document(p, &p->val));
    p->ids.count = 0;
    TRY(weft_ids_reserve(&p->ids, WEFT_WRITER_BUFFER));
    for (int64_t at = all - moved; at < all; at += WEFT_WRITER_BUFFER) {
        int64_t n = weft_min(all - at, WEFT_WRITER_BUFFER);
        size_t bytes = 0;
        TRY(weft_writer_get(&p->train.writer, at, n, p->ids.id));
        TRY(weft_decode(p->how->tokenizer, p->ids.id, (size_t)n, false, NULL, 0, &bytes));
        TRY(weft_writer_put(&p->val.writer, p->ids.id, n));
        p->train.sum->bytes -= (int64_t)bytes;
        p->val.sum->bytes += (int64_t)bytes;
    }
    TRY(weft_writer_truncate(&p->train.writer, all - moved));
    return WEFT_OK;
}

static enum weft_status read_source(struct prepare *p, struct weft_source *s)
{
    if (p->how->field) {
        TRY(weft_documents_jsonl(s, p->how->field, line, p));
        return WEFT_OK;
    }
    p->sum->documents++;
    TRY(begin_document(p, &p->train));
    int64_t first = p->train.writer.tokens;
    TRY(weft_documents_plain(s, piece, p));
    TRY(move_tail(p, first));
    return WEFT_OK;
}

/* ---- the folder */

static void add_split(struct weft_result *r, const char *split, const struct weft_split *s)
{
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {{"documents", s->documents}, {"tokens", s->tokens}, {"bytes", s->bytes}, {"files", s->files}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_%s", split, rows[i].name);
        weft_result_int(r, name, rows[i].value);
    }
}

static enum weft_status print_data(const struct prepare *p, const char *tokenizer, FILE *f)
{
    struct weft_result *r = weft_result_create();
    weft_result_int(r, "version", 1);
    weft_result_int(r, "vocab", weft_tokenizer_vocab(p->how->tokenizer));
    weft_result_int(r, "end", weft_tokenizer_end(p->how->tokenizer));
    weft_result_text(r, "tokenizer_sha256", tokenizer);
    weft_result_text(r, "val_by", p->how->field ? "hash of document" : "tail of file");
    weft_result_real(r, "val_share", p->how->val_share);
    weft_result_int(r, "documents", p->sum->documents);
    weft_result_int(r, "bytes", p->sum->bytes);
    add_split(r, "train", &p->sum->train);
    add_split(r, "val", &p->sum->val);
    return weft_result_finish(r, f, true);
}

static enum weft_status write_data(struct prepare *p)
{
    char path[4096], hash[65];
    snprintf(path, sizeof path, "%s/tokenizer.json", p->folder);
    TRY(weft_tokenizer_save(p->how->tokenizer, path));
    TRY(weft_path_sync(path));
    TRY(weft_sha256_file(path, hash));
    snprintf(path, sizeof path, "%s/data.json", p->folder);
    FILE *f = fopen(path, "wb");
    if (!f)
        return FAIL(WEFT_IO, "%s cannot be written: %s", path, strerror(errno));
    enum weft_status status = print_data(p, hash, f);
    fclose(f);
    if (status == WEFT_OK)
        status = weft_path_sync(path);
    return status;
}

static void remove_folder(const char *folder)
{
    DIR *d = opendir(folder);
    if (!d)
        return;
    for (const struct dirent *e; (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(folder);
}

static enum weft_status publish(const struct prepare *p)
{
    char parent[4000];
    snprintf(parent, sizeof parent, "%s", p->folder);
    char *slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent] = 0; /* keep the slash of "/x" */
    TRY(weft_path_sync(p->folder));
    if (rename(p->folder, p->how->out))
        return FAIL(WEFT_IO, "%s cannot be renamed to %s: %s", p->folder, p->how->out, strerror(errno));
    TRY(weft_path_sync(slash ? parent : "."));
    return WEFT_OK;
}

/* ---- entry point */

static enum weft_status check(const struct weft_prepare *how)
{
    struct stat s;
    if (!(how->val_share >= 0 && how->val_share < 1))
        return FAIL(WEFT_INVALID, "a validation fraction of %g is out of range: expected at least 0 and less than 1",
                    how->val_share);
    if (how->shard_tokens < 1 || how->shard_tokens > INT32_MAX)
        return FAIL(WEFT_INVALID, "%lld tokens per file is out of range: expected 1 to %d",
                    (long long)how->shard_tokens, INT32_MAX);
    if (lstat(how->out, &s) == 0)
        return FAIL(WEFT_INVALID, "%s exists already: remove it or choose another folder", how->out);
    return WEFT_OK;
}

static enum weft_status make_folder(struct prepare *p)
{
    size_t n = strlen(p->how->out);
    while (n > 1 && p->how->out[n - 1] == '/')
        n--;
    if (n == 0 || n + sizeof ".partial" > sizeof p->folder)
        return FAIL(WEFT_INVALID, "\"%s\" is not a folder name: it is empty or too long", p->how->out);
    snprintf(p->folder, sizeof p->folder, "%.*s.partial", (int)n, p->how->out);
    TRY(weft_folder_make_parents(p->folder));
    if (mkdir(p->folder, 0777) == 0)
        return WEFT_OK;
    if (errno == EEXIST)
        return FAIL(WEFT_IO,
                    "%s exists: another process is writing it, or was killed while writing it; in the latter case, "
                    "remove the folder",
                    p->folder);
    return FAIL(WEFT_IO, "%s cannot be created: %s", p->folder, strerror(errno));
}

static enum weft_status finish_split(struct split *s)
{
    TRY(weft_writer_finish(&s->writer));
    s->sum->tokens = s->writer.tokens;
    s->sum->files = weft_writer_files(&s->writer);
    return WEFT_OK;
}

static enum weft_status index_split(const struct prepare *p, const char *split)
{
    struct weft_shards *s;
    TRY(weft_shards_open(&s, p->folder, split));
    enum weft_status status = weft_shards_index(s, NULL, NULL);
    weft_shards_close(s);
    return status;
}

static enum weft_status fill_folder(struct prepare *p)
{
    int width = weft_tokenizer_vocab(p->how->tokenizer) > 1 << 16 ? 4 : 2;
    TRY(weft_writer_init(&p->train.writer, p->folder, "train", width, p->how->shard_tokens));
    TRY(weft_writer_init(&p->val.writer, p->folder, "val", width, p->how->shard_tokens));
    for (const char *const *path = p->how->inputs; *path; path++) {
        struct weft_source *s;
        TRY(weft_source_open(&s, *path));
        enum weft_status status = read_source(p, s);
        weft_source_close(s);
        if (status != WEFT_OK)
            return status;
    }
    TRY(finish_split(&p->train));
    TRY(finish_split(&p->val));
    if (p->sum->train.tokens == 0)
        return FAIL(WEFT_INVALID, "no text is left to train on: the inputs are empty, or all text went to validation");
    TRY(write_data(p));
    TRY(index_split(p, "train"));
    if (p->sum->val.tokens > 0)
        TRY(index_split(p, "val"));
    TRY(publish(p));
    return WEFT_OK;
}

enum weft_status weft_prepare(const struct weft_prepare *how, struct weft_prepared *sum)
{
    *sum = (struct weft_prepared){0};
    struct prepare p = {.how = how, .sum = sum, .train.sum = &sum->train, .val.sum = &sum->val};
    TRY(check(how));
    enum weft_status status = make_folder(&p);
    if (status == WEFT_OK) {
        status = fill_folder(&p);
        if (status != WEFT_OK)
            remove_folder(p.folder);
    }
    weft_writer_release(&p.train.writer);
    weft_writer_release(&p.val.writer);
    free(p.ids.id);
    return status;
}
