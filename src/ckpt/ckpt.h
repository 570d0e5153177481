/* SPDX-License-Identifier: MIT
 *
 * ckpt.h - checkpoints: safetensors files, and folders that are written whole or not at all.
 *
 * Invariants:
 *  - What stands under its final name is complete: it was written under another name, synced, renamed, and the folder
 *    that holds it synced. What a kill leaves behind has a name of its own and is swept away by the next save.
 *  - Success means durable: after WEFT_OK a power cut takes nothing back.
 *  - Every tensor has a checksum, compared before its values are used; every size in a file is checked before use. Any
 *    bytes are safe to open.
 *  - One process at a time writes into a run's folder.
 */
#ifndef WEFT_CKPT_H
#define WEFT_CKPT_H

#include "tensor/tensor.h"

/* ---- files (file.c): the old one or the new one, whole, at any moment */

struct weft_file {
    int fd;
    char path[4096]; /* where it will stand; until then it is path.writing */
};

enum weft_status weft_file_begin(struct weft_file *f, const char *path);
enum weft_status weft_file_add(struct weft_file *f, const void *data, size_t bytes);
/* Renames the file to its final name if everything succeeded so far, else removes it; returns the first failure. Every
 * file that began must end. */
enum weft_status weft_file_end(struct weft_file *f, enum weft_status so_far);
/* The same for several files: if one of them cannot be replaced, none is. Only a kill or a power cut between the
 * renames can leave old files beside new ones, each of them whole. */
enum weft_status weft_files_end(const struct weft_file *files, int count, enum weft_status so_far);
/* All of that for a small file: config.json, the head of a log. */
enum weft_status weft_file_replace(const char *path, const void *data, size_t bytes);

/* ---- checksums (checksum.c) */

/* Of `bytes` bytes after what `before` stands for (0: nothing). Differs for certain when the bytes differ within one
 * aligned group of four, or when two such groups changed places; else it is equal with probability 2^-61 times the
 * length. Below 2^61. */
uint64_t weft_checksum(uint64_t before, const void *data, size_t bytes);

/* ---- safetensors (safetensors.c, safetensors_write.c) */

struct weft_entry {
    const char *name;
    enum weft_dtype dtype;
    int ndim;
    int64_t dim[WEFT_MAX_DIMS];
    const void *data; /* in row-major order; in a file that was opened, aligned only if its writer cared */
    /* Of files that were opened; the writer ignores them: */
    size_t bytes;
    const char *foreign; /* NULL, or the type's name where it is none of ours ("F16"): then only the bytes are known */
};

/* Writes a file as weft_file does, without a copy of the data. The metadata are pairs of texts that end with NULL, or
 * NULL; names that begin with "weft.checksum" are the writer's own. */
enum weft_status weft_safetensors_write(const char *path, const struct weft_entry *entries, int count,
                                        const char *const *metadata);

/* A mapped file: what is not used costs no memory. Files under their final names are replaced, never changed; one that
 * somebody cuts short while it is open ends the process. */
struct weft_safetensors;

enum weft_status weft_safetensors_open(struct weft_safetensors **f, const char *path);
void weft_safetensors_close(struct weft_safetensors *f); /* NULL is fine */
int weft_safetensors_count(const struct weft_safetensors *f);
const struct weft_entry *weft_safetensors_at(const struct weft_safetensors *f, int i); /* in order of names */
const struct weft_entry *weft_safetensors_find(const struct weft_safetensors *f, const char *name); /* NULL: none */
const char *weft_safetensors_metadata(const struct weft_safetensors *f, const char *name);          /* NULL: none */
/* Compares a tensor, or all of them when `e` is NULL, with its checksum. A file of another program has none and passes;
 * in ours every tensor must have one. */
enum weft_status weft_safetensors_verify(const struct weft_safetensors *f, const struct weft_entry *e);
/* Finds a tensor that must have the shape of `to`, verifies it, and copies it there, converted between float types. */
enum weft_status weft_safetensors_read(const struct weft_safetensors *f, const char *name,
                                       const struct weft_tensor *to);
/* Opens a file, verifies all of it, closes it. */
enum weft_status weft_safetensors_check(const char *path);

/* ---- folders (folder.c): RUN/step-000000100, which holds files and no folders */

/* Makes RUN if there is none, removes what a kill left there, and makes an empty folder for the caller to write files
 * into. Its path is written to `path`, which has `room` bytes. */
enum weft_status weft_ckpt_begin(const char *run, int64_t step, char *path, size_t room);
/* Makes that folder RUN/step-STEP, in the place of one that there may be; then removes, of the steps before it, all but
 * the last `keep` - 1. A failure before the folder stands leaves the run as it was. */
enum weft_status weft_ckpt_commit(const char *run, int64_t step, int keep);
/* The newest checkpoint that verify (NULL: none) accepts; damaged ones are skipped with a notice (weft_note_once). Step
 * -1: there is none, or no such run. Running out of memory is no damage: it ends the search and fails. */
enum weft_status weft_ckpt_latest(const char *run, enum weft_status (*verify)(const char *path, void *context),
                                  void *context, int64_t *step, char *path, size_t room);

#endif
