/* SPDX-License-Identifier: MIT
 *
 * bpe_train.c - trains BPE: repeatedly turns the most frequent adjacent pair into a token until the vocabulary is full.
 * Ties go to the pair with the larger byte strings.
 *
 * The text is read in blocks; only its distinct words and their counts are kept. Every pair has a count and a list of
 * words it occurs in, and a merge visits only these words. The most frequent pair is on top of a heap with lazy
 * updates: a pair whose count grew is pushed again, and an entry whose count shrank is detected when it is popped.
 */
#include "text/tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 22 };

struct word {
    struct weft_token text;
    int64_t count;
    int32_t *tokens;
    uint32_t size; /* in tokens */
};

struct pair {
    int32_t left, right;
    int64_t count;
    int32_t *words; /* words that contain the pair, or once did */
    size_t word_count, word_room;
    bool raised; /* in training.raised */
};

struct entry {
    int64_t count;
    int32_t pair;
};

struct training {
    struct weft_arena arena;
    struct weft_added specials;
    struct weft_cut *cut;
    struct weft_cutter *cutter;
    struct weft_strings word_of; /* text -> word */
    struct word *word;
    size_t words, word_room;

    struct weft_token *token; /* special tokens, bytes, then merged tokens */
    int vocab, tokens;
    struct weft_strings token_of; /* text -> token, without specials */
    struct weft_merge *merge;
    size_t merges, merge_room;
    struct weft_map pair_of; /* weft_pair_key -> pair */
    struct pair *pair;
    size_t pairs, pair_room;
    int32_t *raised; /* pairs whose count grew during this merge */
    size_t raised_count, raised_room;
    struct entry *heap;
    size_t heap_count, heap_room;
};

/* Reserves capacity for one more item of an array. */
static enum weft_status grow(void *array, size_t *room, size_t count, size_t item)
{
    if (count < *room)
        return WEFT_OK;
    size_t more = *room ? *room * 2 : 8, bytes;
    TRY(weft_size_mul(more, item, &bytes));
    void *grown = more > INT32_MAX ? NULL : realloc(*(void **)array, bytes);
    if (!grown)
        return FAIL(WEFT_NOMEM, "not enough memory to train a tokenizer: cannot allocate %zu bytes", bytes);
    *(void **)array = grown;
    *room = more;
    return WEFT_OK;
}
#define GROW(array, room, count) TRY(grow(&(array), &(room), (count), sizeof *(array)))

/* ---- words */

static enum weft_status count_word(struct training *tr, const char *text, size_t size)
{
    int32_t known = weft_strings_get(&tr->word_of, text, size);
    if (known >= 0) {
        tr->word[known].count++;
        return WEFT_OK;
    }
    if (size > INT32_MAX)
        return FAIL(WEFT_UNSUPPORTED, "the text has a word of %zu bytes; the limit is %d", size, INT32_MAX);
    GROW(tr->word, tr->word_room, tr->words);
    char *copy = weft_arena_alloc(&tr->arena, size);
    if (!copy)
        return WEFT_NOMEM;
    memcpy(copy, text, size);
    TRY(weft_strings_put(&tr->word_of, copy, size, (int32_t)tr->words));
    tr->word[tr->words++] = (struct word){.text = {.bytes = copy, .size = (uint32_t)size}, .count = 1};
    return WEFT_OK;
}

static enum weft_status count_words(struct training *tr, const char *text, size_t bytes)
{
    const char *piece;
    size_t size;
    weft_cutter_start(tr->cutter, text, bytes);
    for (;;) {
        TRY(weft_cutter_next(tr->cutter, &piece, &size));
        if (!size)
            return WEFT_OK;
        TRY(count_word(tr, piece, size));
    }
}

/* Counts the words of a block up to `done`, where the next block can start: after a special token, at a gap outside
 * special tokens, or at the end of the input. */
static enum weft_status count_block(struct training *tr, const char *text, size_t bytes, bool last, size_t *done)
{
    size_t longest = 0, at = 0, sure = bytes; /* any special token that starts before `sure` is complete */
    int which = 0;
    for (int i = 0; i < tr->specials.count; i++)
        longest = tr->specials.text[i].size > longest ? tr->specials.text[i].size : longest;
    if (!last)
        sure = bytes > longest ? bytes - longest : 0;
    for (;;) {
        size_t special = weft_added_find(&tr->specials, text, at, bytes, true, &which);
        if (special >= sure)
            break;
        TRY(count_words(tr, text + at, special - at));
        at = special + tr->specials.text[which].size;
    }
    *done = at;
    if (at < sure) {
        size_t size = last ? sure - at : weft_gap_last(text + at, sure - at);
        TRY(count_words(tr, text + at, size));
        *done += size;
    }
    return WEFT_OK;
}

