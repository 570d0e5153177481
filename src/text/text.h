/* SPDX-License-Identifier: MIT
 *
 * text.h - from text to tokens: tokenizers, token shards on disk, and the order in which they are read.
 *
 * Invariants:
 *  - No input is trusted. Any bytes may appear in a text or a file; an error names the file and the position.
 *  - Encoding is lossless: decode(encode(bytes)) = bytes for every byte string, except that the character tokenizer
 *    rejects characters that are not in its vocabulary, and that a tokenizer.json may normalize a text or drop a part.
 *  - Preparing and reading take constant memory; a token or a window is found in O(1).
 */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include "base/base.h"
#include "text/tokens/tree.h"

#include <stdio.h>

/* ---- tokenizers (tokenizer.c, bpe.c, ...) */

/* weft.h has what programs use: load, bytes, save, free, vocab, end, encode, decode. */

/* "char": one token per character (Unicode code point) that occurs in the text, in code point order. Encoding anything
 * else is an error. */
enum weft_status weft_tokenizer_chars(struct weft_tokenizer **t, const char *text, size_t bytes);
enum { WEFT_MAX_TOKENIZER_BYTES = 1 << 28 }; /* of a file */
/* Trains byte-level BPE with GPT-2's pre-tokenization on all of `from`. Ties go to the lexicographically larger pair of
 * byte strings, as in the reference merges. */
enum weft_status weft_tokenizer_train(struct weft_tokenizer **t, FILE *from, int vocab, const char *const *specials,
                                      int special_count);
/* Whether it is characters, or byte-level BPE as GPT-2 has it: nothing normalizes a text, GPT-2's pattern alone splits
 * it, and all added tokens are special. Others are known by their tokenizer.json alone. */
bool weft_tokenizer_plain(const struct weft_tokenizer *t);
/* What the tokenizer.json of a plain one has (tokenizer_save.c), as a jansson value that the caller releases; and a
 * tokenizer of the text of such a file (tokenizer_json.c), which `name` is for messages about. */
struct json_t;
enum weft_status weft_tokenizer_root(const struct weft_tokenizer *t, struct json_t **root);
enum weft_status weft_tokenizer_parse(struct weft_tokenizer **t, const char *name, const char *json, size_t bytes);
/* Adds kind, vocab, merges, specials, end, longest_bytes and begin. */
struct weft_result;
void weft_tokenizer_info(const struct weft_tokenizer *t, struct weft_result *r);

/* A list of tokens. Initialise with {0}; `fixed` and a room: what does not fit is counted only. */
struct weft_ids {
    int32_t *id;
    size_t count, room;
    bool fixed;
};
/* Makes room for `more` tokens. */
enum weft_status weft_ids_reserve(struct weft_ids *ids, size_t more);
/* Adds the tokens of a text. If it does not begin here, but continues what was encoded before it, it does not get what
 * some tokenizers put before a text. */
enum weft_status weft_encode(const struct weft_tokenizer *t, const char *text, size_t bytes, bool specials, bool begins,
                             struct weft_ids *ids);
/* The text of tokens. If it does not begin here, it keeps the space that some tokenizers drop before a text. */
enum weft_status weft_decode(const struct weft_tokenizer *t, const int32_t *tokens, size_t count, bool begins,
                             char *text, size_t room, size_t *bytes);

/* ---- shards (shards.c): memory-mapped token files written by Weft, llm.c or nanoGPT */

struct weft_shards;

/* `path` is a file, or a folder whose *.bin files with the word `split` ("train", "val") in their names are read in
 * name order. The files must match data.json if the folder has one. Without it, every token is scanned once to find
 * the largest. */
enum weft_status weft_shards_open(struct weft_shards **s, const char *path, const char *split);
/* Whether a folder has token files of the split. */
bool weft_shards_exist(const char *folder, const char *split);
/* Whether the name of a file is that of a token file of the split, such as train.bin or fineweb_train_000001.bin. */
bool weft_is_shard(const char *name, const char *split);
void weft_shards_close(struct weft_shards *s);
int64_t weft_shards_tokens(const struct weft_shards *s);
int64_t weft_shards_files(const struct weft_shards *s);
int64_t weft_shards_documents(const struct weft_shards *s);     /* 0 if unknown */
int64_t weft_shards_bytes(const struct weft_shards *s);         /* of text; 0 if unknown */
const char *weft_shards_tokenizer(const struct weft_shards *s); /* SHA-256 of tokenizer.json; "" if unknown */
int32_t weft_shards_end(const struct weft_shards *s);           /* the last token of a document; -1 if unknown */
int32_t weft_shards_max_token(const struct weft_shards *s);     /* a model's vocabulary must be larger */
/* Hash trees (tree.h): makes those that are not there yet, after which the content of the files has a hash: over the
 * number of tokens and the root of every file. With a tree, what is read is checked. */
