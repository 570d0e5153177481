/* SPDX-License-Identifier: MIT
 *
 * tasks.c - samples of the synthetic tasks follow every rule of their definition, samples of texts are every window
 * once, held-out samples are never trained on, test samples are never used for validation, and samples never change.
 *
 * run-tests: 3 s, asan 17 s
 */
#include "shards.h"
#include "train/recipe.h"

#include <math.h>

enum { MOST = 512 }; /* tokens of a sample here */

struct stage {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
    int64_t length;
    int32_t tokens[MOST], targets[MOST];
};

static enum weft_status open_stage(struct stage *s, const char *settings)
{
    *s = (struct stage){0};
    TRY(add_settings(&s->settings, settings));
    TRY(weft_spec_init(&s->spec, "gpt2", &s->settings));
    TRY(weft_recipe_init(&s->recipe, &s->spec, &s->settings));
    TRY(weft_recipe_open(&s->recipe, &s->spec));
    s->length = s->recipe.task->length(s->recipe.task_options);
    assert_true(s->length <= MOST);
    return WEFT_OK;
}

static void close_stage(struct stage *s)
{
    weft_recipe_release(&s->recipe);
    weft_spec_release(&s->spec);
    weft_settings_release(&s->settings);
}

static void draw(struct stage *s, uint64_t index)
{
    memset(s->tokens, 0x55, sizeof s->tokens);
    memset(s->targets, 0x55, sizeof s->targets);
    s->recipe.task->sample(&s->spec, s->recipe.task_options, index, s->tokens, s->targets);
    for (int64_t i = 0; i < s->length; i++) {
        assert_in_range(s->tokens[i], 0, s->spec.vocab - 1);
        assert_true(s->targets[i] >= -1 && s->targets[i] < s->spec.vocab);
    }
    assert_true(s->length == MOST || (s->tokens[s->length] == 0x55555555 && s->targets[s->length] == 0x55555555));
}

static void refuses(const char *settings, const char *words)
{
    struct stage s;
    if (open_stage(&s, settings) != WEFT_INVALID)
        fail_msg("%s was not refused", settings);
    if (!strstr(weft_error(), words))
        fail_msg("%s: expected \"%s\" in: %s", settings, words, weft_error());
    close_stage(&s);
}

static void assert_different(const int32_t *tokens, int64_t count, int64_t stride)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < i; j++)
            assert_int_not_equal(tokens[i * stride], tokens[j * stride]);
}

/* ---- recall */

static void recall(void **state)
{
    (void)state;
    struct stage s;
    assert_int_equal(open_stage(&s, "task=recall vocab=9 recall_length=9"), WEFT_OK);
    assert_int_equal(s.length, 17);
    for (uint64_t index = 0; index < 200; index++) {
        draw(&s, index);
        assert_different(s.tokens, 9, 1);
        for (int i = 0; i < 17; i++) {
            assert_int_equal(s.tokens[i], s.tokens[i % 9]);
            assert_int_equal(s.targets[i], i < 9 ? -1 : s.tokens[(i + 1) % 9]);
        }
    }
    close_stage(&s);
    refuses("task=recall vocab=9 recall_length=10", "vocab=10 or more");
}

/* ---- mqar */

/* Returns the position at which key m recurs, as a gap. */
static int64_t gap_of(const struct stage *s, int64_t pairs, int64_t m)
{
    int64_t at = -1;
    for (int64_t i = 2 * pairs; i < s->length; i++)
        if (s->targets[i] == s->tokens[2 * m + 1]) {
            assert_int_equal(at, -1); /* once */
            at = i;
        }
    assert_true(at >= 0 && at % 2 == 0);
    assert_int_equal(s->tokens[at], s->tokens[2 * m]);
    return (at - 2 * pairs) / 2;
}