static enum weft_status count_blocks(struct training *tr, FILE *from, char **text)
{
    size_t room = BLOCK, kept = 0, done = 0;
    if (!(*text = malloc(room)))
        return FAIL(WEFT_NOMEM, "not enough memory to read the text");
    for (bool last = false; !last;) {
        if (kept == room) { /* one word fills the buffer */
            char *grown = room > SIZE_MAX / 2 ? NULL : realloc(*text, room *= 2);
            if (!grown)
                return FAIL(WEFT_NOMEM, "not enough memory for a word of %zu bytes", kept);
            *text = grown;
        }
        size_t bytes = kept + fread(*text + kept, 1, room - kept, from);
        last = bytes < room;
        if (ferror(from))
            return FAIL(WEFT_IO, "error while reading the text");
        TRY(count_block(tr, *text, bytes, last, &done));
        kept = bytes - done;
        memmove(*text, *text + done, kept);
    }
    return WEFT_OK;
}

static enum weft_status read_words(struct training *tr, FILE *from)
{
    char *text = NULL;
    TRY(weft_cut_create(&tr->cut));
    TRY(weft_cut_add_gpt2(tr->cut));
    TRY(weft_cutter_create(&tr->cutter, tr->cut));
    enum weft_status status = count_blocks(tr, from, &text);
    free(text);
    return status;
}

/* ---- the heap */

