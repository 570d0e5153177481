/* SPDX-License-Identifier: MIT
 *
 * forked.c - checks that a sequence forked in a cache and its branch continue as if each had been fed from the start.
 *
 * Sequences are forked around the boundary of a page, and branches are forked again. Then all continue with their own
 * tokens, some are reset, and a new sequence takes over the free pages. Every row must have the same bits as in the
 * whole sequence. Absorbed latents round differently, so for them a second session, in which every branch is fed from
 * the beginning in the same pieces, must give the same bits.
 */
#include "check/probe/gate.h"
#include "infer/infer.h"
#include "nn/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = WEFT_KEY_TILE, PART = 37, AFTER = 5, MOST_BRANCHES = 10, LARGE = 150, MOST_PIECES = 256 };
enum { FORKS_KEY = 34, SHUFFLE = 35 };

/* A sequence that continues `parent` (-1: none) from length `at`, counted from the first page to check. */
struct fork {
    int parent;
    int64_t at;
    bool reset; /* reset it after its first own token, while others continue */
};
/* Parents come first; the branches of each are sorted by length. */
static const struct fork near[] = {{-1, 0, true},    {0, 1, false},        {1, 2, false},
                                   {0, PART, false}, {3, PART + 3, false}, {0, PAGE - 1, false},
                                   {0, PAGE, false}, {6, PAGE + 2, true},  {0, PAGE + 1, false}};
static const struct fork far[] = {{-1, 0, true}, {0, PART, false}, {1, PART + 3, false}, {0, PAGE, false}};
_Static_assert(sizeof near / sizeof *near < MOST_BRANCHES, "the last branch takes over free pages");

struct branch {
    int64_t slot; /* index of its sequence in a session */
    int parent;
    int64_t at, fed, length;     /* length at the fork; tokens fed so far; final length */
    int64_t row;                 /* row of its first token in the whole pass */
    int64_t pieces[MOST_PIECES]; /* end of each feed, including its parent's feeds */
    int piece_count;
    bool reset;
};
struct family {
    const struct weft_nn *model;
    struct weft_probe whole; /* the whole sequences */
    struct weft_decoder *forked;
    struct weft_decoder *apart; /* session without forks; NULL: rows are compared with the whole pass */
    int64_t longest, chunk;     /* maximum number of tokens in a sequence, and in one feed */
    int count;
    struct branch list[MOST_BRANCHES];
    int64_t differing;     /* number of rows that differ */
    int64_t at, forked_at; /* position of the first such row; length at which its sequence was forked */
};

/* ---- the sequences */

static int32_t *tokens_of(const struct family *f, const struct branch *b)
{
    return (int32_t *)weft_exec_tensor(f->whole.exec, f->whole.net.tokens)->data + b->row;
}

/* Lists the branches that fit, with their lengths. */
static void list_branches(struct family *f, const struct fork *forks, int count, int64_t base)
{
    struct branch *root = &f->list[0];
    for (int i = 0; i < count; i++) {
        int64_t at = forks[i].parent < 0 ? 0 : base + forks[i].at;
        struct branch *b = &f->list[f->count];
        if (at >= f->longest)
            break;
        *b = (struct branch){f->count, forks[i].parent, at, .reset = forks[i].reset};
        b->length = weft_min(f->longest, at + AFTER);
        root->length = b->length;
        f->count++;
    }
}

/* Returns the sequence that replaces the first one after its reset; `count` does not include it. */
static struct branch *successor(struct family *f) { return &f->list[f->count]; }

static void add_successor(struct family *f)
{
    *successor(f) = (struct branch){.parent = -1, .length = weft_min(f->longest, PAGE + AFTER)};
}

/* Copies the parent's tokens. The first own token differs from the parent's at that position. */
static void inherit(const struct family *f, const struct branch *b, const struct branch *parent)
{
    int32_t *tokens = tokens_of(f, b);
    const int32_t *of_parent = tokens_of(f, parent);
    memcpy(tokens, of_parent, (size_t)b->at * sizeof *tokens);
    if (b->at < parent->length)
        tokens[b->at] = (int32_t)((of_parent[b->at] + 1) % f->model->spec->vocab);
}

static void fill(struct family *f)
{
    int64_t lengths[MOST_BRANCHES], row = 0;
    for (int i = 0; i <= f->count; i++) {
        lengths[i] = f->list[i].length;
        f->list[i].row = row;
        row += lengths[i];
    }
    weft_probe_rows(&f->whole, f->count + 1, 0, lengths);
    weft_probe_fill(&f->whole, FORKS_KEY);
    for (int i = 0; i < f->count; i++)
        if (f->list[i].parent >= 0)
            inherit(f, &f->list[i], &f->list[f->list[i].parent]);
}

