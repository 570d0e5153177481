/* SPDX-License-Identifier: MIT
 *
 * chain.c - computes the hash chain of log.jsonl: every record ends with "chain", the SHA-256 of the chain of the
 * previous record (64 zeros before the first) and of its own text up to there. Changing, removing or inserting a record
 * requires rewriting all later ones, and the new chain then differs from the chain in checkpoints and the study's
 * ledger.
 */
#define _GNU_SOURCE
#include "train/record/internal.h"

#include <string.h>

static const char mark[] = ", \"chain\": \"";
enum { HEX = 64, MARK = sizeof mark - 1, END = 3 /* "}\n */ };

void weft_chain_start(struct weft_chain *c)
{
    *c = (struct weft_chain){0};
    memset(c->head, '0', HEX);
}

static void link(const struct weft_chain *c, const char *text, size_t bytes, char hex[65])
{
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, c->head, HEX);
    weft_sha256_add(&sha, text, bytes);
    weft_sha256_hex(&sha, hex);
}

bool weft_chain_write(struct weft_chain *c, const char *text, size_t bytes, FILE *to)
{
    char hex[65];
    link(c, text, bytes, hex);
    memcpy(c->head, hex, sizeof hex);
    c->lines++;
    return fwrite(text, 1, bytes, to) == bytes && fprintf(to, "%s%s\"}\n", mark, hex) > 0 && fflush(to) == 0;
}

bool weft_chain_read(struct weft_chain *c, const char *line, size_t bytes, size_t *text)
{
    char hex[65];
    if (bytes < MARK + HEX + END)
        return false;
    *text = bytes - (MARK + HEX + END);
    if (memcmp(line + *text, mark, MARK) != 0 || memcmp(line + bytes - END, "\"}\n", END) != 0)
        return false;
    link(c, line, *text, hex);
    if (memcmp(line + *text + MARK, hex, HEX) != 0)
        return false;
    memcpy(c->head, hex, sizeof hex);
    c->lines++;
    return true;
}
