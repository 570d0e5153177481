/* SPDX-License-Identifier: MIT
 *
 * bpe.h - what a tokenizer is, for the files that make and use one.
 *
 * Encoding: a text falls into special tokens and what is between (cut.c), that into chunks at gaps, which threads take
 * (encode.c), a chunk into pieces by GPT-2's pattern (cut.c), a piece's bytes are merged to tokens (bpe.c).
 */
#ifndef WEFT_TEXT_BPE_H
#define WEFT_TEXT_BPE_H

#include "text/map.h"
#include "text/text.h"

#define WEFT_END_OF_TEXT "<|endoftext|>"
#define WEFT_CHARS_PATTERN "[\\s\\S]" /* how files write that every character is a piece */

struct weft_token {
    const char *bytes; /* no zero behind them */
    uint32_t size;     /* >= 1 once set */
    bool special;
};

/* The rank of a merge is its place: lower ones are done first. */
struct weft_merge {
    int32_t left, right, made;
};

/* Texts to be found inside a text. */
struct weft_specials {
    int count;
    struct weft_token *text;
    bool first[256]; /* whether one begins with this byte */
};

enum weft_tokenizer_kind {
    WEFT_TOKENIZER_BPE,  /* of bytes; without merges it is the byte tokenizer */
    WEFT_TOKENIZER_CHAR, /* a token is one character */
};

struct weft_tokenizer {
    enum weft_tokenizer_kind kind;
    struct weft_arena arena;
    int vocab;
    struct weft_token *token;
    int32_t end; /* -1: none */
    struct weft_specials specials;
    int32_t *special_id;

    int merges;
    struct weft_merge *merge;
    int32_t byte[256];         /* the token of a byte */
    struct weft_map rank;      /* of a pair, weft_pair_key: its merge */
    struct weft_strings whole; /* pieces that become one token, for speed; of characters: all tokens */
    size_t longest;            /* bytes of a token in `whole` */
    struct weft_cut *cut;
};

static inline uint64_t weft_pair_key(int32_t left, int32_t right) { return (uint64_t)left << 32 | (uint32_t)right; }

/* ---- names (byte_names.c). GPT-2's files write bytes as characters: those of Latin-1 that are visible as themselves,
 * the others, in order, as 256 up. */
static inline bool weft_byte_visible(int b) { return (b >= 33 && b <= 126) || (b >= 161 && b != 173); }
/* The name has at most two bytes per byte, and a zero behind. */
void weft_byte_name_write(const struct weft_token *token, char *name);
/* The bytes are no more than the name's; gives their number, 0 when a character stands for no byte. */
size_t weft_byte_name_read(const char *name, char *bytes);

/* ---- making one (tokenizer.c): create, set every token once and all merges, finish. `name` is for messages. */
enum weft_status weft_tokenizer_create(struct weft_tokenizer **t, enum weft_tokenizer_kind kind, int vocab, int merges);
enum weft_status weft_tokenizer_set(struct weft_tokenizer *t, int32_t id, const char *bytes, size_t size, bool special);
enum weft_status weft_tokenizer_finish(struct weft_tokenizer *t, const char *name);
/* Gives out the tokenizer when it was made, frees it when not. */
enum weft_status weft_tokenizer_hand_over(struct weft_tokenizer **out, struct weft_tokenizer *t,
                                          enum weft_status status);
/* A tokenizer.json in memory (tokenizer_json.c). */
enum weft_status weft_tokenizer_parse(struct weft_tokenizer **t, const char *name, const char *json, size_t bytes);

/* ---- cutting (cut.c) */

/* Bytes of the UTF-8 character that begins here; 0: none does. */
size_t weft_utf8_read(const char *text, size_t bytes, uint32_t *code);
size_t weft_utf8_write(uint32_t code, char text[4]);

/* Where the first special text at or behind `from` begins, the longest if several do; `bytes`: there is none. */
size_t weft_specials_find(const struct weft_specials *s, const char *text, size_t from, size_t bytes, int *which);

/* A gap is a place that every text is cut at whatever stands around: between a visible ASCII character and a space or
 * newline. So the texts on both sides can be encoded apart. The first gap at or behind `from` (or `bytes`), and the
 * last one (or 0). */
size_t weft_gap_first(const char *text, size_t from, size_t bytes);
size_t weft_gap_last(const char *text, size_t bytes);

struct weft_cut; /* the pattern, compiled */
enum weft_status weft_cut_create(struct weft_cut **cut);
void weft_cut_free(struct weft_cut *cut);

struct weft_cutter; /* what one thread needs to use it */
enum weft_status weft_cutter_create(struct weft_cutter **c, const struct weft_cut *cut);
void weft_cutter_free(struct weft_cutter *c);
void weft_cutter_start(struct weft_cutter *c, const char *text, size_t bytes);
/* The size of the next piece; 0: the text is over. */
enum weft_status weft_cutter_next(struct weft_cutter *c, const char **piece, size_t *size);

/* ---- merging (bpe.c) */

enum { WEFT_NO_RANK = INT32_MAX };

static inline int32_t weft_bpe_rank(const struct weft_tokenizer *t, int32_t left, int32_t right)
{
    int32_t rank = weft_map_get(&t->rank, weft_pair_key(left, right));
    return rank < 0 ? WEFT_NO_RANK : rank;
}

/* What merging long pieces needs; no init beyond {0}. */
struct weft_bpe_work {
    void *memory; /* for a piece of up to `room` bytes */
    size_t room;
    int32_t *ranks; /* three numbers per merge */
};
void weft_bpe_work_release(struct weft_bpe_work *work);
/* Writes the tokens of a piece, at most as many as it has bytes. */
enum weft_status weft_bpe_piece(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count);
/* The same without looking into `whole`. */
enum weft_status weft_bpe_merge(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count);
/* The same without windows (bpe_list.c). */
enum weft_status weft_bpe_merge_list(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                     size_t size, int32_t *tokens, size_t *count);

#endif
