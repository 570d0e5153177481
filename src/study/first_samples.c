/* SPDX-License-Identifier: MIT
 *
 * first_samples.c - compares, before a study is trained, the samples that runs of different arms read with the same
 * seed.
 *
 * The samples are read for the model and recipe of a run's config, with the functions that training uses. So a
 * difference that the configs do not show, such as a wrong seed in one arm, is found before training and not only by
 * the report, which compares the hashes of all samples that runs have read (report/read/pairing.c).
 */
#include "study/study.h"

#include <stdlib.h>
#include <string.h>

/* The number of compared runs is limited because each run opens its data; all runs of the first seed are compared. */
enum { MOST_RUNS = 64, LEAST_TRAINING = 8, MOST_TRAINING = 64, HELD_OUT = 8 };

/* The samples of one run. */
struct reading {
    const struct weft_arm_twin *run;
    int64_t training, validation, test; /* number of samples of each kind */
    int32_t *memory;                    /* buffer for one sample: tokens, then targets */
    char (*sha256)[65];                 /* hash of every sample: training, validation, test */
};

static int64_t count_samples(const struct reading *r) { return r->training + r->validation + r->test; }

static void hash_sample(const struct reading *r, uint64_t index, char sha256[65])
{
    const struct weft_recipe *recipe = &r->run->recipe;
    size_t length = (size_t)recipe->task->length(recipe->task_options);
    struct weft_sha256 sha;
    recipe->task->sample(&r->run->spec, recipe->task_options, index, r->memory, r->memory + length);
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, r->memory, 2 * length * sizeof *r->memory);
    weft_sha256_hex(&sha, sha256);
}

static enum weft_status hash_samples(struct reading *r)
{
    const struct weft_recipe *recipe = &r->run->recipe;
    for (int64_t i = 0; i < r->training; i++)
        hash_sample(r, (uint64_t)i, r->sha256[i]);
    for (int64_t i = 0; i < r->validation; i++)
        hash_sample(r, WEFT_HELD_OUT + (uint64_t)i, r->sha256[r->training + i]);
    for (int64_t i = 0; i < r->test; i++)
        hash_sample(r, WEFT_TEST + (uint64_t)i, r->sha256[r->training + r->validation + i]);
    return recipe->task->failure ? recipe->task->failure(recipe->task_options) : WEFT_OK;
}

/* Reads the first samples of a run, `training` of them for training. Free r->memory and r->sha256 even after a failure.
 */
static enum weft_status read_samples(struct reading *r, struct weft_arm_twin *run, int64_t training)
{
    struct weft_recipe *recipe = &run->recipe;
    TRY(weft_recipe_open(recipe, &run->spec));
    *r = (struct reading){.run = run, .training = training};
    r->validation = weft_recipe_held_out(recipe, WEFT_HELD_OUT, weft_min(HELD_OUT, recipe->eval_samples));
    r->test = weft_recipe_held_out(recipe, WEFT_TEST, weft_min(HELD_OUT, recipe->eval_samples));
    r->memory = calloc(2 * (size_t)recipe->task->length(recipe->task_options), sizeof *r->memory);
    r->sha256 = calloc((size_t)count_samples(r), sizeof *r->sha256);
    if (!r->memory || !r->sha256)
        return FAIL(WEFT_NOMEM, "not enough memory to compare the first samples of the arms");
    return hash_samples(r);
}

static enum weft_status read_run(const struct weft_study *s, const struct weft_study_run *run, int64_t training,
                                 struct reading *r)
{
    struct weft_arm_twin twin;
    *r = (struct reading){0};
    enum weft_status status = weft_study_run_vary(s, run, &twin);
    if (status == WEFT_OK)
        status = read_samples(r, &twin, training);
    weft_arm_twin_release(&twin);
    r->run = NULL;
    return status;
}

static void release(struct reading *r)
{
    free(r->memory);
    free(r->sha256);
}

/* ---- comparing */

#define ADVICE                                                                                                         \
    "Arms with different samples cannot be compared seed by seed: set the same data, vocabulary and task settings "    \
    "for both. If these already agree, the task's samples depend on the model. With --unsafe, both arms are "          \
    "trained, but the report gives no verdict (not paired)"

