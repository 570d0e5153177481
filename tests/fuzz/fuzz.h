/* SPDX-License-Identifier: MIT
 *
 * fuzz.h - shared by the libFuzzer targets. Each file NAME.c here is one target: `make fuzz-NAME` runs it, starting
 * from the seeds in corpus/NAME. The code under test may reject any input, but must not crash or violate what the
 * target asserts.
 */
#ifndef WEFT_FUZZ_H
#define WEFT_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unlike assert, active in every build. */
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            abort();                                                                                                   \
    } while (0)

/* Whether the data starts with a Zstandard frame or a skippable frame. */
static inline bool fuzz_is_zstd(const uint8_t *data, size_t size)
{
    return size >= 4 && (memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0 || memcmp(data + 1, "\x2a\x4d\x18", 3) == 0);
}

/* The path of an in-memory file with these bytes. The next call overwrites it. */
static inline const char *fuzz_file(const void *data, size_t size)
{
    static int fd = -1;
    static char path[32];
    if (fd < 0)
        fd = memfd_create("fuzz", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    return path;
}

/* ---- a folder of two files, which are links to in-memory files */

static struct {
    char path[64];
    const char *names[2];
    int fds[2];
} fuzz_links;

static inline const char *fuzz_link_path(int i)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", fuzz_links.path, fuzz_links.names[i]);
    return path;
}

static inline void fuzz_folder_remove(void)
{
    for (int i = 0; i < 2; i++)
        unlink(fuzz_link_path(i));
    rmdir(fuzz_links.path);
}

static inline void fuzz_folder_make(const char *first, const char *second)
{
    char target[64];
    snprintf(fuzz_links.path, sizeof fuzz_links.path, "/tmp/weft-fuzz-XXXXXX");
    fuzz_links.names[0] = first;
    fuzz_links.names[1] = second;
    MUST(mkdtemp(fuzz_links.path));
    atexit(fuzz_folder_remove);
    for (int i = 0; i < 2; i++) {
        fuzz_links.fds[i] = memfd_create("fuzz", 0);
        snprintf(target, sizeof target, "/proc/self/fd/%d", fuzz_links.fds[i]);
        MUST(fuzz_links.fds[i] >= 0 && symlink(target, fuzz_link_path(i)) == 0);
    }
}

/* The path of a folder with two files: the bytes before the first zero byte, and those after it. The first call sets
 * the file names. */
static inline const char *fuzz_folder(const char *first, const char *second, const uint8_t *data, size_t size)
{
    const uint8_t *zero = memchr(data, 0, size);
    size_t until = zero ? (size_t)(zero - data) : size, after = until + (zero != NULL);
    if (!fuzz_links.path[0])
        fuzz_folder_make(first, second);
    for (int i = 0; i < 2; i++)
        MUST(ftruncate(fuzz_links.fds[i], 0) == 0);
    MUST(pwrite(fuzz_links.fds[0], data, until, 0) == (ssize_t)until);
    MUST(pwrite(fuzz_links.fds[1], data + after, size - after, 0) == (ssize_t)(size - after));
    return fuzz_links.path;
}

#endif
