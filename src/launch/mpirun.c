/* SPDX-License-Identifier: MIT
 *
 * mpirun.c - finds MPI's launcher and builds its command.
 *
 * Open MPI's launcher notices a lost host only through TCP, which by default takes minutes. With the keepalive options,
 * it notices a loss about as fast as the ranks do.
 */
#define _GNU_SOURCE
#include "launch/launch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {"mpirun.openmpi", "mpirun", "mpirun.mpich"};

static bool find_in_path(const char *name, char path[4096])
{
    const char *at = getenv("PATH");
    if (strchr(name, '/')) {
        snprintf(path, 4096, "%s", name);
        return access(path, X_OK) == 0;
    }
    while (at && *at) {
        size_t n = strcspn(at, ":");
        snprintf(path, 4096, "%.*s/%s", (int)n, at, name);
        if (access(path, X_OK) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* Checks the name of the actual file, to which links such as /etc/alternatives/mpirun lead. */
static bool is_mpich(const char *path)
{
    char *file = realpath(path, NULL);
    const char *slash = file ? strrchr(file, '/') : NULL, *name = slash ? slash + 1 : path;
    bool mpich = strstr(name, "mpich") || strstr(name, "hydra");
    free(file);
    return mpich;
}

enum weft_status weft_mpirun_find(struct weft_mpirun *m, const char *name)
{
    bool found = name && find_in_path(name, m->path);
    for (size_t i = 0; !name && !found && i < sizeof names / sizeof *names; i++)
        found = find_in_path(names[i], m->path);
    if (!found && name)
        return FAIL(WEFT_INVALID, "--mpirun %s: program not found", name);
    if (!found)
        return FAIL(WEFT_INVALID, "none of mpirun.openmpi, mpirun and mpirun.mpich was found: install one with "
                                  "tools/deps.sh, or train in a single process with `weft train`");
    m->mpich = is_mpich(m->path);
    return WEFT_OK;
}

/* ---- the command */

struct list {
    struct weft_arena *arena;
    const char **word; /* NULL: not enough memory */
    int count, room;
};

static void add(struct list *l, const char *word)
{
    if (l->word && l->count + 1 < l->room)
        l->word[l->count++] = word;
    else
        l->word = NULL;
}

static void add_all(struct list *l, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        add(l, words[i]);
}

static void add_openmpi(struct list *l, const struct weft_layout *layout, const char *hosts)
{
    static const char *const probes[] = {
        "--mca", "oob_tcp_keepalive_time",   "5", "--mca", "oob_tcp_keepalive_intvl", "2",
        "--mca", "oob_tcp_keepalive_probes", "5", NULL};
    static const char *const exports[] = {"-x", "WEFT_RANKS", "-x", "OMP_NUM_THREADS", "-x", "WEFT_STALL_REPORT", NULL};
    if (layout->per_node) {
        add_all(l, (const char *const[]){"--bind-to", "numa", "--map-by", NULL});
        const char *map = weft_arena_print(l->arena, "ppr:%d:numa", layout->per_node);
        add(l, map);
    } else {
        add_all(l, (const char *const[]){"--bind-to", "none", NULL});
    }
    if (hosts)
        add_all(l, (const char *const[]){"--host", hosts, NULL});
    else if (layout->ranks > layout->cores)
        add(l, "--oversubscribe");
    add_all(l, probes);
    add_all(l, exports);
}

/* MPICH's launcher passes the environment on. */
static void add_mpich(struct list *l, const struct weft_layout *layout, const char *hosts)
{
    if (layout->per_node)
        add_all(l, (const char *const[]){"-bind-to", "numa", "-map-by", "numa", NULL});
    if (hosts)
        add_all(l, (const char *const[]){"-hosts", hosts, NULL});
}

enum weft_status weft_mpirun_words(const struct weft_mpirun *m, const struct weft_layout *layout, const char *hosts,
                                   const char *const *words, bool resume, struct weft_arena *arena,
                                   const char ***command)
{
    struct list l = {.arena = arena, .room = 64};
    for (int i = 0; words[i]; i++)
        l.room++;
    l.word = weft_arena_alloc(arena, (size_t)l.room * sizeof *l.word);
    const char *number = weft_arena_print(arena, "%d", layout->ranks);
    char *program = weft_arena_alloc(arena, 4096);
    if (!l.word || !number || !program)
        return FAIL(WEFT_NOMEM, "not enough memory for a command");
    TRY(weft_program_path(program));
    add_all(&l, (const char *const[]){m->path, "-n", number, NULL});
    if (m->mpich)
        add_mpich(&l, layout, hosts);
    else
        add_openmpi(&l, layout, hosts);
    add(&l, program);
    add_all(&l, words);
    if (resume)
        add(&l, "--resume");
    if (!l.word)
        return FAIL(WEFT_NOMEM, "not enough memory for a command");
    l.word[l.count] = NULL;
    *command = l.word;
    return WEFT_OK;
}
