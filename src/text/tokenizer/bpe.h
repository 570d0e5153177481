/* SPDX-License-Identifier: MIT
 *
 * bpe.h - declares the internals of tokenizers; private to src/text.
 *
 * Encoding splits a text at added tokens (added.c) and the rest into chunks at gaps, which threads process in parallel
 * (encode.c). A chunk is normalized (normal.c), patterns split it into pieces (cut.c, pattern.c), and the bytes or
 * characters of a piece are merged into tokens (bpe.c, bpe_chars.c).
 */
#ifndef WEFT_TEXT_BPE_H
#define WEFT_TEXT_BPE_H

#include "text/text.h"
#include "text/tokenizer/map.h"

#define WEFT_END_OF_TEXT "<|endoftext|>"
#define WEFT_CHARS_PATTERN "[\\s\\S]" /* in tokenizer.json: every character is a piece */

struct weft_token {
    const char *bytes; /* not NUL-terminated */
    uint32_t size;     /* >= 1 once set */
    bool special;
    bool added; /* the token is searched for in texts, not produced by merging */
    bool byte;  /* TEXT: <0xHH>, one byte of a character that is not in the vocabulary */
};

/* The rank of a merge is its index. Lower ranks merge first. */
struct weft_merge {
    int32_t left, right, made;
};

/* Added tokens, which are searched for in a text before any other step. */
struct weft_added {
    int count, room;
    struct weft_token *text;
    int32_t *id;
    int ordinary;    /* number of tokens that are not special */
    bool first[256]; /* whether a token starts with this byte */
};

enum weft_tokenizer_kind {
    WEFT_TOKENIZER_BPE,  /* byte-level; without merges it is the byte tokenizer */
    WEFT_TOKENIZER_TEXT, /* BPE over characters, as in SentencePiece */
    WEFT_TOKENIZER_CHAR, /* each token is one character */
};

/* Changes to a text before it is split (normal.c). */
enum weft_normal_kind { WEFT_NORMAL_NFC, WEFT_NORMAL_PREPEND, WEFT_NORMAL_REPLACE };
enum { WEFT_NORMAL_STEPS = 8 };
struct weft_normal {
    int steps;
    struct weft_normal_step {
        enum weft_normal_kind kind;
        struct weft_token from,
            to; /* PREPEND inserts `to`, REPLACE replaces every `from` with `to`; `to` may be empty */
    } step[WEFT_NORMAL_STEPS];
};

/* Before splitting a text, the pre-tokenizers ByteLevel and Metaspace replace spaces with `mark` and may prepend a mark
 * to a text that does not begin with one: never, only at the beginning, or to every text between added tokens. */
enum weft_lead { WEFT_LEAD_NONE, WEFT_LEAD_FIRST, WEFT_LEAD_ALWAYS };

/* The conversion of tokens to text (decode.c). */
struct weft_decoder {
    struct weft_normal replace;
    bool bytes;             /* a token <0xHH> is a byte */
    struct weft_token mark; /* removed from the first token; "": nothing is removed */
    char strip;             /* one such character is removed from the beginning of the text; 0: none */
};

struct weft_tokenizer {
    enum weft_tokenizer_kind kind;
    struct weft_arena arena;
    int vocab;
    struct weft_token *token;
    int32_t begin, end;                  /* the tokens that a text begins and ends with, or -1 */
    struct weft_added added, normalized; /* searched for in the original and in the normalized text */
    const char *source;                  /* the tokenizer.json from which it was read, or NULL */
    size_t source_bytes;

    int merges;
    struct weft_merge *merge;
    int32_t byte[256];         /* the token of a byte, or -1 */
    bool missing;              /* at least one byte has no token */
    struct weft_map rank;      /* weft_pair_key -> merge */
    struct weft_strings whole; /* pieces that are one token (a shortcut); for CHAR, all tokens */
    size_t longest;            /* size of the longest token in `whole` */
    bool ignore_merges;        /* a piece that equals a token becomes that token, whatever merging would give */
    /* TEXT: */
    int32_t ascii[128];    /* the token of a character, or -1 */
    struct weft_map chars; /* the tokens of the other characters */
    struct weft_map joins; /* pairs of code points that are adjacent where a merge joins two tokens */
    int32_t unknown;       /* the token of characters that are not in the vocabulary; -1: they become byte tokens */
    bool fuse_unknown;     /* consecutive unknown characters share one token */

