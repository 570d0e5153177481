/* SPDX-License-Identifier: MIT
 *
 * bpe.h - the tokenizer's internals; private to src/text.
 *
 * Encoding splits a text at special tokens (cut.c) and the rest into chunks at gaps, which threads process in parallel
 * (encode.c). GPT-2's pattern splits a chunk into pieces (cut.c), and the bytes of a piece are merged to tokens
 * (bpe.c).
 */
#ifndef WEFT_TEXT_BPE_H
#define WEFT_TEXT_BPE_H

#include "text/map.h"
#include "text/text.h"

#define WEFT_END_OF_TEXT "<|endoftext|>"
#define WEFT_CHARS_PATTERN "[\\s\\S]" /* in tokenizer.json: every character is a piece */

struct weft_token {
    const char *bytes; /* not null-terminated */
    uint32_t size;     /* >= 1 once set */
    bool special;
};

/* The rank of a merge is its index. Lower ranks merge first. */
struct weft_merge {
    int32_t left, right, made;
};

/* Special tokens to search for in a text. */
struct weft_specials {
    int count;
    struct weft_token *text;
    bool first[256]; /* whether one starts with this byte */
};

enum weft_tokenizer_kind {
    WEFT_TOKENIZER_BPE,  /* byte-level; without merges it is the byte tokenizer */
    WEFT_TOKENIZER_CHAR, /* each token is one character */
};

struct weft_tokenizer {
    enum weft_tokenizer_kind kind;
    struct weft_arena arena;
    int vocab;
    struct weft_token *token;
    int32_t end; /* end-of-text token, or -1 */
    struct weft_specials specials;
    int32_t *special_id;

    int merges;
    struct weft_merge *merge;
    int32_t byte[256];         /* the token of a byte */
    struct weft_map rank;      /* weft_pair_key -> merge */
    struct weft_strings whole; /* pieces that are one token (a shortcut); for CHAR, all tokens */
    size_t longest;            /* size of the longest token in `whole` */
    struct weft_cut *cut;
};

static inline uint64_t weft_pair_key(int32_t left, int32_t right) { return (uint64_t)left << 32 | (uint32_t)right; }

/* ---- names (byte_names.c). GPT-2's files write bytes as characters: visible Latin-1 characters as themselves, the
 * other bytes, in order, as code points from 256 up. */
static inline bool weft_byte_visible(int b) { return (b >= 33 && b <= 126) || (b >= 161 && b != 173); }
/* The name takes at most two bytes per byte of the token, and is null-terminated. */
void weft_byte_name_write(const struct weft_token *token, char *name);
/* Returns the number of bytes, at most strlen(name), or 0 if a character does not represent a byte. */
size_t weft_byte_name_read(const char *name, char *bytes);

/* ---- construction (tokenizer.c): create, set every token once and all merges, finish. `name` is for messages. */
enum weft_status weft_tokenizer_create(struct weft_tokenizer **t, enum weft_tokenizer_kind kind, int vocab, int merges);
enum weft_status weft_tokenizer_set(struct weft_tokenizer *t, int32_t id, const char *bytes, size_t size, bool special);
enum weft_status weft_tokenizer_finish(struct weft_tokenizer *t, const char *name);
/* Stores `t` in `out` if `status` is WEFT_OK, else frees it. Returns `status`. */
enum weft_status weft_tokenizer_hand_over(struct weft_tokenizer **out, struct weft_tokenizer *t,
                                          enum weft_status status);

/* ---- pre-tokenization (cut.c) */

/* The size in bytes of the UTF-8 character at `text`; 0 if it is invalid or incomplete. */
size_t weft_utf8_read(const char *text, size_t bytes, uint32_t *code);
size_t weft_utf8_write(uint32_t code, char text[4]);

/* The offset of the first special token at or after `from`, the longest if several start there, or `bytes` if there is
 * none. */
size_t weft_specials_find(const struct weft_specials *s, const char *text, size_t from, size_t bytes, int *which);

/* A gap is a position between a visible ASCII character and a space or newline. GPT-2's pattern always splits there,
 * whatever the context, so both sides can be encoded independently. These return the first gap at or after `from` (or
 * `bytes`), and the last gap (or 0). */
size_t weft_gap_first(const char *text, size_t from, size_t bytes);
size_t weft_gap_last(const char *text, size_t bytes);

struct weft_cut; /* the compiled pattern */
enum weft_status weft_cut_create(struct weft_cut **cut);
void weft_cut_free(struct weft_cut *cut);

struct weft_cutter; /* per-thread state to apply it */
enum weft_status weft_cutter_create(struct weft_cutter **c, const struct weft_cut *cut);
void weft_cutter_free(struct weft_cutter *c);
void weft_cutter_start(struct weft_cutter *c, const char *text, size_t bytes);
/* The next piece; its size is 0 at the end of the text. */
enum weft_status weft_cutter_next(struct weft_cutter *c, const char **piece, size_t *size);

/* ---- merging (bpe.c) */

enum { WEFT_NO_RANK = INT32_MAX };

static inline int32_t weft_bpe_rank(const struct weft_tokenizer *t, int32_t left, int32_t right)
{
    int32_t rank = weft_map_get(&t->rank, weft_pair_key(left, right));
    return rank < 0 ? WEFT_NO_RANK : rank;
}

/* Scratch memory for merging long pieces. Initialise with {0}. */
struct weft_bpe_work {
    void *memory; /* for a piece of up to `room` bytes */
    size_t room;
    int32_t *ranks; /* three integers per merge */
};
void weft_bpe_work_release(struct weft_bpe_work *work);
/* Writes the tokens of a piece, at most one per byte. */
enum weft_status weft_bpe_piece(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count);
/* The same without the shortcut through `whole`. */
enum weft_status weft_bpe_merge(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count);
/* The same without splitting the piece into windows (bpe_list.c). */
enum weft_status weft_bpe_merge_list(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                     size_t size, int32_t *tokens, size_t *count);

#endif
