/* SPDX-License-Identifier: MIT
 *
 * gguf_config.c - converts the metadata of a GGUF file to settings, by way of the equivalent config.json.
 *
 * Keys that begin with the architecture's name affect the computation, so each must be understood; the others describe
 * the file or belong to the tokenizer. Missing keys have llama.cpp's defaults.
 */
#include "export/gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

/* The state of reading a file. */
struct reading {
    const struct weft_gguf *f;
    const struct weft_gguf_family *family;
    const struct weft_hf_family *hf;
    double linear; /* factor of linear rope scaling */
    json_t *config;
};

/* Keys that do not affect the computation; the original context belongs to kinds of scaled rotation that are not
 * supported, or to rope_freqs.weight (gguf_rope.c). */
static const char *const ignored[] = {"tensor_data_layout", "rope.scaling.finetuned",
                                      "rope.scaling.original_context_length", NULL};

/* Keys that are accepted only with this value. */
static const struct {
    const char *name;
    double value;
} fixed[] = {{"attention.causal", 1},         {"expert_count", 0},         {"expert_used_count", 0},
             {"attention.sliding_window", 0}, {"rope.scale_linear", 1},    {"rope.scaling.attn_factor", 1},
             {"nextn_predict_layers", 0},     {"use_parallel_residual", 0}};

static enum weft_status refuse(const struct reading *r, const struct weft_gguf_key *key)
{
    char value[64];
    weft_gguf_show(key, value);
    return FAIL(WEFT_INVALID, "%s: unknown key %.200s = %s, which may change what the model computes",
                weft_gguf_path(r->f), key->name, value);
}

/* Returns the key of config.json for an option. */
static const char *theirs(const struct reading *r, const char *ours)
{
    const struct weft_hf_size *s = r->hf->sizes;
    while (s->ours && strcmp(s->ours, ours) != 0)
        s++;
    return s->theirs;
}

/* Finds a key of the architecture by the rest of its name; NULL: missing. */
static const struct weft_gguf_key *find(const struct reading *r, const char *rest)
{
    char name[256];
    snprintf(name, sizeof name, "%s.%s", r->family->names.type, rest);
    return weft_gguf_key_find(r->f, name);
}

/* ---- one key */

/* Sizes must be above 0, because 0 means that an option is not set. */
static enum weft_status read_size(struct reading *r, const struct weft_gguf_key *key, const char *ours)
{
    int64_t whole = 0;
    double real = 0;
    bool is_real = strcmp(ours, "norm_eps") == 0 || strcmp(ours, "rope_base") == 0;
    if (is_real ? key->type != WEFT_GGUF_F32 || !weft_gguf_number(key, &real) || !(real > 0)
                : !weft_gguf_whole(key, &whole) || whole < 1)
        return FAIL(WEFT_FORMAT, "%s: %s is not a %s above 0", weft_gguf_path(r->f), key->name,
                    is_real ? "number of type f32" : "integer");
    json_object_set_new(r->config, theirs(r, ours), is_real ? json_real(real) : json_integer(whole));
    return WEFT_OK;
}

/* A factor without a scaling type means linear scaling; a factor of 0 means 1. */
static enum weft_status read_scaling(struct reading *r, const struct weft_gguf_key *key)
{
    const struct weft_gguf_key *kind = find(r, "rope.scaling.type"), *factor = find(r, "rope.scaling.factor");
    double x = 1;
    if (kind && !weft_gguf_is(kind, "none") && !weft_gguf_is(kind, "linear"))
        return refuse(r, key);
    if (factor && (factor->type != WEFT_GGUF_F32 || !weft_gguf_number(factor, &x)))
        return refuse(r, factor);
    r->linear = weft_gguf_is(kind, "none") || x == 0 ? 1 : x;
    return WEFT_OK;
}

