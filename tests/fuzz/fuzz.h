/* SPDX-License-Identifier: MIT
 *
 * fuzz.h - for the harnesses of libFuzzer beside it. A file NAME.c here is one harness, run by `make fuzz-NAME`, which
 * begins with the files in corpus/NAME. What is under test may refuse anything, but not crash, and must keep what the
 * harness asserts.
 */
#ifndef WEFT_FUZZ_H
#define WEFT_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Holds in every build, unlike assert. */
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            abort();                                                                                                   \
    } while (0)

/* The path of a file with these bytes, in memory; the next call changes it. */
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

#endif
