/* SPDX-License-Identifier: MIT
 *
 * text.h - turns text into tokens: tokenizers, token shards on disk, and the order in which they are read.
 *
 * Invariants:
 *  - No input is trusted: texts and files may contain any bytes. Errors name the file and the position.
 *  - Encoding is lossless: decode(encode(bytes)) = bytes for every byte string, except that the character tokenizer
 *    rejects characters outside its vocabulary, and a tokenizer.json may normalize a text or drop parts of it.
 *  - Preparing and reading take constant memory. A window is located in O(1), and its tokens by a binary search over
 *    the files.
 */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include "base/base.h"
#include "text/tokens/tree.h"

#include <stdio.h>

/* ---- tokenizers (tokenizer.c, bpe.c, ...) */

/* The public functions are in weft.h: load, bytes, save, free, vocab, end, encode, decode. */

/* Creates a "char" tokenizer: one token per character (Unicode code point) of the text, in code point order. Encoding
 * any other character is an error. */
enum weft_status weft_tokenizer_chars(struct weft_tokenizer **t, const char *text, size_t bytes);
enum { WEFT_MAX_TOKENIZER_BYTES = 1 << 28 }; /* maximum size of a tokenizer file */
/* Trains byte-level BPE with GPT-2's pre-tokenization on all of `from`. Ties go to the lexicographically larger pair of
 * byte strings, as in the reference merges. */
enum weft_status weft_tokenizer_train(struct weft_tokenizer **t, FILE *from, int vocab, const char *const *specials,
                                      int special_count);
/* Returns whether the tokenizer is a character tokenizer or byte-level BPE like GPT-2's: no normalization, only GPT-2's
 * pattern splits a text, and all added tokens are special. Other tokenizers are defined only by their
 * tokenizer.json. */
bool weft_tokenizer_plain(const struct weft_tokenizer *t);
/* weft_tokenizer_root returns the tokenizer.json of a plain tokenizer as a jansson value that the caller releases
 * (tokenizer_save.c); weft_tokenizer_parse creates a tokenizer from the text of such a file (tokenizer_json.c); `name`
 * is for messages. */
struct json_t;
enum weft_status weft_tokenizer_root(const struct weft_tokenizer *t, struct json_t **root);
enum weft_status weft_tokenizer_parse(struct weft_tokenizer **t, const char *name, const char *json, size_t bytes);
/* Adds the entries kind, vocab, merges, specials, end, longest_bytes and begin. */
struct weft_result;
void weft_tokenizer_info(const struct weft_tokenizer *t, struct weft_result *r);

/* A list of tokens. Initialise with {0}. If `fixed`, tokens beyond `room` are counted but not stored. */
struct weft_ids {
    int32_t *id;
    size_t count, room;
    bool fixed;
};
/* Reserves capacity for `more` tokens. */
enum weft_status weft_ids_reserve(struct weft_ids *ids, size_t more);
/* Appends the tokens of a text. A text that continues one encoded earlier (not `begins`) does not get the prefix that
 * some tokenizers add to a text. */
enum weft_status weft_encode(const struct weft_tokenizer *t, const char *text, size_t bytes, bool specials, bool begins,
                             struct weft_ids *ids);
/* Writes the text of the tokens. If they continue a text (not `begins`), the text keeps the leading space that some
 * tokenizers drop. */
enum weft_status weft_decode(const struct weft_tokenizer *t, const int32_t *tokens, size_t count, bool begins,
                             char *text, size_t room, size_t *bytes);

/* ---- shards (shards.c): memory-mapped token files written by Weft, llm.c or nanoGPT */

struct weft_shards;

/* Opens a file, or the *.bin files of a folder that have the word `split` ("train", "val") in their names, in name
 * order. The files must match data.json if the folder has one. Without it, all tokens are scanned once to find the
 * largest. */
enum weft_status weft_shards_open(struct weft_shards **s, const char *path, const char *split);
/* Returns whether a folder has token files of the split. */
bool weft_shards_exist(const char *folder, const char *split);
/* Returns whether a file name belongs to a token file of the split, such as train.bin or fineweb_train_000001.bin. */
bool weft_is_shard(const char *name, const char *split);
void weft_shards_close(struct weft_shards *s);
int64_t weft_shards_tokens(const struct weft_shards *s);
int64_t weft_shards_files(const struct weft_shards *s);
int64_t weft_shards_documents(const struct weft_shards *s);     /* 0 if unknown */
int64_t weft_shards_bytes(const struct weft_shards *s);         /* bytes of text; 0 if unknown */
const char *weft_shards_tokenizer(const struct weft_shards *s); /* SHA-256 of tokenizer.json; "" if unknown */
int32_t weft_shards_end(const struct weft_shards *s);           /* last token of every document; -1 if unknown */
int32_t weft_shards_max_token(const struct weft_shards *s);     /* a model's vocabulary must be larger */
/* Builds the missing hash trees (tree.h). The content of the files then has a hash, computed from the number of tokens
 * and the tree root of every file. Blocks of a file with a tree are checked when they are read. */