static enum weft_status read_key(struct reading *r, const struct weft_gguf_key *key, const char *rest)
{
    double x;
    for (const struct weft_hf_size *s = r->family->names.sizes; s->ours; s++)
        if (strcmp(s->theirs, rest) == 0)
            return read_size(r, key, s->ours);
    for (const char *const *name = ignored; *name; name++)
        if (strcmp(*name, rest) == 0)
            return WEFT_OK;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (strcmp(fixed[i].name, rest) == 0)
            return weft_gguf_number(key, &x) && x == fixed[i].value ? WEFT_OK : refuse(r, key);
    if (strcmp(rest, "rope.scaling.type") == 0 || strcmp(rest, "rope.scaling.factor") == 0)
        return read_scaling(r, key);
    if (strcmp(rest, "rope.dimension_count") == 0 || strcmp(rest, "attention.value_length") == 0 ||
        strcmp(rest, "attention.key_length") == 0 || strcmp(rest, "attention.head_count_kv") == 0)
        return WEFT_OK; /* compared with the other sizes when all are known */
    return refuse(r, key);
}

static enum weft_status read_keys(struct reading *r)
{
    size_t n = strlen(r->family->names.type);
    for (int i = 0; i < weft_gguf_key_count(r->f); i++) {
        const struct weft_gguf_key *key = weft_gguf_key_at(r->f, i);
        if (strncmp(key->name, r->family->names.type, n) == 0 && key->name[n] == '.')
            TRY(read_key(r, key, key->name + n + 1));
    }
    return WEFT_OK;
}

/* ---- required and related keys */

static enum weft_status check_needed(const struct reading *r)
{
    static const char *const needed[] = {"layers", "width", "heads", "ffn_width", "context", "norm_eps"};
    for (const struct weft_hf_size *s = r->family->names.sizes; s->ours; s++)
        for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
            if (strcmp(s->ours, needed[i]) == 0 && !find(r, s->theirs))
                return FAIL(WEFT_FORMAT, "%s has no %s.%s", weft_gguf_path(r->f), r->family->names.type, s->theirs);
    return WEFT_OK;
}

static int64_t size_of(const struct reading *r, const char *ours)
{
    return json_integer_value(json_object_get(r->config, theirs(r, ours)));
}

/* Checks a redundant key against the value implied by others. */
static enum weft_status check_same(const struct reading *r, const char *rest, int64_t wanted)
{
    int64_t n;
    const struct weft_gguf_key *key = find(r, rest);
    return !key || (weft_gguf_whole(key, &n) && n == wanted) ? WEFT_OK : refuse(r, key);
}

static enum weft_status check_heads(struct reading *r)
{
    bool gpt2 = strcmp(r->family->names.type, "gpt2") == 0;
    int64_t heads = size_of(r, "heads"), width = size_of(r, "width"), head;
    if (!find(r, "attention.key_length") && width % heads)
        return FAIL(WEFT_FORMAT, "%s: %lld heads do not divide the width, %lld", weft_gguf_path(r->f), (long long)heads,
                    (long long)width);
    if (gpt2 || !find(r, "attention.key_length"))
        head = width / heads;
    else
        head = size_of(r, "head_width");
    if (!gpt2)
        json_object_set_new(r->config, theirs(r, "head_width"), json_integer(head));
    if (!gpt2 && !find(r, "attention.head_count_kv"))
        json_object_set_new(r->config, theirs(r, "kv_heads"), json_integer(heads));
    if (gpt2)
        TRY(check_same(r, "attention.head_count_kv", heads));
    TRY(check_same(r, "attention.key_length", head));
    TRY(check_same(r, "attention.value_length", head));
    TRY(check_same(r, "rope.dimension_count", head));
    return WEFT_OK;
}

/* Reads the sizes given by tensors. Because a block has several tensors, a file with fewer tensors than blocks is
 * rejected before a list of its weights is made. */