struct weft_sha256;
enum weft_status weft_shards_index(struct weft_shards *s, weft_tree_fn *progress, void *context);
void weft_shards_root(const struct weft_shards *s, struct weft_sha256 *sha);
bool weft_shards_hash(const struct weft_shards *s, char hash[65]); /* false, and "": not all files have a tree */
/* As weft_shards_open, but as if there were no trees: they are made anew. */
enum weft_status weft_shards_open_anew(struct weft_shards **s, const char *path, const char *split);
/* Reads `count` tokens starting at `first`, across files. The range must be inside the stream. A token above the
 * maximum means the file is damaged and is an error, and so is a block that is not the one its tree was made from. */
enum weft_status weft_shards_read(const struct weft_shards *s, int64_t first, int64_t count, int32_t *tokens);

/* The number of windows of length+1 tokens. They start at multiples of `length` in the stream and may cross
 * documents. */
int64_t weft_shards_windows(const struct weft_shards *s, int64_t length);
/* Which documents some different windows are cut from (boundaries.c): of each the document of its second token, the
 * first that is predicted. Documents count from 0 in the order of the stream, those that no window has a part of are
 * left out. *documents is 0 where the end of documents is not known. */
enum weft_status weft_shards_locate(const struct weft_shards *s, int64_t length, const int64_t *window, int64_t windows,
                                    int64_t *document, int64_t *documents);

/* ---- order (order.c): a keyed permutation of 0..n-1 for n <= 2^62; any element in O(1), without an array */
uint64_t weft_order(uint64_t n, uint64_t key, uint64_t i);
/* Its inverse: the place of an element. */
uint64_t weft_order_place(uint64_t n, uint64_t key, uint64_t element);
/* The window that training sample `index` reads. Each epoch (index / n) has its own permutation. */
uint64_t weft_order_sample(uint64_t n, uint64_t seed, uint64_t index);
/* The first training sample that reads a window. */
uint64_t weft_order_first(uint64_t n, uint64_t seed, uint64_t window);

/* ---- reading (documents.c): text or JSONL files in constant memory; Zstandard is detected by content */

typedef enum weft_status weft_text_fn(void *context, const char *text, size_t bytes);
/* Calls `text` with consecutive pieces of the file, which end where the tokenizer would split the text anyway. */
enum weft_status weft_read_text(const char *path, weft_text_fn *text, void *context);
/* Calls `visit` with the jansson value of every line that is not blank; integers are decoded as reals. A line must be
 * shorter than 16 MiB. */
typedef enum weft_status weft_line_fn(void *context, const char *name, int64_t line, const struct json_t *value);
enum weft_status weft_read_jsonl(const char *path, weft_line_fn *visit, void *context);
/* The first `room` bytes of the decompressed file, or all of them if it is shorter. */
enum weft_status weft_read_head(const char *path, char *head, size_t room, size_t *got);

/* ---- preparing (prepare.c): text or JSONL, optionally Zstandard-compressed, to shards, in constant memory.
 *
 * JSONL: each line is a document. The hash of its text alone decides its split.
 * Plain text: each input is a document; the last `val_share` of its tokens goes to validation.
 * The end-of-text token, if the tokenizer has one, separates documents, and they begin with the token that its template
 * puts there. Special tokens inside texts are treated as ordinary text. */
struct weft_split {
    int64_t documents, tokens, bytes, files; /* a document divided between the splits counts in both */
};
struct weft_prepared {
    int64_t documents, bytes; /* of text, so far; train and val are final only at the end */
    struct weft_split train, val;
};
struct weft_prepare {
    const char *const *inputs; /* paths, or "-" for standard input; NULL-terminated */
    const char *out;           /* folder: train_000000.bin .., val_000000.bin .., tokenizer.json, data.json */
    const struct weft_tokenizer *tokenizer;
    const char *field;    /* the JSONL field with the text; NULL for plain text */
    double val_share;     /* in [0, 1) */
    int64_t shard_tokens; /* maximum tokens per file, below 2^31 */
    void (*progress)(void *context, const struct weft_prepared *now); /* called often; may be NULL */
    void *context;
};
/* The output folder must not exist yet. It is written under a temporary name and renamed when complete. */
enum weft_status weft_prepare(const struct weft_prepare *how, struct weft_prepared *sum);
/* Creates a character tokenizer from the inputs in a separate pass over them, so none can be "-". */
enum weft_status weft_prepare_chars(struct weft_tokenizer **t, const char *const *inputs, const char *field);

#endif
