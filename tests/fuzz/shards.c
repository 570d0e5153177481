/* SPDX-License-Identifier: MIT
 *
 * shards.c - any bytes as a token file: if it opens, every token can be read and none is above the maximum.
 */
#define _GNU_SOURCE
#include "text/text.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void read_all(const struct weft_shards *s)
{
    int32_t tokens[7];
    int64_t all = weft_shards_tokens(s);
    for (int64_t first = 0; first < all; first += 5) {
        int64_t n = weft_min(7, all - first);
        if (weft_shards_read(s, first, n, tokens) != WEFT_OK)
            abort();
        for (int64_t i = 0; i < n; i++)
            if (tokens[i] < 0 || tokens[i] > weft_shards_max_token(s))
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_shards *s = NULL;
    char path[64];
    int fd = memfd_create("tokens", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (weft_shards_open(&s, path, "train") == WEFT_OK)
        read_all(s);
    weft_shards_close(s);
    close(fd);
    return 0;
}