static enum weft_status read_tensors(struct reading *r)
{
    int at = weft_gguf_find(r->f, "token_embd.weight");
    const struct weft_entry *embedding = at < 0 ? NULL : weft_gguf_at(r->f, at);
    const char *path = weft_gguf_path(r->f);
    if (!embedding || embedding->ndim != 2)
        return FAIL(WEFT_INVALID, "%s has no token_embd.weight: %s", path,
                    weft_gguf_count(r->f) ? "the model is incomplete" : "the file has only metadata, no tensors");
    if (size_of(r, "layers") > weft_gguf_count(r->f))
        return FAIL(WEFT_FORMAT, "%s has %lld blocks according to its metadata, but only %d tensors", path,
                    (long long)size_of(r, "layers"), weft_gguf_count(r->f));
    TRY(check_same(r, "vocab_size", embedding->dim[0]));
    json_object_set_new(r->config, theirs(r, "vocab"), json_integer(embedding->dim[0]));
    json_object_set_new(r->config, theirs(r, "tie"), json_boolean(weft_gguf_find(r->f, "output.weight") < 0));
    return WEFT_OK;
}

/* A llama model has biases everywhere, only where Qwen2 has them, or nowhere; the tensors determine which. */
static enum weft_status read_biases(const struct reading *r, struct weft_settings *settings)
{
    bool llama = strcmp(r->family->names.type, "llama") == 0;
    bool some = weft_gguf_find(r->f, "blk.0.attn_q.bias") >= 0, all = weft_gguf_find(r->f, "blk.0.ffn_up.bias") >= 0;
    if (llama && all) {
        json_object_set_new(r->config, "attention_bias", json_true());
        json_object_set_new(r->config, "mlp_bias", json_true());
    } else if (llama && some)
        TRY(weft_settings_add(settings, "qkv_bias=yes"));
    return WEFT_OK;
}

/* ---- the whole config */

static enum weft_status read_all(struct reading *r, struct weft_settings *settings)
{
    TRY(check_needed(r));
    TRY(read_keys(r));
    TRY(check_heads(r));
    TRY(read_tensors(r));
    TRY(read_biases(r, settings));
    if (strcmp(r->hf->type, "gpt2") != 0)
        TRY(weft_gguf_rope_read(r->f, r->family->names.type, size_of(r, "head_width"), r->linear, r->config));
    TRY(weft_hf_config_read(r->hf, r->config, weft_gguf_path(r->f), settings));
    return WEFT_OK;
}

/* Finds the family. The file must contain one complete model of a known architecture. */
static enum weft_status find_family(struct reading *r)
{
    const struct weft_gguf_key *key = weft_gguf_key_find(r->f, "general.architecture");
    const struct weft_gguf_key *kind = weft_gguf_key_find(r->f, "general.type");
    const struct weft_gguf_key *split = weft_gguf_key_find(r->f, "split.count");
    const char *path = weft_gguf_path(r->f), *text = "";
    size_t bytes = 0;
    char name[64];
    int64_t files = 0;
    if (!key || key->type != WEFT_GGUF_TEXT)
        return FAIL(WEFT_FORMAT, "%s has no general.architecture", path);
    weft_gguf_text(key->at, &text, &bytes);
    snprintf(name, sizeof name, "%.*s", (int)weft_min((int64_t)bytes, 63), text);
    r->family = weft_gguf_is(key, name) ? weft_gguf_family(name) : NULL;
    if (!r->family)
        return FAIL(WEFT_INVALID,
                    "%s: the architecture \"%s\" cannot be imported: expected gpt2, llama, qwen2 or qwen3", path, name);
    if (kind && !weft_gguf_is(kind, "model"))
        return FAIL(WEFT_INVALID, "%s: its general.type is not \"model\"", path);
    if (split && (!weft_gguf_whole(split, &files) || files > 1))
        return FAIL(WEFT_INVALID, "%s is one of several files: join them first (llama-gguf-split --merge)", path);
    return weft_hf_family_find(name, path, &r->hf);
}

enum weft_status weft_gguf_config(const struct weft_gguf *f, const struct weft_hf_family **family,
                                  struct weft_settings *settings)
{
    struct reading r = {.f = f, .linear = 1, .config = json_object()};
    enum weft_status status = r.config ? find_family(&r) : FAIL(WEFT_NOMEM, "not enough memory for a config");
    if (status == WEFT_OK)
        status = read_all(&r, settings);
    json_decref(r.config);
    *family = r.hf;
    return status;
}
