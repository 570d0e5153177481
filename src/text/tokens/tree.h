/* SPDX-License-Identifier: MIT
 *
 * tree.h - hash trees of token files: SHA-256 over blocks of 64 KiB, combined as in RFC 6962 and stored in a file next
 * to the token file. The root identifies the content. A block is checked against the root when it is first read, so
 * opening terabytes takes no time, and data that does not match the root is never used.
 *
 *     leaf = SHA-256(0, block)    node = SHA-256(1, left, right); a last node without a partner moves up unchanged
 *
 * FILE.tree: a header of 64 bytes ("WEFTTREE", version 1 and the size of a block, 32-bit; the size of FILE, 64-bit, all
 * little-endian; the root; 8 zeros), then all levels, from the leaves up, 32 bytes each.
 */
#ifndef WEFT_TEXT_TREE_H
#define WEFT_TEXT_TREE_H

#include "base/base.h"

struct weft_tree;
/* Called after every 256 MiB, with the number of bytes done and the total. */
typedef void weft_tree_fn(void *context, int64_t done, int64_t all);

/* Opens FILE.tree for FILE, which has `bytes` bytes; *t is NULL if there is none. Free it even after a failure. */
enum weft_status weft_tree_open(struct weft_tree **t, const char *file, size_t bytes);
/* Computes the tree of mapped data and writes it. If it cannot be written, it stays in memory, and *written is
 * false. */
enum weft_status weft_tree_make(struct weft_tree **t, const char *file, void *data, size_t bytes,
                                weft_tree_fn *progress, void *context, bool *written);
/* Checks the blocks that contain bytes first .. first + count - 1, unless they were checked before. */
enum weft_status weft_tree_check(struct weft_tree *t, const char *file, const void *data, size_t first, size_t count);
void weft_tree_root(const struct weft_tree *t, unsigned char root[32]);
void weft_tree_free(struct weft_tree *t);

#endif
