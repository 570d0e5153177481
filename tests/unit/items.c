/* SPDX-License-Identifier: MIT
 *
 * items.c - test-set noise: its intervals in simulated test sets, the documents that windows are cut from against a
 * plain count, the items of a test against its loss, and damaged item files.
 *
 * run-tests: 6 s, asan 7 s
 */
#include "train/score/items.h"
#include "ckpt/ckpt.h"
#include "shards.h"
#include "stage.h"
#include "stats/stats.h"
#include "train/score/evaluate.h"

#include <math.h>
#include <sys/stat.h>

/* ---- the statistic */

static void errors_are_those_of_a_ratio(void **state)
{
    (void)state;
    const double cost[] = {2, 6, 1}, weight[] = {1, 2, 1};
    struct weft_item_noise n = weft_item_noise(cost, weight, 3);
    double left_out[] = {7 / 3., 3 / 2., 8 / 3.}, error = 0; /* without the first, second, third */
    for (int i = 0; i < 3; i++)
        error += (left_out[i] - 2.25) * (left_out[i] - 2.25) * 2 / 3;
    error = sqrt(error);
    double t = 5.2422651305838315; /* 97.5 % at 16 / 6 - 1 degrees of freedom */
    assert_true(n.mean == 2.25 && fabs(n.error - error) < 1e-15 && n.items == 3 && fabs(n.freedom - 5 / 3.) < 1e-15);
    assert_true(fabs(n.interval.high - (2.25 + t * error)) < 1e-9 && fabs(n.interval.low - (2.25 - t * error)) < 1e-9);
    assert_true(fabs(n.another.high - (2.25 + t * sqrt(2) * error)) < 1e-9);
    struct weft_item_noise two[] = {n, {.items = 5, .mean = 1.25, .error = 2 * error, .freedom = 4}};
    struct weft_item_noise both = weft_item_noise_join(two, 2);
    assert_true(both.items == 8 && both.mean == 1.75 && fabs(both.freedom - 17 / 3.) < 1e-14);
    assert_true(fabs(both.error - sqrt(5) / 2 * error) < 1e-15);
}

static void what_cannot_be_known_is_not_guessed(void **state)
{
    (void)state;
    const double cost[] = {2, 4, 6}, weight[] = {1, 2, 3}, none[3] = {0};
    struct weft_item_noise one = weft_item_noise(cost, weight, 1), alike = weft_item_noise(cost, weight, 3);
    struct weft_item_noise same = weft_item_noise(none, weight, 3), empty = weft_item_noise(cost, none, 3);
    assert_true(one.mean == 2 && isnan(one.error) && isnan(one.interval.low) && isnan(one.another.high));
    assert_true(alike.mean == 2 && alike.error == 0 && isnan(alike.interval.low));
    assert_true(same.mean == 0 && same.interval.low == 0 && same.another.high == 0);
    assert_true(isnan(empty.mean) && isnan(empty.interval.low));
    assert_true(isnan(weft_item_noise(cost, weight, 0).mean) && isnan(weft_item_noise_join(NULL, 0).mean));
    assert_true(isnan(weft_item_noise_join(&one, 1).interval.low));
}

/* Documents of very different lengths. Some are hard, for both models alike; one model is better by `effect`, more in
 * some documents than in others. */
enum { MOST = 1000 };
static const double effect = -0.02;
struct test_set {
    double arm[MOST], base[MOST], difference[MOST], weight[MOST];
};

static void draw(struct test_set *s, int64_t items, uint64_t key)
{
    for (int64_t i = 0; i < items; i++) {
        uint64_t at = 4 * (uint64_t)i;
        double w = floor(20 - 300 * log(1 - weft_uniform(key, at))), hard = 3 + 0.6 * weft_normal(key, at + 1);
        double gain = effect + 0.05 * weft_normal(key, at + 2) + 0.3 * weft_normal(key, at + 3) / sqrt(w);
        s->weight[i] = w;
        s->base[i] = w * hard;
        s->arm[i] = w * (hard + gain);
        s->difference[i] = s->arm[i] - s->base[i];
    }
}

static bool covers(struct weft_interval i, double x) { return i.low <= x && x <= i.high; }

