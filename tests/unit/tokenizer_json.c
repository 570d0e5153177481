/* SPDX-License-Identifier: MIT
 *
 * tokenizer_json.c - tests each part of Hugging Face's tokenizer.json: its effect on a text, and its errors.
 * tests/once/tokenizers.sh compares them with PyPI's tokenizers.
 *
 * run-tests: 4 s, asan 12 s
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer.h"

#include <pcre2.h>
#include <unistd.h>

#define MARK "\xe2\x96\x81"

/* ---- small tokenizers: bytes in GPT-2's spelling, or characters followed by <0xHH> */

struct parts {
    const char *added, *normalizer, *pre, *post, *decoder, *model; /* NULL: an empty list, null, nothing */
    const char *tokens;                                            /* more names, separated by spaces; ids from 256 */
    const char *merges;                                            /* JSON */
    bool text;                                                     /* over characters */
    bool untyped;                                                  /* the model has no type */
    int missing;                                                   /* a byte that has a different name; 0: none */
};

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define GPT2 "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define LLAMA2                                                                                                         \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" MARK "\"},"                         \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}]}"
#define LLAMA2_DECODER                                                                                                 \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK                       \
    "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"                                          \
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"
#define ADDED(id, text, normalized, special)                                                                           \
    "{\"id\":" #id ",\"content\":\"" text "\",\"normalized\":" #normalized ",\"special\":" #special "}"

static void print_vocab(FILE *f, const struct parts *p)
{
    char *tokens = strdup(p->tokens ? p->tokens : ""), *state;
    for (int b = 0; b < 256; b++) {
        char byte = (char)b, name[8];
        if (p->text)
            snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        else
            weft_byte_name_write(&(struct weft_token){.bytes = &byte, .size = 1}, name);
        if (b && b == p->missing)
            strcpy(name, "!!!");
        fprintf(f, "%s\"%s%s\":%d", b ? "," : "", *name == '"' || *name == '\\' ? "\\" : "", name, b);
    }
    int id = 256;
    for (char *name = strtok_r(tokens, " ", &state); name; name = strtok_r(NULL, " ", &state))
        fprintf(f, ",\"%s\":%d", name, id++);
    free(tokens);
}

static enum weft_status parse(struct weft_tokenizer **t, const struct parts *p)
{
    char *json = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&json, &size);
    const char *byte_level = p->text ? "null" : GPT2;
    fprintf(f, "{\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,", p->added ? p->added : "",
            p->normalizer ? p->normalizer : "null", p->pre ? p->pre : byte_level);
    fprintf(f, "\"post_processor\":%s,\"decoder\":%s,", p->post ? p->post : "null",
            p->decoder ? p->decoder
            : p->text  ? LLAMA2_DECODER
                       : "{\"type\":\"ByteLevel\"}");
    fprintf(f, "\"model\":{%s%s,\"vocab\":{", p->untyped ? "" : "\"type\":\"BPE\",",
            p->model ? p->model : "\"byte_fallback\":true");
    print_vocab(f, p);
    fprintf(f, "},\"merges\":[%s]}}", p->merges ? p->merges : "");
    fclose(f);
    enum weft_status status = weft_tokenizer_parse(t, "a.json", json, size);
    free(json);
    return status;
}

static struct weft_tokenizer *make(const struct parts *p)
{
    struct weft_tokenizer *t = NULL;
    check(parse(&t, p));
    return t;
}

/* The tokens of a text, separated by "|". */
static const char *shown(const struct weft_tokenizer *t, const char *text, bool specials, bool begins)
{
    static char out[1000];
    struct weft_ids ids = {0};
    size_t at = 0, bytes;
    check(weft_encode(t, text, strlen(text), specials, begins, &ids));
    for (size_t i = 0; i < ids.count; i++) {
        if (i)
            out[at++] = '|';
        check(weft_decode(t, &ids.id[i], 1, false, out + at, sizeof out - at, &bytes));
        at += bytes;
    }
    out[at] = 0;
    free(ids.id);
    return out;
}

