/* SPDX-License-Identifier: MIT
 *
 * options.h - shared by the tests of settings: a table with an option of every type, and a config file.
 */
#ifndef WEFT_TEST_OPTIONS_H
#define WEFT_TEST_OPTIONS_H

#define _GNU_SOURCE
#include "test.h"

#include <sys/mman.h>

struct target {
    int64_t layers;
    double rate;
    bool bias;
    int kind;
    const char *data;
};

static const char *const kinds[] = {"gelu", "swiglu", NULL};
static const struct weft_opt options[] = {
    {"layers", WEFT_OPT_INT, offsetof(struct target, layers), "2", 1, 1024, .help = "blocks"},
    {"rate", WEFT_OPT_REAL, offsetof(struct target, rate), "0.5", 0, 1, .help = "a rate", .symbol = "OLD_RATE"},
    {"bias", WEFT_OPT_BOOL, offsetof(struct target, bias), "yes", .help = "biases"},
    {"kind", WEFT_OPT_CHOICE, offsetof(struct target, kind), "gelu", .choices = kinds, .help = "a choice"},
    {"data", WEFT_OPT_TEXT, offsetof(struct target, data), "", .help = "a path"},
};
static const struct weft_owner owner = WEFT_OWNER("model", options);

/* The path of a file in memory, since the tests write it thousands of times. */
static char path[64];

static inline int make_path(void **state)
{
    (void)state;
    int file = memfd_create("config", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return file < 0;
}

#endif
