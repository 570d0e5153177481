/* SPDX-License-Identifier: MIT
 *
 * archive.h - writes a .tar.zst whose bytes depend only on names and contents, not on times, owners or permissions.
 */
#ifndef WEFT_ARCHIVE_H
#define WEFT_ARCHIVE_H

#include "base/base.h"

struct weft_archive;
/* The file appears only when the archive is finished; after a failure, an existing file is unchanged. Call
 * weft_archive_free() also after a failure. */
enum weft_status weft_archive_create(struct weft_archive **a, const char *path);
/* `name` is relative; `hash` becomes the SHA-256 of the content. */
enum weft_status weft_archive_add_file(struct weft_archive *a, const char *name, const char *path, char hash[65]);
enum weft_status weft_archive_add_text(struct weft_archive *a, const char *name, const char *text, char hash[65]);
enum weft_status weft_archive_finish(struct weft_archive *a);
void weft_archive_free(struct weft_archive *a);

#endif
