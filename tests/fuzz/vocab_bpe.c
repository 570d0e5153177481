/* SPDX-License-Identifier: MIT
 *
 * vocab_bpe.c - any bytes as GPT-2's files: vocab.bpe up to the first zero byte, encoder.json after it. If they are
 * accepted, the tokenizer passes the same checks as any other.
 */
#define _GNU_SOURCE
#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_tokenizer *t = NULL;
    if (weft_tokenizer_load(&t, fuzz_folder("vocab.bpe", "encoder.json", data, size)) != WEFT_OK) {
        MUST(!t);
        return 0;
    }
    check_tokenizer(t, (const char *)data, size);
    weft_tokenizer_free(t);
    return 0;
}