static void intervals_cover(void **state)
{
    (void)state;
    static struct test_set one, other;
    const int64_t sizes[] = {20, 100, MOST};
    const uint64_t sets = SANITIZED ? 2000 : 20000;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t n = sizes[k], interval = 0, another = 0;
        double narrower = 0;
        for (uint64_t i = 0; i < sets / (n == MOST ? 5 : 1); i++) {
            draw(&one, n, weft_key_name(2 * i, "items"));
            draw(&other, n, weft_key_name(2 * i + 1, "items"));
            struct weft_item_noise noise = weft_item_noise(one.difference, one.weight, n);
            double arm = weft_item_noise(one.arm, one.weight, n).error;
            double base = weft_item_noise(one.base, one.weight, n).error;
            interval += covers(noise.interval, effect);
            another += covers(noise.another, weft_item_noise(other.difference, other.weight, n).mean);
            narrower += sqrt(arm * arm + base * base) / noise.error;
        }
        double all = (double)sets / (n == MOST ? 5 : 1);
        print_message("%lld items: the interval has the mean in %.1f %%, another set's in %.1f %%; %.1f times narrower "
                      "than not paired\n",
                      (long long)n, 100 * (double)interval / all, 100 * (double)another / all, narrower / all);
        assert_true((double)interval / all > 0.935 && (double)interval / all < 0.965);
        assert_true((double)another / all > 0.935 && (double)another / all < 0.97);
        assert_true(narrower / all > 10);
    }
}

/* ---- documents */

enum { TOKENS = 5000, END = 9 };

static void write_documents(const char *split, uint64_t key, uint64_t about, uint16_t *tokens)
{
    char name[64];
    for (uint64_t i = 0; i < TOKENS; i++)
        tokens[i] = weft_below(key, i, about) == 0 ? END : (uint16_t)weft_below(key + 1, i, END);
    snprintf(name, sizeof name, "docs/%s_000000.bin", split);
    save_llmc(name, 2, TOKENS, tokens);
}

static void write_folder(uint64_t about, uint16_t *test)
{
    static const char *const splits[] = {"train", "val", "test"};
    char json[1000] = "{\"version\": 1, \"vocab\": 10, \"end\": 9";
    remove_all(in_scratch("docs"));
    mkdir(in_scratch("docs"), 0777);
    for (uint64_t i = 0; i < 3; i++) {
        write_documents(splits[i], 7 * i + 100 * about, about, test);
        snprintf(json + strlen(json), sizeof json - strlen(json),
                 ", \"%s_documents\": 9, \"%s_tokens\": %d, \"%s_bytes\": 99, \"%s_files\": 1", splits[i], splits[i],
                 TOKENS, splits[i], splits[i]);
    }
    strcat(json, "}\n");
    write_file(in_scratch("docs/data.json"), json, strlen(json));
}

/* Numbers the documents of the stream that the windows have targets of, in order. */
static int64_t count_plainly(const uint16_t *tokens, int64_t length, const int64_t *window, int64_t windows,
                             int *number)
{
    static bool has[TOKENS + 1];
    int document = 0, used = 0;
    memset(has, 0, sizeof has);
    for (int i = 0; i < TOKENS; i++) {
        number[i] = document; /* the end is the last token of its document */
        document += tokens[i] == END;
    }
    for (int64_t w = 0; w < windows; w++)
        for (int64_t i = 1; i <= length; i++)
            has[number[window[w] * length + i]] = true;
    static int rank[TOKENS + 1];
    for (int i = 0; i <= document; i++) {
        rank[i] = used;
        used += has[i];
    }
    for (int i = 0; i < TOKENS; i++)
        number[i] = rank[number[i]];
    return used;
}

static void windows_are_of_their_documents(void **state)
{
    (void)state;
    static uint16_t tokens[TOKENS];
    static int number[TOKENS];
    const uint64_t lengths[] = {2, 5, 40, 3000, 1000000};
    for (uint64_t k = 0; k < 40; k++) {
        struct weft_shards *s = NULL;
        int64_t length = 1 + (int64_t)weft_below(1, k, 60), window[200], document[200], count;
        write_folder(lengths[k % 5], tokens);
        check(weft_shards_open(&s, in_scratch("docs"), "test"));
        int64_t all = weft_shards_windows(s, length), windows = 1 + (int64_t)weft_below(2, k, 40);
        windows = weft_min(windows, all);
        for (int64_t i = 0; i < windows; i++)
            window[i] = (int64_t)weft_order((uint64_t)all, k, (uint64_t)i);
        check(weft_shards_locate(s, length, window, windows, document, &count));
        assert_int_equal(count, count_plainly(tokens, length, window, windows, number));
        for (int64_t w = 0; w < windows; w++) {
            int64_t at = document[w];
            for (int64_t i = window[w] * length + 1; i <= (window[w] + 1) * length; i++) {
                assert_int_equal(at, number[i]);
                at += tokens[i] == END;
            }
        }
        weft_shards_close(s);
    }
}

/* ---- tests that are scored */