static void gives(const struct parts *p, const char *text, const char *tokens)
{
    struct weft_tokenizer *t = make(p), *again = save_and_load(t);
    assert_string_equal(shown(t, text, true, true), tokens);
    assert_string_equal(shown(again, text, true, true), tokens);
    weft_tokenizer_free(again);
    weft_tokenizer_free(t);
}

/* ---- pre_tokenizer */

#define SPLIT(kind, pattern, behavior, invert)                                                                         \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"" kind "\":\"" pattern               \
    "\"},\"behavior\":\"" behavior "\",\"invert\":" #invert "}," BYTE_LEVEL "]}"

/* Merges join a with -, - with a and - with -, so that a split shows. */
static void splits(void **state)
{
    (void)state;
    static const struct {
        const char *pre, *tokens;
    } rows[] = {
        {BYTE_LEVEL, "a-|-a|a-|a"},
        {SPLIT("String", "-", "Isolated", false), "a|-|-|a|a|-|a"},
        {SPLIT("String", "-", "Removed", false), "a|a|a|a"},
        {SPLIT("String", "-", "MergedWithPrevious", false), "a-|-|a|a-|a"},
        {SPLIT("String", "-", "MergedWithNext", false), "a|-|-a|a|-a"},
        {SPLIT("String", "-", "Contiguous", false), "a|--|a|a|-|a"},
        {SPLIT("Regex", "-+", "Isolated", false), "a|--|a|a|-|a"},
        {SPLIT("Regex", "-", "Removed", true), "-|-|-"},
        {SPLIT("Regex", "a", "MergedWithPrevious", true), "a-|-|a|a-|a"},
        {SPLIT("Regex", "(?<=a)-(?=a)", "Isolated", false), "a-|-a|a|-|a"},
        {SPLIT("Regex", "^a|a$", "Isolated", false), "a|-|-a|a-|a"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        gives(&(struct parts){.pre = rows[i].pre,
                              .tokens = "a- -a --",
                              .merges = "\"a -\",\"- a\",\"- -\"",
                              .model = "\"dropout\":null"},
              "a--aa-a", rows[i].tokens);
}

static void digits_and_prefix(void **state)
{
    (void)state;
    struct parts p = {.tokens = "12 a1 \xc4\xa0"
                                "a",
                      .merges = "\"1 2\",\"a 1\",\"\xc4\xa0 a\""};
    p.pre =
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}," BYTE_LEVEL "]}";
    gives(&p, "a12", "a|1|2");
    p.pre =
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":false}," BYTE_LEVEL "]}";
    gives(&p, "a12", "a|12");
    p.pre = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}";
    p.added = ADDED(259, "<e>", false, true);
    gives(&p, "a<e>a", " a|<e>| a");
    gives(&p, " a", " a");
    struct weft_tokenizer *t = make(&p);
    assert_string_equal(shown(t, "a<e>a", true, false), "a|<e>| a");
    assert_string_equal(shown(t, "a<e>a", false, true), " a|<|e|>|a");
    weft_tokenizer_free(t);
}

/* ---- characters */

#define TEXT_TOKENS MARK " a b ab " MARK "a " MARK "ab \\n"
#define TEXT_MERGES "\"a b\",\"" MARK " a\",\"" MARK " ab\""

static void sentencepiece(void **state)
{
    (void)state;
    struct parts p = {.text = true, .normalizer = LLAMA2, .tokens = TEXT_TOKENS, .merges = TEXT_MERGES};
    char text[32];
    size_t bytes;
    p.added = ADDED(263, "<s>", false, true) "," ADDED(264, "b b", true, false);
    p.post = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":"
             "\"A\"}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[263]}}}";
    gives(&p, "ab a", " ab| a");
    gives(&p, "\xc3\xa9", " |\xc3|\xa9");
    gives(&p, "a<s>ab", " a|<s>| ab");
    gives(&p, "a b ba", " a| b b|a"); /* found with what the normalizer puts before it */
    struct weft_tokenizer *t = make(&p);
    assert_int_equal(weft_tokenizer_begin(t), 263);
    assert_string_equal(shown(t, "ab a", true, false), "ab| a");
    assert_string_equal(shown(t,
                              "a\xff"
                              "b",
                              true, true),
                        " a|\xff|b");
    check(weft_tokenizer_decode(t, (int32_t[]){260, 261, 262}, 3, text, sizeof text, &bytes));
    assert_memory_equal(text, "a ab\n", bytes);
    check(weft_tokenizer_decode(t, (int32_t[]){263, 260}, 2, text, sizeof text, &bytes));
    assert_memory_equal(text, "<s> a", bytes);
    check(weft_decode(t, (int32_t[]){260}, 1, false, text, sizeof text, &bytes));
    assert_memory_equal(text, " a", bytes);
    weft_tokenizer_free(t);
}

