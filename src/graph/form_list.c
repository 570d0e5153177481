/* SPDX-License-Identifier: MIT
 *
 * form_list.c - the list of atoms of a form, in which equal atoms are one; failures; types.
 */
#include "graph/form_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* ---- types */

bool weft_extent_same(struct weft_extent a, struct weft_extent b) { return a.size == b.size && a.times == b.times; }

bool weft_type_same(const struct weft_type *a, const struct weft_type *b)
{
    bool same = a->of == b->of && a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = weft_extent_same(a->dim[i], b->dim[i]);
    return same;
}

struct weft_type_text weft_type_text(const struct weft_type *t)
{
    static const char *const of[] = {"real", "whole", "truth"};
    static const char *const size[WEFT_SIZES] = {"", "BATCH", "NEW", "ALL", "RING", "SEQUENCES"};
    struct weft_type_text s = {{0}};
    size_t used = (size_t)snprintf(s.text, sizeof s.text, "%s [", of[t->of]);
    for (int i = 0; i < t->ndim && used < sizeof s.text; i++) {
        struct weft_extent e = t->dim[i];
        const char *between = i ? ", " : "";
        if (e.size == WEFT_FIXED)
            used += (size_t)snprintf(s.text + used, sizeof s.text - used, "%s%" PRId64, between, e.times);
        else if (e.times == 1)
            used += (size_t)snprintf(s.text + used, sizeof s.text - used, "%s%s", between, size[e.size]);
        else
            used += (size_t)snprintf(s.text + used, sizeof s.text - used, "%s%" PRId64 " %s", between, e.times,
                                     size[e.size]);
    }
    if (used < sizeof s.text)
        snprintf(s.text + used, sizeof s.text - used, "]");
    return s;
}

struct weft_type weft_type_fixed(int ndim, const int64_t *dim)
{
    struct weft_type t = {.of = WEFT_REAL, .ndim = ndim};
    for (int i = 0; i < ndim; i++)
        t.dim[i] = (struct weft_extent){WEFT_FIXED, dim[i]};
    return t;
}

struct weft_type weft_type_with(const struct weft_atom *x, int axis, struct weft_extent extent)
{
    struct weft_type t = x ? x->type : (struct weft_type){0};
    if (x)
        t.dim[weft_atom_axis(x, axis)] = extent;
    return t;
}

int64_t weft_last_of(const struct weft_atom *x) { return x && x->type.ndim ? x->type.dim[x->type.ndim - 1].times : 1; }

bool weft_type_broadcast(const struct weft_type *a, const struct weft_type *b, int skip, struct weft_type *result)
{
    int an = a->ndim - skip, bn = b->ndim - skip, n = an > bn ? an : bn;
    *result = (struct weft_type){.of = a->of, .ndim = n};
    for (int i = 0; i < n; i++) {
        struct weft_extent one = {WEFT_FIXED, 1};
        struct weft_extent x = i < n - an ? one : a->dim[i - (n - an)], y = i < n - bn ? one : b->dim[i - (n - bn)];
        if (!weft_extent_same(x, y) && !weft_extent_is_one(x) && !weft_extent_is_one(y))
            return false;
        result->dim[i] = weft_extent_is_one(x) ? y : x;
    }
    return true;
}

/* ---- failures */

void weft_form_fail(struct weft_form *f, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (f->status == WEFT_OK)
        f->status = FAIL(WEFT_INVALID, "%s: its form is wrong: %s", f->node ? f->node->op->name : "a form", text);
}

void *weft_form_alloc(struct weft_form *f, size_t bytes)
{
    void *memory = f->status == WEFT_OK ? weft_arena_alloc(&f->arena, bytes) : NULL;
    if (!memory && f->status == WEFT_OK)
        f->status = WEFT_NOMEM;
    return memory;
}

