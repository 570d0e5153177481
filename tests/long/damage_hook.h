/* SPDX-License-Identifier: MIT
 *
 * damage_hook.h - lists and damages atoms while graphs are lowered, for tests/long/forms.c.
 *
 * An atom of an op is known by its site: the calls in the source, from the op's `lower` down, that create it. A damaged
 * site is damaged in every node and case that reaches it, as a mistake in that line would be. An atom of a net is known
 * by its call: the n-th creation of an atom in the m-th form.
 */
#ifndef WEFT_TEST_DAMAGE_HOOK_H
#define WEFT_TEST_DAMAGE_HOOK_H

#include "damage.h"

#include <dlfcn.h>
#include <execinfo.h>

struct site {
    const char *op;
    uint64_t hash;
    enum weft_atom_kind kind;
    bool in_cases; /* a case of the op reaches it; otherwise only nets do */
    int number;    /* within the op */
    struct damages possible;
    int possible_in_cases; /* the first ones are possible in a case of the op; the others only in nets */
    bool tried[MOST_DAMAGES];
};
struct call {
    const char *op;
    enum weft_atom_kind kind;
    struct damages possible;
    bool tried[MOST_DAMAGES];
};
enum { MOST_SITES = 2000, MOST_CALLS = 4000 };

static struct hook {
    enum { LIST_SITES, LIST_CALLS, COUNT_CALLS, BREAK_SITE, BREAK_CALL } mode;
    bool busy;                /* it builds atoms itself */
    bool in_cases;            /* of LIST_SITES */
    struct call *calls;       /* of LIST_CALLS */
    const struct site *site;  /* of BREAK_SITE */
    int want_form, want_call; /* of BREAK_CALL */
    struct damage damage;
    int form, call; /* the current form, and the calls in it so far */
    int done;       /* number of atoms that were damaged */
} hook;

static struct site sites[MOST_SITES];
static int site_count;

/* Hashes the return addresses between weft_form_add and weft_form_init, relative to the libraries that they are in. */
static inline uint64_t hash_of_calls(void)
{
    void *frames[48];
    uint64_t hash = 0;
    bool begun = false;
    for (int i = 0, n = backtrace(frames, 48); i < n; i++) {
        Dl_info info;
        if (!dladdr(frames[i], &info) || (info.dli_sname && strcmp(info.dli_sname, "weft_form_init") == 0))
            break;
        if (begun)
            hash = weft_key(hash, (uint64_t)((char *)frames[i] - (char *)info.dli_fbase));
        begun |= info.dli_sname && strcmp(info.dli_sname, "weft_form_add") == 0;
    }
    return hash;
}

static inline struct site *find_site(const char *op, uint64_t hash, enum weft_atom_kind kind)
{
    for (int i = 0; i < site_count; i++)
        if (sites[i].hash == hash && sites[i].kind == kind && strcmp(sites[i].op, op) == 0)
            return &sites[i];
    return NULL;
}

static inline void merge_damages(struct damages *all, const struct damages *more)
{
    for (int i = 0; i < more->count; i++) {
        int k = 0;
        while (k < all->count && memcmp(&all->list[k], &more->list[i], sizeof *more->list) != 0)
            k++;
        if (k == all->count)
            list_one(all, more->list[i]);
    }
}

static inline void list_site(const struct weft_node *node, const struct weft_atom *a)
{
    const char *op = node->op->name;
    uint64_t hash = hash_of_calls();
    struct site *s = find_site(op, hash, a->kind);
    struct damages now;
    if (!s && site_count < MOST_SITES) {
        s = &sites[site_count++];
        *s = (struct site){.op = op, .hash = hash, .kind = a->kind};
        for (int i = 0; i < site_count; i++)
            s->number += strcmp(sites[i].op, op) == 0;
    }
    if (!s)
        return;
    s->in_cases |= hook.in_cases;
    list_damages(&now, node, a);
    merge_damages(&s->possible, &now);
    if (hook.in_cases)
        s->possible_in_cases = s->possible.count;
}

static inline bool can_do(const struct weft_node *node, const struct weft_atom *a, const struct damage *d)
{
    struct damages now;
    list_damages(&now, node, a);
    for (int i = 0; i < now.count; i++)
        if (memcmp(&now.list[i], d, sizeof *d) == 0)
            return true;
    return false;
}

static inline void break_atom(struct weft_form *f, struct weft_atom *a)
{
    if (!can_do(f->node, a, &hook.damage))
        return;
    hook.busy = true;
    do_damage(f, a, &hook.damage);
    hook.busy = false;
    hook.done++;
}

/* Is called with every atom that is about to be added. */
static inline void on_atom(void *context, struct weft_form *f, struct weft_atom *a)
{
    (void)context;
    if (hook.busy)
        return;
    if (f->count == 0) {
        hook.form++;
        hook.call = -1;
    }
    hook.call++;
    if (!f->node)
        return;
    if (hook.mode == LIST_SITES)
        list_site(f->node, a);
    else if (hook.mode == BREAK_SITE && a->kind == hook.site->kind && strcmp(f->node->op->name, hook.site->op) == 0 &&
             hash_of_calls() == hook.site->hash)
        break_atom(f, a);
    else if (hook.mode == BREAK_CALL && hook.form == hook.want_form && hook.call == hook.want_call)
        break_atom(f, a);
    if (hook.mode == LIST_CALLS && hook.call < MOST_CALLS) {
        hook.calls[hook.call] = (struct call){.op = f->node->op->name, .kind = a->kind};
        list_damages(&hook.calls[hook.call].possible, f->node, a);
    }
}

/* Begin and end listing or damaging. The next form is number 0. */
static inline void hook_begin(struct hook how)
{
    hook = how;
    hook.form = -1;
    weft_form_damage(on_atom, NULL);
}

static inline void hook_end(void) { weft_form_damage(NULL, NULL); }

#endif
