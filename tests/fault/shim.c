/* SPDX-License-Identifier: MIT
 *
 * shim.c - simulates a failing disk: loaded with LD_PRELOAD, it intercepts the calls that change files.
 *
 *     WEFT_FAULT_UNDER=FOLDER   intercepts calls on absolute paths below the folder; without it the shim is inactive
 *     WEFT_FAULT_AT=N           fails at the N-th such call, from 1
 *     WEFT_FAULT_HOW=...        how it fails:
 *
 *     fail    the call fails with EIO: a write after half of its bytes, an fsync after losing unsynced data
 *     full    after this nothing can be written or created: ENOSPC, after half of the bytes of a write
 *     short   after this each write is partial, and every second one is interrupted (EINTR)
 *     kill    the process is killed before the call, or in the middle of a write
 *     cut     power failure: the process is killed, every file loses its unsynced data, and names that were created or
 *             changed since their folder was synced are restored; removals are not undone
 *     torn    power failure in which only contents are lost, not names
 *
 * When a call fails, the shim creates the file FOLDER.failed.
 *
 * cut and torn are the two extremes of what a file system may do with names. Overwriting contents in place is not
 * modelled, since no code here does that. fsync is only recorded, not executed, which makes the many runs of a test
 * fast.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX = 256, ROOM = 512 };

/* Names created or changed since their folder was synced, oldest first. Paths are current: renaming a folder also
 * updates the journal. */
static struct change {
    enum { MADE, MOVED, SWAPPED } kind;
    char a[ROOM], b[ROOM]; /* MADE: a; MOVED: from a to b */
    char lost[ROOM];       /* MOVED: a hard link to the file that was replaced at b, or "" */
} journal[MAX];
static int changes;

/* Files that were opened for writing. The descriptors prevent their inodes from being reused. */
static struct file {
    int fd;
    dev_t dev;
    ino_t ino;
    off_t synced;
} files[MAX];
static int file_count;

static const char *under, *how = "";
static long at, calls, links;

__attribute__((constructor)) static void begin(void)
{
    under = getenv("WEFT_FAULT_UNDER");
    how = getenv("WEFT_FAULT_HOW") ? getenv("WEFT_FAULT_HOW") : "";
    at = getenv("WEFT_FAULT_AT") ? atol(getenv("WEFT_FAULT_AT")) : 0;
}

/* The number of calls so far: a program can find out how many points of failure there are. */
long weft_fault_calls(void) { return calls; }

static bool is(const char *what) { return strcmp(how, what) == 0; }

static bool within(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || !path[n]);
}

static bool ours(const char *path) { return under && within(path, under); }

/* ---- files, and how much of them is synced */

static struct file *find(int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return NULL;
    for (int i = 0; i < file_count; i++)
        if (files[i].dev == st.st_dev && files[i].ino == st.st_ino)
            return &files[i];
    return NULL;
}

static void note_file(int fd, bool emptied)
{
    struct stat st;
    struct file *f = find(fd);
    if (!f && file_count == MAX)
        abort();
    if (!f && fstat(fd, &st) == 0) {
        f = &files[file_count++];
        *f = (struct file){fcntl(fd, F_DUPFD_CLOEXEC, 0), st.st_dev, st.st_ino, st.st_size};
    }
    if (f && emptied)
        f->synced = 0;
}

static void drop(const struct file *f)
{
    struct stat st;
    if (fstat(f->fd, &st) == 0 && st.st_size > f->synced && ftruncate(f->fd, f->synced))
        abort();
}

/* ---- names, and which of them are synced */

static void note_change(int kind, const char *a, const char *b, const char *lost)
{
    if (changes == MAX)
        abort();
    struct change *c = &journal[changes++];
    c->kind = kind;
    snprintf(c->a, sizeof c->a, "%s", a);
    snprintf(c->b, sizeof c->b, "%s", b);
    snprintf(c->lost, sizeof c->lost, "%s", lost);
}

static void rewrite(char *path, const char *from, const char *to)
{
    char tail[ROOM];
    if (!within(path, from))
        return;
    snprintf(tail, sizeof tail, "%s", path + strlen(from));
    if (snprintf(path, ROOM, "%s%s", to, tail) >= ROOM)
        abort();
}

/* Replaces `from` with `to` in the paths of the first n changes. */
static void rename_paths(int n, const char *from, const char *to)
{
    for (int i = 0; i < n; i++) {
        rewrite(journal[i].a, from, to);
        rewrite(journal[i].b, from, to);
    }
}

static void swap_paths(int n, const char *a, const char *b)
{
    rename_paths(n, a, "\1");
    rename_paths(n, b, a);
    rename_paths(n, "\1", b);
}

static bool in_folder(const char *path, const char *folder)
{
    const char *slash = strrchr(path, '/');
    return slash && (size_t)(slash - path) == strlen(folder) && strncmp(path, folder, strlen(folder)) == 0;
}

static void settle(const char *folder)
{
    int kept = 0;
    for (int i = 0; i < changes; i++) {
        const struct change *c = &journal[i];
        if (!in_folder(c->kind == MADE ? c->a : c->b, folder))
            journal[kept++] = *c;
        else if (c->lost[0])
            syscall(SYS_unlink, c->lost);
    }
    changes = kept;
}

