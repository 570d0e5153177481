/* SPDX-License-Identifier: MIT
 *
 * scratch.c - temporary folders, in memory if possible, for gates that write runs and checkpoints.
 *
 * A folder is locked while its process lives. The folder of a killed process is removed when the next is created.
 */
#define _GNU_SOURCE
#include "check/probe/gate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char prefix[] = "weft-gates-";
enum { MOMENT = 60 }; /* age in seconds up to which a new folder may not be locked yet */

/* Returns whether the folder belongs to this user, is old enough, and is not locked by a process. Closing it releases
 * the lock. */
static bool is_left_behind(const char *folder)
{
    struct stat st;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    bool left = fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && st.st_mtime + MOMENT < time(NULL) &&
                flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        close(fd);
    return left;
}

static void remove_left_behind(const char *in)
{
    char path[512];
    DIR *dir = opendir(in);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(path, sizeof path, "%.200s/%.255s", in, e->d_name);
        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 && is_left_behind(path) &&
            weft_folder_remove(path) != WEFT_OK)
            weft_error_clear(); /* another process may be removing it */
    }
    if (dir)
        closedir(dir);
}

enum weft_status weft_scratch_make(struct weft_scratch *s)
{
    const char *own = getenv("TMPDIR"), *in[] = {own && *own ? own : "/dev/shm", "/tmp"};
    for (int i = 0; i < 2; i++) {
        remove_left_behind(in[i]);
        snprintf(s->folder, sizeof s->folder, "%.200s/%sXXXXXX", in[i], prefix);
        if (mkdtemp(s->folder)) {
            s->lock = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (s->lock >= 0)
                flock(s->lock, LOCK_SH | LOCK_NB);
            return WEFT_OK;
        }
    }
    return FAIL(WEFT_IO, "cannot create a temporary folder in %s or /tmp: %s. Set TMPDIR to a writable folder", in[0],
                strerror(errno));
}

void weft_scratch_remove(const struct weft_scratch *s)
{
    if (weft_folder_remove(s->folder) != WEFT_OK)
        weft_error_clear();
    if (s->lock >= 0)
        close(s->lock);
}