static enum weft_status refuse(const struct weft_study *s, const struct weft_study_run *run, const char *kind,
                               int64_t index)
{
    return FAIL(WEFT_CHECK,
                "the first samples of arms %s and %s differ: with seed %lld, %s sample %lld differs. " ADVICE,
                s->arm[run->arm].name, s->arm[0].name, (long long)run->seed, kind, (long long)index);
}

static enum weft_status compare(const struct weft_study *s, const struct weft_study_run *run, const struct reading *a,
                                const struct reading *base)
{
    if (a->validation != base->validation || a->test != base->test)
        return FAIL(WEFT_CHECK,
                    "the first samples of arms %s and %s differ: the former has %lld validation and %lld test samples, "
                    "the latter %lld and %lld. " ADVICE,
                    s->arm[run->arm].name, s->arm[0].name, (long long)a->validation, (long long)a->test,
                    (long long)base->validation, (long long)base->test);
    int64_t validation = base->training, test = validation + base->validation;
    for (int64_t i = 0; i < count_samples(base); i++)
        if (strcmp(a->sha256[i], base->sha256[i]) != 0)
            return i < validation ? refuse(s, run, "training", i)
                   : i < test     ? refuse(s, run, "validation", i - validation)
                                  : refuse(s, run, "test", i - test);
    return WEFT_OK;
}

bool weft_study_is_paired(const struct weft_study *s, int arm)
{
    return s->arm[arm].repeats < 0 || s->repeat_seeds == WEFT_REPEAT_SAME;
}

/* Compares the arm's run with the first arm's run of the same seed; `seed` is the index of the seed in the plan. */
static enum weft_status compare_arm(const struct weft_study *s, int arm, int64_t seed, const struct reading *base)
{
    struct reading r;
    int64_t first = weft_study_screening(s) + seed * s->arm_count;
    struct weft_study_run run = weft_study_run_at(s, first + arm), of_base = weft_study_run_at(s, first);
    if (run.seed != of_base.seed)
        return FAIL(WEFT_CHECK,
                    "the first samples of arms %s and %s differ: run %lld has seed %lld, not %lld. This is a "
                    "bug in Weft: please report it",
                    s->arm[arm].name, s->arm[0].name, (long long)seed, (long long)run.seed, (long long)of_base.seed);
    enum weft_status status = read_run(s, &run, base->training, &r);
    if (status == WEFT_OK)
        status = compare(s, &run, &r, base);
    release(&r);
    return status;
}

static void hash_all(const struct reading *r, char sha256[65])
{
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    for (int64_t i = 0; i < count_samples(r); i++)
        weft_sha256_add(&sha, r->sha256[i], 64);
    weft_sha256_hex(&sha, sha256);
}

static enum weft_status compare_seed(const struct weft_study *s, int64_t seed, struct weft_first_samples *found)
{
    struct reading base;
    struct weft_study_run run = weft_study_run_at(s, weft_study_screening(s) + seed * s->arm_count);
    enum weft_status status = read_run(s, &run, found->training, &base);
    found->held_out = base.validation + base.test;
    if (status == WEFT_OK && seed == 0)
        hash_all(&base, found->sha256);
    for (int i = 1; i < s->arm_count && status == WEFT_OK; i++)
        if (weft_study_is_paired(s, i))
            status = compare_arm(s, i, seed, &base);
    release(&base);
    return status;
}

int64_t weft_arm_samples(const struct weft_arm *arm)
{
    return arm->recipe.steps * arm->recipe.micro_batches * arm->spec.batch;
}

enum weft_status weft_study_first_samples(const struct weft_study *s, struct weft_first_samples *found)
{
    int64_t batch = s->arm[0].recipe.micro_batches * s->arm[0].spec.batch;
    *found = (struct weft_first_samples){.training = weft_max(LEAST_TRAINING, weft_min(MOST_TRAINING, batch))};
    int64_t seeds = weft_min(s->seeds, weft_max(1, MOST_RUNS / s->arm_count));
    for (; found->seeds < seeds; found->seeds++)
        TRY(compare_seed(s, found->seeds, found));
    return WEFT_OK;
}
