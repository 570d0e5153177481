/* SPDX-License-Identifier: MIT
 *
 * registering.c - many parts from outside: more mechanisms that read the hidden activation than a split has outputs,
 * and parts, tasks and optimisers that are registered while other threads create specs and recipes.
 *
 * run-tests: 1 s, asan 5 s, tsan 5 s
 */
#include "nn/build.h"
#include "nn/parts.h"
#include "ops/ops.h"
#include "test.h"
#include "train/tasks.h"

#include <pthread.h>
#include <stdatomic.h>

enum { READERS = 20, MECHANISMS = 20, TASKS = 30, THREADS = 3 };

static void name_part(struct weft_mechanism *m, char name[16], const char *stem, int i)
{
    snprintf(name, 16, "%s%d", stem, i);
    m->part.kind = WEFT_RECIP;
    m->part.name = m->part.summary = m->part.owner.name = m->help = name;
}

/* ---- mechanisms that read: h + V W h */

static void reader_params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    weft_params_matrix(p, "w", weft_grows(spec, spec->heads), weft_grows(spec, spec->ffn_width), WEFT_DEVIATION);
    weft_params_matrix(p, "v", weft_grows(spec, spec->ffn_width), weft_grows(spec, spec->heads), WEFT_DEVIATION);
}

static struct weft_value *reader_reads(struct weft_build *b, struct weft_instance *m)
{
    return weft_build_weight(b, "w");
}

static void reader_hidden(struct weft_build *b, struct weft_instance *m, struct weft_hidden *h)
{
    weft_hidden_add(b, h, weft_hidden_read(b, h, m), weft_build_alpha(b, 0.1), "v");
}

static int add_readers(void **state)
{
    static struct weft_mechanism readers[READERS];
    static char names[READERS][16];
    for (int i = 0; i < READERS; i++) {
        readers[i] =
            (struct weft_mechanism){.hidden = reader_hidden, .reads = reader_reads, .part.params = reader_params};
        name_part(&readers[i], names[i], "reader", i);
        check(weft_part_register(&readers[i].part));
    }
    return 0;
}

/* Computes one step's gradient of gpt2 with `count` of them. */
static void trains_with(int count)
{
    struct weft_settings s = {0};
    struct weft_spec spec;
    struct weft_nn *model = NULL;
    struct weft_net net = {0};
    struct weft_exec *exec = NULL;
    for (int i = 0; i < count; i++) {
        char setting[32];
        snprintf(setting, sizeof setting, "reader%d=yes", i);
        check(weft_settings_add(&s, setting));
    }
    check(weft_settings_add(&s, "width=32"));
    check(weft_spec_init(&spec, "gpt2", &s));
    assert_int_equal(spec.mechanism_count, count);
    check(weft_nn_create(&model, &spec));
    check(weft_nn_init(model));
    check(weft_net_init(&net, model, WEFT_EVAL, (struct weft_net_size){.sequences = 1, .length = 8}));
    check(weft_exec_create(&exec, net.g, WEFT_FAST));
    weft_exec_free(exec);
    weft_net_release(&net);
    weft_nn_free(model);
    weft_spec_release(&spec);
    weft_settings_release(&s);
}

static void many_read(void **state)
{
    static const int counts[] = {1, 2, 8, 9, 16, 17, READERS};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        trains_with(counts[i]);
}

/* ---- registering while others make specs */

static atomic_bool registering = true;

static void *make_specs(void *context)
{
    long *made = context;
    do {
        struct weft_settings s = {0};
        struct weft_spec spec;
        const struct weft_owner *owner;
        int options = 0;
        check(weft_spec_init(&spec, "gpt2", &s));
        for (int i = 0; (owner = weft_nn_owner_at(i)); i++)
            for (int o = 0; o < owner->count; o++)
                options += owner->options[o].name != NULL && *owner->options[o].name;
        assert_true(options > 50);
        for (int i = 0; weft_task_at(i); i++)
            assert_non_null(weft_task_at(i)->name);
        weft_spec_release(&spec);
        weft_settings_release(&s);
        ++*made;
    } while (atomic_load(&registering));
    return NULL;
}

static int64_t no_length(const void *options) { return 8; }
static void no_sample(const struct weft_spec *spec, const void *options, uint64_t index, int32_t *tokens,
                      int32_t *targets)
{
}
static void no_update(const void *options, const struct weft_update *u, const struct weft_span *span) {}

static void registered_meanwhile(void **state)
{
    static struct weft_mechanism mechanisms[MECHANISMS];
    static struct weft_task tasks[TASKS];
    static struct weft_optim optims[TASKS];
    static char names[MECHANISMS][16], task_names[TASKS][16];
    pthread_t threads[THREADS];
    long made[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_specs, &made[i]), 0);
    for (int i = 0; i < TASKS; i++) {
        snprintf(task_names[i], sizeof task_names[i], "outside%d", i);
        tasks[i] = (struct weft_task){.name = task_names[i], .summary = "", .length = no_length, .sample = no_sample};
        optims[i] = (struct weft_optim){.name = task_names[i], .summary = "", .update = no_update};
        tasks[i].owner.name = optims[i].owner.name = task_names[i];
        check(weft_task_register(&tasks[i]));
        check(weft_optim_register(&optims[i]));
    }
    for (int i = 0; i < MECHANISMS; i++) {
        name_part(&mechanisms[i], names[i], "mechanism", i);
        check(weft_part_register(&mechanisms[i].part));
    }
    atomic_store(&registering, false);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_true(made[i] > 0);
    int last = 0;
    while (weft_part_at(WEFT_RECIP, last + 1))
        last++;
    assert_string_equal(weft_part_at(WEFT_RECIP, last)->name, "mechanism19");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(many_read, add_readers),
        cmocka_unit_test(registered_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
