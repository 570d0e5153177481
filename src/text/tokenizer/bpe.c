/* SPDX-License-Identifier: MIT
 *
 * bpe.c - merges the bytes or characters of a piece: the adjacent pair of lowest rank first, the leftmost on ties,
 * until no pair has a rank.
 *
 * Most pieces are short words, for which a linear search for the lowest rank is fastest. But a piece can also be
 * megabytes of one letter. Such a piece is merged in windows, each as a linked list (bpe_list.c) that fits in the
 * cache.
 */
#include "text/tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT = 64 };

/* ---- short pieces */

static size_t merge_short(const struct weft_tokenizer *t, const char *piece, size_t size, int32_t *tokens)
{
    int32_t rank[SHORT];
    size = weft_bpe_units(t, piece, size, tokens);
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
 * A token sequence is the BPE encoding of its bytes if and only if every two adjacent tokens are the encoding of their
 * own bytes. Proof: suppose every two adjacent tokens are, and take the first merge that crosses a boundary between two
 * of them. All earlier merges nearby were inside these two tokens, and they would happen in the same order without the
 * rest of the text. So this merge would also happen when the two are encoded alone, a contradiction. Conversely, if no
 * merge crosses the outer boundaries of two adjacent tokens, the rest of the text has no effect on them.
 *
 * So windows can be merged one after another. The last tokens of a window, which the following text might change, are
 * dropped, and the next window starts there. The two tokens at the boundary must then be checked: encoding their bytes
 * must give these two again. If it does not, the following text affects tokens far to its left, and the piece is merged
 * as a whole.
 */
enum { WINDOW = 1 << 14, DROPPED = 1 << 10 };

/* Checks whether encoding the bytes of `left` and `right`, which meet at `at`, gives these two tokens again. */
static enum weft_status check_boundary(const struct weft_tokenizer *t, struct weft_bpe_work *work, int32_t left,
                                       int32_t right, const char *at, bool *holds)
{
    int32_t made[DROPPED];
    size_t before = t->token[left].size, size = before + t->token[right].size, count = 0;
    if (size <= SHORT)
        count = merge_short(t, at - before, size, made);
    else if (size <= DROPPED)
        TRY(weft_bpe_merge_list(t, work, at - before, size, made, &count));
    *holds = count == 2 && made[0] == left && made[1] == right;
    return WEFT_OK;
}

/* Sets `joined` to false if a boundary check fails; `tokens` and `count` are then undefined. */
static enum weft_status merge_windows(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                      size_t size, int32_t *tokens, size_t *count, bool *joined)
{
    size_t start = 0, end = 0, more;
    *count = 0;
    for (*joined = true; *joined && end < size; *count += more) {
        end = (size_t)weft_min((int64_t)size, (int64_t)start + WINDOW);
        while (t->kind == WEFT_TOKENIZER_TEXT && end < size && ((unsigned char)piece[end] & 0xc0) == 0x80)
            end--;
        TRY(weft_bpe_merge_list(t, work, piece + start, end - start, tokens + *count, &more));
        if (*count)
            TRY(check_boundary(t, work, tokens[*count - 1], tokens[*count], piece + start, joined));
        for (start = end; end < size && more && end - start < DROPPED; more--)
            start -= t->token[tokens[*count + more - 1]].size;
        *joined = *joined && more;
    }
    return WEFT_OK;
}

/* ---- pieces */

static enum weft_status check_bytes(const struct weft_tokenizer *t, const char *piece, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (t->byte[(unsigned char)piece[i]] < 0)
            return FAIL(WEFT_INVALID, "byte 0x%02x of the text has no token", (unsigned char)piece[i]);
    return WEFT_OK;
}

enum weft_status weft_bpe_merge(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count)
{
    if (t->missing)
        TRY(check_bytes(t, piece, size));
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