static void remove_all(const char *path)
{
    char command[ROOM + 16];
    unsetenv("LD_PRELOAD");
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (syscall(SYS_unlink, path) && syscall(SYS_rmdir, path) && errno == ENOTEMPTY && system(command))
        abort();
}

static void undo(int i)
{
    struct change *c = &journal[i];
    if (c->kind == MADE) {
        remove_all(c->a);
    } else if (c->kind == MOVED) {
        syscall(SYS_rename, c->b, c->a);
        rename_paths(i, c->b, c->a);
        if (c->lost[0])
            syscall(SYS_rename, c->lost, c->b);
    } else {
        syscall(SYS_renameat2, AT_FDCWD, c->a, AT_FDCWD, c->b, RENAME_EXCHANGE);
        swap_paths(i, c->a, c->b);
    }
}

/* ---- failures */

static void die(void)
{
    for (int i = 0; !is("kill") && i < file_count; i++)
        drop(&files[i]);
    while (is("cut") && changes)
        undo(--changes);
    kill(getpid(), SIGKILL);
}

static bool deadly(void) { return is("kill") || is("cut") || is("torn"); }

/* Creates FOLDER.failed, so that a test knows that a call failed. */
static bool fail_with(int error)
{
    char path[ROOM];
    snprintf(path, sizeof path, "%s.failed", under);
    syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0666));
    errno = error;
    return true;
}

/* Counts a call. Kills the process if it must die here; else returns whether the call must fail. */
static bool strike(bool makes)
{
    calls++;
    if (calls == at && deadly())
        die();
    if (calls >= at && at && is("full") && makes)
        return fail_with(ENOSPC);
    return calls == at && is("fail") && fail_with(EIO);
}

/* ---- the calls */

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    bool writes = ours(path) && (flags & O_ACCMODE) != O_RDONLY, there = access(path, F_OK) == 0;
    if (writes && strike(true))
        return -1;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (writes && fd >= 0) {
        note_file(fd, !there || flags & O_TRUNC);
        if (!there)
            note_change(MADE, path, "", "");
    }
    return fd;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    static bool interrupted;
    if (!under || !find(fd))
        return syscall(SYS_write, fd, data, bytes);
    long call = calls + 1;
    bool here = at && (call == at ? !is("full") || bytes > 1 : call > at && is("short"));
    if (here && is("short") && (interrupted = !interrupted)) {
        errno = EINTR;
        return -1;
    }
    ssize_t half = here ? syscall(SYS_write, fd, data, (bytes + 1) / 2) : 0;
    if (here && (is("full") || is("short"))) {
        calls++;
        return half;
    }
    if (strike(true))
        return -1;
    return syscall(SYS_write, fd, data, bytes);
}

int fsync(int fd)
{
    char link[64], path[ROOM] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (!under || readlink(link, path, sizeof path - 1) < 0 || !ours(path))
        return (int)syscall(SYS_fsync, fd);
    struct file *f = find(fd);
    if (strike(false)) {
        if (f)
            drop(f);
        errno = EIO;
        return -1;
    }
    struct stat st;
    if (f && fstat(fd, &st) == 0)
        f->synced = st.st_size;
    settle(path);
    return 0;
}

int rename(const char *from, const char *to)
{
    char lost[ROOM] = "";
    struct stat st;
    if (!ours(from))
        return (int)syscall(SYS_rename, from, to);
    if (strike(false))
        return -1;
    if (stat(to, &st) == 0 && S_ISREG(st.st_mode)) {
        snprintf(lost, sizeof lost, "%s.lost-%ld", under, links++);
        syscall(SYS_unlink, lost); /* an earlier process may have left it */
        if (syscall(SYS_link, to, lost))
            abort();
    }
    int result = (int)syscall(SYS_rename, from, to);
    if (result == 0) {
        rename_paths(changes, from, to);
        note_change(MOVED, from, to, lost);
    } else if (lost[0]) {
        int error = errno;
        syscall(SYS_unlink, lost);
        errno = error;
    }
    return result;
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    if (ours(from) && strike(false))
        return -1;
    int result = (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
    if (result == 0 && ours(from)) {
        swap_paths(changes, from, to);
        note_change(SWAPPED, from, to, "");
    }
    return result;
}

int mkdir(const char *path, mode_t mode)
{
    if (ours(path) && strike(true))
        return -1;
    int result = (int)syscall(SYS_mkdir, path, mode);
    if (result == 0 && ours(path))
        note_change(MADE, path, "", "");
    return result;
}

int link(const char *from, const char *to)
{
    if (ours(to) && strike(true))
        return -1;
    int result = (int)syscall(SYS_link, from, to);
    if (result == 0 && ours(to))
        note_change(MADE, to, "", "");
    return result;
}

int unlink(const char *path) { return ours(path) && strike(false) ? -1 : (int)syscall(SYS_unlink, path); }

int rmdir(const char *path) { return ours(path) && strike(false) ? -1 : (int)syscall(SYS_rmdir, path); }
