/* SPDX-License-Identifier: MIT
 *
 * registry.c - the registry of parts by kind: first parts.def, then registered parts.
 *
 * Threads may register parts while others create specs, because entries are never removed, and an entry's name, by
 * which options find it, is published last.
 */
#include "nn/parts.h"

#include <pthread.h>
#include <string.h>

const char *weft_part_names[WEFT_KINDS][WEFT_MAX_PARTS + 1];

static struct entry {
    const struct weft_part *part, *replacement;
} entries[WEFT_KINDS][WEFT_MAX_PARTS];
static _Atomic int counts[WEFT_KINDS];

static void add(const struct weft_part *part)
{
    int i = counts[part->kind];
    entries[part->kind][i].part = part;
    counts[part->kind] = i + 1;
    __atomic_store_n(&weft_part_names[part->kind][i], part->name, __ATOMIC_RELEASE);
}

static void add_rows(void)
{
    static const struct weft_part *const rows[] = {
#define GEOM(name) &weft_geom_##name.part,
#define ATTN(name) &weft_attn_##name.part,
#define POS(name) &weft_pos_##name.part,
#define FFN(name) &weft_ffn_##name.part,
#define NORM(name) &weft_norm_##name.part,
#define RECIP(name) &weft_recip_##name.part,
#include "nn/parts.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add(rows[i]);
}

static void fill(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, add_rows);
}

const struct weft_part *weft_part_at(enum weft_part_kind kind, int i)
{
    fill();
    return i < counts[kind] ? entries[kind][i].part : NULL;
}

/* Returns the name of a hook that the part lacks but its kind requires, or NULL. */
static const char *missing_hook(const struct weft_part *part)
{
    switch (part->kind) {
    case WEFT_GEOM:
        return ((const struct weft_geom *)part)->qk ? NULL : "qk";
    case WEFT_ATTN:
        return ((const struct weft_attn *)part)->build ? NULL : "build";
    case WEFT_FFN:
        return ((const struct weft_ffn *)part)->build ? NULL : "build";
    case WEFT_NORM:
        return ((const struct weft_norm *)part)->build ? NULL : "build";
    default:
        return NULL;
    }
}

/* Adds a part unless its name is already in use. */
static enum weft_status add_new(const struct weft_part *part)
{
    for (int i = 0; i < counts[part->kind]; i++)
        if (strcmp(part->name, weft_part_names[part->kind][i]) == 0)
            return FAIL(WEFT_INVALID, "a part named %s already exists: choose a different name", part->name);
    if (counts[part->kind] == WEFT_MAX_PARTS)
        return FAIL(WEFT_INVALID, "cannot add the part %s: a kind has at most %d", part->name, WEFT_MAX_PARTS);
    add(part);
    return WEFT_OK;
}

enum weft_status weft_part_register(const struct weft_part *part)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    fill();
    if ((unsigned)part->kind >= WEFT_KINDS || !part->name || !*part->name)
        return FAIL(WEFT_INVALID, "a part needs a kind and a name");
    const char *missing = missing_hook(part);
    if (missing)
        return FAIL(WEFT_INVALID, "the part %s has no hook `%s`, which its kind requires", part->name, missing);
    pthread_mutex_lock(&lock);
    enum weft_status status = add_new(part);
    pthread_mutex_unlock(&lock);
    return status;
}

static struct entry *find(const struct weft_part *part)
{
    fill();
    for (int i = 0; part && i < counts[part->kind]; i++)
        if (entries[part->kind][i].part == part)
            return &entries[part->kind][i];
    return NULL;
}

void weft_part_replace(const struct weft_part *part, const struct weft_part *by)
{
    struct entry *e = find(part);
    if (e)
        e->replacement = by;
}

const struct weft_part *weft_part_in_use(const struct weft_part *part)
{
    const struct entry *e = find(part);
    return e && e->replacement ? e->replacement : part;
}

void weft_chosen_params(const struct weft_chosen *c, struct weft_params *p, const struct weft_spec *spec)
{
    p->part = c->part;
    if (c->part->params)
        c->part->params(p, spec, c->options);
    p->part = NULL;
}

bool weft_chosen_idle(const struct weft_chosen *c, const struct weft_spec *spec, const char *name)
{
    return c->part->idle && c->part->idle(spec, c->options, name);
}