struct weft_atom *weft_form_refuse(struct weft_form *f, const char *what, const struct weft_atom *a,
                                   const struct weft_atom *b)
{
    weft_form_fail(f, "%s cannot have inputs %s%s%s", what, weft_type_text(&a->type).text, b ? " and " : "",
                   b ? weft_type_text(&b->type).text : "");
    return NULL;
}

const char *weft_atom_name(enum weft_atom_kind kind)
{
    static const char *const names[WEFT_ATOMS] = {
#define ATOM(name, parameters) #name,
#include "graph/atoms.def"
#undef ATOM
    };
    return names[kind];
}

/* ---- the list of atoms */

static uint64_t mix_in(uint64_t hash, uint64_t x) { return (hash ^ x) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29); }

static uint64_t hash_of(const struct weft_atom *a)
{
    uint64_t hash = mix_in(a->kind, (uint64_t)a->axis), bits;
    memcpy(&bits, &a->value, sizeof bits);
    hash = mix_in(mix_in(hash, bits), (uint64_t)a->first << 32 ^ (uint64_t)a->count);
    for (int i = 0; i < 3; i++)
        hash = mix_in(hash, a->in[i] ? (uint64_t)a->in[i]->id + 1 : 0);
    for (const char *c = a->name; c && *c; c++)
        hash = mix_in(hash, (uint64_t)*c);
    return hash ^ hash >> 32;
}

static bool same_name(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool same_drop(const struct weft_drop *a, const struct weft_drop *b)
{
    return a->p == b->p && a->layer == b->layer && a->site == b->site && a->scores == b->scores;
}

static bool is_same(const struct weft_atom *a, const struct weft_atom *b)
{
    return a->kind == b->kind && memcmp(a->in, b->in, sizeof a->in) == 0 && weft_type_same(&a->type, &b->type) &&
           memcmp(&a->value, &b->value, sizeof a->value) == 0 && same_name(a->name, b->name) && a->axis == b->axis &&
           memcmp(a->axes, b->axes, sizeof a->axes) == 0 && a->first == b->first && a->count == b->count &&
           a->transposed == b->transposed && a->pooling == b->pooling && same_drop(&a->drop, &b->drop);
}

static bool append(struct weft_form *f, struct weft_atom *a)
{
    if (f->count == f->room) {
        int room = weft_max(256, 2 * f->room);
        struct weft_atom **list = weft_form_alloc(f, (size_t)room * sizeof *list);
        if (!list)
            return false;
        if (f->count)
            memcpy(list, f->list, (size_t)f->count * sizeof *list);
        f->list = list;
        f->room = room;
    }
    a->id = f->count;
    f->list[f->count++] = a;
    return true;
}

struct weft_atom *weft_form_find(const struct weft_form *f, const struct weft_atom *like)
{
    struct weft_atom *a = f->table[hash_of(like) % WEFT_FORM_TABLE];
    while (a && !is_same(a, like))
        a = a->next;
    return a;
}

static weft_damage_fn *damage;
static void *damage_context;

void weft_form_damage(weft_damage_fn *fn, void *context)
{
    damage = fn;
    damage_context = context;
}

struct weft_atom *weft_form_add(struct weft_form *f, const struct weft_atom *like)
{
    struct weft_atom changed = *like;
    if (f->status != WEFT_OK)
        return NULL;
    if (damage)
        damage(damage_context, f, &changed);
    like = &changed;
    struct weft_atom *a = weft_form_find(f, like), **bucket = &f->table[hash_of(like) % WEFT_FORM_TABLE];
    if (a)
        return a;
    a = weft_form_alloc(f, sizeof *a);
    if (!a)
        return NULL;
    *a = *like;
    a->from = f->node;
    if (like->name && !(a->name = weft_arena_print(&f->arena, "%s", like->name))) {
        f->status = WEFT_NOMEM;
        return NULL;
    }
    if (!append(f, a))
        return NULL;
    a->next = *bucket;
    *bucket = a;
    for (int i = 0; i < 3; i++)
        if (a->in[i])
            a->in[i]->readers++;
    return a;
}
