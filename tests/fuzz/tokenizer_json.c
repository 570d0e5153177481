/* SPDX-License-Identifier: MIT
 *
 * tokenizer_json.c - any bytes as a tokenizer.json: refused, or a tokenizer under which texts return, the file's own
 * bytes among them, and which is the same once more when written and read.
 */
#define _GNU_SOURCE
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void round_trip(const struct weft_tokenizer *t, const char *text, size_t size, bool specials)
{
    int32_t *tokens = malloc(size * sizeof *tokens + 1);
    char *back = malloc(size + 1);
    size_t count, bytes;
    if (weft_tokenizer_encode(t, text, size, specials, tokens, size, &count) == WEFT_OK) {
        must(count <= size);
        must(weft_tokenizer_decode(t, tokens, count, back, size, &bytes) == WEFT_OK);
        must(bytes == size && memcmp(back, text, size) == 0);
    } else {
        must(t->kind == WEFT_TOKENIZER_CHAR);
    }
    free(back);
    free(tokens);
}

static void save_and_load(const struct weft_tokenizer *t)
{
    struct weft_tokenizer *again = NULL;
    char path[64];
    int fd = memfd_create("tokenizer", 0);
    must(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    must(weft_tokenizer_save(t, path) == WEFT_OK && weft_tokenizer_load(&again, path) == WEFT_OK);
    must(again->vocab == t->vocab && again->merges == t->merges && again->end == t->end);
    for (int i = 0; i < t->vocab; i++)
        must(t->token[i].size == again->token[i].size &&
             memcmp(t->token[i].bytes, again->token[i].bytes, t->token[i].size) == 0);
    weft_tokenizer_free(again);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_tokenizer *t = NULL;
    const char *text = (const char *)data;
    if (weft_tokenizer_parse(&t, "fuzz", text, size) != WEFT_OK) {
        must(!t);
        return 0;
    }
    round_trip(t, text, size, false);
    round_trip(t, text, size, true);
    save_and_load(t);
    weft_tokenizer_free(t);
    return 0;
}