static void check_items(const struct stage *s, const char *kind, int64_t batch, const struct weft_items *first)
{
    struct weft_score with, without;
    struct weft_items items;
    check(weft_evaluate(s->model, &s->recipe, NULL, batch, WEFT_TEST, &without));
    check(weft_evaluate_test(s->model, &s->recipe, NULL, batch, &with, &items));
    int64_t tokens = 0;
    for (int64_t i = 0; i < items.count; i++)
        tokens += items.tokens[i];
    assert_true(with.loss == without.loss && with.accuracy == without.accuracy && tokens == with.tokens);
    assert_true(fabs(weft_items_loss(&items) - with.loss) < 1e-12);
    assert_string_equal(items.kind, kind);
    assert_int_equal(items.count, first->count);
    assert_string_equal(items.items_sha256, first->items_sha256);
    assert_memory_equal(items.nll, first->nll, (size_t)items.count * sizeof *items.nll);
    assert_memory_equal(items.tokens, first->tokens, (size_t)items.count * sizeof *items.tokens);
    weft_items_release(&items);
}

static void try_task(const char *settings, const char *kind, int64_t count, struct weft_items *items)
{
    struct stage s = {0};
    struct weft_score score;
    check(add_settings(&s.settings, "dtype=f32 layers=1 width=32 heads=2 ffn_width=64 context=16 eval_samples=50"));
    check(add_settings(&s.settings, settings));
    open_recipe(&s, "gpt2");
    check(weft_recipe_open(&s.recipe, &s.spec));
    check(weft_nn_init(s.model));
    check(weft_evaluate_test(s.model, &s.recipe, NULL, 4, &score, items));
    if (count)
        assert_int_equal(items->count, count);
    for (int64_t batch = 1; batch < 9; batch += 2)
        check_items(&s, kind, batch, items);
    close_stage(&s);
}

static void items_have_the_test_loss(void **state)
{
    (void)state;
    static uint16_t tokens[TOKENS];
    struct weft_items a, b;
    char text[300];
    try_task("task=recall recall_length=8", "samples", 50, &a);
    try_task("task=recall recall_length=8 geom=w2", "samples", 50, &b);
    assert_string_equal(a.items_sha256, b.items_sha256); /* a different model, the same items */
    weft_items_release(&b);
    try_task("task=recall recall_length=8 seed=2", "samples", 50, &b);
    assert_string_not_equal(a.items_sha256, b.items_sha256);
    weft_items_release(&b);
    weft_items_release(&a);
    write_folder(20, tokens);
    snprintf(text, sizeof text, "task=text data=%s eval_samples=1000000", in_scratch("docs"));
    try_task(text, "documents", 0, &a); /* all windows, so these are the documents of the file */
    int64_t document = 0, left = a.tokens[0];
    for (int64_t i = 1; i <= (TOKENS - 1) / 16 * 16; i++) {
        assert_true(left-- > 0 && document < a.count);
        if (tokens[i] == END || left == 0) {
            assert_int_equal(left, 0);
            left = ++document < a.count ? a.tokens[document] : 0;
        }
    }
    assert_int_equal(document, a.count);
    weft_items_release(&a);
    write_folder(100000, tokens); /* hardly any end: windows are the items */
    try_task(text, "samples", (TOKENS - 1) / 16, &a);
    weft_items_release(&a);
}

/* ---- very many items */

static void neighbours_count_as_one(void **state)
{
    (void)state;
    struct stage s = {0};
    struct weft_items items;
    int32_t tokens[2] = {1, 2}, targets[2] = {-1, 3};
    float nll[2] = {0, 0.5F};
    const int64_t samples = 2 * WEFT_MOST_ITEMS + 1;
    check(add_settings(&s.settings, "context=16 recall_length=8"));
    open_recipe(&s, "gpt2");
    check(weft_items_init(&items, &s.recipe, samples));
    for (int64_t i = 0; i < samples; i++)
        weft_items_add(&items, 1, 2, tokens, targets, nll);
    check(weft_items_finish(&items));
    assert_true(items.count <= WEFT_MOST_ITEMS && items.count > WEFT_MOST_ITEMS / 2);
    assert_true(items.tokens[0] == 3 && items.nll[0] == 1.5 && weft_items_loss(&items) == 0.5);
    weft_items_release(&items);
    close_stage(&s);
}

/* ---- files */

static struct weft_items made(double *nll, int32_t *tokens, int64_t count)
{
    struct weft_items t = {.count = count, .nll = nll, .tokens = tokens, .kind = "samples"};
    memset(t.items_sha256, 'a', 64);
    return t;
}