static void metaspace(void **state)
{
    (void)state;
    struct parts p = {.text = true, .tokens = TEXT_TOKENS, .merges = TEXT_MERGES};
    p.added = ADDED(263, "<s>", false, true);
    p.pre = "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"first\",\"split\":false}";
    gives(&p, "ab<s>a b", " ab|<s>|a| |b");
    gives(&p, "<s>a", "<s>|a");
    gives(&p, MARK "a", " a");
    p.pre = "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"always\"}";
    gives(&p, "ab<s>a", " ab|<s>| a");
    p.pre = "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"never\"}";
    p.decoder = "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"always\"}";
    gives(&p, "ab a", "ab| a");
    struct weft_tokenizer *t = make(&p);
    char text[32];
    size_t bytes;
    check(weft_tokenizer_decode(t, (int32_t[]){260, 260}, 2, text, sizeof text, &bytes));
    assert_memory_equal(text, "a a", bytes);
    assert_int_equal(bytes, 3);
    weft_tokenizer_free(t);
}

static void unknown_characters(void **state)
{
    (void)state;
    struct parts p = {.text = true, .tokens = "a <unk>", .decoder = "{\"type\":\"Fuse\"}"};
    p.model = "\"unk_token\":\"<unk>\",\"fuse_unk\":false";
    gives(&p, "axya", "a|<unk>|<unk>|a");
    p.model = "\"unk_token\":\"<unk>\",\"fuse_unk\":true";
    gives(&p, "axya\xff", "a|<unk>|a|<unk>");
}

static void nfc(void **state)
{
    (void)state;
    struct parts p = {
        .normalizer = "{\"type\":\"NFC\"}", .merges = "\"\xc3\x83 \xc2\xa9\"", .tokens = "\xc3\x83\xc2\xa9"};
    gives(&p, "e\xcc\x81x", "\xc3\xa9|x");
    gives(&p, "e\xcc\x81\xff", "\xc3\xa9|\xff");
    gives(&p, "\xe2\x84\xab", "\xc3|\x85"); /* the sign for angstrom */
}

/* Merging starts from what a piece is, and ends there if it is a token already. */
static void ignored_merges(void **state)
{
    (void)state;
    struct parts p = {.tokens = "ab abc", .merges = "\"a b\""};
    gives(&p, "abc", "ab|c");
    p.model = "\"ignore_merges\":true";
    gives(&p, "abc", "abc");
    gives(&p, "abcc", "ab|c|c");
}

/* The first file of this kind, GPT-2's, does not name the type of its model. */
static void untyped_models(void **state)
{
    (void)state;
    gives(&(struct parts){.untyped = true, .tokens = "ab", .merges = "\"a b\""}, "abab", "ab|ab");
}

static void missing_bytes(void **state)
{
    (void)state;
    struct weft_tokenizer *t = make(&(struct parts){.missing = 0xff, .tokens = "ab", .merges = "\"a b\""});
    struct weft_ids ids = {0};
    assert_string_equal(shown(t, "abc", true, true), "ab|c");
    assert_int_equal(weft_encode(t, "ab\xff\xff", 4, true, true, &ids), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), "0xff"));
    free(ids.id);
    weft_tokenizer_free(t);
}

/* ---- added tokens */