static void mqar_keeps_its_rules(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        int64_t length, pairs;
        bool zeros;
    } rows[] = {
        {"task=mqar vocab=8192", 64, 4, true},
        {"task=mqar vocab=257 mqar_length=256 mqar_pairs=64 context=256", 256, 64, true},
        {"task=mqar vocab=5 mqar_length=4 mqar_pairs=1", 4, 1, true},
        {"task=mqar vocab=65 mqar_length=64 mqar_pairs=4 mqar_fill=uniform", 64, 4, false},
    };
    for (int r = 0; r < 4; r++) {
        struct stage s;
        int64_t pairs = rows[r].pairs, half, others = 0, sum = 0;
        assert_int_equal(open_stage(&s, rows[r].settings), WEFT_OK);
        assert_int_equal(s.length, rows[r].length);
        half = s.spec.vocab / 2;
        for (uint64_t index = 0; index < 500; index++) {
            int64_t scored = 0;
            draw(&s, index);
            assert_different(s.tokens, pairs, 2);
            assert_different(s.tokens + 1, pairs, 2);
            for (int64_t m = 0; m < pairs; m++) {
                assert_in_range(s.tokens[2 * m], 1, half - 1);
                assert_in_range(s.tokens[2 * m + 1], half, s.spec.vocab - 1);
                gap_of(&s, pairs, m);
            }
            for (int64_t i = 0; i < s.length; i++) {
                scored += s.targets[i] >= 0;
                if (i < 2 * pairs || s.targets[i] >= 0)
                    continue;
                assert_true(!rows[r].zeros || s.tokens[i] == 0);
                others++;
                sum += s.tokens[i];
            }
            assert_int_equal(scored, pairs);
        }
        if (!rows[r].zeros) /* uniform over the vocabulary: its mean, within five deviations */
            assert_float_equal((double)sum / (double)others, 32, 5 * sqrt((65 * 65 - 1) / 12.0 / (double)others));
        close_stage(&s);
    }
}

/* Gaps are drawn in turn without replacement: P(g0, g1) = w(g0) w(g1) / (1 - w(g0)). */
static void mqar_gaps_follow_the_power_law(void **state)
{
    (void)state;
    enum { SPACE = 4, SAMPLES = 40000 };
    struct stage s;
    double w[SPACE], sum = 0;
    int count[SPACE][SPACE] = {{0}};
    assert_int_equal(open_stage(&s, "task=mqar vocab=64 mqar_length=12 mqar_pairs=2"), WEFT_OK);
    for (uint64_t index = 0; index < SAMPLES; index++) {
        draw(&s, index);
        count[gap_of(&s, 2, 0)][gap_of(&s, 2, 1)]++;
    }
    for (int g = 0; g < SPACE; g++)
        sum += w[g] = 0.01 * pow(g + 1, 0.01 - 1);
    for (int g = 0; g < SPACE; g++)
        for (int h = 0; h < SPACE; h++) {
            double p = g == h ? 0 : w[g] / sum * w[h] / (sum - w[g]);
            assert_float_equal((double)count[g][h] / SAMPLES, p, 5 * sqrt(p * (1 - p) / SAMPLES));
        }
    close_stage(&s);
}

static void mqar_refuses_what_is_impossible(void **state)
{
    (void)state;
    refuses("task=mqar vocab=8192 mqar_length=63", "odd");
    refuses("task=mqar vocab=8192 mqar_length=64 mqar_pairs=17", "mqar_length=68");
    refuses("task=mqar vocab=64 mqar_length=64", "larger vocabulary");
}

/* ---- entailment: the tree is rebuilt from the samples */

enum { NODES = 64, ANSWERS = 2, ROOT = 2, SAMPLES = 60000 };

struct tree {
    int said[NODES][NODES]; /* by a and b: 0 nothing, 1 no, 2 yes */
    int depth[NODES];       /* ancestors, with the root */
};

static void learn(struct stage *s, struct tree *t)
{
    for (uint64_t i = 0; i < 3 * SAMPLES; i++) {
        draw(s, i / 3 + i % 3 * WEFT_HELD_OUT);
        int32_t a = s->tokens[0], b = s->tokens[1], answer = 1 + s->targets[1];
        assert_int_equal(s->targets[0], -1);
        assert_true(answer == 1 || answer == 2);
        assert_true(a > ROOT && b > ROOT && a != b);
        assert_true(t->said[a][b] == 0 || t->said[a][b] == answer);
        t->said[a][b] = answer;
    }
    for (int b = ROOT + 1; b < NODES; b++) {
        t->depth[b] = 1;
        for (int a = ROOT + 1; a < NODES; a++)
            t->depth[b] += t->said[a][b] == 2;
    }
}

/* Returns the parent; the root if there is none. */
static int parent_of(const struct tree *t, int b)
{
    for (int a = ROOT + 1; a < NODES; a++)
        if (t->said[a][b] == 2 && t->depth[a] == t->depth[b] - 1)
            return a;
    return ROOT;
}