static void refused(const struct weft_items *t, const char *words)
{
    struct weft_items found;
    check(weft_items_save(t, in_scratch("items")));
    check_error(weft_items_load(&found, in_scratch("items")), WEFT_FORMAT, words);
    weft_items_release(&found);
}

static void files_are_checked(void **state)
{
    (void)state;
    double nll[] = {1, 2.5, 0.125};
    int32_t tokens[] = {1, 2, 3};
    struct weft_items t = made(nll, tokens, 3), found;
    check(weft_items_save(&t, in_scratch("items")));
    check(weft_items_load(&found, in_scratch("items")));
    assert_true(found.count == 3 && memcmp(found.nll, nll, sizeof nll) == 0 &&
                memcmp(found.tokens, tokens, sizeof tokens) == 0);
    weft_items_release(&found);
    struct text file = read_file(in_scratch("items"));
    for (size_t cut = 0; cut < file.size; cut++) { /* every truncation, and every flipped bit of a byte */
        write_file(in_scratch("cut"), file.bytes, cut);
        assert_int_not_equal(weft_items_load(&found, in_scratch("cut")), WEFT_OK);
        weft_items_release(&found);
        file.bytes[cut] = (char)(file.bytes[cut] ^ 1 << cut % 8);
        write_file(in_scratch("cut"), file.bytes, file.size);
        enum weft_status status = weft_items_load(&found, in_scratch("cut"));
        if (status == WEFT_OK) /* padding, or a digit of the hash that is compared with other runs */
            assert_memory_equal(found.nll, nll, sizeof nll);
        weft_items_release(&found);
        file.bytes[cut] = (char)(file.bytes[cut] ^ 1 << cut % 8);
        weft_error_clear();
    }
    free(file.bytes);
    nll[1] = NAN;
    refused(&t, "its cost is not finite");
    nll[1] = -INFINITY;
    refused(&t, "its cost is not finite");
    nll[1] = 1;
    tokens[2] = 0;
    refused(&t, "an item has no tokens");
    tokens[2] = -5;
    refused(&t, "an item has no tokens");
    tokens[2] = 1;
    t.kind = "<b>";
    refused(&t, "lacks the kind of its items");
    t.kind = "samples";
    t.items_sha256[3] = '/';
    refused(&t, "or their hash");
    check_error(weft_items_load(&found, in_scratch("missing")), WEFT_IO, "cannot be");
    weft_items_release(&found);
}

static void counts_are_checked(void **state)
{
    (void)state;
    static double nll[WEFT_MOST_ITEMS + 1];
    static int32_t tokens[WEFT_MOST_ITEMS + 1];
    char hash[65];
    struct weft_items found, t = made(nll, tokens, WEFT_MOST_ITEMS + 1);
    refused(&t, "lists of equal length");
    memset(hash, 'a', 64);
    hash[64] = 0;
    const char *metadata[] = {"weft.items", "1", "kind", "samples", "items_sha256", hash, NULL};
    const struct weft_entry entries[][2] = {
        {{"nll", WEFT_F64, 1, {3}, nll, 0, NULL}, {"tokens", WEFT_I32, 1, {2}, tokens, 0, NULL}},
        {{"nll", WEFT_F64, 1, {0}, nll, 0, NULL}, {"tokens", WEFT_I32, 1, {0}, tokens, 0, NULL}},
        {{"nll", WEFT_F32, 1, {3}, nll, 0, NULL}, {"tokens", WEFT_I32, 1, {3}, tokens, 0, NULL}},
        {{"nll", WEFT_F64, 2, {3, 1}, nll, 0, NULL}, {"tokens", WEFT_I32, 1, {3}, tokens, 0, NULL}},
        {{"nll", WEFT_F64, 1, {3}, nll, 0, NULL}, {"token", WEFT_I32, 1, {3}, tokens, 0, NULL}},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        check(weft_safetensors_write(in_scratch("items"), entries[i], 2, metadata));
        check_error(weft_items_load(&found, in_scratch("items")), WEFT_FORMAT, "lists of equal length");
        weft_items_release(&found);
    }
    metadata[1] = "2";
    check(weft_safetensors_write(in_scratch("items"), entries[0], 2, metadata));
    check_error(weft_items_load(&found, in_scratch("items")), WEFT_FORMAT, "that this version can read");
    weft_items_release(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_those_of_a_ratio),
        cmocka_unit_test(what_cannot_be_known_is_not_guessed),
        cmocka_unit_test(intervals_cover),
        cmocka_unit_test(windows_are_of_their_documents),
        cmocka_unit_test(items_have_the_test_loss),
        cmocka_unit_test(neighbours_count_as_one),
        cmocka_unit_test(files_are_checked),
        cmocka_unit_test(counts_are_checked),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
