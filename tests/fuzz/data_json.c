/* SPDX-License-Identifier: MIT
 *
 * data_json.c - any bytes as a folder of token files: data.json up to the first zero byte, train_000000.bin after it.
 * If the folder opens, its properties are in range, and so are all tokens that can be read.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "text/text.h"

static void read_all(const struct weft_shards *s)
{
    int64_t all = weft_shards_tokens(s);
    MUST(all >= 0 && weft_shards_files(s) == 1 && weft_shards_max_token(s) >= 0);
    MUST(weft_shards_bytes(s) >= 0 && weft_shards_documents(s) >= 0 && weft_shards_tokenizer(s));
    for (int64_t i = 0; i < all; i++) {
        int32_t token;
        if (weft_shards_read(s, i, 1, &token) == WEFT_OK)
            MUST(token >= 0 && token <= weft_shards_max_token(s));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_shards *s = NULL;
    if (weft_shards_open(&s, fuzz_folder("data.json", "train_000000.bin", data, size), "train") == WEFT_OK)
        read_all(s);
    else
        MUST(!s);
    weft_shards_close(s);
    return 0;
}
