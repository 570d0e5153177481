/* SPDX-License-Identifier: MIT
 *
 * scratch.c - temporary folders of gates that write runs and checkpoints: in memory if possible.
 */
#define _GNU_SOURCE
#include "check/stepped.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum weft_status weft_scratch_make(char folder[256])
{
    const char *own = getenv("TMPDIR"), *in[] = {own && *own ? own : "/dev/shm", "/tmp"};
    for (int i = 0; i < 2; i++) {
        snprintf(folder, 256, "%s/weft-XXXXXX", in[i]);
        if (mkdtemp(folder))
            return WEFT_OK;
    }
    return FAIL(WEFT_IO, "no temporary folder can be made in %s or /tmp: %s. Set TMPDIR to a folder", in[0],
                strerror(errno));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

void weft_scratch_remove(const char *folder) { nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS); }
