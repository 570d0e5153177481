/* SPDX-License-Identifier: MIT
 *
 * registry.c - the registry of tasks and optimisers: first those in tasks.def, then the registered ones.
 */
#include "train/tasks.h"

#include <pthread.h>
#include <string.h>

const char *weft_task_names[WEFT_MAX_TASKS + 1], *weft_optim_names[WEFT_MAX_TASKS + 1];

static const struct weft_task *tasks[WEFT_MAX_TASKS] = {
#define TASK(name) &weft_task_##name,
#include "train/tasks.def"
};
static const struct weft_optim *optims[WEFT_MAX_TASKS] = {
#define OPTIM(name) &weft_optim_##name,
#include "train/tasks.def"
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while registering; others may read meanwhile */

static void name_rows(void)
{
    for (int i = 0; i < WEFT_MAX_TASKS && tasks[i]; i++)
        weft_task_names[i] = tasks[i]->name;
    for (int i = 0; i < WEFT_MAX_TASKS && optims[i]; i++)
        weft_optim_names[i] = optims[i]->name;
}

static void fill(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, name_rows);
}

const struct weft_task *weft_task_at(int i)
{
    fill();
    return i < WEFT_MAX_TASKS ? __atomic_load_n(&tasks[i], __ATOMIC_ACQUIRE) : NULL;
}

const struct weft_optim *weft_optim_at(int i)
{
    fill();
    return i < WEFT_MAX_TASKS ? __atomic_load_n(&optims[i], __ATOMIC_ACQUIRE) : NULL;
}

/* Finds the index for a new name in a list of names. */
static enum weft_status place(const char *const *names, const char *name, int *at)
{
    for (*at = 0; names[*at]; ++*at)
        if (strcmp(names[*at], name) == 0)
            return FAIL(WEFT_INVALID, "a task or optimiser named %s already exists: choose a different name", name);
    if (*at == WEFT_MAX_TASKS)
        return FAIL(WEFT_INVALID, "cannot register %s: the limit of %d is reached", name, WEFT_MAX_TASKS);
    return WEFT_OK;
}

enum weft_status weft_task_register(const struct weft_task *task)
{
    int i;
    fill();
    if (!task->name || !task->length || !task->sample)
        return FAIL(WEFT_INVALID, "a task needs a name and the hooks length and sample");
    pthread_mutex_lock(&lock);
    enum weft_status status = place(weft_task_names, task->name, &i);
    if (status == WEFT_OK) {
        __atomic_store_n(&tasks[i], task, __ATOMIC_RELEASE);
        __atomic_store_n(&weft_task_names[i], task->name, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

enum weft_status weft_optim_register(const struct weft_optim *optim)
{
    int i;
    fill();
    if (!optim->name || !optim->update)
        return FAIL(WEFT_INVALID, "an optimiser needs a name and the hook update");
    pthread_mutex_lock(&lock);
    enum weft_status status = place(weft_optim_names, optim->name, &i);
    if (status == WEFT_OK) {
        __atomic_store_n(&optims[i], optim, __ATOMIC_RELEASE);
        __atomic_store_n(&weft_optim_names[i], optim->name, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return status;
}
