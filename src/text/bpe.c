/* SPDX-License-Identifier: MIT
 *
 * bpe.c - merges the bytes of a piece: the pair of lowest rank first, of equal ones the leftmost, until no pair of
 * neighbours has a rank.
 *
 * Words are short, and a plain search for the lowest rank is fastest. A piece may also be megabytes of one letter. It
 * is merged window by window, each by a linked list (bpe_list.c) that fits in the cache.
 */
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT = 64 };

/* ---- short pieces */

static size_t merge_short(const struct weft_tokenizer *t, const char *piece, size_t size, int32_t *tokens)
{
    int32_t rank[SHORT];
    for (size_t i = 0; i < size; i++)
        tokens[i] = t->byte[(unsigned char)piece[i]];
    for (size_t i = 0; i + 1 < size; i++)
        rank[i] = weft_bpe_rank(t, tokens[i], tokens[i + 1]);
    while (size > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < size; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == WEFT_NO_RANK)
            break;
        tokens[best] = t->merge[rank[best]].made;
        size--;
        memmove(tokens + best + 1, tokens + best + 2, (size - best - 1) * sizeof *tokens);
        memmove(rank + best, rank + best + 1, (size - best) * sizeof *rank);
        if (best + 1 < size)
            rank[best] = weft_bpe_rank(t, tokens[best], tokens[best + 1]);
        if (best > 0)
            rank[best - 1] = weft_bpe_rank(t, tokens[best - 1], tokens[best]);
    }
    return size;
}

/* ---- long pieces
 *
 * Tokens are what merging gives if and only if each two neighbours are what merging their bytes alone gives. For take
 * the first merge across the border of two such neighbours. Until then merges there were inside the two, the same ones
 * in the same order as without the rest of the text, so this one would be done without it too. And the other way round:
 * where no merge crosses the outer borders of two neighbours, what happens between these is what happens to them alone.
 *
 * So windows can be merged one by one. A window's last tokens, which what follows might change, are dropped, and the
 * next window begins there. It remains to see that the two tokens that meet stay apart. If they do not, which takes
 * merges that pass on what happens over a long way to the left, the piece is merged as a whole.
 */
enum { WINDOW = 1 << 14, DROPPED = 1 << 10 };

/* Whether tokens that meet before `at` stay apart. */
static enum weft_status meet(const struct weft_tokenizer *t, struct weft_bpe_work *work, int32_t left, int32_t right,
                             const char *at, bool *apart)
{
    int32_t made[DROPPED];
    size_t before = t->token[left].size, size = before + t->token[right].size, count = 0;
    if (size <= SHORT)
        count = merge_short(t, at - before, size, made);
    else if (size <= DROPPED)
        TRY(weft_bpe_merge_list(t, work, at - before, size, made, &count));
    *apart = count == 2 && made[0] == left && made[1] == right;
    return WEFT_OK;
}

/* joined: whether the windows could be; if not, tokens and count say nothing. */
static enum weft_status merge_windows(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                      size_t size, int32_t *tokens, size_t *count, bool *joined)
{
    size_t start = 0, end = 0, more;
    *count = 0;
    for (*joined = true; *joined && end < size; *count += more) {
        end = (size_t)weft_min((int64_t)size, (int64_t)start + WINDOW);
        TRY(weft_bpe_merge_list(t, work, piece + start, end - start, tokens + *count, &more));
        if (*count)
            TRY(meet(t, work, tokens[*count - 1], tokens[*count], piece + start, joined));
        for (start = end; end < size && more && end - start < DROPPED; more--)
            start -= t->token[tokens[*count + more - 1]].size;
        *joined = *joined && more;
    }
    return WEFT_OK;
}

/* ---- pieces */

enum weft_status weft_bpe_merge(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count)
{
    if (size <= SHORT) {
        *count = merge_short(t, piece, size, tokens);
        return WEFT_OK;
    }
    bool joined;
    TRY(merge_windows(t, work, piece, size, tokens, count, &joined));
    return joined ? WEFT_OK : weft_bpe_merge_list(t, work, piece, size, tokens, count);
}

enum weft_status weft_bpe_piece(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count)
{
    int32_t token = size <= t->longest ? weft_strings_get(&t->whole, piece, size) : -1;
    if (token < 0)
        return weft_bpe_merge(t, work, piece, size, tokens, count);
    tokens[0] = token;
    *count = 1;
    return WEFT_OK;
}
