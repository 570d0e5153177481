/* SPDX-License-Identifier: MIT
 *
 * prepare_chars.c - builds a character tokenizer from the inputs. A first pass sets one bit for each character that
 * occurs, so memory use does not depend on the length of the inputs.
 */
#include "text/tokenizer/bpe.h"
#include "text/tokens/internal.h"

#include <stdlib.h>
#include <string.h>

enum { CODE_POINTS = 0x110000 };

struct scan {
    unsigned char *marks;
    const char *input;
    bool jsonl;
    int64_t texts, bytes; /* in this input so far */
};

/* A vocabulary in tokenizer.json cannot contain a zero byte. */
static enum weft_status reject_zero(const struct scan *m, size_t at)
{
    if (m->jsonl)
        return FAIL(WEFT_FORMAT, "%s: byte %zu of document %lld is zero: use the byte tokenizer", m->input, at,
                    (long long)m->texts + 1);
    return FAIL(WEFT_FORMAT, "%s: byte %lld is zero: use the byte tokenizer", m->input,
                (long long)(m->bytes + (int64_t)at));
}

/* Skips invalid UTF-8, because encoding will reject it with its position. */
static enum weft_status mark(void *context, const char *text, size_t bytes)
{
    struct scan *m = context;
    for (size_t at = 0; at < bytes;) {
        uint32_t c;
        size_t size = weft_utf8_read(text + at, bytes - at, &c);
        if (size && !c)
            return reject_zero(m, at);
        if (size)
            m->marks[c / 8] |= (unsigned char)(1 << c % 8);
        at += size ? size : 1;
    }
    m->texts++;
    m->bytes += (int64_t)bytes;
    return WEFT_OK;
}

static enum weft_status mark_inputs(unsigned char *marks, const char *const *inputs, const char *field)
{
    for (; *inputs; inputs++) {
        struct weft_source *s;
        struct scan m = {.marks = marks, .input = *inputs, .jsonl = field};
        if (strcmp(*inputs, "-") == 0)
            return FAIL(WEFT_INVALID, "a character tokenizer needs a separate pass over the input, but standard input "
                                      "can be read only once: pass files");
        TRY(weft_source_open(&s, *inputs));
        enum weft_status status = field ? weft_documents_jsonl(s, field, mark, &m) : weft_documents_plain(s, mark, &m);
        weft_source_close(s);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

enum weft_status weft_prepare_chars(struct weft_tokenizer **t, const char *const *inputs, const char *field)
{
    unsigned char *marks = calloc(CODE_POINTS / 8, 1);
    char *text = malloc((size_t)CODE_POINTS * 4);
    enum weft_status status = marks && text
                                  ? mark_inputs(marks, inputs, field)
                                  : FAIL(WEFT_NOMEM, "not enough memory to collect the characters of the text");
    if (status == WEFT_OK) {
        size_t n = 0;
        for (uint32_t c = 0; c < CODE_POINTS; c++)
            if (marks[c / 8] >> c % 8 & 1)
                n += weft_utf8_write(c, text + n);
        status = weft_tokenizer_chars(t, text, n);
    }
    free(text);
    free(marks);
    return status;
}
