/* SPDX-License-Identifier: MIT
 *
 * ledger.c - reads and appends to runs.jsonl, which has a line per finished run.
 *
 * A line counts once it ends with a newline; the function that appends a line returns after syncing it to disk. Several
 * processes may add lines at the same time: each locks the file while it writes.
 */
#define _GNU_SOURCE
#include "base/fields.h"
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "study/study.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The fields of a line, for reading and for writing. */
enum type { NAME, HASH, OPTIONAL_HASH, WHOLE, SMALL, REAL };
static const struct field {
    const char *name;
    enum type type;
    size_t offset;
} fields[] = {
#define FIELD(name, type)                                                                                              \
    {                                                                                                                  \
#name, type, offsetof(struct weft_finished, name)                                                              \
    }
    FIELD(arm, NAME),
    FIELD(lr, REAL),
    FIELD(seed, WHOLE),
    FIELD(config_sha256, HASH),
    FIELD(program_sha256, HASH),
    FIELD(weights_sha256, HASH),
    FIELD(stream_sha256, OPTIONAL_HASH),
    FIELD(chain, OPTIONAL_HASH),
    FIELD(isa, NAME),
    FIELD(steps, WHOLE),
    FIELD(params, WHOLE),
    FIELD(threads, SMALL),
    FIELD(train_loss, REAL),
    FIELD(val_loss, REAL),
    FIELD(val_accuracy, REAL),
    FIELD(test_loss, REAL),
    FIELD(test_accuracy, REAL),
    FIELD(tokens_per_s, REAL),
    FIELD(seconds, REAL),
};
enum { FIELDS = sizeof fields / sizeof *fields };

static enum weft_status ledger_path(const char *folder, char path[4096])
{
    if (snprintf(path, 4096, "%s/runs.jsonl", folder) >= 4096)
        return FAIL(WEFT_INVALID, "the path of the study's folder is too long");
    return WEFT_OK;
}

void weft_run_folder(const char *arm, double lr, int64_t seed, char folder[256])
{
    char text[40];
    weft_json_real(lr, text, sizeof text);
    snprintf(folder, 256, "runs/%s/lr-%s-seed-%lld", arm, text, (long long)seed);
}

/* ---- reading */

static void read_text(struct weft_fields *f, const struct field *field, char *to)
{
    const char *text = weft_field_text(f, field->name);
    bool name = field->type == NAME;
    if (name ? weft_is_arm_name(text) : weft_is_sha256(text))
        memcpy(to, text, strlen(text) + 1);
    else
        weft_field_refuse(f, field->name,
                          name ? "is not a name: expected letters, digits, - and _" : "is not a SHA-256");
}

static enum weft_status read_line(const char *path, int64_t number, const char *line, size_t bytes,
                                  struct weft_finished *run)
{
    char where[4200];
    json_t *object;
    snprintf(where, sizeof where, "%s:%lld", path, (long long)number);
    TRY(weft_fields_line(path, number, line, bytes, &object));
    struct weft_fields f = {.object = object, .where = where};
    for (int i = 0; i < FIELDS; i++) {
        char *to = (char *)run + fields[i].offset;
        if (fields[i].type == WHOLE)
            *(int64_t *)to = weft_field_int(&f, fields[i].name, 0, INT64_MAX);
        else if (fields[i].type == SMALL)
            *(int *)to = (int)weft_field_int(&f, fields[i].name, 0, 4096);
        else if (fields[i].type == REAL)
            *(double *)to = weft_field_real(&f, fields[i].name);
        else if (fields[i].type != OPTIONAL_HASH || json_object_get(object, fields[i].name))
            read_text(&f, &fields[i], to);
    }
    json_decref(object);
    return f.status;
}

/* Doubles the capacity and copies the entries. */
static enum weft_status grow(struct weft_arena *arena, struct weft_finished **list, int64_t count)
{
    struct weft_finished *more = weft_arena_alloc(arena, (size_t)weft_max(64, 2 * count) * sizeof **list);
    if (!more)
        return WEFT_NOMEM;
    if (count)
        memcpy(more, *list, (size_t)count * sizeof **list);
    *list = more;
    return WEFT_OK;
}

static enum weft_status read_lines(FILE *file, const char *path, struct weft_arena *arena, struct weft_finished **list,
                                   int64_t *count)
{
    struct weft_lines lines = {.file = file, .path = path};
    enum weft_status status = weft_lines_next(&lines);
    while (status == WEFT_OK && lines.bytes && lines.text[lines.bytes - 1] == '\n') {
        if (*count == 0 || (*count >= 64 && (*count & (*count - 1)) == 0))
            status = grow(arena, list, *count);
        if (status == WEFT_OK)
            status = read_line(path, lines.number, lines.text, lines.bytes - 1, &(*list)[*count]);
        ++*count;
        if (status == WEFT_OK)
            status = weft_lines_next(&lines);
    }
    weft_lines_release(&lines);
    return status;
}

