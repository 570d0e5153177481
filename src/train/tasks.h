/* SPDX-License-Identifier: MIT
 *
 * tasks.h - tasks and optimisers, and the registry of both (registry.c).
 *
 * Invariant: a sample is a function of (seed, index) alone. Training uses indices from 0, validation from
 * WEFT_HELD_OUT, the test from WEFT_TEST. No two of them share a sample.
 */
#ifndef WEFT_TASKS_H
#define WEFT_TASKS_H

#include "nn/net.h"

#define WEFT_HELD_OUT ((uint64_t)1 << 40)
#define WEFT_TEST (2 * WEFT_HELD_OUT)

/* The best possible results on the samples: the smallest loss, in nats per scored token, and the highest accuracy of
 * any model; `chance` is the accuracy of a model that knows which answers occur in a sample, but not which one is asked
 * for. */
struct weft_floor {
    double loss, accuracy, chance;
};

struct weft_task {
    const char *name, *summary;
    struct weft_owner owner;
    size_t options_bytes;
    /* Rejects options that are impossible with this spec; builds the tables from which samples are drawn. */
    enum weft_status (*resolve)(const struct weft_spec *spec, void *options, struct weft_arena *arena);
    int64_t (*length)(const void *options); /* number of tokens in a sample */
    /* Writes tokens[length] and targets[length]; a target of -1 is not scored. */
    void (*sample)(const struct weft_spec *spec, const void *options, uint64_t index, int32_t *tokens,
                   int32_t *targets);
    /* Optional, for tasks whose held-out samples differ from training only by chance: returns the number of distinct
     * samples. */
    double (*different)(const struct weft_spec *spec, const void *options);
    /* Optional, for tasks whose floor can be computed. */
    struct weft_floor (*floor)(const struct weft_spec *spec, const void *options);
    /* Optional, for tasks that read files. vocab: returns the vocabulary of the data (0: it cannot be read; open
     * reports why). open and close: open and close the data. held_out: returns the number of samples for validation or
     * the test. failure: returns the first failure of a sample. tokenizer: returns the bytes of the data's
     * tokenizer.json (NULL: none). fingerprint: writes a hash that identifies the data. */
    int64_t (*vocab)(const void *options);
    enum weft_status (*open)(const struct weft_spec *spec, void *options, struct weft_arena *arena);
    void (*close)(void *options);
    int64_t (*held_out)(const void *options, bool test);
    enum weft_status (*failure)(const void *options);
    const char *(*tokenizer)(const void *options, size_t *bytes);
    void (*fingerprint)(const void *options, char hash[65]);
    /* Optional, for tasks whose samples are cut from documents: writes the document of the first target of each of the
     * first `samples` samples of the test. Documents are numbered from 0; *end is the target that ends a document.
     * *documents is the number of documents in these samples; 0: unknown. */
    enum weft_status (*documents)(const void *options, int64_t samples, int64_t *document, int64_t *documents,
                                  int32_t *end);
};

/* Inputs of an optimiser at one step. All arrays are flat and begin at the same element. */
struct weft_update {
    int64_t step; /* step number, from 1 */
    double lr;
    float grad_scale; /* scale factor from clipping by the global norm */
    float *weights, *grads, *moments[2];
};

enum { WEFT_SPAN = 16384 }; /* maximum number of elements in a span */
struct weft_span {
    int64_t first, count;
    bool decay;
    double rate; /* factor of the span's learning rate, not of its decay */
};

struct weft_optim {
    const char *name, *summary;
    struct weft_owner owner;
    size_t options_bytes;
    /* Optional: limits the gradients of a span before their norm is computed. Non-finite values must stay non-finite.
     */
    void (*limit)(const void *options, const struct weft_update *u, const struct weft_span *span);
    void (*update)(const void *options, const struct weft_update *u, const struct weft_span *span);
};

#define TASK(name) extern const struct weft_task weft_task_##name;
#define OPTIM(name) extern const struct weft_optim weft_optim_##name;
#include "train/tasks.def"

enum { WEFT_MAX_TASKS = 64 }; /* also the maximum number of optimisers */
/* Return the i-th task or optimiser; NULL past the last. */
const struct weft_task *weft_task_at(int i);
const struct weft_optim *weft_optim_at(int i);
/* Register a task or optimiser after the others. Call before the first recipe is created; the pointer is kept. */
enum weft_status weft_task_register(const struct weft_task *task);
enum weft_status weft_optim_register(const struct weft_optim *optim);
extern const char *weft_task_names[], *weft_optim_names[]; /* choices of the options; NULL-terminated */

#endif