/* ---- feeding */

static void compare(struct family *f, const struct branch *b, const float *got, const float *want)
{
    size_t bytes = (size_t)f->model->spec->vocab * sizeof *got;
    if (memcmp(got, want, bytes) != 0 && f->differing++ == 0) {
        f->at = b->fed;
        f->forked_at = b->at;
    }
}

/* Feeds n[i] tokens of each branch i in one run. */
static enum weft_status feed(struct family *f, struct branch *const *branches, const int64_t *n, int count)
{
    struct weft_feed feeds[MOST_BRANCHES];
    const float *got, *apart = NULL, *whole = weft_exec_tensor(f->whole.exec, f->whole.net.logits)->data;
    int64_t V = f->model->spec->vocab;
    for (int i = 0; i < count; i++)
        feeds[i] = (struct weft_feed){branches[i]->slot, tokens_of(f, branches[i]) + branches[i]->fed, n[i]};
    TRY(weft_decoder_run(f->forked, feeds, count, &got));
    if (f->apart)
        TRY(weft_decoder_run(f->apart, feeds, count, &apart));
    for (int i = 0, row = 0; i < count; i++) {
        struct branch *b = branches[i];
        for (int64_t k = 0; k < n[i]; k++, row++, b->fed++)
            compare(f, b, got + row * V, apart ? apart + row * V : whole + (b->row + b->fed) * V);
        b->pieces[b->piece_count++] = b->fed;
    }
    return WEFT_OK;
}

static enum weft_status feed_until(struct family *f, struct branch *b, int64_t until)
{
    while (b->fed < until) {
        int64_t n = weft_min(f->chunk, until - b->fed);
        TRY(feed(f, &b, &n, 1));
    }
    return WEFT_OK;
}

/* Feeds the tokens of the branch's ancestors to the session without forks, in the same pieces. */
static enum weft_status feed_apart(const struct family *f, const struct branch *b)
{
    const float *logits;
    for (int64_t i = 0, done = 0; i < b->piece_count; done = b->pieces[i++])
        TRY(weft_decoder_run(f->apart, &(struct weft_feed){b->slot, tokens_of(f, b) + done, b->pieces[i] - done}, 1,
                             &logits));
    return WEFT_OK;
}

static enum weft_status fork_branch(struct family *f, struct branch *b)
{
    struct branch *parent = &f->list[b->parent];
    TRY(feed_until(f, parent, b->at));
    TRY(weft_decoder_fork(f->forked, parent->slot, b->slot));
    b->fed = b->at;
    b->piece_count = parent->piece_count;
    memcpy(b->pieces, parent->pieces, sizeof b->pieces);
    if (f->apart)
        TRY(feed_apart(f, b));
    return WEFT_OK;
}

/* Feeds one token of each branch, or two tokens of some branches. Sets *fed to whether any tokens were left. */
static enum weft_status feed_all(struct family *f, int round, bool *fed)
{
    struct branch *some[MOST_BRANCHES];
    int64_t n[MOST_BRANCHES];
    int count = 0;
    for (int i = 0; i < f->count; i++) {
        struct branch *b = &f->list[i];
        if (b->fed == b->length)
            continue;
        n[count] = weft_min(b->length - b->fed, 1 + (round + i) % 2 * (round > 0));
        some[count++] = b;
    }
    *fed = count > 0;
    return count ? feed(f, some, n, count) : WEFT_OK;
}

static enum weft_status reset(const struct family *f, int64_t slot)
{
    TRY(weft_decoder_reset(f->forked, slot));
    if (f->apart)
        TRY(weft_decoder_reset(f->apart, slot));
    return WEFT_OK;
}

static enum weft_status reset_some(struct family *f)
{
    for (int i = 0; i < f->count; i++)
        if (f->list[i].reset) {
            TRY(reset(f, f->list[i].slot));
            f->list[i].length = f->list[i].fed;
        }
    return WEFT_OK;
}

static enum weft_status go(struct family *f)
{
    bool fed = true;
    for (int i = 1; i < f->count; i++)
        TRY(fork_branch(f, &f->list[i]));
    TRY(feed_all(f, 0, &fed));
    TRY(reset_some(f));
    TRY(feed_until(f, successor(f), successor(f)->length));
    for (int round = 1; fed; round++)
        TRY(feed_all(f, round, &fed));
    return WEFT_OK;
}