static void entailment_is_a_tree(void **state)
{
    (void)state;
    struct stage s;
    struct tree t = {0};
    int children[NODES] = {0};
    assert_int_equal(open_stage(&s, "task=entailment"), WEFT_OK);
    assert_int_equal(s.spec.vocab, NODES);
    assert_int_equal(s.length, 2);
    learn(&s, &t);
    for (int b = ROOT + 1; b < NODES; b++) {
        assert_in_range(t.depth[b], 1, 6);
        children[parent_of(&t, b)]++;
        for (int a = ROOT + 1; a < NODES; a++) {
            if (t.said[a][b] == 2 && t.depth[b] > t.depth[a] + 1) /* above b means above its parent */
                assert_int_equal(t.said[a][parent_of(&t, b)], 2);
            if (t.said[a][b] == 1) /* wrong ancestors are at the same level as right ones */
                assert_true(t.depth[a] < t.depth[b]);
        }
    }
    for (int a = ROOT + 1; a < NODES; a++)
        assert_in_range(children[a], 0, 4);
    close_stage(&s);
}

/* In training the better guess by either token is no better than a coin. */
static void entailment_needs_both_tokens(void **state)
{
    (void)state;
    struct stage s;
    assert_int_equal(open_stage(&s, "task=entailment"), WEFT_OK);
    for (int which = 0; which < 2; which++) {
        int count[NODES][2] = {{0}}, right = 0;
        for (uint64_t index = 0; index < SAMPLES; index++) {
            draw(&s, index);
            count[s.tokens[which]][s.targets[1]]++;
        }
        for (int i = 0; i < NODES; i++)
            right += count[i][0] > count[i][1] ? count[i][0] : count[i][1];
        print_message("token %d alone: %.3f\n", which, (double)right / SAMPLES);
        assert_true(right < 0.52 * SAMPLES);
    }
    close_stage(&s);
    refuses("task=entailment vocab=8", "too small");
    refuses("task=entailment vocab=2", "too small");
}

/* ---- text: windows of token files, whose tokens encode their position */

enum { CONTEXT = 8, WINDOWS = 61, VAL_WINDOWS = 23, TEST_WINDOWS = 9, VAL_FIRST = 1000, TEST_FIRST = 2000 };

/* The last four tokens are of no window. */
static int save_windows(const char *split, int32_t first, int windows)
{
    return save_counting(split, first, windows * CONTEXT + 5);
}

static void open_text(struct stage *s, const char *others)
{
    char settings[256];
    assert_true(save_windows("train", 0, WINDOWS) > 5);
    assert_true(save_windows("val", VAL_FIRST, VAL_WINDOWS) > 3);
    snprintf(settings, sizeof settings, "task=text vocab=4096 context=%d data=%s %s", CONTEXT, scratch, others);
    check(open_stage(s, settings));
    assert_int_equal(s->length, CONTEXT);
}

/* The window that a sample is, of the files whose first token is given. */
static int64_t draw_window(struct stage *s, uint64_t index, int32_t first)
{
    draw(s, index);
    assert_int_equal(s->recipe.task->failure(s->recipe.task_options), WEFT_OK);
    for (int i = 0; i < CONTEXT; i++)
        assert_int_equal(s->targets[i], s->tokens[i] + 1);
    return window_of(s->tokens, CONTEXT, first);
}

/* Draws `count` samples and counts how often each of `windows` occurred. */
static void visit(struct stage *s, uint64_t from, int64_t count, int32_t first, int *visits, int64_t windows)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t window = draw_window(s, from + (uint64_t)i, first);
        assert_in_range(window, 0, windows - 1);
        visits[window]++;
    }
}

static void each_once(const int *visits, int64_t windows)
{
    for (int64_t i = 0; i < windows; i++)
        if (visits[i] != 1)
            fail_msg("window %lld was read %d times", (long long)i, visits[i]);
}

static int64_t held_out(const struct stage *s, bool test)
{
    return s->recipe.task->held_out(s->recipe.task_options, test);
}

static void text_epochs_are_all_windows(void **state)
{
    (void)state;
    struct stage s;
    int64_t same = 0;
    open_text(&s, "");
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        int visits[WINDOWS] = {0};
        visit(&s, epoch * WINDOWS, WINDOWS, 0, visits, WINDOWS);
        each_once(visits, WINDOWS);
    }
    for (uint64_t i = 0; i < WINDOWS; i++)
        same += draw_window(&s, i, 0) == draw_window(&s, WINDOWS + i, 0);
    assert_true(same < 10); /* one is expected */
    close_stage(&s);
}

