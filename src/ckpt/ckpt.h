/* SPDX-License-Identifier: MIT
 *
 * ckpt.h - checkpoints: safetensors files, and folders that are written atomically.
 *
 * Invariants:
 *  - A file or folder with its final name is complete: it is written under a temporary name, synced and renamed, and
 *    then its parent folder is synced. The next save removes temporary files left behind by a killed process.
 *  - Success means durable: after WEFT_OK, the data survives a power failure.
 *  - Every tensor has a checksum, which is verified before its values are used. Every size in a file is validated
 *    first, so any file is safe to open.
 *  - Only one process at a time may write to a run's folder.
 */
#ifndef WEFT_CKPT_H
#define WEFT_CKPT_H

#include "tensor/tensor.h"

/* ---- files (file.c): replaced atomically; a reader sees the old file or the new one, never a partial file */

struct weft_file {
    int fd;
    char path[4096]; /* the final path; until weft_file_end, the file is named PATH.writing */
};

enum weft_status weft_file_begin(struct weft_file *f, const char *path);
enum weft_status weft_file_add(struct weft_file *f, const void *data, size_t bytes);
/* Renames the file to its final name if `so_far` is WEFT_OK, else removes it. Returns the first error. Must be called
 * after every weft_file_begin. */
enum weft_status weft_file_end(struct weft_file *f, enum weft_status so_far);
/* Like weft_file_end, but for several files: replaces all of them or none. If the process is killed or the power fails
 * between the renames, a mix of old and new files remains, each of them complete. */
enum weft_status weft_files_end(const struct weft_file *files, int count, enum weft_status so_far);
/* Writes a small file, such as config.json, in one call. */
enum weft_status weft_file_replace(const char *path, const void *data, size_t bytes);

/* ---- checksums (checksum.c) */

/* Returns the checksum of `data`, continued from the checksum `before` (0 to start). The checksum is below 2^61. It
 * always detects a change within one aligned group of four bytes, or a swap of two such groups; other damage is missed
 * with probability (bytes / 4) / 2^61. */
uint64_t weft_checksum(uint64_t before, const void *data, size_t bytes);
/* Compute the same checksum for data that is distributed over several processes in pieces, each a multiple of four
 * bytes long: weft_checksum_piece returns the sum of one piece, weft_checksum_join the sum of two consecutive pieces,
 * and weft_checksum_whole the checksum of all data from the sum of all pieces. */
uint64_t weft_checksum_piece(const void *data, size_t bytes);
uint64_t weft_checksum_join(uint64_t before, uint64_t piece, size_t piece_bytes);
uint64_t weft_checksum_whole(uint64_t before, uint64_t piece, size_t bytes);

/* ---- safetensors (safetensors.c, safetensors_write.c) */

struct weft_entry {
    const char *name;
    enum weft_dtype dtype;
    int ndim;
    int64_t dim[WEFT_MAX_DIMS];
    const void *data; /* row-major; in an opened file, the alignment depends on the program that wrote it */
    /* Set for opened files, ignored by the writer: */
    size_t bytes;
    const char *foreign; /* name of a type that Weft does not support ("F16"); dtype is then not set; else NULL */
    /* For the writer, if `data` is NULL: the weft_checksum_piece of the values, which are written later. */
    uint64_t sum;
};

/* Writes a file atomically, without copying the data. `metadata` is NULL or a NULL-terminated list of names and values;
 * names that start with "weft.checksum" are reserved. */
enum weft_status weft_safetensors_write(const char *path, const struct weft_entry *entries, int count,
                                        const char *const *metadata);

/* Writes values into a file that was written without them and syncs it. `entries` must be those the file was written
 * with. Several processes can fill one file, each with its own pieces. */
struct weft_piece {
    int entry;
    size_t offset; /* offset in bytes from the start of the entry */
    const void *data;
    size_t bytes;
};
enum weft_status weft_safetensors_fill(const char *path, const struct weft_entry *entries, int count,
                                       const struct weft_piece *pieces, int64_t piece_count);

/* A memory-mapped file: unused tensors take no memory. Weft replaces files and never changes them in place. If another
 * program truncates the file while it is open, the process is killed (SIGBUS). */
struct weft_safetensors;

enum weft_status weft_safetensors_open(struct weft_safetensors **f, const char *path);
void weft_safetensors_close(struct weft_safetensors *f); /* may be NULL */
int weft_safetensors_count(const struct weft_safetensors *f);
const struct weft_entry *weft_safetensors_at(const struct weft_safetensors *f, int i);              /* sorted by name */
const struct weft_entry *weft_safetensors_find(const struct weft_safetensors *f, const char *name); /* or NULL */
const char *weft_safetensors_metadata(const struct weft_safetensors *f, const char *name);          /* or NULL */
/* Verifies the checksum of a tensor, or of all tensors if `e` is NULL. In a file written by Weft, every tensor must
 * have a checksum; files written by other programs have none and pass. */
enum weft_status weft_safetensors_verify(const struct weft_safetensors *f, const struct weft_entry *e);
/* Finds a tensor, verifies it and copies it to `to`, which must have the same shape. Converts between float types. */
enum weft_status weft_safetensors_read(const struct weft_safetensors *f, const char *name,
                                       const struct weft_tensor *to);
/* Makes the values of an opened file writable. Changes stay in memory. */
enum weft_status weft_safetensors_thaw(struct weft_safetensors *f);
/* Releases the memory of values that were read; the next access reads the file again. Must not be called after
 * weft_safetensors_thaw. */
void weft_safetensors_drop(const struct weft_safetensors *f);
/* Opens a file and verifies all its tensors. */
enum weft_status weft_safetensors_check(const char *path);

/* ---- folders (folder.c): RUN/step-000000100, which contains only files */

/* Creates RUN if needed, removes leftovers of a killed process, and creates an empty folder for the caller's files.
 * Stores its path in `path`, a buffer of `room` bytes. */
enum weft_status weft_ckpt_begin(const char *run, int64_t step, char *path, size_t room);
/* Renames the folder of weft_ckpt_begin to RUN/step-STEP, replacing an existing one, then removes all earlier
 * checkpoints except the last `keep` - 1. A failure before the rename leaves the run unchanged. */
enum weft_status weft_ckpt_commit(const char *run, int64_t step, int keep);
/* Removes earlier checkpoints and leftovers, in case the process was killed during a previous removal. */
enum weft_status weft_ckpt_prune(const char *run, int64_t step, int keep);
/* Lists the steps of a run's checkpoints, in order. The caller frees the list, even after a failure. */
enum weft_status weft_ckpt_steps(const char *run, int64_t **list, int *count);
/* Finds the newest checkpoint that `verify` (may be NULL) accepts; damaged ones are skipped with a notice
 * (weft_note_once). Sets *step to -1 if there is no checkpoint or no such run. Running out of memory is an error, not
 * damage. */
enum weft_status weft_ckpt_latest(const char *run, enum weft_status (*verify)(const char *path, void *context),
                                  void *context, int64_t *step, char *path, size_t room);

#endif