static void added_tokens(void **state)
{
    (void)state;
    struct parts p = {
        .added = ADDED(256, "<e>", false, true) "," ADDED(257, "ab", false, false) "," ADDED(
            258, "abc", false, false) "," ADDED(259, "b c", true, false) "," ADDED(260, "<e>x", false, false)};
    gives(&p, "abcab<e>", "abc|ab|<e>");
    gives(&p, "bb c", "b|b c");
    gives(&p, "ab c", "ab| |c"); /* first the text as it is, then the normalized one */
    gives(&p, "<e>x", "<e>x");
    struct weft_tokenizer *t = make(&p);
    assert_string_equal(shown(t, "ab<e>ab", false, true), "ab|<|e|>|ab");
    assert_string_equal(shown(t, "<e>x", false, true), "<e>x");
    weft_tokenizer_free(t);
}

/* ---- the end and the beginning */

static void ends(void **state)
{
    (void)state;
    struct parts p = {.added = ADDED(256, "</s>", false, true) "," ADDED(257, "<x>", false, true)};
    struct weft_tokenizer *t = make(&p);
    assert_int_equal(weft_tokenizer_end(t), 256);
    assert_int_equal(weft_tokenizer_begin(t), -1);
    weft_tokenizer_free(t);
    p.post =
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"x\"}}],"
        "\"special_tokens\":{\"x\":{\"ids\":[257]}}}";
    t = make(&p);
    assert_int_equal(weft_tokenizer_end(t), 257);
    weft_tokenizer_free(t);
}

/* ---- refusals */

static void refused(const struct parts *p, enum weft_status expected, const char *says)
{
    struct weft_tokenizer *t = NULL;
    enum weft_status status = parse(&t, p);
    if (status != expected || !strstr(weft_error(), says) || !strstr(weft_error(), "a.json"))
        fail_msg("status %d, %s; expected %s", status, status == WEFT_OK ? "accepted" : weft_error(), says);
    assert_null(t);
}

