/* SPDX-License-Identifier: MIT
 *
 * score_items.c - scores multiple choice and minimal pairs by likelihood. Items are read in blocks: all texts of a
 * block are scored together, then each item is judged.
 *
 * A choice follows its query after a space, and the two are encoded separately, so that the same tokens are scored for
 * any query. llm.c does the same; in GPT-2's pre-tokenizer a space begins a new piece anyway.
 */
#include "text/text.h"
#include "train/score/items.h"
#include "train/score/score.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64, MOST_CHOICES = 64 };

struct item {
    int choices, gold;
    double nll[MOST_CHOICES];
    double bytes[MOST_CHOICES]; /* bytes of the choices' texts */
};

struct items {
    struct weft_scorer *scorer;
    const struct weft_tokenizer *tokenizer;
    const char *name; /* name of the file, and the current line, for messages */
    int64_t line;
    struct weft_items_score *score;
    struct item *block;
    int held;
    struct weft_ids ids; /* token ids of one text and its query */
    char *text;          /* the text with a space before it */
    size_t room;         /* capacity of `text` */
};

/* ---- judging */

/* Returns whether the gold choice costs less than every other choice by the given measure. */
static bool is_right(const struct item *item, bool per_byte)
{
    double gold = item->nll[item->gold] / (per_byte ? item->bytes[item->gold] : 1);
    for (int i = 0; i < item->choices; i++)
        if (i != item->gold && !(gold < item->nll[i] / (per_byte ? item->bytes[i] : 1)))
            return false;
    return true;
}

static enum weft_status judge(struct items *t)
{
    TRY(weft_scorer_finish(t->scorer));
    for (int i = 0; i < t->held; i++) {
        bool right = is_right(&t->block[i], false), right_norm = is_right(&t->block[i], true);
        t->score->items++;
        t->score->right += right;
        t->score->right_norm += right_norm;
        if (t->scorer->items)
            weft_items_append(t->scorer->items, !right, !right_norm, 1);
    }
    t->held = 0;
    return WEFT_OK;
}

void weft_wilson(int64_t right, int64_t items, double *low, double *high)
{
    const double z = 1.959963984540054, n = (double)items, p = (double)right / n;
    double middle = p + z * z / (2 * n), reach = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)), all = 1 + z * z / n;
    *low = fmax(0, (middle - reach) / all);
    *high = fmin(1, (middle + reach) / all);
}

/* ---- scoring */

static enum weft_status make_room(struct items *t, size_t room)
{
    if (t->room >= room)
        return WEFT_OK;
    free(t->text);
    t->room = (t->text = malloc(room)) ? room : 0;
    return t->room ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory to encode %zu bytes of text", room);
}

/* Encodes the query and then the text, whose tokens start at *from. The tokenizer's begin token comes first; if there
 * is none, a text without a query follows the end-of-text token. */
static enum weft_status encode_choice(struct items *t, const json_t *query, const json_t *text, size_t *from)
{
    const char *before = json_string_value(query), *words = json_string_value(text);
    size_t before_bytes = json_string_length(query), bytes = json_string_length(text);
    int32_t begin = weft_tokenizer_begin(t->tokenizer), end = weft_tokenizer_end(t->tokenizer);
    bool space = before_bytes && before[before_bytes - 1] != ' ' && words[0] != ' ';
    int32_t first = begin >= 0 ? begin : before_bytes ? -1 : end;
    t->ids.count = 0;
    TRY(make_room(t, bytes + 1));
    TRY(weft_ids_reserve(&t->ids, 1));
    if (first >= 0 && first < t->scorer->model->spec->vocab)
        t->ids.id[t->ids.count++] = first;
    TRY(weft_encode(t->tokenizer, before, before_bytes, false, true, &t->ids));
    *from = t->ids.count;
    t->text[0] = ' ';
    memcpy(t->text + space, words, bytes);
    return weft_encode(t->tokenizer, t->text, bytes + space, false, !before_bytes, &t->ids);
}

/* Hashes the texts of an item, not its tokens, which depend on the model. */
static void identify(struct items *t, const struct item *item, int i, const json_t *query, const json_t *text)
{
    size_t bytes[] = {json_string_length(query), json_string_length(text), (size_t)i, (size_t)item->gold};
    struct weft_sha256 *sha = &t->scorer->items->sha;
    weft_sha256_add(sha, bytes, sizeof bytes);
    if (bytes[0])
        weft_sha256_add(sha, json_string_value(query), bytes[0]);
    weft_sha256_add(sha, json_string_value(text), bytes[1]);
}

static enum weft_status add_choice(struct items *t, struct item *item, int i, const json_t *query, const json_t *text)
{
    size_t from;
    char story[400];
    enum weft_status status = encode_choice(t, query, text, &from);
    if (status == WEFT_OK)
        status =
            weft_scorer_add(t->scorer, t->ids.id, (int64_t)t->ids.count, weft_max(1, (int64_t)from), &item->nll[i]);
    item->bytes[i] = (double)json_string_length(text);
    if (t->scorer->items)
        identify(t, item, i, query, text);
    if (status == WEFT_OK)
        return WEFT_OK;
    snprintf(story, sizeof story, "%s", weft_error());
    return FAIL(status, "%s:%lld: %s", t->name, (long long)t->line, story);
}

