/* SPDX-License-Identifier: MIT
 *
 * options_then.c - reconstructs the options of a run between changes. The log has the changes, and the newest
 * checkpoint has a config: undoing the changes one by one gives the earlier options. A change must match the known
 * options on one side of it, so a single forged change is detected.
 */
#include "base/fields.h"
#include "ckpt/ckpt.h"
#include "train/record/internal.h"

#include <inttypes.h>
#include <string.h>

enum { ROOM = 4096 };

void weft_eras_release(struct weft_eras *eras)
{
    weft_record_close(&eras->log);
    weft_arena_release(&eras->arena);
    *eras = (struct weft_eras){0};
}

/* ---- where eras begin */

static bool is_checkpoint(const struct weft_expected_record *e)
{
    return e->kind == WEFT_RECORD_STOPPED ||
           (e->kind == WEFT_RECORD_STEP && strstr(e->text, ", \"optimizer_sha256\": \"") != NULL);
}

/* Checks the position of a change. Training is resumed from a checkpoint, so a change follows one; earlier releases
 * also recorded changes before the first step. */
static enum weft_status check_position(const struct weft_record *record, const struct weft_expected_record *before,
                                       const struct weft_expected_record *e)
{
    if (before && before->kind == WEFT_RECORD_CHANGE)
        return FAIL(WEFT_INVALID,
                    "%s/log.jsonl has two changes in a row at step %" PRId64
                    ", as earlier releases wrote them: the options with which the run continued are unknown",
                    record->folder, e->step);
    bool head = before && before == record->expected && e->step == 0;
    if (!head && (!before || !is_checkpoint(before) || before->step != e->step))
        return FAIL(WEFT_CHECK,
                    "%s/log.jsonl has a change at step %" PRId64
                    ", where there was no checkpoint to resume from: the log was edited",
                    record->folder, e->step);
    return WEFT_OK;
}

/* Reads the hash of a config in a record; "": none. */
static void read_config_hash(const char *text, char hash[65])
{
    static const char mark[] = ", \"config_sha256\": \"";
    const char *at = strstr(text, mark);
    snprintf(hash, 65, "%.64s", at ? at + sizeof mark - 1 : "");
    if (!weft_is_sha256(hash))
        *hash = 0;
}

static enum weft_status make_list(struct weft_eras *eras)
{
    const struct weft_record *record = &eras->log;
    const struct weft_expected_record *before = NULL;
    int n = 1;
    for (const struct weft_expected_record *e = record->expected; e; e = e->next)
        n += e->kind == WEFT_RECORD_CHANGE;
    eras->list = weft_arena_alloc(&eras->arena, (size_t)n * sizeof *eras->list);
    if (!eras->list)
        return FAIL(WEFT_NOMEM, "not enough memory for the changes of %s", record->folder);
    memset(eras->list, 0, (size_t)n * sizeof *eras->list);
    eras->count = 1;
    if (record->expected)
        read_config_hash(record->expected->text, eras->list->config_sha256);
    for (const struct weft_expected_record *e = record->expected; e; before = e, e = e->next) {
        if (e->kind == WEFT_RECORD_CHANGE) {
            TRY(check_position(record, before, e));
            struct weft_era *era = &eras->list[eras->count++];
            *era = (struct weft_era){.step = e->step, .text = e->text};
            read_config_hash(e->text, era->config_sha256);
        }
        eras->only_begun = e->kind == WEFT_RECORD_CHANGE;
    }
    return WEFT_OK;
}

/* ---- the options of eras */

/* Derivation of the options on one side of a change from the known options on the other side. */
struct undoing {
    struct weft_eras *eras;
    const struct weft_settings *settings;
    const struct weft_era *known;
    struct weft_era *other;
    bool back, seen[WEFT_CHANGES];
};

static bool take_change(void *context, const char *name, const char *before, const char *now)
{
    struct undoing *u = context;
    char text[WEFT_MAX_VALUE];
    int i = weft_change_option(name);
    if (i < 0)
        return weft_change_is_origin(name);
    const char *value = u->known->value[i] ? u->known->value[i] : weft_settings_value(u->settings, name, text);
    if (u->seen[i] || !value || !weft_settings_same(u->settings, name, value, u->back ? now : before) ||
        weft_settings_same(u->settings, name, before, now))
        return false;
    u->seen[i] = true;
    u->other->value[i] = weft_arena_print(&u->eras->arena, "%s", u->back ? before : now);
    return u->other->value[i];
}

/* Derives the options of an era from the options of the next era, or of the previous one. */
static enum weft_status derive(struct weft_eras *eras, const char *folder, const struct weft_settings *settings, int i,
                               bool back)
{
    struct weft_era *other = &eras->list[i];
    const struct weft_era *known = back ? other + 1 : other - 1, *change = back ? known : other;
    struct undoing u = {.eras = eras, .settings = settings, .known = known, .other = other, .back = back};
    memcpy(other->value, known->value, sizeof other->value);
    if (!weft_change_read(change->text, take_change, &u))
        return FAIL(WEFT_CHECK,
                    "%s/log.jsonl has a change that is impossible, or does not match the options %s it: the log or a "
                    "config was edited. The change is %s}",
                    folder, back ? "after" : "before", change->text);
    return WEFT_OK;
}

static enum weft_status read_chain(const char *checkpoint, char chain[65])
{
    char path[ROOM + 32];
    struct weft_safetensors *f;
    struct weft_binding binding;
    snprintf(path, sizeof path, "%s/model.safetensors", checkpoint);
    TRY(weft_safetensors_open(&f, path));
    bool bound = weft_binding_read(f, &binding);
    weft_safetensors_close(f);
    if (!bound)
        return FAIL(WEFT_FORMAT, "%s lacks some of the hashes that bind it to the run", path);
    memcpy(chain, binding.chain, sizeof binding.chain);
    return WEFT_OK;
}

enum weft_status weft_eras_find(const struct weft_eras *eras, const char *checkpoint, int *era)
{
    const struct weft_expected_record *e = eras->log.expected;
    char chain[65];
    TRY(read_chain(checkpoint, chain));
    for (*era = 0; e && strcmp(e->chain, chain) != 0; e = e->next)
        *era += e->kind == WEFT_RECORD_CHANGE;
    if (!e || !is_checkpoint(e))
        return FAIL(WEFT_CHECK, "%s/log.jsonl does not have the record of %s: one of them was edited", eras->log.folder,
                    checkpoint);
    return WEFT_OK;
}

enum weft_status weft_eras_read(struct weft_eras *eras, const char *folder, const char *checkpoint,
                                const struct weft_settings *settings)
{
    *eras = (struct weft_eras){0};
    TRY(weft_record_read(&eras->log, folder));
    TRY(make_list(eras));
    TRY(weft_eras_find(eras, checkpoint, &eras->newest));
    for (int i = eras->newest - 1; i >= 0; i--)
        TRY(derive(eras, folder, settings, i, true));
    for (int i = eras->newest + 1; i < eras->count; i++)
        TRY(derive(eras, folder, settings, i, false));
    return WEFT_OK;
}
