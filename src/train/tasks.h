/* SPDX-License-Identifier: MIT
 *
 * tasks.h - tasks and optimisers, and the registry of both (registry.c).
 *
 * Invariant: a sample is a function of (seed, index) alone; training takes indices from 0 up, validation from
 * WEFT_HELD_OUT up, the test from WEFT_TEST up. No sample is in two of them
 */
#ifndef WEFT_TASKS_H
#define WEFT_TASKS_H

#include "nn/net.h"

#define WEFT_HELD_OUT ((uint64_t)1 << 40)
#define WEFT_TEST (2 * WEFT_HELD_OUT)

/* The best that samples allow: the least loss, in nats per scored token, and the highest accuracy of any model; and the
 * accuracy of one that knows which answers there are in a sample, but not which is asked for. */
struct weft_floor {
    double loss, accuracy, chance;
};

struct weft_task {
    const char *name, *summary;
    struct weft_owner owner;
    size_t options_bytes;
    /* Refuses what is impossible with this spec; makes the tables that samples are drawn from. */
    enum weft_status (*resolve)(const struct weft_spec *spec, void *options, struct weft_arena *arena);
    int64_t (*length)(const void *options); /* tokens of a sample */
    /* Writes tokens[length] and targets[length]; a target of -1 is not scored. */
    void (*sample)(const struct weft_spec *spec, const void *options, uint64_t index, int32_t *tokens,
                   int32_t *targets);
    /* Optional, of tasks that keep no samples from training but by chance: how many different ones there are. */
    double (*different)(const struct weft_spec *spec, const void *options);
    /* Optional, of tasks for which it can be computed. */
    struct weft_floor (*floor)(const struct weft_spec *spec, const void *options);
    /* Optional, of tasks that read files: the vocabulary of the data (0: they cannot be read, which open reports),
     * opening and closing them, how many samples there are for validation or the test, the first failure of a sample,
     * the bytes of the data's tokenizer.json (NULL: none), and a hash that identifies the data. */
    int64_t (*vocab)(const void *options);
    enum weft_status (*open)(const struct weft_spec *spec, void *options, struct weft_arena *arena);
    void (*close)(void *options);
    int64_t (*held_out)(const void *options, bool test);
    enum weft_status (*failure)(const void *options);
    const char *(*tokenizer)(const void *options, size_t *bytes);
    void (*fingerprint)(const void *options, char hash[65]);
    /* Optional, of tasks whose samples are cut from documents: the document of the first target of each of the first
     * `samples` samples of the test. Documents count from 0; *end is the target that is the last of its document.
     * *documents is how many there are in these samples, 0: they are not known. */
    enum weft_status (*documents)(const void *options, int64_t samples, int64_t *document, int64_t *documents,
                                  int32_t *end);
};

/* What an optimiser needs at one step. All arrays are flat and begin at the same element. */
struct weft_update {
    int64_t step; /* from 1 */
    double lr;
    float grad_scale; /* of the global-norm clip */
    float *weights, *grads, *moments[2];
};

enum { WEFT_SPAN = 16384 }; /* elements, at most */
struct weft_span {
    int64_t first, count;
    bool decay;
    double rate; /* factor of its learning rate, not of its decay */
};

struct weft_optim {
    const char *name, *summary;
    struct weft_owner owner;
    size_t options_bytes;
    /* Optional: limits the gradients of a span before their norm is taken. What is not finite must stay so. */
    void (*limit)(const void *options, const struct weft_update *u, const struct weft_span *span);
    void (*update)(const void *options, const struct weft_update *u, const struct weft_span *span);
};

#define TASK(name) extern const struct weft_task weft_task_##name;
#define OPTIM(name) extern const struct weft_optim weft_optim_##name;
#include "train/tasks.def"

enum { WEFT_MAX_TASKS = 64 }; /* and as many optimisers */
/* The i-th; NULL past the last. */
const struct weft_task *weft_task_at(int i);
const struct weft_optim *weft_optim_at(int i);
/* Makes one known by its name, behind the others. Before the first recipe is made; it is kept. */
enum weft_status weft_task_register(const struct weft_task *task);
enum weft_status weft_optim_register(const struct weft_optim *optim);
extern const char *weft_task_names[], *weft_optim_names[]; /* choices of the options; end with NULL */

#endif
