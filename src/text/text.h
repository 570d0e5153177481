/* SPDX-License-Identifier: MIT
 *
 * text.h - from text to tokens: tokenizers, shards of tokens on disk, and the order in which they are read.
 *
 * Invariants:
 *  - Any bytes are valid input, of texts and of files: what is wrong is refused with file and place, never trusted.
 *  - Encoding loses nothing: decode(encode(bytes)) = bytes, for every tokenizer and every string of bytes.
 *  - Preparing and reading take constant memory; a token or a window is found in O(1).
 */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include "base/base.h"

#include <stdio.h>

/* ---- tokenizers (tokenizer.c, bpe.c, ...) */

struct weft_tokenizer;

/* 256 tokens, one per byte, and 256: end of text. */
enum weft_status weft_tokenizer_bytes(struct weft_tokenizer **t);
/* One token per character (Unicode code point) that occurs in the text, in order of code points: "char". Bytes that
 * are in none of them are refused when encoding. */
enum weft_status weft_tokenizer_chars(struct weft_tokenizer **t, const char *text, size_t bytes);
/* A tokenizer.json, or a folder or file of GPT-2's vocab.bpe (with encoder.json beside it). */
enum weft_status weft_tokenizer_load(struct weft_tokenizer **t, const char *path);
/* Byte-level BPE with GPT-2's way of cutting text into pieces; ties go to the lexicographically larger pair of byte
 * strings, as in the reference merges. Reads all of `from`. */
enum weft_status weft_tokenizer_train(struct weft_tokenizer **t, FILE *from, int vocab, const char *const *specials,
                                      int special_count);
enum weft_status weft_tokenizer_save(const struct weft_tokenizer *t, const char *path); /* tokenizer.json */
void weft_tokenizer_free(struct weft_tokenizer *t);

int weft_tokenizer_vocab(const struct weft_tokenizer *t);
int32_t weft_tokenizer_end(const struct weft_tokenizer *t); /* end of text; -1: it has none */
/* Adds kind, vocab, merges, specials, end and longest_bytes. */
struct weft_result;
void weft_tokenizer_info(const struct weft_tokenizer *t, struct weft_result *r);
/* Writes at most `room` tokens and gives the number there are (never more than bytes). Special tokens in the text are
 * recognised only when `specials`. */
enum weft_status weft_tokenizer_encode(const struct weft_tokenizer *t, const char *text, size_t bytes, bool specials,
                                       int32_t *tokens, size_t room, size_t *count);
/* Writes at most `room` bytes and gives the number there are. */
enum weft_status weft_tokenizer_decode(const struct weft_tokenizer *t, const int32_t *tokens, size_t count, char *text,
                                       size_t room, size_t *bytes);

/* ---- shards (shards.c): token files, mapped: this project's, llm.c's and nanoGPT's */

struct weft_shards;

/* A file, or a folder, whose files *.bin with the word `split` ("train", "val") in their names are taken in order of
 * their names. What a data.json in the folder says must be so. Without one every token is read once, for the top. */
enum weft_status weft_shards_open(struct weft_shards **s, const char *path, const char *split);
/* Whether a folder has files of the split. */
bool weft_shards_exist(const char *folder, const char *split);
void weft_shards_close(struct weft_shards *s);
int64_t weft_shards_tokens(const struct weft_shards *s);
int64_t weft_shards_files(const struct weft_shards *s);
int64_t weft_shards_documents(const struct weft_shards *s);     /* 0: not known */
int64_t weft_shards_bytes(const struct weft_shards *s);         /* of text, 0: not known */
const char *weft_shards_tokenizer(const struct weft_shards *s); /* SHA-256 of its tokenizer.json, "": not known */
int32_t weft_shards_top(const struct weft_shards *s);           /* no token is larger: the vocabulary must be */
/* Adds what tells these files from others at little cost: their lengths, first and last tokens, in their order. */
struct weft_sha256;
void weft_shards_fingerprint(const struct weft_shards *s, struct weft_sha256 *sha);
/* `count` tokens from `first` on, across files; the range must be within the tokens. Fails, with file and place, when a
 * token is above the top: the file was damaged. */
enum weft_status weft_shards_read(const struct weft_shards *s, int64_t first, int64_t count, int32_t *tokens);

/* Windows of length+1 tokens begin at multiples of `length` in the whole stream (they may cross documents). */
int64_t weft_shards_windows(const struct weft_shards *s, int64_t length);

/* ---- order (order.c): a keyed permutation of 0..n-1, n <= 2^62; any element in O(1), no array */
uint64_t weft_order(uint64_t n, uint64_t key, uint64_t i);
/* The window that sample `index` of training reads: epoch index/n is a permutation of its own. */
uint64_t weft_order_sample(uint64_t n, uint64_t seed, uint64_t index);

/* ---- reading (documents.c): files of text or JSONL (plain or .zst by content), in constant memory */

typedef enum weft_status weft_text_fn(void *context, const char *text, size_t bytes);
/* Calls `text` with pieces of the file, in order, that end where a tokenizer cuts anyway. */
enum weft_status weft_read_text(const char *path, weft_text_fn *text, void *context);
/* Calls `visit` with the value (jansson's; integers are reals) of every line that is not blank. A line is shorter than
 * 16 MiB. */
struct json_t;
typedef enum weft_status weft_line_fn(void *context, const char *name, int64_t line, const struct json_t *value);
enum weft_status weft_read_jsonl(const char *path, weft_line_fn *visit, void *context);
/* The first bytes, less than `room` only if there are no more. */
enum weft_status weft_read_head(const char *path, char *head, size_t room, size_t *got);

/* ---- preparing (prepare.c): text or JSONL (plain or .zst by content, a file or "-") to shards, in constant memory.
 *
 * JSONL: every line is a document and falls into one split by the hash of its text, whatever stands around it.
 * Plain text: every input is a document; the last share of its tokens is for validation.
 * The end-of-text token, if there is one, stands between documents of a split. Special tokens in texts are text. */
struct weft_split {
    int64_t documents, tokens, bytes, files; /* a divided document counts in both splits */
};
struct weft_prepared {
    int64_t documents, bytes; /* of text; train and val are final only when done */
    struct weft_split train, val;
};
struct weft_prepare {
    const char *const *inputs; /* paths or "-"; NULL at the end */
    const char *out;           /* folder: train_000000.bin .., val_000000.bin .., tokenizer.json, data.json */
    const struct weft_tokenizer *tokenizer;
    const char *field;    /* of a JSONL object that holds the text; NULL: plain text */
    double val_share;     /* 0 .. less than 1 */
    int64_t shard_tokens; /* most tokens of a file, below 2^31 */
    void (*tell)(void *context, const struct weft_prepared *now); /* called often; may be NULL */
    void *context;
};
/* The folder must not exist; it appears when it is complete. */
enum weft_status weft_prepare(const struct weft_prepare *how, struct weft_prepared *sum);
/* A tokenizer of the characters that occur in the inputs, which are read once for it: none can be "-". */
enum weft_status weft_prepare_chars(struct weft_tokenizer **t, const char *const *inputs, const char *field);

#endif