static int compare(const struct weft_token *a, const struct weft_token *b)
{
    int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static bool above(const struct training *tr, const struct entry *a, const struct entry *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    const struct pair *p = &tr->pair[a->pair], *q = &tr->pair[b->pair];
    int order = compare(&tr->token[p->left], &tr->token[q->left]);
    return (order ? order : compare(&tr->token[p->right], &tr->token[q->right])) > 0;
}

static enum weft_status heap_push(struct training *tr, int32_t pair)
{
    GROW(tr->heap, tr->heap_room, tr->heap_count);
    struct entry e = {tr->pair[pair].count, pair};
    size_t i = tr->heap_count++;
    for (; i > 0 && above(tr, &e, &tr->heap[(i - 1) / 2]); i = (i - 1) / 2)
        tr->heap[i] = tr->heap[(i - 1) / 2];
    tr->heap[i] = e;
    return WEFT_OK;
}

static struct entry heap_pop(struct training *tr)
{
    struct entry top = tr->heap[0], last = tr->heap[--tr->heap_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < tr->heap_count; i = child) {
        if (child + 1 < tr->heap_count && above(tr, &tr->heap[child + 1], &tr->heap[child]))
            child++;
        if (!above(tr, &tr->heap[child], &last))
            break;
        tr->heap[i] = tr->heap[child];
    }
    tr->heap[i] = last;
    return top;
}

/* Returns the most frequent pair, or -1 if none is left. */
static enum weft_status best_pair(struct training *tr, int32_t *best)
{
    *best = -1;
    while (tr->heap_count && *best < 0) {
        struct entry e = heap_pop(tr);
        if (tr->pair[e.pair].count == e.count)
            *best = e.pair;
        else if (tr->pair[e.pair].count > 0 && tr->pair[e.pair].count < e.count)
            TRY(heap_push(tr, e.pair));
    }
    return WEFT_OK;
}

/* ---- pairs */

static enum weft_status find_pair(struct training *tr, int32_t left, int32_t right, int32_t *found)
{
    uint64_t key = weft_pair_key(left, right);
    *found = weft_map_get(&tr->pair_of, key);
    if (*found >= 0)
        return WEFT_OK;
    GROW(tr->pair, tr->pair_room, tr->pairs);
    *found = (int32_t)tr->pairs;
    TRY(weft_map_put(&tr->pair_of, key, *found));
    tr->pair[tr->pairs++] = (struct pair){.left = left, .right = right};
    return WEFT_OK;
}

static enum weft_status add_pair(struct training *tr, int32_t left, int32_t right, int32_t word)
{
    int32_t found;
    TRY(find_pair(tr, left, right, &found));
    struct pair *p = &tr->pair[found];
    p->count += tr->word[word].count;
    if (!p->word_count || p->words[p->word_count - 1] != word) {
        GROW(p->words, p->word_room, p->word_count);
        p->words[p->word_count++] = word;
    }
    if (!p->raised) {
        GROW(tr->raised, tr->raised_room, tr->raised_count);
        tr->raised[tr->raised_count++] = found;
        p->raised = true;
    }
    return WEFT_OK;
}

static void drop_pair(struct training *tr, int32_t left, int32_t right, int32_t word)
{
    tr->pair[weft_map_get(&tr->pair_of, weft_pair_key(left, right))].count -= tr->word[word].count;
}

static enum weft_status push_raised(struct training *tr)
{
    for (size_t i = 0; i < tr->raised_count; i++) {
        tr->pair[tr->raised[i]].raised = false;
        TRY(heap_push(tr, tr->raised[i]));
    }
    tr->raised_count = 0;
    return WEFT_OK;
}

/* Replaces each `left right` in a word with the merged token and updates the counts of the pairs around it. */
static enum weft_status merge_word(struct training *tr, struct weft_merge m, int32_t index)
{
    struct word *w = &tr->word[index];
    int32_t *a = w->tokens;
    uint32_t n = w->size, to = 0;
    bool after = false; /* the previous token was just merged: the pair between was already removed */
    for (uint32_t i = 0; i < n; to++) {
        if (i + 1 >= n || a[i] != m.left || a[i + 1] != m.right) {
            a[to] = a[i++];
            after = false;
            continue;
        }
        if (i > 0 && !after)
            drop_pair(tr, a[i - 1], m.left, index);
        drop_pair(tr, m.left, m.right, index);
        if (to > 0)
            TRY(add_pair(tr, a[to - 1], m.made, index));
        if (i + 2 < n) {
            drop_pair(tr, m.right, a[i + 2], index);
            if (i + 3 >= n || a[i + 2] != m.left || a[i + 3] != m.right)
                TRY(add_pair(tr, m.made, a[i + 2], index));
        }
        a[to] = m.made;
        after = true;
        i += 2;
    }
    w->size = to;
    return WEFT_OK;
}

/* ---- tokens */

/* Finds or adds the token for the concatenation; it may exist, because different merges can give the same text. */
static enum weft_status make_token(struct training *tr, const struct weft_token *left, const struct weft_token *right,
                                   int32_t *made)
{
    size_t size = (size_t)left->size + right->size;
    char *text = weft_arena_alloc(&tr->arena, size);
    if (!text)
        return WEFT_NOMEM;
    memcpy(text, left->bytes, left->size);
    memcpy(text + left->size, right->bytes, right->size);
    *made = weft_strings_get(&tr->token_of, text, size);
    if (*made >= 0)
        return WEFT_OK;
    *made = tr->tokens;
    tr->token[tr->tokens++] = (struct weft_token){text, (uint32_t)size, false};
    return weft_strings_put(&tr->token_of, text, size, *made);
}

/* Adds the special tokens, then the bytes in GPT-2's order: visible ones before those written as other characters. */
static enum weft_status first_tokens(struct training *tr)
{
    for (int i = 0; i < tr->specials.count; i++)
        tr->token[tr->tokens++] = tr->specials.text[i];
    for (int visible = 1; visible >= 0; visible--)
        for (int b = 0; b < 256; b++)
            if (weft_byte_visible(b) == visible) {
                char *text = weft_arena_alloc(&tr->arena, 1);
                if (!text)
                    return WEFT_NOMEM;
                *text = (char)b;
                TRY(weft_strings_put(&tr->token_of, text, 1, tr->tokens));
                tr->token[tr->tokens++] = (struct weft_token){text, 1, false};
            }
    return WEFT_OK;
}

static enum weft_status first_pairs(struct training *tr)
{
    for (size_t i = 0; i < tr->words; i++) {
        struct word *w = &tr->word[i];
        w->size = w->text.size;
        w->tokens = weft_arena_alloc(&tr->arena, w->size * sizeof *w->tokens);
        if (!w->tokens)
            return WEFT_NOMEM;
        for (uint32_t k = 0; k < w->size; k++)
            w->tokens[k] = weft_strings_get(&tr->token_of, w->text.bytes + k, 1);
        for (uint32_t k = 0; k + 1 < w->size; k++)
            TRY(add_pair(tr, w->tokens[k], w->tokens[k + 1], (int32_t)i));
    }
    return push_raised(tr);
}

static enum weft_status learn(struct training *tr)
{
    TRY(first_tokens(tr));
    TRY(first_pairs(tr));
    while (tr->tokens < tr->vocab) {
        int32_t best;
        TRY(best_pair(tr, &best));
        if (best < 0)
            break;
        struct weft_merge m = {.left = tr->pair[best].left, .right = tr->pair[best].right};
        TRY(make_token(tr, &tr->token[m.left], &tr->token[m.right], &m.made));
        GROW(tr->merge, tr->merge_room, tr->merges);
        tr->merge[tr->merges++] = m;
        for (size_t i = 0; i < tr->pair[best].word_count; i++)
            TRY(merge_word(tr, m, tr->pair[best].words[i]));
        free(tr->pair[best].words);
        tr->pair[best].words = NULL;
        tr->pair[best].word_count = tr->pair[best].word_room = 0;
        TRY(push_raised(tr));
    }
    return WEFT_OK;
}

/* ---- entry point */

/* A special token must not be spelled like another token in tokenizer.json, where visible bytes are written as
 * themselves and others as characters outside ASCII. */
static enum weft_status check_specials(struct training *tr, const char *const *specials, int count)
{
    tr->specials.text = weft_arena_alloc(&tr->arena, (size_t)count * sizeof *tr->specials.text);
    if (!tr->specials.text)
        return WEFT_NOMEM;
    for (int i = 0; i < count; i++) {
        size_t size = strlen(specials[i]);
        for (size_t k = 0; k < size; k++)
            if (specials[i][k] < ' ' || specials[i][k] > '~')
                return FAIL(WEFT_INVALID, "special token %d has bytes that are not printable ASCII", i + 1);
        if (size < 2 || size > 1024)
            return FAIL(WEFT_INVALID, "the special token \"%.20s\" has %zu bytes; it must have 2 to 1024", specials[i],
                        size);
        for (int k = 0; k < i; k++)
            if (strcmp(specials[i], specials[k]) == 0)
                return FAIL(WEFT_INVALID, "the special token \"%s\" is given twice", specials[i]);
        tr->specials.text[tr->specials.count++] =
            (struct weft_token){.bytes = specials[i], .size = (uint32_t)size, .special = true};
        tr->specials.first[(unsigned char)specials[i][0]] = true;
    }
    return WEFT_OK;
}

static enum weft_status build(const struct training *tr, struct weft_tokenizer **t)
{
    TRY(weft_tokenizer_create(t, WEFT_TOKENIZER_BPE, tr->tokens, (int)tr->merges));
    for (int i = 0; i < tr->tokens; i++)
        TRY(weft_tokenizer_set(*t, i, tr->token[i].bytes, tr->token[i].size, tr->token[i].special));
    if (tr->merges)
        memcpy((*t)->merge, tr->merge, tr->merges * sizeof *tr->merge);
    return weft_tokenizer_finish(*t, "training");
}

static enum weft_status train(struct training *tr, struct weft_tokenizer **t, FILE *from, int vocab,
                              const char *const *specials, int count)
{
    enum { MAX_VOCAB = 1 << 24 };
    if (count < 0 || count > 1024)
        return FAIL(WEFT_INVALID, "there are %d special tokens, but the limit is 1024", count);
    if (vocab < 256 + count || vocab > MAX_VOCAB)
        return FAIL(WEFT_INVALID,
                    "a vocabulary size of %d is out of range: expected %d (all bytes and special tokens) to %d", vocab,
                    256 + count, MAX_VOCAB);
    TRY(check_specials(tr, specials, count));
    tr->vocab = vocab;
    tr->token = weft_arena_alloc(&tr->arena, (size_t)vocab * sizeof *tr->token);
    if (!tr->token)
        return WEFT_NOMEM;
    TRY(read_words(tr, from));
    TRY(learn(tr));
    return build(tr, t);
}

enum weft_status weft_tokenizer_train(struct weft_tokenizer **t, FILE *from, int vocab, const char *const *specials,
                                      int special_count)
{
    struct training tr = {0};
    struct weft_tokenizer *made = NULL;
    enum weft_status status = train(&tr, &made, from, vocab, specials, special_count);
    for (size_t i = 0; i < tr.pairs; i++)
        free(tr.pair[i].words);
    free(tr.pair);
    free(tr.word);
    free(tr.merge);
    free(tr.raised);
    free(tr.heap);
    weft_map_release(&tr.pair_of);
    weft_strings_release(&tr.token_of);
    weft_strings_release(&tr.word_of);
    weft_cutter_free(tr.cutter);
    weft_cut_free(tr.cut);
    weft_arena_release(&tr.arena);
    return weft_tokenizer_hand_over(t, made, status);
}
