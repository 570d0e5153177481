/* SPDX-License-Identifier: MIT
 *
 * run.c - a caller of the library trains a run like `weft train`: the same weights with and without a folder, stopped
 * by a different thread and resumed; a model that fails a gate is rejected; nothing is printed.
 *
 * run-tests: 7 s, tsan 67 s
 */
#include "run/run.h"
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

/* ---- a caller, and what was reported to it */

struct caller {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_run run;
    atomic_int stop;
    int64_t stop_at; /* the step after which another thread stops the run; 0: none */
    int steps, failed_checks;
    int notices[WEFT_RUN_BEGINS + 1];
};

static void count_check(void *context, const struct weft_check *c)
{
    assert_false(c->passed);
    ((struct caller *)context)->failed_checks++;
}

static void count_notice(void *context, const struct weft_run *run, enum weft_run_notice notice)
{
    struct caller *c = context;
    assert_ptr_equal(run, &c->run);
    c->notices[notice]++;
}

static void *stop(void *context)
{
    ((struct caller *)context)->stop = 1;
    return NULL;
}

static void count_step(void *context, const struct weft_progress *now)
{
    struct caller *c = context;
    pthread_t other;
    c->steps++;
    assert_true(now->flops_per_token > 0 && now->step_tokens == 4 * 15);
    if (now->step == c->stop_at) {
        assert_int_equal(pthread_create(&other, NULL, stop, c), 0);
        pthread_join(other, NULL);
    }
}

static void open_caller(struct caller *c, const char *model, const char *settings)
{
    *c = (struct caller){0};
    check(add_settings(&c->settings, settings));
    check(weft_spec_init(&c->spec, model, &c->settings));
    check(weft_recipe_init(&c->recipe, &c->spec, &c->settings));
    c->run = (struct weft_run){.spec = &c->spec,
                               .recipe = &c->recipe,
                               .settings = &c->settings,
                               .stop = &c->stop,
                               .context = c,
                               .on_failed_check = count_check,
                               .on_notice = count_notice,
                               .on_progress = count_step};
}

static void close_caller(struct caller *c)
{
    weft_run_release(&c->run);
    weft_recipe_release(&c->recipe);
    weft_spec_release(&c->spec);
    weft_settings_release(&c->settings);
}

static const char small[] =
    "dtype=f32 layers=1 width=16 heads=2 ffn_width=32 context=16 recall_length=8 batch=4 steps=5 eval_samples=8 ";

/* Trains with stdout and stderr in a file, which must stay empty. */
static enum weft_status train_in_silence(struct weft_run *run)
{
    const char *path = in_scratch("output");
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    struct stat st;
    fflush(NULL);
    assert_true(file >= 0 && dup2(file, STDOUT_FILENO) >= 0 && dup2(file, STDERR_FILENO) >= 0);
    enum weft_status status = weft_run_train(run);
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_size, 0);
    close(file);
    return status;
}

/* The hash of the samples that a run reads, made again from its task: one link of the chain per sample. */
static void hash_samples(const struct caller *c, int64_t samples, char hex[65])
{
    const struct weft_recipe *r = &c->recipe;
    int64_t length = r->task->length(r->task_options);
    int32_t *sample = calloc((size_t)length, 2 * sizeof *sample);
    assert_non_null(sample);
    memset(hex, '0', 64);
    hex[64] = 0;
    for (int64_t i = 0; i < samples; i++) {
        struct weft_sha256 sha;
        char digest[65];
        r->task->sample(&c->spec, r->task_options, (uint64_t)i, sample, sample + length);
        weft_sha256_init(&sha);
        weft_sha256_add(&sha, sample, 2 * (size_t)length * sizeof *sample);
        weft_sha256_hex(&sha, digest);
        weft_sha256_init(&sha);
        weft_sha256_add(&sha, hex, 64);
        weft_sha256_add(&sha, digest, 64);
        weft_sha256_hex(&sha, hex);
    }
    free(sample);
}

/* ---- tests */

