/* SPDX-License-Identifier: MIT
 *
 * gguf.c - any bytes as a GGUF file: opening it takes at most a small multiple of its size in memory, every key and
 * tensor can be read, and an accepted model can be exported, and has the same weights, settings and tokenizer when it
 * is read again.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "export/gguf/gguf.h"
#include "text/text.h"

#include <sanitizer/allocator_interface.h>
#include <sys/stat.h>

/* ---- memory */

static size_t taken; /* by all calls of malloc */

static void count(const volatile void *at, size_t bytes)
{
    (void)at;
    taken += bytes;
}

static void ignore(const volatile void *at) { (void)at; }

enum { MULTIPLE = 64, FIXED = 1 << 20 };

/* ---- a model of a file */

struct model {
    char *settings, *tokenizer, hash[65];
};

static void release(struct model *m)
{
    free(m->settings);
    free(m->tokenizer);
}

static void touch(const struct weft_gguf *f)
{
    static volatile unsigned char sink;
    const char *text;
    size_t bytes;
    char shown[64];
    for (int i = 0; i < weft_gguf_key_count(f); i++) {
        const struct weft_gguf_key *key = weft_gguf_key_at(f, i);
        const unsigned char *at = key->at;
        MUST(weft_gguf_key_find(f, key->name) == key);
        weft_gguf_show(key, shown);
        for (uint64_t k = 0; key->of == WEFT_GGUF_TEXT && k < key->count; k++) {
            at = weft_gguf_text(at, &text, &bytes);
            sink = bytes ? (unsigned char)text[bytes - 1] : 0;
        }
    }
    for (int i = 0; i < weft_gguf_count(f); i++) {
        const struct weft_entry *e = weft_gguf_at(f, i);
        MUST(weft_gguf_find(f, e->name) == i && e->bytes);
        sink = ((const unsigned char *)e->data)[0];
        sink = ((const unsigned char *)e->data)[e->bytes - 1];
    }
    (void)sink;
}

static enum weft_status read_tokenizer(const struct weft_gguf *f, int64_t vocab, struct weft_tokenizer **t, char **text)
{
    json_t *root = NULL;
    TRY(weft_gguf_tokenizer(f, t));
    if (!*t)
        return WEFT_OK;
    if (weft_tokenizer_vocab(*t) > vocab)
        return WEFT_INVALID;
    if (!weft_tokenizer_plain(*t)) /* Weft's GGUF files do not store it, so it cannot be read back */
        return WEFT_UNSUPPORTED;
    enum weft_status status = weft_tokenizer_root(*t, &root);
    if (status == WEFT_OK)
        MUST((*text = json_dumps(root, JSON_COMPACT)));
    json_decref(root);
    return status;
}

/* Reads weights and tokenizer; exports them to `out`, if it is not NULL. */
static enum weft_status take(const struct weft_gguf *f, const struct weft_hf_family *family,
                             const struct weft_spec *spec, struct model *m, const char *out)
{
    struct weft_nn *nn = NULL;
    struct weft_tokenizer *t = NULL;
    enum weft_status status = weft_nn_create(&nn, spec);
    if (status == WEFT_OK)
        status = weft_gguf_weights(nn, family, f);
    if (status == WEFT_OK && read_tokenizer(f, spec->vocab, &t, &m->tokenizer) != WEFT_OK) {
        weft_tokenizer_free(t);
        t = NULL;
    }
    if (status == WEFT_OK)
        weft_params_hash(&nn->params, m->hash);
    if (status == WEFT_OK && out) {
        status = weft_gguf_export(nn, t, WEFT_GGUF_WEIGHT_F32, out);
        MUST(status == WEFT_OK || strstr(weft_error(), "PAD"));
    }
    weft_tokenizer_free(t);
    weft_nn_free(nn);
    return status;
}

static enum weft_status import(const struct weft_gguf *f, struct model *m, const char *out)
{
    static struct weft_settings settings;
    struct weft_spec spec = {0};
    const struct weft_hf_family *family = NULL;
    size_t bytes;
    enum weft_status status = weft_gguf_config(f, &family, &settings);
    if (status == WEFT_OK)
        status = weft_spec_init(&spec, family->preset, &settings);
    if (status == WEFT_OK)
        status = weft_settings_finish(&settings);
    if (status == WEFT_OK)
        status = take(f, family, &spec, m, out);
    if (status == WEFT_OK) {
        settings.preset_name = family->preset;
        FILE *to = open_memstream(&m->settings, &bytes);
        MUST(to && weft_settings_save(&settings, to) == WEFT_OK && fclose(to) == 0);
    }
    weft_spec_release(&spec);
    weft_settings_release(&settings);
    settings = (struct weft_settings){0};
    return status;
}

/* ---- there and back */

static char folder[64], path[128];

static void clean(void)
{
    unlink(path);
    rmdir(folder);
}

static void prepare(void)
{
    struct stat st;
    snprintf(folder, sizeof folder, "%s/weft-fuzz-XXXXXX", stat("/dev/shm", &st) ? "/tmp" : "/dev/shm");
    MUST(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    atexit(clean);
    MUST(__sanitizer_install_malloc_and_free_hooks(count, ignore));
}

static void compare(struct weft_gguf *f)
{
    struct model first = {0}, second = {0};
    struct weft_gguf *again = NULL;
    if (import(f, &first, path) == WEFT_OK) {
        MUST(weft_gguf_open(&again, path) == WEFT_OK);
        MUST(import(again, &second, NULL) == WEFT_OK);
        MUST(strcmp(first.hash, second.hash) == 0 && strcmp(first.settings, second.settings) == 0);
        MUST(!first.tokenizer == !second.tokenizer);
        MUST(!first.tokenizer || strcmp(first.tokenizer, second.tokenizer) == 0);
        weft_gguf_close(again);
        unlink(path);
    }
    release(&first);
    release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_gguf *f;
    if (!path[0])
        prepare();
    const char *file = fuzz_file(data, size);
    taken = 0;
    enum weft_status status = weft_gguf_open(&f, file);
    MUST(taken <= MULTIPLE * size + FIXED);
    if (status != WEFT_OK)
        return 0;
    touch(f);
    taken = 0;
    compare(f);
    MUST(taken <= 4 * MULTIPLE * size + 16 * FIXED);
    weft_gguf_close(f);
    return 0;
}
