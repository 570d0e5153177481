/* SPDX-License-Identifier: MIT
 *
 * fuzzy.c - the task fuzzy: samples follow its rules, substitutes have the declared rate and distribution, and the loss
 * floor matches the loss of an observer who knows the rules and sees the samples.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "test.h"
#include "train/recipe.h"

#include <math.h>

enum { MOST = 512, KEYS = 16 }; /* tokens of a sample, and keys */

struct stage {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
    int64_t n, m, codes;
    int32_t tokens[MOST], targets[MOST];
};

static enum weft_status open_stage(struct stage *s, const char *settings)
{
    *s = (struct stage){0};
    TRY(add_settings(&s->settings, "task=fuzzy"));
    TRY(add_settings(&s->settings, settings));
    TRY(weft_spec_init(&s->spec, "gpt2", &s->settings));
    TRY(weft_recipe_init(&s->recipe, &s->spec, &s->settings));
    return weft_recipe_open(&s->recipe, &s->spec);
}

static void close_stage(struct stage *s)
{
    weft_recipe_release(&s->recipe);
    weft_spec_release(&s->spec);
    weft_settings_release(&s->settings);
}

/* n keys of m tokens; each token is one of `codes` codes. */
static void begin(struct stage *s, int64_t n, int64_t m, int64_t codes, double noise)
{
    char text[256];
    snprintf(text, sizeof text, "fuzzy_keys=%d fuzzy_tokens=%d fuzzy_codes=%d fuzzy_noise=%.17g vocab=%d context=512",
             (int)n, (int)m, (int)codes, noise, (int)(m * codes + n));
    check(open_stage(s, text));
    s->n = n;
    s->m = m;
    s->codes = codes;
    assert_int_equal(s->recipe.task->length(s->recipe.task_options), 2 * n * m);
}

static void draw(struct stage *s, uint64_t index)
{
    s->recipe.task->sample(&s->spec, s->recipe.task_options, index, s->tokens, s->targets);
}

static struct weft_floor floor_of(const struct stage *s)
{
    return s->recipe.task->floor(&s->spec, s->recipe.task_options);
}

static const int32_t *key(const struct stage *s, int64_t j) { return s->tokens + j * s->m; }
static const int32_t *query(const struct stage *s, int64_t q) { return s->tokens + (s->n + q) * s->m; }

/* The key that a query is of. */
static int64_t asked(const struct stage *s, int64_t q)
{
    const int32_t *targets = s->targets + (s->n + q) * s->m;
    assert_in_range(targets[0], s->m * s->codes, s->m * s->codes + s->n - 1);
    for (int64_t i = 1; i < s->m; i++)
        assert_int_equal(targets[i], targets[0]);
    return targets[0] - s->m * s->codes;
}

/* Within five deviations. */
static void near(double count, double trials, double p)
{
    if (fabs(count - trials * p) > 5 * sqrt(trials * p * (1 - p)) + 1e-9)
        fail_msg("%g of %g, not %g", count, trials, trials * p);
}

static void samples_keep_the_rules(void **state)
{
    (void)state;
    struct stage s;
    enum { SAMPLES = 4000, N = 5, M = 3, CODES = 4 };
    const double noise = 0.3;
    double away[M][CODES] = {{0}}, of[N] = {0}, drawn[M * CODES] = {0};
    begin(&s, N, M, CODES, noise);
    for (uint64_t index = 0; index < SAMPLES; index++) {
        draw(&s, index);
        for (int64_t i = 0; i < N * M; i++) {
            assert_in_range(s.tokens[i], i % M * CODES, i % M * CODES + CODES - 1);
            assert_int_equal(s.targets[i], -1);
            drawn[s.tokens[i]]++;
        }
        for (int64_t q = 0; q < N; q++) {
            int64_t j = asked(&s, q);
            of[j]++;
            for (int64_t i = 0; i < M; i++) {
                assert_in_range(query(&s, q)[i], i * CODES, i * CODES + CODES - 1);
                away[i][(query(&s, q)[i] - key(&s, j)[i] + CODES) % CODES]++;
            }
        }
    }
    for (int c = 0; c < M * CODES; c++)
        near(drawn[c], N * SAMPLES, 1.0 / CODES);
    for (int j = 0; j < N; j++) /* any key is asked for, as often */
        near(of[j], N * SAMPLES, 1.0 / N);
    for (int i = 0; i < M; i++)
        for (int c = 0; c < CODES; c++) /* each substitute as often */
            near(away[i][c], N * SAMPLES, c ? noise / (CODES - 1) : 1 - noise);
    close_stage(&s);
}

/* This many samples contain every possible key. */
static void different_keys_are_counted(void **state)
{
    (void)state;
    struct stage s;
    enum { SAMPLES = 2000, CODES = 3 };
    bool seen[CODES * CODES * CODES * CODES] = {0};
    int count = 0;
    begin(&s, 2, 2, CODES, 0.1);
    for (uint64_t index = 0; index < SAMPLES; index++) {
        int at = 0;
        draw(&s, index);
        for (int i = 0; i < 4; i++)
            at = at * CODES + s.tokens[i] % CODES;
        count += !seen[at];
        seen[at] = true;
    }
    assert_int_equal(count, CODES * CODES * CODES * CODES);
    assert_float_equal(s.recipe.task->different(&s.spec, s.recipe.task_options), count, 0);
    close_stage(&s);
}

/* Scores an ideal observer that knows the rules: sums over all scored tokens its loss, the square of its loss and
 * its correct answers, from the probabilities of all keys, one factor for each token. */
