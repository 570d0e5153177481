/* SPDX-License-Identifier: MIT
 *
 * test.h - shared by the unit tests: cmocka with the headers it needs, checks of statuses, a folder for scratch files,
 * whole files, settings from one string, small models. stage.h has trainers.
 */
#ifndef WEFT_TEST_H
#define WEFT_TEST_H

#include "nn/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Sanitizers are slow, ThreadSanitizer most of all, and replace malloc, so some tests do less under them. */
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined __SANITIZE_THREAD__ || __has_feature(thread_sanitizer)
#define THREADS_SANITIZED true
#else
#define THREADS_SANITIZED false
#endif
#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
#define SANITIZED true
#else
#define SANITIZED THREADS_SANITIZED
#endif

/* Tests with many cases of a kind take one of n, or of WEFT_EVERY if it is set: 1 takes all (make long-whole). */
static inline int one_of(int n)
{
    const char *asked = getenv("WEFT_EVERY");
    return asked ? atoi(asked) : n;
}

/* The same, under sanitizers only. */
static inline int sanitized_one_of(int n) { return SANITIZED ? one_of(n) : 1; }

/* ---- statuses; a failure names the line of the caller */

/* It is WEFT_OK. */
#define check(status) check_at((status), __FILE__, __LINE__)

static inline void check_at(enum weft_status status, const char *file, int line)
{
    if (status == WEFT_OK)
        return;
    print_error("%s\n", weft_error());
    _fail(file, line);
}

/* It is that error, and the message contains these words. */
#define check_error(status, expected, words) check_error_at((status), (expected), (words), __FILE__, __LINE__)

static inline void check_error_at(enum weft_status status, enum weft_status expected, const char *words,
                                  const char *file, int line)
{
    if (status != expected || !strstr(weft_error(), words)) {
        print_error("status %d, expected %d with \"%s\" in: %s\n", status, expected, words, weft_error());
        _fail(file, line);
    }
    weft_error_clear();
}

/* ---- a folder, as setup and teardown of a test or of all */

static char scratch[64];

static inline int make_scratch(void **state)
{
    (void)state;
    snprintf(scratch, sizeof scratch, "/tmp/weft-test-XXXXXX");
    return mkdtemp(scratch) ? 0 : -1;
}

static inline int remove_all(const char *path)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    return system(command);
}

static inline int remove_scratch(void **state)
{
    (void)state;
    return remove_all(scratch);
}

/* The path of a name in the folder. It lasts for the next three calls. */
static inline const char *in_scratch(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

/* ---- whole files */

static inline void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

struct text {
    char *bytes; /* a 0 follows them; the caller frees them. NULL: there is no such file */
    size_t size;
};

static inline struct text read_file(const char *path)
{
    struct text t = {0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return t;
    fseek(f, 0, SEEK_END);
    t.size = (size_t)ftell(f);
    rewind(f);
    t.bytes = calloc(t.size + 1, 1);
    assert_non_null(t.bytes);
    assert_int_equal(fread(t.bytes, 1, t.size, f), t.size);
    fclose(f);
    return t;
}

/* ---- settings */

/* Adds the settings in a string, which are separated by spaces. */
static inline enum weft_status add_settings(struct weft_settings *s, const char *text)
{
    char copy[1024], *rest = copy;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *one; (one = strtok_r(rest, " ", &rest));)
        TRY(weft_settings_add(s, one));
    return WEFT_OK;
}

/* ---- models */

/* A model of a preset with the settings of a text; its weights are not drawn yet. */
static inline void open_model(struct weft_spec *spec, struct weft_nn **model, const char *preset, const char *settings)
{
    struct weft_settings all = {0};
    check(add_settings(&all, settings));
    check(weft_spec_init(spec, preset, &all));
    check(weft_settings_finish(&all));
    weft_settings_release(&all);
    check(weft_nn_create(model, spec));
}

static inline void close_model(struct weft_spec *spec, struct weft_nn *model)
{
    weft_nn_free(model);
    weft_spec_release(spec);
}

/* Weights large enough that attention is far from uniform. */
static inline void perturb(struct weft_nn *m, uint64_t seed)
{
    for (int64_t i = 0; i < m->params.total; i++)
        m->params.weights[i] += 0.15f * (float)weft_normal(seed, (uint64_t)i);
}

#endif
