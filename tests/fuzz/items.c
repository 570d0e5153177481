/* SPDX-License-Identifier: MIT
 *
 * items.c - any bytes as a file of evaluation items: if it is accepted, two runs give the same scores, and no more
 * items are right than there are. jsonl.c covers compressed input.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "text/text.h"
#include "train/score/score.h"

static struct weft_scorer *scorer;
static struct weft_tokenizer *tokenizer;

/* The smallest possible model, since the model is not under test. */
static void make_scorer(void)
{
    static const char *const sizes[] = {"layers=1", "width=8", "heads=1", "vocab=257", "context=16", "dtype=f32"};
    static struct weft_spec spec;
    struct weft_settings settings = {0};
    struct weft_nn *model;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        MUST(weft_settings_add(&settings, sizes[i]) == WEFT_OK);
    MUST(weft_spec_init(&spec, "gpt2", &settings) == WEFT_OK);
    weft_settings_release(&settings);
    MUST(weft_nn_create(&model, &spec) == WEFT_OK && weft_nn_init(model) == WEFT_OK);
    MUST(weft_scorer_create(&scorer, model, 4) == WEFT_OK && weft_tokenizer_bytes(&tokenizer) == WEFT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_items_score one, two;
    const char *path = fuzz_file(data, size);
    if (!scorer)
        make_scorer();
    if (fuzz_is_zstd(data, size) || weft_score_items(scorer, tokenizer, path, &one) != WEFT_OK)
        return 0;
    MUST(one.items > 0 && one.right >= 0 && one.right <= one.items);
    MUST(one.right_norm >= 0 && one.right_norm <= one.items);
    MUST(weft_score_items(scorer, tokenizer, path, &two) == WEFT_OK);
    MUST(one.pairs == two.pairs && one.items == two.items && one.right == two.right &&
         one.right_norm == two.right_norm);
    return 0;
}
