/* SPDX-License-Identifier: MIT
 *
 * module.c - joins and leaves a job: finds the launcher that started this process, and loads the module of its MPI.
 *
 * If the launcher belongs to a different MPI, each process is alone in its MPI world and would train a separate model.
 * So the size of the world must match the launcher's number of processes.
 */
#define _GNU_SOURCE
#include "comm/comm.h"
#include "comm/watch.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Environment variables that launchers set for each process; `weft launch` sets the first. */
static const char *const sizes[] = {"WEFT_RANKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
static const char *const modules[] = {"weft-openmpi.so", "weft-mpich.so"};

bool weft_comm_launched(int *size)
{
    *size = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && *size < 2; i++) {
        const char *text = getenv(sizes[i]);
        *size = text ? atoi(text) : 1;
    }
    return *size > 1;
}

/* Returns whether MPICH's launcher started the process, not Open MPI's. */
static bool started_by_mpich(void) { return getenv("PMI_SIZE") && !getenv("OMPI_COMM_WORLD_SIZE"); }

/* Writes the path of a module: in the folder WEFT_MODULES, next to the program, or in ../lib/weft. */
static bool name_module(int place, const char *name, char *path, size_t room)
{
    const char *folder = getenv("WEFT_MODULES");
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = 0;
    if (place == 0 && folder)
        snprintf(path, room, "%s/%s", folder, name);
    else if (place == 1)
        snprintf(path, room, "%s/%s", program, name);
    else if (place == 2)
        snprintf(path, room, "%s/../lib/weft/%s", program, name);
    else
        return false;
    return access(path, R_OK) == 0;
}

/* The symbols are loaded as global, because Open MPI loads parts of itself that need them. */
static enum weft_status load_module(const char *path, const struct weft_comm_module **module)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    const struct weft_comm_module *m = handle ? dlsym(handle, "weft_comm_module") : NULL;
    if (!m)
        return FAIL(WEFT_IO, "%s cannot be loaded: %s", path, dlerror());
    if (m->version != WEFT_COMM_MODULE)
        return FAIL(WEFT_INVALID, "%s was built for a different version of Weft: rebuild it", path);
    *module = m;
    return WEFT_OK;
}

static enum weft_status find_module(const struct weft_comm_module **module)
{
    char path[2 * PATH_MAX];
    for (int i = 0; i < 2; i++)
        for (int place = 0; place < 3; place++)
            if (name_module(place, modules[started_by_mpich() ? 1 - i : i], path, sizeof path))
                return load_module(path, module);
    return FAIL(WEFT_INVALID, "there is no MPI module next to the program: build it with `make mpi` (tools/deps.sh "
                              "installs the packages), or set WEFT_MODULES to its folder. A single process needs none");
}

static enum weft_status start(struct weft_comm *c)
{
    const struct weft_comm_module *module;
    int asked;
    weft_comm_launched(&asked);
    TRY(find_module(&module));
    const char *wrong = module->start(&c->backend, &c->state, &c->rank, &c->size);
    if (wrong)
        return FAIL(WEFT_IO, "MPI cannot start: %s", wrong);
    if (c->size != asked)
        return FAIL(WEFT_INVALID,
                    "the launcher started %d processes, but %s sees %d: the launcher belongs to a different MPI, or is "
                    "srun without --mpi=pmix",
                    asked, c->backend.name, c->size);
    return WEFT_OK;
}

enum weft_status weft_comm_start(struct weft_comm *c, const struct weft_patience *patience)
{
    *c = (struct weft_comm){.size = 1, .phase = "starting MPI", .waits_for = WEFT_EVERYBODY};
    atomic_store(&c->waits_since, weft_seconds());
    TRY(weft_watch_start(c, patience));
    TRY(start(c));
    atomic_store(&c->waits_since, 0);
    TRY(weft_watch_join(c));
    return WEFT_OK;
}

void weft_comm_end(struct weft_comm *c, bool failed)
{
    c->phase = failed ? "ending the other ranks" : "leaving the other ranks";
    atomic_store(&c->waits_for, WEFT_EVERYBODY);
    atomic_store(&c->waits_since, weft_seconds());
    weft_watch_leave(c, failed);
    if (c->backend.end)
        c->backend.end(c->state, failed);
    weft_watch_end(c);
    *c = (struct weft_comm){.size = 1};
}
