/* SPDX-License-Identifier: MIT
 *
 * study.c - planning a study: matched widths, the list of runs, and the identity of a run.
 *
 * run-tests: 2 s, asan 10 s
 */
#include "study/queue.h"
#include "test.h"

#include <math.h>

static struct weft_settings settings; /* settings of the open study, which reads them until it is closed */

/* Lines of a config, and settings above it with spaces between. */
static void open_study(struct weft_study *s, const char *lines, const char *over)
{
    const char *path = in_scratch("config");
    weft_settings_release(&settings);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("CONFIG_WEFT_LAYERS=2\nCONFIG_WEFT_WIDTH=64\nCONFIG_WEFT_CONTEXT=16\nCONFIG_WEFT_RECALL_LENGTH=8\n", f);
    fprintf(f, "%s\n", lines);
    fclose(f);
    check(add_settings(&settings, over));
    check(weft_study_init(s, path, &settings));
}

static double size_of(const struct weft_study *s, const struct weft_spec *spec)
{
    struct weft_nn *model;
    double size;
    check(weft_nn_create(&model, spec));
    size = (double)model->params.elements;
    if (s->match == WEFT_MATCH_FLOPS)
        check(weft_account_flops(model, &size));
    weft_nn_free(model);
    return size;
}

/* Returns the nearest possible width, by trying all. */
static int64_t nearest(const struct weft_study *s, const struct weft_arm *arm, int64_t most)
{
    double goal = size_of(s, &s->arm[0].spec), least = INFINITY;
    int64_t best = 0;
    for (int64_t n = 1; n <= most; n++) {
        char setting[64];
        struct weft_arm_twin twin;
        snprintf(setting, sizeof setting, "%s=%lld", weft_match_by_names[s->match_by], (long long)n);
        if (weft_arm_vary(&twin, arm, (const char *const[]){setting, NULL}) == WEFT_OK) {
            double off = fabs(size_of(s, &twin.spec) - goal);
            best = off < least ? n : best;
            least = off < least ? off : least;
        }
        weft_arm_twin_release(&twin);
    }
    return best;
}

static void arms_match(const char *over, int64_t most)
{
    struct weft_study s;
    open_study(&s,
               "CONFIG_WEFT_ARMS=\"full: attn=full | latent: attn=latent latent_width=16 | gated: ffn=swiglu | ws: "
               "ffn=ws ws_heads=4 | turned: pos=rope geom=w2\"",
               over);
    check(weft_study_plan(&s));
    assert_int_equal(s.arm[0].matched, 0);
    for (int i = 1; i < s.arm_count; i++) {
        const struct weft_arm *arm = &s.arm[i];
        assert_true(arm->matched > 0 && fabs(weft_study_mismatch(&s, arm)) <= WEFT_MATCH_LIMIT);
        assert_int_equal(arm->matched, s.match_by == WEFT_MATCH_WIDTH ? arm->spec.width : arm->spec.ffn_width);
        assert_int_equal(arm->matched, nearest(&s, arm, most));
    }
    weft_study_release(&s);
}

static void widths_match(void **state)
{
    (void)state;
    arms_match("match=params", 600);
    arms_match("match=flops", 600);
    arms_match("match=params match_by=width width=256 heads=2", 320);
}

static void what_cannot_match_is_refused(void **state)
{
    (void)state;
    struct weft_study s;
    open_study(&s, "CONFIG_WEFT_ARMS=\"one: layers=2 | more: layers=12\"", "match=params");
    check_error(weft_study_match(&s), WEFT_INVALID, "arm more cannot match one: the nearest is ffn_width=1,");
    weft_study_release(&s);
    open_study(&s, "CONFIG_WEFT_ARMS=\"one: geom=dot | wide: ffn_width=300\"", "match=params");
    check_error(weft_study_match(&s), WEFT_INVALID, "arm wide sets ffn_width, which match determines");
    weft_study_release(&s);
}

static void repeats_are_alike(void **state)
{
    (void)state;
    struct weft_study s;
    char *config[2], hash[2][65];
    open_study(&s, "CONFIG_RA_MLA_ABLATION_STEPS=\"0,2,4\"", "match=params seeds=2");
    check(weft_study_match(&s));
    assert_int_equal(s.arm[2].repeats, 1);
    assert_int_equal(s.arm[2].matched, s.arm[1].matched);
    for (int i = 0; i < 2; i++) {
        struct weft_study_run run = weft_study_run_at(&s, 1 + i);
        check(weft_study_run_config(&s, &run, &config[i], hash[i]));
    }
    assert_string_equal(config[0], config[1]);
    s.repeat_seeds = WEFT_REPEAT_OTHER;
    assert_int_equal(weft_study_run_at(&s, 1).seed, 1);
    assert_int_equal(weft_study_run_at(&s, 2).seed, 1001);
    free(config[0]);
    free(config[1]);
    weft_study_release(&s);
}

#define SCREENED "CONFIG_WEFT_ARMS=\"dot: geom=dot | w2: geom=w2\"\nCONFIG_WEFT_LRS=\"1e-3 3e-3 1e-2\""