static void refused_parts(void **state)
{
    (void)state;
    static const struct {
        struct parts parts;
        const char *says;
    } rows[] = {
        {{.normalizer = "{\"type\":\"NFKC\"}"}, "normalizer (NFKC)"},
        {{.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Lowercase\"}]}"},
         "normalizer (Lowercase)"},
        {{.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"\"}"},
         "normalizer (Replace)"},
        {{.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}"}, "an empty text"},
        {{.normalizer = "{\"type\":\"Prepend\"}"}, "missing"},
        {{.pre = "{\"type\":\"Sequence\",\"pretokenizers\":[" GPT2 "," GPT2 "]}"}, "pre_tokenizer (ByteLevel)"},
        {{.pre = "{\"type\":\"Punctuation\"}"}, "pre_tokenizer (Punctuation)"},
        {{.pre = SPLIT("Regex", "a", "Merged", false)}, "behavior \"Merged\""},
        {{.pre = SPLIT("Regexp", "a", "Isolated", false)}, "exactly one pattern"},
        {{.pre = SPLIT("Regex", "a(", "Isolated", false)}, "the pattern \"a(\""},
        {{.pre = SPLIT("Regex", "a*", "Isolated", false)}, "an empty text"},
        {{.pre = SPLIT("String", "", "Isolated", false)}, "an empty text"},
        {{.pre = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"ByteLevel\","
                 "\"add_prefix_space\":true}]}"},
         "add_prefix_space"},
        {{.post = "{\"type\":\"BertProcessing\"}"}, "post_processor (BertProcessing)"},
        {{.post = "{\"type\":\"TemplateProcessing\",\"single\":[]}"}, "does not contain the text exactly once"},
        {{.decoder = "{\"type\":\"WordPiece\"}"}, "decoder (WordPiece)"},
        {{.text = true, .tokens = "a", .decoder = "null"}, "decoder (null)"},
        {{.text = true, .tokens = "a", .decoder = "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"},
         "decoder (Strip)"},
        {{.text = true, .tokens = "a", .model = "\"unk_token\":null"}, "would be lost"},
        {{.text = true, .tokens = "a", .model = "\"byte_fallback\":true,\"ignore_merges\":true"}, "ignore_merges"},
        {{.added = "{\"id\":256,\"content\":\"x y\",\"rstrip\":true}"}, "rstrip"},
        {{.added = "{\"id\":256,\"content\":\"x y\",\"single_word\":true}"}, "single_word"},
        {{.tokens = "\xc4\xa0x", .added = ADDED(256, "\xc4\xa0x", false, false)},
         "text in the vocabulary is different"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(&rows[i].parts, strstr(rows[i].says, "exactly one pattern") ? WEFT_FORMAT : WEFT_UNSUPPORTED,
                rows[i].says);
    refused(&(struct parts){.added = ADDED(257, "xy", false, false)}, WEFT_FORMAT, "the next free one is 256");
    refused(&(struct parts){.post = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]}"},
            WEFT_FORMAT, "does not have exactly one id");
    refused(&(struct parts){.text = true, .tokens = "a", .merges = "\"<0x41> a\""}, WEFT_FORMAT, "merge 1 needs");
}

/* Constructs that Oniguruma and PCRE2 read in different ways. */
static void refused_patterns(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "\\\\h",     "\\\\v",         "\\\\b.",        "\\\\Ka",  "\\\\R",       "a{2}+",
        "a{2}?",     "a{,2}b",        "[a[b]]",        "[a&&b]",  "[[:alpha:]]", "[]a]",
        "(?i:ss)",   "(?i:\xc3\xa9)", "(?i:\\\\p{L})", "(?<n>a)", "(?x) a",      "(?m:.)",
        "\\\\1",     "\\\\u0041",     "\\\\xe9",       "\\\\pL",  "[\\\\W]",     "\\\\p{Alphabetic}",
        "[a-\\\\s]", "\\\\",          "(?#a)b",        "(*UTF)a", "\\\\Qa",      "\\\\Aa",
        "a\\\\z",    "\\\\X",         "\\\\N",         "(?R)a",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char pre[400];
        snprintf(pre, sizeof pre,
                 "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},"
                 "\"behavior\":\"Isolated\"}," BYTE_LEVEL "]}",
                 patterns[i]);
        refused(&(struct parts){.pre = pre}, WEFT_UNSUPPORTED, "the pattern");
    }
}

/* A pattern that backtracks for ever is an error, not a wait. */
static void hostile_pattern(void **state)
{
    (void)state;
    struct weft_tokenizer *t = make(&(struct parts){.pre = SPLIT("Regex", "(?:a+)+b", "Isolated", false)});
    struct weft_ids ids = {0};
    char text[64];
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 2, "cb", 2);
    assert_int_equal(weft_encode(t, text, sizeof text, true, true, &ids), WEFT_UNSUPPORTED);
    assert_non_null(strstr(weft_error(), "(?:a+)+b"));
    free(ids.id);
    weft_tokenizer_free(t);
}

/* Patterns whose time would grow with the square of the text: each start scans to the end of the text. */
static void slow_patterns(void **state)
{
    static const char *const patterns[] = {"[\\\\s\\\\S]+Z|[\\\\s\\\\S]", "a+b|[\\\\s\\\\S]",
                                           "(?=[\\\\s\\\\S]*Z)[\\\\s\\\\S]|a", "(?:a|a)+b|[\\\\s\\\\S]"};
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES), pre[400];
    memset(text, 'a', BYTES);
    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        snprintf(pre, sizeof pre, SPLIT("Regex", "%s", "Isolated", false), patterns[i]);
        struct weft_tokenizer *t = make(&(struct parts){.pre = pre});
        struct weft_ids ids = {0};
        assert_int_equal(weft_encode(t, text, BYTES, true, true, &ids), WEFT_UNSUPPORTED);
        assert_non_null(strstr(weft_error(), "takes too long"));
        free(ids.id);
        weft_tokenizer_free(t);
    }
    free(text);
}

