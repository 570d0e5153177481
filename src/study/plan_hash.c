/* SPDX-License-Identifier: MIT
 *
 * plan_hash.c - computes the hash that identifies a plan. It covers everything in study.json except the hash itself,
 * the command, program and machine, and the values that can be recomputed from the configs (costs and gates).
 *
 * It is a hash of values, not of text: it includes types and lengths, numbers are formatted like settings, and the
 * order of the members of objects matters.
 */
#include "study/plan_hash.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_text(struct weft_sha256 *sha, char type, const char *text)
{
    char head[32];
    int n = snprintf(head, sizeof head, "%c%zu:", type, strlen(text));
    weft_sha256_add(sha, head, (size_t)n);
    weft_sha256_add(sha, text, strlen(text));
}

static bool is_named(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names;
}

static void add_value(struct weft_sha256 *sha, const json_t *value);

/* Members whose value is null are omitted, like those in `without`. */
static void add_object(struct weft_sha256 *sha, const json_t *object, const char *const *without)
{
    for (void *at = json_object_iter((json_t *)object); at; at = json_object_iter_next((json_t *)object, at))
        if (!is_named(json_object_iter_key(at), without) && !json_is_null(json_object_iter_value(at))) {
            add_text(sha, 'k', json_object_iter_key(at));
            add_value(sha, json_object_iter_value(at));
        }
    add_text(sha, 'e', "");
}

static void add_value(struct weft_sha256 *sha, const json_t *value)
{
    static const char *const none[] = {NULL};
    char text[64];
    if (json_is_string(value)) {
        add_text(sha, 's', json_string_value(value));
    } else if (json_is_integer(value)) {
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        add_text(sha, 'i', text);
    } else if (json_is_real(value)) {
        weft_json_real(json_real_value(value), text, sizeof text);
        add_text(sha, 'r', text);
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++)
            add_value(sha, json_array_get(value, i));
        add_text(sha, 'l', "");
    } else if (json_is_object(value)) {
        add_object(sha, value, none);
    } else {
        add_text(sha, json_is_true(value) ? 't' : 'f', "");
    }
}

static const char *const aside[] = {"plan_sha256", "command", "weft", "program_sha256", "machine", "arms", NULL};
static const char *const counted[] = {"gates",       "gate_sizes",  "params", "flops", "peak_bytes", "activation_bytes",
                                      "state_bytes", "cache_bytes", "tokens", NULL};

void weft_plan_hash(const json_t *study, char hash[65])
{
    const json_t *arms = json_object_get(study, "arms");
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    add_object(&sha, study, aside);
    for (size_t i = 0; i < json_array_size(arms); i++)
        add_object(&sha, json_array_get(arms, i), counted);
    weft_sha256_hex(&sha, hash);
}

/* ---- the first difference between two plans */

/* Formats a value as in the file, shortened. */
static void print_value(const json_t *value, char text[64])
{
    char *all = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    snprintf(text, 64, "%.60s%s", all ? all : "missing", all && strlen(all) > 60 ? ".." : "");
    free(all);
}

static void print_difference(const char *where, const char *name, const json_t *value, const json_t *other, char *text,
                             size_t size)
{
    char now[64], before[64];
    print_value(value, now);
    print_value(other, before);
    snprintf(text, size, "%s%s is now %s, was %s", where, name, now, before);
}

/* Returns whether a member that is part of the hash differs, and describes the first difference. */
static bool differ(const char *where, const json_t *a, const json_t *b, const char *const *without, char *text,
                   size_t size)
{
    static const char *const none[] = {NULL};
    const json_t *from[2] = {a, b};
    for (int side = 0; side < 2; side++)
        for (void *at = json_object_iter((json_t *)from[side]); at;
             at = json_object_iter_next((json_t *)from[side], at)) {
            const char *name = json_object_iter_key(at);
            const json_t *x = json_object_get(a, name), *y = json_object_get(b, name);
            if (is_named(name, without) || json_equal(x, y) || (json_is_null(x) && !y) || (json_is_null(y) && !x))
                continue;
            if (!json_is_object(x) || !json_is_object(y))
                return print_difference(where, name, x, y, text, size), true;
            if (differ(where, x, y, none, text, size))
                return true;
        }
    return false;
}

void weft_plan_difference(const json_t *study, const json_t *other, char *text, size_t size)
{
    char where[80];
    const json_t *now = json_object_get(study, "arms"), *before = json_object_get(other, "arms");
    if (differ("", study, other, aside, text, size))
        return;
    if (json_array_size(now) != json_array_size(before)) {
        snprintf(text, size, "it now has %zu arms, had %zu", json_array_size(now), json_array_size(before));
        return;
    }
    for (size_t i = 0; i < json_array_size(now); i++) {
        const json_t *arm = json_array_get(now, i);
        const char *name = json_string_value(json_object_get(arm, "name"));
        snprintf(where, sizeof where, "arm %.63s: ", name ? name : "?");
        if (differ(where, arm, json_array_get(before, i), counted, text, size))
            return;
    }
}
