/* SPDX-License-Identifier: MIT
 *
 * samples.h - the samples that a task gives, compared with definitions of tasks.
 */
#ifndef WEFT_SAMPLES_H
#define WEFT_SAMPLES_H

#include "check/probe/gate.h"

struct weft_drawn {
    const struct weft_spec *spec;
    const struct weft_recipe *recipe;
    uint64_t index;
    int64_t length;
    int32_t *tokens, *targets;
};
/* What a task's samples must be, by its definition alone. */
struct weft_definition {
    const char *task;
    bool synthetic; /* made from seed and index */
    /* Optional: what `wrong` needs; *context may stay NULL. Freed by `close`. */
    enum weft_status (*open)(const struct weft_drawn *d, void **context);
    void (*close)(void *context);
    /* The first defect of a sample; NULL: it has none. */
    const char *(*wrong)(const struct weft_drawn *d, void *context);
    /* Optional, of training samples: a number whose mean and standard deviation are known. */
    double (*number)(const struct weft_drawn *d);
    void (*expected)(const struct weft_drawn *d, double *mean, double *deviation);
    /* Optional: whether the sample's token at a position is drawn uniformly from some tokens, and which. */
    bool (*drawn_from)(const struct weft_drawn *d, int64_t position, int64_t *first, int64_t *count);
    /* Optional: further checks, of what samples are made with. */
    enum weft_status (*further)(const struct weft_trial *t, const struct weft_drawn *d, void *context);
};
extern const struct weft_definition weft_definition_recall, weft_definition_mqar, weft_definition_fuzzy,
    weft_definition_entailment, weft_definition_text;
/* An option of the task. */
int64_t weft_drawn_option(const struct weft_drawn *d, const char *name);
/* The first defect of a sample, by the vocabulary and the definition, which may be NULL; NULL: it has none. And those
 * of all samples that a run reads, or as many as there is time for (labels.c). */
const char *weft_drawn_wrong(const struct weft_definition *definition, const struct weft_drawn *d, void *context);
enum weft_status weft_check_labels(const struct weft_trial *t, const struct weft_definition *definition,
                                   const struct weft_drawn *drawn, void *context);
/* Samples up to the last of the recipe (many_samples.c); the definition may be NULL. */
enum weft_status weft_check_many_samples(const struct weft_trial *t, const struct weft_definition *definition,
                                         const struct weft_drawn *drawn, void *context);
/* What is drawn at every position, by the definition's drawn_from (marginals.c). */
struct weft_marginals;
enum weft_status weft_marginals_open(struct weft_marginals **m, const struct weft_definition *definition,
                                     int64_t length);
void weft_marginals_close(struct weft_marginals *m);
void weft_marginals_add(struct weft_marginals *m, const struct weft_drawn *d);
void weft_marginals_report(const struct weft_trial *t, const struct weft_marginals *m);
/* Token files of a split, read plainly (token_files.c): how many there are, the tokens of all, and where in the stream
 * each begins. To be closed even when opening fails. */
struct weft_token_files;
enum weft_status weft_token_files_open(struct weft_token_files **f, const char *folder, const char *split);
void weft_token_files_close(struct weft_token_files *f);
int64_t weft_token_files_count(const struct weft_token_files *f);
int64_t weft_token_files_tokens(const struct weft_token_files *f);
int64_t weft_token_files_begin(const struct weft_token_files *f, int64_t file);
/* Returns how many files two splits share, and sets the path of the first. */
int64_t weft_token_files_shared(const struct weft_token_files *a, const struct weft_token_files *b, const char **path);
/* Returns whether all of these tokens could be read. */
bool weft_token_files_read(struct weft_token_files *f, int64_t first, int64_t count, int32_t *to);
/* The order of windows of texts, of these numbers of windows among others (order.c). */
enum weft_status weft_check_order(const struct weft_trial *t, uint64_t seed, const int64_t *own, int own_count);

#endif