static void all_runs_are_listed(void **state)
{
    (void)state;
    struct weft_study s;
    enum { SCREENING = 12, RUNS = 18 };
    char hash[RUNS][65], *config, folder[RUNS][256];
    open_study(&s, SCREENED, "seeds=3 seed=5");
    assert_int_equal(weft_study_screening(&s), SCREENING);
    assert_int_equal(weft_study_runs(&s), RUNS);
    assert_true(isnan(weft_study_run_at(&s, SCREENING).lr));
    s.arm[0].lr = 1e-3;
    s.arm[1].lr = 3e-3;
    for (int i = 0; i < RUNS; i++) {
        struct weft_study_run run = weft_study_run_at(&s, i);
        assert_int_equal(run.arm, i % 2);
        assert_int_equal(run.seed, i < SCREENING ? 2005 + i / 6 : 5 + (i - SCREENING) / 2);
        assert_true(run.lr == (i < SCREENING ? s.lr[i / 2 % 3] : s.arm[i % 2].lr));
        check(weft_study_run_config(&s, &run, &config, hash[i]));
        free(config);
        memcpy(folder[i], run.folder, sizeof folder[i]);
        for (int other = 0; other < i; other++)
            assert_true(strcmp(hash[i], hash[other]) != 0 && strcmp(folder[i], folder[other]) != 0);
    }
    assert_string_equal(folder[3], "runs/w2/lr-0.003-seed-2005");
    assert_string_equal(folder[SCREENING], "runs/dot/lr-0.001-seed-5");
    weft_study_release(&s);
}

/* Writes the screening runs from `first` to before `end` to the ledger: dot is best at 3e-3, w2 at 1e-2. */
static void screen(struct weft_study *s, const char *folder, int64_t first, int64_t end)
{
    struct weft_queue q = {.study = s, .folder = folder, .slots = 1, .threads = 1};
    check(weft_queue_init(&q));
    for (int64_t i = first; i < end; i++) {
        struct weft_finished done = q.job[i].finished;
        memcpy(done.weights_sha256, done.config_sha256, 65);
        done.val_loss = 1 + fabs(log(q.job[i].run.lr / (q.job[i].run.arm ? 1e-2 : 3e-3))) + 0.01 * (double)(i % 3);
        check(weft_ledger_add(folder, &done));
    }
    weft_queue_release(&q);
}

static void screening_chooses_learning_rates(void **state)
{
    (void)state;
    struct weft_study s;
    char folder[300];
    snprintf(folder, sizeof folder, "%s", in_scratch("screened"));
    open_study(&s, SCREENED, "seeds=3 seed=5");
    int64_t screening = weft_study_screening(&s);
    screen(&s, folder, 0, screening - 1);
    struct weft_queue q = {.study = &s, .folder = folder, .slots = 1, .threads = 1};
    check(weft_queue_init(&q));
    assert_true(isnan(s.arm[0].lr) && isnan(q.job[screening].run.lr)); /* one is missing */
    check_error(weft_queue_run_one(&q, screening), WEFT_INVALID, "the screening runs 0 to 11 choose");
    weft_queue_release(&q);
    screen(&s, folder, screening - 1, screening);
    q = (struct weft_queue){.study = &s, .folder = folder, .slots = 1, .threads = 1};
    check(weft_queue_init(&q));
    assert_true(s.arm[0].lr == 3e-3 && s.arm[1].lr == 1e-2);
    assert_true(q.job[screening].run.lr == 3e-3 && q.job[screening + 1].run.lr == 1e-2);
    assert_int_equal(weft_queue_count(&q, WEFT_WAITING), 6);
    weft_queue_release(&q);
    weft_study_release(&s);
}

/* A run in the ledger is done if arm, config, seed and program are the same. */
static void known_runs_are_done(void **state)
{
    (void)state;
    struct weft_study s;
    open_study(&s, "CONFIG_WEFT_ARMS=\"dot: geom=dot | w2: geom=w2\"", "seeds=2");
    struct weft_queue q = {.study = &s, .folder = scratch, .slots = 1, .threads = 1};
    check(weft_queue_init(&q));
    assert_int_equal(weft_queue_count(&q, WEFT_WAITING), 4);
    struct weft_finished done[4];
    for (int i = 0; i < 4; i++) {
        done[i] = q.job[i].finished;
        memcpy(done[i].weights_sha256, done[i].config_sha256, 65);
    }
    weft_queue_release(&q);
    done[0].config_sha256[0] = done[0].config_sha256[0] == '0' ? '1' : '0';
    done[1].program_sha256[0] = done[1].program_sha256[0] == '0' ? '1' : '0';
    done[2].seed = 7;
    for (int i = 0; i < 4; i++)
        check(weft_ledger_add(scratch, &done[i]));
    q = (struct weft_queue){.study = &s, .folder = scratch, .slots = 1, .threads = 1};
    check(weft_queue_init(&q));
    assert_int_equal(weft_queue_count(&q, WEFT_DONE), 1);
    assert_true(q.job[3].state == WEFT_DONE && q.job[3].done_before);
    weft_queue_release(&q);
    weft_study_release(&s);
}

static int end(void **state)
{
    weft_settings_release(&settings);
    return remove_scratch(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths_match),
        cmocka_unit_test(what_cannot_match_is_refused),
        cmocka_unit_test(repeats_are_alike),
        cmocka_unit_test(all_runs_are_listed),
        cmocka_unit_test(screening_chooses_learning_rates),
        cmocka_unit_test(known_runs_are_done),
    };
    return cmocka_run_group_tests(tests, make_scratch, end);
}
