/* SPDX-License-Identifier: MIT
 *
 * samples.h - compares a task's samples with the definition of the task.
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
/* The definition of a task, from which its samples are checked. */
struct weft_definition {
    const char *task;
    bool synthetic; /* samples are generated from seed and index */
    /* Optional: prepares the context of `wrong` (*context may stay NULL). Freed by `close`. */
    enum weft_status (*open)(const struct weft_drawn *d, void **context);
    void (*close)(void *context);
    /* Returns the first defect of a sample; NULL: it has none. */
    const char *(*wrong)(const struct weft_drawn *d, void *context);
    /* Optional: a statistic of a training sample, and its expected mean and standard deviation. */
    double (*number)(const struct weft_drawn *d);
    void (*expected)(const struct weft_drawn *d, double *mean, double *deviation);
    /* Optional: returns whether the token at this position is drawn uniformly from a range, and sets the range. */
    bool (*drawn_from)(const struct weft_drawn *d, int64_t position, int64_t *first, int64_t *count);
    /* Optional: further checks of the data from which samples are made. */
    enum weft_status (*further)(const struct weft_trial *t, const struct weft_drawn *d, void *context);
};
extern const struct weft_definition weft_definition_recall, weft_definition_mqar, weft_definition_fuzzy,
    weft_definition_entailment, weft_definition_text;
/* Returns the value of an option of the task; -1: it has no such option. */
int64_t weft_drawn_option(const struct weft_drawn *d, const char *name);
/* Returns the first defect of a sample according to the vocabulary and the definition, which may be NULL; NULL: it has
 * none. weft_check_labels checks all samples that a run reads, or as many as there is time for (labels.c). */
const char *weft_drawn_wrong(const struct weft_definition *definition, const struct weft_drawn *d, void *context);
enum weft_status weft_check_labels(const struct weft_trial *t, const struct weft_definition *definition,
                                   const struct weft_drawn *drawn, void *context);
/* Checks samples up to the last of the recipe (many_samples.c); the definition may be NULL. */
enum weft_status weft_check_many_samples(const struct weft_trial *t, const struct weft_definition *definition,
                                         const struct weft_drawn *drawn, void *context);
/* The distribution of the tokens drawn at every position, according to the definition's drawn_from (marginals.c). */
struct weft_marginals;
enum weft_status weft_marginals_open(struct weft_marginals **m, const struct weft_definition *definition,
                                     int64_t length);
void weft_marginals_close(struct weft_marginals *m);
void weft_marginals_add(struct weft_marginals *m, const struct weft_drawn *d);
void weft_marginals_report(const struct weft_trial *t, const struct weft_marginals *m);
/* The token files of a split, read by plain code (token_files.c): their number, their tokens in total, and the place in
 * the stream where each begins. Close them even if opening fails. */
struct weft_token_files;
enum weft_status weft_token_files_open(struct weft_token_files **f, const char *folder, const char *split);
void weft_token_files_close(struct weft_token_files *f);
int64_t weft_token_files_count(const struct weft_token_files *f);
int64_t weft_token_files_tokens(const struct weft_token_files *f);
int64_t weft_token_files_begin(const struct weft_token_files *f, int64_t file);
/* Returns the number of files that two splits share, and sets the path of the first. */
int64_t weft_token_files_shared(const struct weft_token_files *a, const struct weft_token_files *b, const char **path);
/* Reads `count` tokens and returns whether all of them could be read. */
bool weft_token_files_read(struct weft_token_files *f, int64_t first, int64_t count, int32_t *to);
/* Checks the order in which windows of texts are read, for the given numbers of windows and some others (order.c). */
enum weft_status weft_check_order(const struct weft_trial *t, uint64_t seed, const int64_t *own, int own_count);

#endif
