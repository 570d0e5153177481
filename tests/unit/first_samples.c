/* SPDX-License-Identifier: MIT
 *
 * first_samples.c - before a study, arms that would read different samples are rejected, and so are plans that cannot
 * give a verdict: arms that would read different numbers of samples, and too few seeds.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "study/study.h"
#include "test.h"

/* A task whose samples differ for models with ffn_width=33, starting at this index. */
static uint64_t differ_from;

static int64_t length(const void *options)
{
    (void)options;
    return 8;
}

static void sample(const struct weft_spec *spec, const void *options, uint64_t index, int32_t *tokens, int32_t *targets)
{
    (void)options;
    bool differs = spec->ffn_width == 33 && index >= differ_from;
    for (int i = 0; i < 8; i++) {
        tokens[i] = (int32_t)((uint64_t)spec->seed * 7 + index * 3 + (uint64_t)i) % 60;
        targets[i] = tokens[i] + differs;
    }
}

static const struct weft_task task = {
    .name = "sums", .summary = "a test", .owner = {.name = "task=sums"}, .length = length, .sample = sample};

static struct weft_study study;

static void open_study(const char *arms)
{
    FILE *f = fopen(in_scratch("config"), "w");
    assert_non_null(f);
    fprintf(f,
            "CONFIG_WEFT_LAYERS=1\nCONFIG_WEFT_WIDTH=32\nCONFIG_WEFT_CONTEXT=16\nCONFIG_WEFT_BATCH=4\n"
            "CONFIG_GPT2_MAX_ITERS=20\nCONFIG_WEFT_WARMUP=1\nCONFIG_WEFT_TASK=\"sums\"\nCONFIG_WEFT_SEEDS=4\n"
            "CONFIG_WEFT_ARMS=\"%s\"\n",
            arms);
    fclose(f);
    check(weft_study_init(&study, in_scratch("config"), NULL));
}

static void same_samples(void **state)
{
    struct weft_first_samples found, again;
    (void)state;
    differ_from = UINT64_MAX;
    open_study("narrow: ffn_width=32 | wide: ffn_width=33 | more: batch=8");
    check(weft_study_first_samples(&study, &found));
    assert_int_equal(found.seeds, 4);
    assert_int_equal(found.training, 8);
    assert_int_equal(found.held_out, 16);
    weft_study_release(&study);
    open_study("narrow: ffn_width=32 | wide: ffn_width=34");
    check(weft_study_first_samples(&study, &again));
    assert_string_equal(found.sha256, again.sha256);
    weft_study_release(&study);
}

static void no_verdict(void **state)
{
    (void)state;
    open_study("narrow: ffn_width=32 | wide: ffn_width=34 | more: batch=8");
    check_error(weft_study_verdict_possible(&study), WEFT_CHECK,
                "on arm more: it is trained on 160 samples instead of 80 like narrow (steps=20 x batch=8 x");
    weft_study_release(&study);
    open_study("narrow: ffn_width=32 | halved: batch=2 micro_batches=2 | faster: batch=8 steps=10");
    check(weft_study_verdict_possible(&study));
    study.seeds = 2;
    check_error(weft_study_verdict_possible(&study), WEFT_CHECK, "it has 2 seeds, and a verdict needs 3 or more");
    weft_study_release(&study);
    open_study("one: ffn_width=32");
    study.seeds = 1;
    check(weft_study_verdict_possible(&study));
    weft_study_release(&study);
}

static void refused(uint64_t from, const char *words)
{
    struct weft_first_samples found;
    differ_from = from;
    open_study("narrow: ffn_width=32 | other: ffn_width=34 | wide: ffn_width=33");
    enum weft_status status = weft_study_first_samples(&study, &found);
    assert_non_null(strstr(weft_error(), "the first samples of arms wide and narrow differ: with seed 1"));
    check_error(status, WEFT_CHECK, words);
    weft_study_release(&study);
}

static void different_samples(void **state)
{
    (void)state;
    refused(0, "training sample 0 differs");
    refused(7, "training sample 7 differs");
    refused(WEFT_HELD_OUT, "validation sample 0 differs");
    refused(WEFT_TEST + 3, "test sample 3 differs");
}

/* With learning rates to choose from, the runs that are judged have none yet. */
static void before_screening(void **state)
{
    struct weft_first_samples found;
    (void)state;
    differ_from = 0;
    open_study("narrow: ffn_width=32 | wide: ffn_width=33\"\nCONFIG_WEFT_LRS=\"1e-4 1e-3 1e-2");
    check_error(weft_study_first_samples(&study, &found), WEFT_CHECK, "arms wide and narrow differ");
    weft_study_release(&study);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_samples),
        cmocka_unit_test(no_verdict),
        cmocka_unit_test(different_samples),
        cmocka_unit_test(before_screening),
    };
    if (weft_task_register(&task) != WEFT_OK)
        return 1;
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