    struct weft_normal normal;
    enum weft_lead lead;
    struct weft_token mark; /* replaces spaces; "": spaces are kept */
    struct weft_cut *cut;
    bool gaps;  /* a gap (below) splits every text */
    bool bytes; /* a text is encoded byte by byte */
    struct weft_decoder decoder;
    struct weft_token *shown; /* texts of the tokens: `token`, unless the decoder changes them */
};

static inline uint64_t weft_pair_key(int32_t left, int32_t right) { return (uint64_t)left << 32 | (uint32_t)right; }

/* ---- names (byte_names.c). GPT-2's files write bytes as characters: visible Latin-1 characters as themselves, the
 * other bytes, in order, as code points from 256 up. */
static inline bool weft_byte_visible(int b) { return (b >= 33 && b <= 126) || (b >= 161 && b != 173); }
/* Writes the NUL-terminated name, at most two bytes per byte of the token. */
void weft_byte_name_write(const struct weft_token *token, char *name);
/* Returns the number of bytes, at most strlen(name), or 0 if a character does not represent a byte. */
size_t weft_byte_name_read(const char *name, char *bytes);

/* ---- construction (tokenizer.c): create, set every token once and all merges, then finish. Messages contain `name`.
 */
enum weft_status weft_tokenizer_create(struct weft_tokenizer **t, enum weft_tokenizer_kind kind, int vocab, int merges);
enum weft_status weft_tokenizer_set(struct weft_tokenizer *t, int32_t id, const char *bytes, size_t size, bool special);
enum weft_status weft_tokenizer_finish(struct weft_tokenizer *t, const char *name);
/* Stores `t` in `out` if `status` is WEFT_OK, else frees it. Returns `status`. */
enum weft_status weft_tokenizer_hand_over(struct weft_tokenizer **out, struct weft_tokenizer *t,
                                          enum weft_status status);

/* ---- characters (utf8.c) */

/* Returns the size in bytes of the UTF-8 character at `text`; 0 if it is invalid or incomplete. */
size_t weft_utf8_read(const char *text, size_t bytes, uint32_t *code);
size_t weft_utf8_write(uint32_t code, char text[4]);
/* Returns the length of the longest valid UTF-8 prefix. */
size_t weft_utf8_valid(const char *text, size_t bytes);
/* A name from a file, as shown in messages; long names are truncated. */
struct weft_shown {
    char text[48];
};
struct weft_shown weft_name_show(const char *name);

/* ---- pre-tokenization (cut.c) */

enum weft_status weft_added_create(struct weft_tokenizer *t, struct weft_added *a, int room);
void weft_added_put(struct weft_added *a, struct weft_token text, int32_t id);
/* Returns the offset of the first added token at or after `from`, the longest if several start there, or `bytes` if
 * there is none (added.c). Without `specials`, special tokens are skipped, together with any token that begins inside
 * them. */
size_t weft_added_find(const struct weft_added *a, const char *text, size_t from, size_t bytes, bool specials,
                       int *which);

/* A gap is a position between a visible ASCII character and a space, or an ASCII letter or digit and a newline. GPT-2's
 * pattern and the patterns of Llama 3 and Qwen2 always split there, whatever the context, so both sides can be encoded
 * independently. These functions return the first gap at or after `from` (or `bytes`), and the last gap (or 0). */
size_t weft_gap_first(const char *text, size_t from, size_t bytes);
size_t weft_gap_last(const char *text, size_t bytes);

/* Compiles a pattern: a literal text, or a regular expression in the syntax of Oniguruma, which Hugging Face's
 * tokenizers use, if PCRE2 is certain to interpret it in the same way (pattern.c). Messages contain `path`. */
enum { WEFT_MAX_PATTERN = 4096 };
struct pcre2_real_code_8;
enum weft_status weft_pattern_compile(struct pcre2_real_code_8 **code, const char *path, const char *pattern,
                                      bool literal);

