/* SPDX-License-Identifier: MIT
 *
 * queue.c - the ways in which runs of a study end. The queue starts the running program as `weft train FOLDER ...`;
 * here that is this test, which ends in the way named by the arm in the folder's name.
 *
 * run-tests: 1 s, asan 1 s, tsan 1 s
 */
#define _GNU_SOURCE
#include "study/queue.h"
#include "test.h"

#include <signal.h>

/* ---- as a run */

static int train(const char *folder)
{
    if (strstr(folder, "/stopped/"))
        return WEFT_EXIT_STOPPED;
    if (strstr(folder, "/broken/")) {
        fputs("weft: the data is missing\n", stderr);
        return 1;
    }
    if (strstr(folder, "/killed/"))
        raise(SIGKILL);
    printf(
        "{\"steps\": 1, \"params\": 1, \"loss\": 1, \"eval_loss\": 1, \"accuracy\": 1, \"threads\": 1, \"seconds\": 1");
    if (!strstr(folder, "/silent/"))
        printf(", \"test_loss\": 1, \"test_accuracy\": 1");
    printf(", \"isa\": \"%s\", \"weights_sha256\": \"%064d\"}\n", weft_isa_name(weft_isa()), 0);
    return 0;
}

/* ---- as a study */

static struct weft_study study;
static struct weft_queue queue;

static int setup(void **state)
{
    static const char lines[] = "CONFIG_WEFT_LAYERS=1\nCONFIG_WEFT_WIDTH=32\nCONFIG_WEFT_SEEDS=1\nCONFIG_WEFT_ARMS="
                                "\"good: ffn_width=32 | stopped: "
                                "ffn_width=33 | broken: ffn_width=34 | killed: ffn_width=35 | silent: ffn_width=36\"\n";
    if (make_scratch(state))
        return -1;
    write_file(in_scratch("config"), lines, strlen(lines));
    check(weft_study_init(&study, in_scratch("config"), NULL));
    return 0;
}

static int teardown(void **state)
{
    weft_study_release(&study);
    return remove_scratch(state);
}

/* Runs all arms in a folder of that name. */
static void run(const char *folder)
{
    queue = (struct weft_queue){.study = &study, .folder = in_scratch(folder), .slots = 2, .threads = 1};
    alarm(60); /* a queue that waits for ever must fail, not hang */
    check(weft_queue_init(&queue));
    check(weft_queue_run(&queue, study.seeds));
    alarm(0);
}

static void expect(int arm, enum weft_job_state state, const char *text)
{
    assert_int_equal(queue.job[arm].run.arm, arm);
    assert_int_equal(queue.job[arm].state, state);
    if (!strstr(queue.job[arm].message, text))
        fail_msg("\"%s\" is not in \"%s\"", text, queue.job[arm].message);
}

static void ends_of_runs(void **state)
{
    (void)state;
    run("ends");
    expect(0, WEFT_DONE, "");
    expect(1, WEFT_WAITING, "");
    expect(2, WEFT_FAILED, "the data is missing");
    expect(3, WEFT_FAILED, "signal 9");
    expect(4, WEFT_FAILED, "ended without a score");
    weft_queue_release(&queue);
}

/* The kernel then discards how a child ended, and waitpid fails. */
static void sigchld_ignored(void **state)
{
    (void)state;
    signal(SIGCHLD, SIG_IGN);
    run("ignored");
    signal(SIGCHLD, SIG_DFL);
    for (int i = 0; i < queue.count; i++)
        expect(i, WEFT_FAILED, "cannot be waited for");
    weft_queue_release(&queue);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_of_runs),
        cmocka_unit_test(sigchld_ignored),
    };
    if (argc > 2 && strcmp(argv[1], "train") == 0)
        return train(argv[2]);
    return cmocka_run_group_tests(tests, setup, teardown);
}
