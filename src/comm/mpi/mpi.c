/* SPDX-License-Identifier: MIT
 *
 * mpi.c - exchanges messages between the processes of an MPI job. This is the only file that uses MPI. It is built as a
 * module, once for each MPI implementation, and loaded by comm/module.c.
 *
 * MPI would spin while waiting and take a core from computing threads, so waits use short sleeps instead.
 */
#define _GNU_SOURCE
#include "comm/comm.h"

#include <mpi.h>
#include <stdlib.h>
#include <time.h>

static char wrong[MPI_MAX_ERROR_STRING + 1];

static const char *explain(int error)
{
    int length;
    if (error == MPI_SUCCESS)
        return NULL;
    if (MPI_Error_string(error, wrong, &length) != MPI_SUCCESS)
        return "an error that MPI does not explain";
    return wrong;
}

/* Polls for a while, then sleeps between polls. */
static int wait_for(MPI_Request requests[2])
{
    enum { POLLS = 200 };
    MPI_Status statuses[2];
    for (int poll = 0;; poll++) {
        int done, error = MPI_Testall(2, requests, &done, statuses);
        if (error != MPI_SUCCESS || done)
            return error;
        if (poll > POLLS)
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

static const char *exchange(void *state, struct weft_message send, struct weft_message receive)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int error = MPI_SUCCESS;
    (void)state;
    if (receive.bytes)
        error = MPI_Irecv(receive.data, (int)receive.bytes, MPI_BYTE, receive.rank, 0, MPI_COMM_WORLD, &requests[0]);
    if (error == MPI_SUCCESS && send.bytes)
        error = MPI_Isend(send.data, (int)send.bytes, MPI_BYTE, send.rank, 0, MPI_COMM_WORLD, &requests[1]);
    return explain(error == MPI_SUCCESS ? wait_for(requests) : error);
}

static void end(void *state, bool failed)
{
    (void)state;
    if (failed)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
}

/* By default, Open MPI sends a large message over TCP as a whole once the receiver has requested it. The request queues
 * behind the receiver's own message, so two ranks that exchange messages take turns, at half the bandwidth. */
static void prefer_both_ways(void) { setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0); }

static const char *start(struct weft_comm_backend *backend, void **state, int *rank, int *size)
{
    prefer_both_ways();
    int provided, error = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    *state = NULL;
    *backend = (struct weft_comm_backend){"MPI", exchange, end};
    if (error == MPI_SUCCESS && provided < MPI_THREAD_SERIALIZED)
        return "this MPI cannot be called from several threads";
    if (error == MPI_SUCCESS)
        error = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_rank(MPI_COMM_WORLD, rank);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_size(MPI_COMM_WORLD, size);
    return explain(error);
}

__attribute__((visibility("default"))) const struct weft_comm_module weft_comm_module = {WEFT_COMM_MODULE, start};