/* Without test files, which the next test writes. */
static void text_halves_val(void **state)
{
    (void)state;
    struct stage s, other;
    int visits[VAL_WINDOWS] = {0};
    open_text(&s, "");
    open_text(&other, "seed=2");
    assert_int_equal(held_out(&s, false), VAL_WINDOWS - VAL_WINDOWS / 2);
    assert_int_equal(held_out(&s, true), VAL_WINDOWS / 2);
    visit(&s, WEFT_HELD_OUT, held_out(&s, false), VAL_FIRST, visits, VAL_WINDOWS);
    visit(&s, WEFT_TEST, held_out(&s, true), VAL_FIRST, visits, VAL_WINDOWS);
    each_once(visits, VAL_WINDOWS);
    for (uint64_t i = 0; i < VAL_WINDOWS / 2; i++) /* no seed draws others */
        assert_int_equal(draw_window(&s, WEFT_HELD_OUT + i, VAL_FIRST),
                         draw_window(&other, WEFT_HELD_OUT + i, VAL_FIRST));
    close_stage(&other);
    close_stage(&s);
}

static void text_reads_test_files(void **state)
{
    (void)state;
    struct stage s;
    int visits[VAL_WINDOWS] = {0}, test_visits[TEST_WINDOWS] = {0};
    save_windows("test", TEST_FIRST, TEST_WINDOWS);
    open_text(&s, "");
    assert_int_equal(held_out(&s, false), VAL_WINDOWS);
    assert_int_equal(held_out(&s, true), TEST_WINDOWS);
    visit(&s, WEFT_HELD_OUT, VAL_WINDOWS, VAL_FIRST, visits, VAL_WINDOWS);
    visit(&s, WEFT_TEST, TEST_WINDOWS, TEST_FIRST, test_visits, TEST_WINDOWS);
    each_once(visits, VAL_WINDOWS);
    each_once(test_visits, TEST_WINDOWS);
    close_stage(&s);
}

/* ---- held out */

static uint64_t hash(const struct stage *s)
{
    uint64_t x = 0xCBF29CE484222325;
    for (int64_t i = 0; i < s->length; i++)
        x = (x ^ (uint64_t)s->tokens[i]) * 0x100000001B3;
    return x;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void draw_many(struct stage *s, uint64_t first, uint64_t *hashes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        draw(s, first + i);
        hashes[i] = hash(s);
    }
    qsort(hashes, count, sizeof *hashes, by_value);
}

static void none_in_both(const uint64_t *a, size_t count, const uint64_t *b, size_t others)
{
    for (size_t i = 0; i < count; i++)
        assert_null(bsearch(&a[i], b, others, sizeof *b, by_value));
}

static void held_out_samples_are_never_trained_on(void **state)
{
    (void)state;
    enum { TRAIN = 40000, HELD = 2000 };
    static const char *const tasks[] = {"task=recall", "task=mqar vocab=8192", "task=fuzzy", "task=entailment"};
    static uint64_t trained[TRAIN], validation[HELD], test[HELD];
    for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++) {
        struct stage s;
        assert_int_equal(open_stage(&s, tasks[t]), WEFT_OK);
        draw_many(&s, 0, trained, TRAIN);
        draw_many(&s, WEFT_HELD_OUT, validation, HELD);
        draw_many(&s, WEFT_TEST, test, HELD);
        none_in_both(validation, HELD, trained, TRAIN);
        none_in_both(test, HELD, trained, TRAIN);
        none_in_both(test, HELD, validation, HELD);
        close_stage(&s);
    }
}

/* This many samples very likely contain every possible sample, because there are few. */
static void different_samples_are_counted(void **state)
{
    (void)state;
    enum { DRAWN = 40000 };
    static const struct {
        const char *settings;
        double different;
    } rows[] = {
        {"task=recall vocab=3 recall_length=2", 6},
        {"task=recall vocab=5 recall_length=5", 120},
        {"task=mqar vocab=5 mqar_length=4 mqar_pairs=1", 1 * 3 * 1},
        {"task=mqar vocab=11 mqar_length=10 mqar_pairs=2", 4 * 3 * 6 * 5 * 3 * 2},
    };
    static uint64_t drawn[DRAWN];
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct stage s;
        int64_t different = 1;
        assert_int_equal(open_stage(&s, rows[r].settings), WEFT_OK);
        draw_many(&s, 0, drawn, DRAWN);
        for (int i = 1; i < DRAWN; i++)
            different += drawn[i] != drawn[i - 1];
        assert_float_equal(s.recipe.task->different(&s.spec, s.recipe.task_options), rows[r].different, 0);
        assert_int_equal(different, rows[r].different);
        close_stage(&s);
    }
    struct stage s;
    assert_int_equal(open_stage(&s, "task=recall vocab=65536 recall_length=256"), WEFT_OK); /* no number is so large */
    assert_true(isinf(s.recipe.task->different(&s.spec, s.recipe.task_options)));
    close_stage(&s);
}