enum weft_status weft_ledger_read(const char *folder, struct weft_arena *arena, struct weft_finished **list,
                                  int64_t *count)
{
    char path[4096];
    *list = NULL;
    *count = 0;
    TRY(ledger_path(folder, path));
    FILE *file;
    if (access(path, F_OK) && errno == ENOENT)
        return WEFT_OK; /* nothing finished yet */
    TRY(weft_input_open(path, &file));
    enum { MOST = 1 << 26 };
    struct stat st;
    enum weft_status status =
        fstat(fileno(file), &st) || st.st_size <= MOST
            ? WEFT_OK
            : FAIL(WEFT_FORMAT, "%s has %lld bytes, but the limit is %d", path, (long long)st.st_size, MOST);
    if (status == WEFT_OK)
        status = read_lines(file, path, arena, list, count);
    fclose(file);
    return status;
}

/* ---- adding */

/* Rejects values that could not be read back. */
static enum weft_status print_run(const struct weft_finished *run, FILE *to)
{
    for (int i = 0; i < FIELDS; i++) {
        const char *from = (const char *)run + fields[i].offset;
        char real[40];
        if (fields[i].type == OPTIONAL_HASH && !*from)
            continue;
        fprintf(to, "%s\"%s\": ", i ? ", " : "{", fields[i].name);
        if (fields[i].type == WHOLE)
            fprintf(to, "%lld", (long long)*(const int64_t *)from);
        else if (fields[i].type == SMALL)
            fprintf(to, "%d", *(const int *)from);
        else if (fields[i].type == REAL) {
            if (!isfinite(*(const double *)from))
                return FAIL(WEFT_INVALID, "the run %s, seed %lld, has a non-finite %s", run->arm, (long long)run->seed,
                            fields[i].name);
            weft_json_real(*(const double *)from, real, sizeof real);
            fputs(real, to);
        } else {
            if (fields[i].type == NAME ? !weft_is_arm_name(from) : !weft_is_sha256(from))
                return FAIL(WEFT_INVALID, "the %s of a run is \"%s\", which cannot be read back", fields[i].name, from);
            fprintf(to, "\"%s\"", from);
        }
    }
    fputs("}\n", to);
    return WEFT_OK;
}

/* Truncates the file after its last newline. */
static enum weft_status cut(int fd, const char *path)
{
    char piece[4096];
    off_t end = lseek(fd, 0, SEEK_END), at = end;
    while (at > 0) {
        off_t from = at > (off_t)sizeof piece ? at - (off_t)sizeof piece : 0;
        ssize_t n = pread(fd, piece, (size_t)(at - from), from);
        if (n != at - from)
            return FAIL(WEFT_IO, "%s cannot be read: %s", path, strerror(errno));
        const char *newline = memrchr(piece, '\n', (size_t)n);
        at = newline ? from + (newline - piece) + 1 : from;
        if (newline)
            break;
    }
    if (end < 0 || (at < end && ftruncate(fd, at)))
        return FAIL(WEFT_IO, "%s cannot be truncated: %s", path, strerror(errno));
    return WEFT_OK;
}

static enum weft_status append(int fd, const char *path, const char *line, size_t bytes)
{
    if (flock(fd, LOCK_EX))
        return FAIL(WEFT_IO, "%s cannot be locked: %s", path, strerror(errno));
    TRY(cut(fd, path));
    while (bytes) {
        ssize_t n = write(fd, line, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return FAIL(WEFT_IO, "%s cannot be written: %s", path, strerror(errno));
        line += n;
        bytes -= (size_t)n;
    }
    if (fsync(fd))
        return FAIL(WEFT_IO, "%s could not be synced to disk: %s", path, strerror(errno));
    return WEFT_OK;
}

static enum weft_status add_line(const char *folder, const char *line, size_t bytes)
{
    char path[4096];
    TRY(ledger_path(folder, path));
    bool fresh = access(path, F_OK) != 0;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return FAIL(WEFT_IO, "%s cannot be opened: %s", path, strerror(errno));
    enum weft_status status = append(fd, path, line, bytes);
    close(fd);
    if (status == WEFT_OK && fresh)
        status = weft_path_sync(folder);
    return status;
}

enum weft_status weft_ledger_add(const char *folder, const struct weft_finished *run)
{
    char *line = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&line, &bytes);
    enum weft_status status = to ? print_run(run, to) : WEFT_OK;
    if (!to || !weft_output_close(to))
        status = FAIL(WEFT_NOMEM, "not enough memory for a line of the ledger");
    if (status == WEFT_OK)
        status = add_line(folder, line, bytes);
    free(line);
    return status;
}
