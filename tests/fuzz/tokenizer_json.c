/* SPDX-License-Identifier: MIT
 *
 * tokenizer_json.c - any bytes as a tokenizer.json: if it is accepted, the file's own bytes round-trip, and saving and
 * loading gives the same tokenizer.
 */
#define _GNU_SOURCE
#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_tokenizer *t = NULL;
    const char *text = (const char *)data;
    if (weft_tokenizer_parse(&t, "fuzz", text, size) != WEFT_OK) {
        MUST(!t);
        return 0;
    }
    check_tokenizer(t, text, size);
    weft_tokenizer_free(t);
    return 0;
}
