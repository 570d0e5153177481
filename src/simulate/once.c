/* SPDX-License-Identifier: MIT
 *
 * once.c - runs the simulated studies before a study is trained, once per program and study folder.
 *
 * The record is kept in the study's folder, which must be writable anyway, rather than in a user cache. So no home
 * folder is needed, and the record is published with the study. Only the process that owns the folder writes the
 * record.
 */
#include "simulate/simulate.h"

#include <string.h>

struct failure {
    char text[400]; /* the first failed check */
};

static void note(void *context, const struct weft_check *c)
{
    struct failure *f = context;
    if (!c->passed && !*f->text)
        snprintf(f->text, sizeof f->text, "%s: %.3g, limit %.3g; %s", c->name, c->figure, c->limit, c->where);
}

/* Returns whether the folder records that this program passed; an unreadable record does not count. */
static bool is_recorded(const char *folder, const char *program)
{
    struct weft_simulated s;
    if (weft_simulated_load(folder, &s) != WEFT_OK) {
        weft_error_clear();
        return false;
    }
    return strcmp(s.program_sha256, program) == 0 && s.checks > 0 && s.failed == 0;
}

static enum weft_status conclude(const struct weft_simulated *s, const struct failure *first, bool unsafe)
{
    static const char format[] =
        "%d of %d checks of simulated studies failed, the first of them %s. The queue, ledger or "
        "report of this program is broken: run `weft verify --study`, and install a build that "
        "passes, or pass --unsafe";
    if (!s->failed)
        return WEFT_OK;
    if (!unsafe)
        return FAIL(WEFT_CHECK, format, s->failed, s->checks, first->text);
    weft_note_once("simulated studies", format, s->failed, s->checks, first->text);
    return WEFT_OK;
}

enum weft_status weft_simulate_once(const char *folder, bool unsafe, struct weft_simulated *s)
{
    static _Thread_local struct weft_simulated
        known; /* result of this process, reused for all rungs of a ladder, each of which has its own folder */
    static _Thread_local struct failure first;
    struct weft_gates report = {.on_check = note, .context = &first};
    char program[65];
    *s = (struct weft_simulated){0};
    if (weft_gates_skipped())
        return WEFT_OK;
    TRY(weft_program_hash(program));
    if (is_recorded(folder, program))
        return WEFT_OK;
    if (!known.checks || known.failed || strcmp(known.program_sha256, program) != 0) {
        *first.text = '\0';
        TRY(weft_simulate(&report));
        known = (struct weft_simulated){.checks = report.checks, .failed = report.failed};
        memcpy(known.program_sha256, program, sizeof program);
    }
    *s = known;
    return conclude(s, &first, unsafe);
}

enum weft_status weft_simulate_record(const char *folder, const struct weft_simulated *s)
{
    return s->checks ? weft_simulated_save(folder, s) : WEFT_OK;
}
