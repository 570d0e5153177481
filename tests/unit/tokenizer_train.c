/* SPDX-License-Identifier: MIT
 *
 * tokenizer_train.c - training gives the merges of a reference implementation, however the text is divided into blocks.
 *
 * run-tests: 1 s, asan 4 s
 */
#include "tokenizer.h"

#include <jansson.h>

static void reference_merges(void **state)
{
    (void)state;
    struct text corpus = read_file(data("gpt2-bpe/cs336-corpus.en"));
    struct text reference = read_file(data("gpt2-bpe/cs336-train-bpe-reference-merges.txt"));
    json_t *vocab = json_load_file(data("gpt2-bpe/cs336-train-bpe-reference-vocab.json"), 0, NULL);
    struct weft_tokenizer *t = train(corpus.bytes, corpus.size, 500, WEFT_END_OF_TEXT);
    check(weft_tokenizer_save(t, in_scratch("tokenizer.json")));
    json_t *root = json_load_file(in_scratch("tokenizer.json"), 0, NULL), *model = json_object_get(root, "model");
    assert_true(json_equal(json_object_get(model, "vocab"), vocab));
    size_t i = 0;
    for (char *line = strtok(reference.bytes, "\n"); line; line = strtok(NULL, "\n"), i++)
        assert_string_equal(json_string_value(json_array_get(json_object_get(model, "merges"), i)), line);
    assert_int_equal(i, json_array_size(json_object_get(model, "merges")));
    json_decref(root);
    json_decref(vocab);
    weft_tokenizer_free(t);
    free(reference.bytes);
    free(corpus.bytes);
}

/* A text repeated many times has the same merges as once, however it is read in blocks, even with gaps inside special
 * tokens. */
static void training_in_blocks(void **state)
{
    (void)state;
    static const char once[] = "the shuttle, the warp and the weft; the loom's own song. it's woven <end of text>";
    const size_t size = sizeof once - 1, times = SANITIZED ? 60000 : 120000; /* a block is 4 MiB */
    char *often = malloc(size * times);
    for (size_t i = 0; i < times; i++)
        memcpy(often + i * size, once, size);
    struct weft_tokenizer *a = train(once, size, 290, "<end of text>");
    struct weft_tokenizer *b = train(often, size * times, 290, "<end of text>");
    same_tokenizer(a, b);
    weft_tokenizer_free(b);
    weft_tokenizer_free(a);
    memset(often, 'a', size * times); /* one word, larger than a block */
    a = train(often, size * times, 260, "<end of text>");
    assert_int_equal(a->token[259].size, 8);
    weft_tokenizer_free(a);
    free(often);
}

static void invalid_arguments_are_rejected(void **state)
{
    (void)state;
    static const struct {
        int vocab;
        const char *specials[2], *says;
    } rows[] = {
        {256, {"<end>"}, "expected 257"}, {-1, {"<end>"}, "expected 257"},         {300, {"x"}, "2 to 1024"},
        {300, {""}, "2 to 1024"},         {300, {"\xc4\xa0t"}, "printable ASCII"}, {300, {"<end>", "<end>"}, "twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weft_tokenizer *t = NULL;
        FILE *f = fopen("/dev/null", "rb");
        int count = rows[i].specials[1] ? 2 : 1;
        assert_int_equal(weft_tokenizer_train(&t, f, rows[i].vocab, rows[i].specials, count), WEFT_INVALID);
        assert_non_null(strstr(weft_error(), rows[i].says));
        assert_null(t);
        fclose(f);
    }
    struct weft_tokenizer *t = train("", 0, 1000, "<end>"); /* an empty text gives the bytes alone */
    assert_int_equal(weft_tokenizer_vocab(t), 257);
    round_trip(t, "any <end> bytes\xff", 16, true);
    weft_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_merges),
        cmocka_unit_test(training_in_blocks),
        cmocka_unit_test(invalid_arguments_are_rejected),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