/* ---- lines */

static const char *const pair_fields[] = {"sentence_good",
                                          "sentence_bad",
                                          "UID",
                                          "pairID",
                                          "field",
                                          "linguistics_term",
                                          "simple_LM_method",
                                          "one_prefix_method",
                                          "two_prefix_method",
                                          "lexically_identical",
                                          "one_prefix_prefix",
                                          "one_prefix_word_good",
                                          "one_prefix_word_bad",
                                          "two_prefix_prefix_good",
                                          "two_prefix_prefix_bad",
                                          "two_prefix_word",
                                          NULL};
static const char *const choice_fields[] = {"query", "choices", "gold", NULL};

static enum weft_status wrong(const struct items *t, const char *what)
{
    return FAIL(WEFT_FORMAT, "%s:%lld: %s", t->name, (long long)t->line, what);
}

static enum weft_status check_fields(const struct items *t, const json_t *object, const char *const *known)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        int i = 0;
        while (known[i] && strcmp(known[i], name))
            i++;
        if (known[i])
            continue;
        char what[80];
        snprintf(what, sizeof what, "unknown field \"%.40s\"", name);
        return wrong(t, what);
    }
    return WEFT_OK;
}

static bool is_words(const json_t *text) { return json_string_length(text) > 0; }

static enum weft_status read_pair(struct items *t, const json_t *object, struct item *item)
{
    const json_t *texts[] = {json_object_get(object, "sentence_good"), json_object_get(object, "sentence_bad")};
    TRY(check_fields(t, object, pair_fields));
    if (!is_words(texts[0]) || !is_words(texts[1]))
        return wrong(t, "sentence_good and sentence_bad must be non-empty strings");
    *item = (struct item){.choices = 2};
    for (int i = 0; i < 2; i++)
        TRY(add_choice(t, item, i, NULL, texts[i]));
    return WEFT_OK;
}

static enum weft_status read_choices(struct items *t, const json_t *object, struct item *item)
{
    const json_t *query = json_object_get(object, "query"), *gold = json_object_get(object, "gold"), *text;
    const json_t *choices = json_object_get(object, "choices");
    size_t count = json_array_size(choices), i;
    TRY(check_fields(t, object, choice_fields));
    if (!json_is_string(query) || count < 2 || count > MOST_CHOICES)
        return wrong(t, "query must be a string, and choices a list of 2 to 64 strings");
    json_array_foreach(choices, i, text) if (!is_words(text)) return wrong(t, "a choice must be a non-empty string");
    double number = json_is_number(gold) ? json_number_value(gold) : -1;
    if (!(number >= 0 && number < (double)count && number == floor(number)))
        return wrong(t, "gold must be the index of a choice, counted from 0");
    *item = (struct item){.choices = (int)count, .gold = (int)number};
    json_array_foreach(choices, i, text) TRY(add_choice(t, item, (int)i, query, text));
    return WEFT_OK;
}

static enum weft_status read_item(void *context, const char *name, int64_t line, const json_t *object)
{
    struct items *t = context;
    struct item *item = &t->block[t->held];
    bool pair = json_object_get(object, "sentence_good"), choices = json_object_get(object, "choices");
    t->name = name;
    t->line = line;
    if (pair == choices)
        return wrong(t, "neither an item (query, choices, gold) nor a pair (sentence_good, sentence_bad)");
    if (t->score->items + t->held == 0) {
        t->score->pairs = pair;
        if (t->scorer->items)
            TRY(weft_items_begin(t->scorer->items, pair ? WEFT_ITEMS_PAIRS : WEFT_ITEMS_CHOICES, !pair));
    } else if (t->score->pairs != pair)
        return wrong(t, pair ? "a pair among items" : "an item among pairs");
    TRY(pair ? read_pair(t, object, item) : read_choices(t, object, item));
    return ++t->held == BLOCK ? judge(t) : WEFT_OK;
}

enum weft_status weft_score_items(struct weft_scorer *s, const struct weft_tokenizer *tokenizer, const char *path,
                                  struct weft_items_score *score)
{
    struct items t = {.scorer = s, .tokenizer = tokenizer, .score = score, .block = calloc(BLOCK, sizeof *t.block)};
    *score = (struct weft_items_score){0};
    enum weft_status status =
        t.block ? weft_read_jsonl(path, read_item, &t) : FAIL(WEFT_NOMEM, "not enough memory for %d items", BLOCK);
    enum weft_status last = judge(&t); /* also after a failure: waiting sequences point into memory freed here */
    status = status == WEFT_OK ? last : status;
    if (status == WEFT_OK && !score->items)
        status = FAIL(WEFT_FORMAT, "%s has no items", path);
    if (status == WEFT_OK && s->items)
        status = weft_items_finish(s->items);
    free(t.ids.id);
    free(t.text);
    free(t.block);
    return status;
}