/* Long pieces are found in growing windows: whatever the window, the pieces are those of a single search. */
static void long_pieces(void **state)
{
    static const char pattern[] = "\\p{L}+b(?=c)|(?<=x)y+|\\s+(?!\\S)|\\s+$|\\p{L}+|.|\\n";
    enum { BYTES = 1 << 16 };
    static const char *const words[] = {"a", "b", "c", "x", "y", " ", "\n", "\xc3\xa9", "\xe4\xb8\x80"};
    char *text = malloc(BYTES + 8192);
    size_t bytes = 0, size, starts = 0;
    (void)state;
    for (uint32_t i = 0, draw = 1; bytes < BYTES; i++) {
        draw = draw * 1664525 + 1013904223;
        const char *word = words[draw >> 8 & 7 ? draw >> 12 & 7 : 8];
        for (uint32_t n = 1 + (i % 16 ? 0 : draw >> 20 & 2047); n; n--)
            bytes += (size_t)sprintf(text + bytes, "%s", word);
    }
    pcre2_code *code;
    struct weft_cutter *cutter;
    struct weft_cut *cut;
    check(weft_pattern_compile(&code, "test", pattern, false));
    check(weft_cut_create(&cut));
    check(weft_cut_add(cut, "test", pattern, false, WEFT_ISOLATED, false));
    check(weft_cutter_create(&cutter, cut));
    weft_cutter_start(cutter, text, bytes);
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    for (size_t at = 0; at < bytes; at += size, starts++) {
        const char *piece;
        check(weft_cutter_next(cutter, &piece, &size));
        assert_true(piece == text + at);
        assert_int_equal(pcre2_match(code, (PCRE2_SPTR)text, bytes, at, PCRE2_NO_UTF_CHECK, match, NULL), 1);
        assert_int_equal(pcre2_get_ovector_pointer(match)[0], at);
        assert_int_equal(pcre2_get_ovector_pointer(match)[1], at + size);
    }
    assert_true(starts > 200);
    pcre2_match_data_free(match);
    weft_cutter_free(cutter);
    weft_cut_free(cut);
    pcre2_code_free(code);
    free(text);
}

/* Refused before a million entries are parsed. */
static void many_added_tokens(void **state)
{
    enum { MANY = 1000000 };
    char *json = NULL;
    size_t bytes;
    struct weft_tokenizer *t;
    (void)state;
    FILE *f = open_memstream(&json, &bytes);
    for (int i = 0; i < MANY; i++)
        fprintf(f, "%s{\"id\":%d,\"content\":\"<%d>\"}", i ? "," : "", 256 + i, i);
    fclose(f);
    assert_int_equal(parse(&t, &(struct parts){.added = json}), WEFT_UNSUPPORTED);
    assert_non_null(strstr(weft_error(), "added_tokens: the limit is 4096"));
    free(json);
}

static void empty_file(void **state)
{
    char path[] = "/tmp/weft-empty-XXXXXX";
    struct weft_tokenizer *t;
    (void)state;
    close(mkstemp(path));
    assert_int_equal(weft_tokenizer_load(&t, path), WEFT_FORMAT);
    assert_non_null(strstr(weft_error(), "is empty"));
    unlink(path);
}

/* For example a normalizer that turns a line into gigabytes. */
static void hostile_normalizer(void **state)
{
    (void)state;
    char normalizer[4000], *at = normalizer;
    at += sprintf(at, "{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 8; i++)
        at += sprintf(at, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"}", i ? "," : "",
                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    sprintf(at, "]}");
    struct weft_tokenizer *t = make(&(struct parts){.normalizer = normalizer});
    struct weft_ids ids = {0};
    assert_int_equal(weft_encode(t, "aaaa", 4, true, true, &ids), WEFT_UNSUPPORTED);
    assert_non_null(strstr(weft_error(), "normalizer"));
    free(ids.id);
    weft_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits),         cmocka_unit_test(digits_and_prefix),  cmocka_unit_test(sentencepiece),
        cmocka_unit_test(metaspace),      cmocka_unit_test(unknown_characters), cmocka_unit_test(nfc),
        cmocka_unit_test(ignored_merges), cmocka_unit_test(added_tokens),       cmocka_unit_test(ends),
        cmocka_unit_test(refused_parts),  cmocka_unit_test(refused_patterns),   cmocka_unit_test(hostile_pattern),
        cmocka_unit_test(slow_patterns),  cmocka_unit_test(long_pieces),        cmocka_unit_test(many_added_tokens),
        cmocka_unit_test(empty_file),     cmocka_unit_test(hostile_normalizer), cmocka_unit_test(untyped_models),
        cmocka_unit_test(missing_bytes),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