static void observe(const struct stage *s, double noise, double sums[3])
{
    for (int64_t q = 0; q < s->n; q++) {
        double p[KEYS], loss = 0;
        int64_t right = asked(s, q);
        for (int64_t j = 0; j < s->n; j++)
            p[j] = 1;
        for (int64_t i = 0; i < s->m; i++) {
            double all = 0, best = 0, ties = 0;
            for (int64_t j = 0; j < s->n; j++) {
                p[j] *= query(s, q)[i] == key(s, j)[i] ? 1 - noise : noise / (double)(s->codes - 1);
                all += p[j];
                best = fmax(best, p[j]);
            }
            for (int64_t j = 0; j < s->n; j++)
                ties += p[j] > best * (1 - 1e-9);
            loss -= log(p[right] / all);
            sums[2] += p[right] > best * (1 - 1e-9) ? 1 / ties : 0;
        }
        loss /= (double)s->m;
        sums[0] += loss;
        sums[1] += loss * loss;
    }
}

static void no_observer_is_better_than_the_floor(void **state)
{
    (void)state;
    enum { SAMPLES = 2000 };
    static const struct {
        int n, m, codes;
        double noise;
    } rows[] = {{4, 3, 8, 0},   {4, 3, 8, 0.1}, {8, 4, 8, 0.4}, {16, 2, 3, 0.3},
                {2, 8, 2, 0.2}, {3, 1, 5, 0.5}, {5, 4, 4, 0.75}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct stage s;
        double sums[3] = {0}, count = (double)rows[r].n * SAMPLES;
        begin(&s, rows[r].n, rows[r].m, rows[r].codes, rows[r].noise);
        const struct weft_floor f = floor_of(&s);
        for (uint64_t index = 0; index < SAMPLES; index++) {
            draw(&s, index);
            observe(&s, rows[r].noise, sums);
        }
        double mean = sums[0] / count, deviation = sqrt(fmax(0, sums[1] / count - mean * mean) / count);
        double accuracy = sums[2] / count / rows[r].m;
        print_message("n %d, m %d, K %d, p %g: loss %.5f, floor %.5f; accuracy %.4f, best %.4f\n", rows[r].n, rows[r].m,
                      rows[r].codes, rows[r].noise, mean, f.loss, accuracy, f.accuracy);
        assert_float_equal(mean, f.loss, 5 * deviation + 1e-9);
        assert_float_equal(accuracy, f.accuracy, 5 * sqrt(0.25 / count));
        assert_float_equal(f.chance, 1.0 / rows[r].n, 1e-12);
        close_stage(&s);
    }
}

static void check_floor(int n, int m, int codes, double noise, double loss, double accuracy)
{
    struct stage s;
    begin(&s, n, m, codes, noise);
    const struct weft_floor f = floor_of(&s);
    assert_float_equal(f.loss, loss, 1e-10 * (1 + loss));
    assert_float_equal(f.accuracy, accuracy, 1e-10);
    close_stage(&s);
}

/* Cases in which the floor has a closed form. */
static void floors_are_exact(void **state)
{
    (void)state;
    check_floor(2, 1, 2, 0, 0.5 * log(2), 0.75);                   /* the other key is the same or not */
    check_floor(4, 3, 4, 0.75, log(4), 0.25);                      /* queries carry no information */
    check_floor(3, 1, 4, 0, 6.0 / 16 * log(2) + 1.0 / 16 * log(3), /* two others, each the same in one of four */
                9.0 / 16 + 6.0 / 32 + 1.0 / 48);
    /* One token of two codes: the right key agrees with 0.9, the other with 0.5; odds of 9. */
    check_floor(2, 1, 2, 0.1,
                0.9 * 0.5 * log(2) + 0.9 * 0.5 * log(1 + 1 / 9.0) + 0.1 * 0.5 * log(2) + 0.1 * 0.5 * log(1 + 9.0),
                0.9 * 0.5 / 2 + 0.9 * 0.5 + 0.1 * 0.5 / 2);
}

/* Any rate and size that is accepted has one, between the best and chance, that noise makes worse. */
static void floors_are_finite_everywhere(void **state)
{
    (void)state;
    static const double noise[] = {0, 1e-300, 1e-30, 1e-3, 0.2, 0.5};
    static const char *const sizes[] = {"fuzzy_keys=2 fuzzy_tokens=16 fuzzy_codes=2",
                                        "fuzzy_keys=65536 fuzzy_tokens=2 fuzzy_codes=65536",
                                        "fuzzy_keys=300 fuzzy_tokens=16 fuzzy_codes=300"};
    for (int k = 0; k < 3; k++) {
        struct weft_floor before = {0, 1, 0};
        for (int i = 0; i < 6; i++) {
            struct stage s;
            char text[256];
            snprintf(text, sizeof text, "%s fuzzy_noise=%g vocab=300000 context=1000000", sizes[k], noise[i]);
            check(open_stage(&s, text));
            const struct weft_floor f = floor_of(&s);
            assert_true(f.loss >= before.loss - 1e-12 && f.loss <= -log(f.chance) + 1e-9);
            assert_true(f.accuracy <= before.accuracy + 1e-12 && f.accuracy >= f.chance - 1e-12);
            before = f;
            close_stage(&s);
        }
    }
}

static void what_is_impossible_is_refused(void **state)
{
    (void)state;
    struct stage s;
    assert_int_equal(open_stage(&s, "vocab=35"), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), "vocab=36 or more"));
    close_stage(&s);
    assert_int_equal(open_stage(&s, "fuzzy_noise=0.9"), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), "more than 0.875"));
    close_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_keep_the_rules),
        cmocka_unit_test(different_keys_are_counted),
        cmocka_unit_test(no_observer_is_better_than_the_floor),
        cmocka_unit_test(floors_are_exact),
        cmocka_unit_test(floors_are_finite_everywhere),
        cmocka_unit_test(what_is_impossible_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