struct weft_sha256;
enum weft_status weft_shards_index(struct weft_shards *s, weft_tree_fn *progress, void *context);
void weft_shards_root(const struct weft_shards *s, struct weft_sha256 *sha);
bool weft_shards_hash(const struct weft_shards *s, char hash[65]); /* false and "" if a file has no tree */
/* Like weft_shards_open, but ignores existing trees, so that they are rebuilt. */
enum weft_status weft_shards_open_anew(struct weft_shards **s, const char *path, const char *split);
/* Reads `count` tokens starting at `first`, across files. The range must be inside the stream. A token above the
 * maximum, or a block that does not match its tree, is an error: the file is damaged or was changed. */
enum weft_status weft_shards_read(const struct weft_shards *s, int64_t first, int64_t count, int32_t *tokens);

/* Returns the number of windows of length+1 tokens. They start at multiples of `length` in the stream and may cross
 * documents. */
int64_t weft_shards_windows(const struct weft_shards *s, int64_t length);
/* Finds the documents of distinct windows (boundaries.c). The document of a window is the one of its second token, the
 * first one predicted. Documents that contain windows are numbered from 0 in stream order. *documents is 0 if the
 * end-of-document token is unknown. */
enum weft_status weft_shards_locate(const struct weft_shards *s, int64_t length, const int64_t *window, int64_t windows,
                                    int64_t *document, int64_t *documents);

/* ---- order (order.c): a keyed permutation of 0..n-1 for n <= 2^62, any element in O(1), without an array */
uint64_t weft_order(uint64_t n, uint64_t key, uint64_t i);
/* Returns the index of an element, as the inverse of the permutation. */
uint64_t weft_order_place(uint64_t n, uint64_t key, uint64_t element);
/* Returns the window that training sample `index` reads. Each epoch (index / n) has its own permutation. */
uint64_t weft_order_sample(uint64_t n, uint64_t seed, uint64_t index);
/* Returns the first training sample that reads a window. */
uint64_t weft_order_first(uint64_t n, uint64_t seed, uint64_t window);

/* ---- reading (documents.c): text or JSONL files in constant memory; Zstandard is detected by content */

typedef enum weft_status weft_text_fn(void *context, const char *text, size_t bytes);
/* Calls `text` with consecutive pieces of the file, cut only where the tokenizer would split the text anyway. */
enum weft_status weft_read_text(const char *path, weft_text_fn *text, void *context);
/* Calls `visit` with the jansson value of every nonblank line; integers are decoded as reals. A line must be shorter
 * than 16 MiB. */
typedef enum weft_status weft_line_fn(void *context, const char *name, int64_t line, const struct json_t *value);
enum weft_status weft_read_jsonl(const char *path, weft_line_fn *visit, void *context);
/* Reads the first `room` bytes of the decompressed file, or all of it if it is shorter. */
enum weft_status weft_read_head(const char *path, char *head, size_t room, size_t *got);

/* ---- preparing (prepare.c): converts text or JSONL, optionally Zstandard-compressed, to shards, in constant memory.
 *
 *  - JSONL: each line is a document. The hash of its text alone decides its split.
 *  - Plain text: each input is a document; the last `val_share` of its tokens is for validation.
 *
 * The end-of-text token, if the tokenizer has one, separates documents. Each document begins with the token that the
 * tokenizer's template adds there, if any. Special tokens inside texts are treated as ordinary text. */
struct weft_split {
    int64_t documents, tokens, bytes, files; /* a document split between train and val counts in both */
};
struct weft_prepared {
    int64_t documents, bytes; /* documents and bytes of text so far; `train` and `val` are final only at the end */
    struct weft_split train, val;
};
struct weft_prepare {
    const char *const *inputs; /* paths, or "-" for standard input; NULL-terminated */
    const char *out;           /* folder: train_000000.bin .., val_000000.bin .., tokenizer.json, data.json */
    const struct weft_tokenizer *tokenizer;
    const char *field;    /* the JSONL field with the text; NULL for plain text */
    double val_share;     /* in [0, 1) */
    int64_t shard_tokens; /* maximum tokens per file, below 2^31 */
    void (*progress)(void *context, const struct weft_prepared *now); /* called often, or NULL */
    void *context;
};
/* Writes the output folder under a temporary name and renames it when complete. It must not exist yet. */
enum weft_status weft_prepare(const struct weft_prepare *how, struct weft_prepared *sum);
/* Creates a character tokenizer in a separate pass over the inputs, so none can be "-". */
enum weft_status weft_prepare_chars(struct weft_tokenizer **t, const char *const *inputs, const char *field);

#endif