/* Treatment of a pattern's matches; the names follow tokenizer.json. */
enum weft_cut_matches { WEFT_ISOLATED, WEFT_REMOVED, WEFT_CONTIGUOUS, WEFT_WITH_PREVIOUS, WEFT_WITH_NEXT };

struct weft_cut; /* compiled patterns; each splits the pieces of the one before it */
enum weft_status weft_cut_create(struct weft_cut **cut);
enum weft_status weft_cut_add_gpt2(struct weft_cut *cut);
enum weft_status weft_cut_add(struct weft_cut *cut, const char *path, const char *pattern, bool literal,
                              enum weft_cut_matches matches, bool invert);
bool weft_cut_is_gpt2(const struct weft_cut *cut); /* returns whether GPT-2's pattern is the only one */
void weft_cut_free(struct weft_cut *cut);

struct weft_cutter; /* per-thread state for applying a weft_cut */
enum weft_status weft_cutter_create(struct weft_cutter **c, const struct weft_cut *cut);
void weft_cutter_free(struct weft_cutter *c);
void weft_cutter_start(struct weft_cutter *c, const char *text, size_t bytes);
/* Returns the next piece; its size is 0 at the end of the text. */
enum weft_status weft_cutter_next(struct weft_cutter *c, const char **piece, size_t *size);

/* ---- normalization (normal.c) */

/* A buffer that grows. Initialise with {0}. */
struct weft_buffer {
    char *bytes;
    size_t size, room;
};
enum weft_status weft_buffer_add(struct weft_buffer *b, const char *bytes, size_t size);
/* Applies the steps, using two buffers. The result is in one of the buffers or is `text` itself. PREPEND is skipped
 * unless the text `begins` here. */
enum weft_status weft_normalize(const struct weft_normal *n, const char *text, size_t bytes, bool begins,
                                struct weft_buffer buffer[2], const char **out, size_t *size);
/* Appends the text with every `from` replaced by `to`. */
enum weft_status weft_buffer_replace(struct weft_buffer *b, const char *text, size_t bytes, struct weft_token from,
                                     struct weft_token to);

/* ---- merging (bpe.c) */

enum { WEFT_NO_RANK = INT32_MAX };

static inline int32_t weft_bpe_rank(const struct weft_tokenizer *t, int32_t left, int32_t right)
{
    int32_t rank = weft_map_get(&t->rank, weft_pair_key(left, right));
    return rank < 0 ? WEFT_NO_RANK : rank;
}

/* Returns the token of a character, or -1. */
static inline int32_t weft_char_token(const struct weft_tokenizer *t, uint32_t code)
{
    return code < 128 ? t->ascii[code] : weft_map_get(&t->chars, code);
}
/* Scratch memory for merging long pieces. Initialise with {0}. */
struct weft_bpe_work {
    void *memory; /* for a piece of up to `room` bytes */
    size_t room;
    int32_t *ranks; /* three integers per merge */
};
void weft_bpe_work_release(struct weft_bpe_work *work);
/* Writes the tokens of a piece, at most one per byte. If the kind is TEXT, each of its characters must have a token. */
enum weft_status weft_bpe_piece(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count);
/* Like weft_bpe_piece, without the shortcut through `whole`. */
enum weft_status weft_bpe_merge(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count);
/* Like weft_bpe_merge, without splitting the piece into windows (bpe_list.c). */
enum weft_status weft_bpe_merge_list(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                     size_t size, int32_t *tokens, size_t *count);
/* Writes the tokens that merging starts from and returns their number (bpe_list.c). */
size_t weft_bpe_units(const struct weft_tokenizer *t, const char *piece, size_t size, int32_t *tokens);
/* Writes the tokens of any text, for the kind TEXT (bpe_chars.c). */
enum weft_status weft_bpe_chars(const struct weft_tokenizer *t, struct weft_bpe_work *work, const char *piece,
                                size_t size, int32_t *tokens, size_t *count);
/* Fills ascii, chars, joins and byte from the tokens and merges; sets `gaps` to false if a merge joins characters that
 * a gap separates. */
enum weft_status weft_bpe_chars_finish(struct weft_tokenizer *t, const char *name);

/* ---- decoding (decode.c): fills `shown` from the tokens and the decoder */
enum weft_status weft_decoder_finish(struct weft_tokenizer *t);

#endif
