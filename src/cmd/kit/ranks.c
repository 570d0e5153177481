/* SPDX-License-Identifier: MIT
 *
 * ranks.c - joins and leaves the ranks of a job.
 */
#include "cmd/kit/ranks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_all(int fd, const char *text) { (void)!write(fd, text, strlen(text)); }

/* Runs in the watchdog's thread. The other threads may hold any lock, so this function calls nothing that takes a lock.
 * `weft launch` reads the file WEFT_STALL_REPORT, because mpirun may itself wait for a lost host. The launcher ends all
 * ranks when the first exits, so this one first waits until the others have reported what they know. */
static void end_stalled(void *context, int lost, const char *what)
{
    char text[600], line[40];
    const char *report = getenv("WEFT_STALL_REPORT");
    (void)context;
    snprintf(text, sizeof text, "weft: %s\n", what);
    write_all(STDERR_FILENO, text);
    int fd = report ? open(report, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    snprintf(line, sizeof line, "%d\n", lost);
    if (fd >= 0)
        write_all(fd, line);
    sleep(1);
    _exit(WEFT_EXIT_STALLED);
}

enum weft_status weft_ranks_join(struct weft_comm *comm, double stall)
{
    return weft_comm_start(comm, &(struct weft_patience){stall, end_stalled, NULL});
}

/* A failing rank ends the others, which would wait for it. The rank with the actual error ends first and pauses after
 * its message, because a launcher may lose output that it has not forwarded when the ranks end. */
void weft_ranks_leave(struct weft_comm *comm, enum weft_status status)
{
    bool failed = status != WEFT_OK && status != WEFT_STOPPED;
    if (failed && comm->other_failed)
        sleep(1);
    if (failed && comm->backend.end) {
        weft_say(stderr, "weft: rank %d of %d: %s\n", comm->rank, comm->size, weft_error());
        sleep(1);
    }
    weft_comm_end(comm, failed);
}