/* ---- the check */

static enum weft_status open_sessions(struct family *f, bool absorbs)
{
    struct weft_decoder_size size = {
        .sequences = f->count, .length = f->longest, .chunk = f->chunk, .expand = !absorbs, .scatter = SHUFFLE};
    TRY(weft_decoder_create(&f->forked, f->model, size));
    if (absorbs)
        TRY(weft_decoder_create(&f->apart, f->model, size));
    return WEFT_OK;
}

static void close_sessions(struct family *f)
{
    weft_decoder_free(f->forked);
    weft_decoder_free(f->apart);
    f->forked = f->apart = NULL;
}

/* Writes where the forks begin, and how many of the forks fit into the context. */
static void describe(const struct weft_trial *t, const struct family *f, int count, int64_t base, bool absorbs,
                     char where[160])
{
    char from[64] = "";
    if (t->itself)
        snprintf(from, sizeof from, " from token %" PRId64 " of %" PRId64 " on", base, f->model->spec->context);
    snprintf(where, 160, "%s (%d of %d%s)", from, f->count - 1, count - 1,
             absorbs ? ", absorbed, against sequences without forks" : "");
}

/* Runs the sessions. A page that is still in use after all sequences are reset has been leaked. */
static enum weft_status run_sessions(const struct weft_trial *t, struct family *f, const struct fork *forks, int count,
                                     int64_t base, bool absorbs)
{
    char name[224], where[160];
    f->differing = f->count = 0;
    list_branches(f, forks, count, base);
    add_successor(f);
    fill(f);
    weft_probe_run(&f->whole);
    TRY(open_sessions(f, absorbs));
    int64_t pages = weft_decoder_free_pages(f->forked);
    TRY(go(f));
    for (int i = 0; i < f->count; i++)
        TRY(reset(f, i));
    pages -= weft_decoder_free_pages(f->forked);
    describe(t, f, count, base, absorbs, where);
    snprintf(name, sizeof name, "rows that differ after forks%s", where);
    weft_trial_report(t, f->differing == 0, (double)f->differing, 0, name,
                      "position %" PRId64 " of a sequence that was forked at %" PRId64, f->at, f->forked_at);
    snprintf(name, sizeof name, "pages that are not free after forks%s", where);
    weft_trial_report(t, pages == 0, (double)pages, 0, name, "%s", "all sequences were reset");
    return WEFT_OK;
}

static enum weft_status check(const struct weft_trial *t, struct family *f, const struct fork *forks, int count,
                              int64_t base)
{
    const struct weft_spec *spec = f->model->spec;
    bool absorbs = spec->latent && weft_spec_geom(spec)->linear;
    TRY(weft_probe_open(&f->whole, f->model, WEFT_FORWARD,
                        (struct weft_net_size){.sequences = count + 1, .length = f->longest}, WEFT_FAST));
    for (int i = 0; i <= absorbs; i++) {
        enum weft_status status = run_sessions(t, f, forks, count, base, i == 1);
        close_sessions(f);
        TRY(status);
    }
    return WEFT_OK;
}

/* Returns the length, limited so that the logits of all sequences fit in memory. */
static int64_t cut(const struct weft_spec *spec, int64_t length, int count)
{
    return weft_max(1, weft_min(weft_min(length, spec->context), WEFT_MOST_LOGITS / ((count + 1) * spec->vocab)));
}

static enum weft_status check_from(const struct weft_trial *t, const struct weft_nn *model, const struct fork *forks,
                                   int count, int64_t base)
{
    struct family f = {.model = model, .longest = cut(model->spec, base + PAGE + 1 + AFTER, count)};
    f.chunk = weft_max(LARGE, f.longest / (MOST_PIECES / 2));
    enum weft_status status = f.longest > base + 1 ? check(t, &f, forks, count, base) : WEFT_OK;
    weft_probe_close(&f.whole);
    return status;
}

enum weft_status weft_check_forks(const struct weft_trial *t, const struct weft_nn *model)
{
    return check_from(t, model, near, sizeof near / sizeof *near, 0);
}

enum weft_status weft_check_late_forks(const struct weft_trial *t, const struct weft_nn *model)
{
    enum { COUNT = sizeof far / sizeof *far };
    int64_t longest = cut(model->spec, model->spec->context, COUNT);
    int64_t base = (longest - PART - 2 * AFTER) / PAGE * PAGE;
    return base > 0 ? check_from(t, model, far, COUNT, base) : WEFT_OK;
}