/* ---- samples stay what they were: the first of each, in training and held out */

static void samples_are_golden(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        struct {
            int32_t tokens[16], targets[16];
        } first, held_out;
    } rows[] = {
        {"task=recall vocab=64 recall_length=8",
         {{32, 19, 11, 18, 54, 29, 14, 17, 32, 19, 11, 18, 54, 29, 14},
          {-1, -1, -1, -1, -1, -1, -1, -1, 19, 11, 18, 54, 29, 14, 17}},
         {{19, 1, 34, 52, 14, 15, 22, 7, 19, 1, 34, 52, 14, 15, 22},
          {-1, -1, -1, -1, -1, -1, -1, -1, 1, 34, 52, 14, 15, 22, 7}}},
        {"task=mqar vocab=100 mqar_length=16 mqar_pairs=3",
         {{4, 63, 36, 75, 26, 90, 4, 0, 0, 0, 0, 0, 36, 0, 26, 0},
          {-1, -1, -1, -1, -1, -1, 63, -1, -1, -1, -1, -1, 75, -1, 90, -1}},
         {{15, 51, 5, 67, 44, 70, 0, 0, 44, 0, 15, 0, 0, 0, 5, 0},
          {-1, -1, -1, -1, -1, -1, -1, -1, 70, -1, 51, -1, -1, -1, 67, -1}}},
        {"task=mqar vocab=100 mqar_length=16 mqar_pairs=3 mqar_fill=uniform seed=7",
         {{34, 79, 46, 50, 39, 55, 34, 56, 4, 77, 46, 5, 75, 51, 39, 23},
          {-1, -1, -1, -1, -1, -1, 79, -1, -1, -1, 50, -1, -1, -1, 55, -1}},
         {{8, 53, 3, 50, 25, 76, 25, 14, 8, 76, 3, 35, 46, 9, 68, 7},
          {-1, -1, -1, -1, -1, -1, 76, -1, 53, -1, 50, -1, -1, -1, -1, -1}}},
        {"task=fuzzy vocab=40 fuzzy_keys=2 fuzzy_tokens=3 fuzzy_noise=0.5",
         {{6, 14, 20, 5, 9, 21, 5, 9, 16, 0, 8, 21}, {-1, -1, -1, -1, -1, -1, 25, 25, 25, 25, 25, 25}},
         {{1, 14, 22, 5, 12, 17, 5, 14, 18, 6, 14, 22}, {-1, -1, -1, -1, -1, -1, 24, 24, 24, 24, 24, 24}}},
        {"task=entailment", {{21, 37}, {-1, 0}}, {{3, 43}, {-1, 1}}},
        {"task=entailment vocab=300 seed=7", {{17, 76}, {-1, 1}}, {{5, 14}, {-1, 1}}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct stage s;
        assert_int_equal(open_stage(&s, rows[r].settings), WEFT_OK);
        draw(&s, 0);
        assert_memory_equal(s.tokens, rows[r].first.tokens, (size_t)s.length * sizeof(int32_t));
        assert_memory_equal(s.targets, rows[r].first.targets, (size_t)s.length * sizeof(int32_t));
        draw(&s, WEFT_HELD_OUT);
        assert_memory_equal(s.tokens, rows[r].held_out.tokens, (size_t)s.length * sizeof(int32_t));
        assert_memory_equal(s.targets, rows[r].held_out.targets, (size_t)s.length * sizeof(int32_t));
        close_stage(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recall),
        cmocka_unit_test(mqar_keeps_its_rules),
        cmocka_unit_test(mqar_gaps_follow_the_power_law),
        cmocka_unit_test(mqar_refuses_what_is_impossible),
        cmocka_unit_test(entailment_is_a_tree),
        cmocka_unit_test(entailment_needs_both_tokens),
        cmocka_unit_test(text_epochs_are_all_windows),
        cmocka_unit_test(text_halves_val),
        cmocka_unit_test(text_reads_test_files),
        cmocka_unit_test(held_out_samples_are_never_trained_on),
        cmocka_unit_test(different_samples_are_counted),
        cmocka_unit_test(samples_are_golden),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