static void gives_the_same_weights(void **state)
{
    (void)state;
    char path[256];
    struct caller plain, whole, stopped, resumed;
    open_caller(&plain, "gpt2", small);
    check(train_in_silence(&plain.run));
    assert_true(plain.run.finished && plain.steps == 5 && plain.run.progress.step == 5);
    assert_true(plain.run.gates_checks > 0 && plain.run.gates_failed == 0 && plain.run.scores.test.loss > 0);
    assert_int_equal(strlen(plain.run.weights_sha256), 64);
    char stream[65];
    hash_samples(&plain, 5 * 4, stream);
    assert_string_equal(plain.run.stream_sha256, stream);
    assert_int_equal(plain.notices[WEFT_RUN_GATES], 1);
    assert_int_equal(plain.notices[WEFT_RUN_BEGINS], 1);

    open_caller(&whole, "gpt2", small);
    whole.run.folder = in_scratch("whole");
    check(train_in_silence(&whole.run));
    assert_string_equal(whole.run.weights_sha256, plain.run.weights_sha256);
    assert_string_equal(whole.run.stream_sha256, stream);

    open_caller(&stopped, "gpt2", small);
    snprintf(path, sizeof path, "%s", in_scratch("stopped"));
    stopped.run.folder = path;
    stopped.stop_at = 2;
    check(train_in_silence(&stopped.run));
    assert_true(!stopped.run.finished && stopped.run.progress.step == 2 && stopped.steps == 2);
    int gates_checks = stopped.run.gates_checks; /* there may be more on a faster machine */
    close_caller(&stopped);

    open_caller(&resumed, path, ""); /* the folder is also the model */
    resumed.run.folder = path;
    resumed.run.resume = true;
    check(train_in_silence(&resumed.run));
    assert_true(resumed.run.finished && resumed.steps == 3);
    assert_int_equal(resumed.notices[WEFT_RUN_RESUMED], 1);
    assert_int_equal(resumed.notices[WEFT_RUN_GATES], 0); /* their result is in the folder */
    assert_string_equal(resumed.run.weights_sha256, plain.run.weights_sha256);
    assert_string_equal(resumed.run.stream_sha256, stream);
    assert_true(resumed.run.scores.test.loss == plain.run.scores.test.loss);
    assert_true(resumed.run.gates_checks == gates_checks && gates_checks > 0);
    close_caller(&resumed);
    close_caller(&whole);
    close_caller(&plain);
}

/* Different models, threads and micro-batches read the same samples; a different seed does not. */
static void hashes_what_it_read(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        bool same;
    } rows[] = {{"batch=2 micro_batches=2", true},
                {"batch=1 micro_batches=4 grad_groups=3 geom=w2", true},
                {"dropout=0.1", true},
                {"seed=2", false},
                {"batch=2", false},
                {"recall_length=7", false}};
    char settings[400], stream[65];
    struct caller c;
    open_caller(&c, "gpt2", small);
    hash_samples(&c, 5 * 4, stream);
    close_caller(&c);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += (size_t)sanitized_one_of(3)) {
        snprintf(settings, sizeof settings, "%s%s", small, rows[i].settings);
        open_caller(&c, "gpt2", settings);
        c.run.on_progress = NULL; /* which expects the plain size */
        check(train_in_silence(&c.run));
        assert_int_equal(strcmp(c.run.stream_sha256, stream) == 0, rows[i].same);
        close_caller(&c);
    }
}

static void does_without_callbacks(void **state)
{
    (void)state;
    struct caller c;
    open_caller(&c, "gpt2", small);
    c.run.stop = NULL;
    c.run.on_failed_check = NULL;
    c.run.on_notice = NULL;
    c.run.on_progress = NULL;
    check(train_in_silence(&c.run));
    assert_true(c.run.finished);
    close_caller(&c);
}

/* The last one: the mutant stays. */
static void refuses_what_fails_a_gate(void **state)
{
    (void)state;
    char settings[512];
    const struct weft_mutant *m = NULL;
    for (int i = 0; (m = weft_mutant_at(i)); i++)
        if (m->gate == WEFT_GATE_LIVE && strcmp(m->settings, "m1=yes") == 0)
            break;
    assert_non_null(m);
    m->install();
    snprintf(settings, sizeof settings, "%s%s layers=2", small, m->settings);
    struct caller c;
    open_caller(&c, "gpt2", settings);
    assert_int_equal(train_in_silence(&c.run), WEFT_CHECK);
    assert_true(c.failed_checks > 0 && c.run.gates_failed == c.failed_checks && c.steps == 0);
    assert_non_null(strstr(weft_error(), "--unsafe"));
    close_caller(&c);

    open_caller(&c, "gpt2", settings);
    c.run.unsafe = true;
    check(train_in_silence(&c.run));
    assert_true(c.run.finished && c.run.gates_failed > 0 && c.steps == 5);
    close_caller(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_same_weights),
        cmocka_unit_test(hashes_what_it_read),
        cmocka_unit_test(does_without_callbacks),
        cmocka_unit_test(refuses_what_fails_a_gate),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
