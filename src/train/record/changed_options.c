/* SPDX-License-Identifier: MIT
 *
 * changed_options.c - defines the options that may change when a run is resumed, and converts changes to and from the
 * text in the log: "steps 6 -> 10, keep 2 -> 5".
 */
#include "train/record/internal.h"

#include <string.h>

static const char *const may_change[WEFT_CHANGES] = {"steps",          "log_every",        "eval_every", "eval_samples",
                                                     "diagnose_every", "checkpoint_every", "keep",       "recompute"};

const char *weft_may_change(int i) { return may_change[i]; }

int weft_change_option(const char *name)
{
    for (int i = 0; i < WEFT_CHANGES; i++)
        if (strcmp(name, may_change[i]) == 0)
            return i;
    return -1;
}

bool weft_change_is_origin(const char *name)
{
    for (int i = 0; i < WEFT_ORIGINS; i++)
        if (strcmp(name, weft_origin_name(i)) == 0)
            return i != WEFT_ORIGIN_DATA && i != WEFT_ORIGIN_NUMBERS;
    return false;
}

enum weft_status weft_change_add(struct weft_record *record, const char *name, const char *before, const char *now)
{
    const char *so_far = record->changes;
    record->changes =
        weft_arena_print(&record->arena, "%s%s%s %s -> %s", so_far, *so_far ? ", " : "", name, before, now);
    if (!record->changes)
        return FAIL(WEFT_NOMEM, "not enough memory for the changes in %s", record->folder);
    return WEFT_OK;
}

/* Copies a word up to the text `end`; returns the text after `end`, or NULL if there is no such end or the word is
 * empty or too long. */
static const char *read_word(const char *from, const char *end, char word[80])
{
    const char *to = strstr(from, end);
    if (!to || to == from || to - from >= 80)
        return NULL;
    memcpy(word, from, (size_t)(to - from));
    word[to - from] = 0;
    return strpbrk(word, " ,\"\\") ? NULL : to + strlen(end);
}

bool weft_change_read(const char *text, weft_change_fn *each, void *context)
{
    static const char mark[] = ", \"changed\": \"";
    const char *at = strstr(text, mark);
    char name[80], before[80], now[80];
    bool more = true;
    for (at = at ? at + sizeof mark - 1 : NULL; at && more;) {
        size_t last = strcspn(at, ",\"");
        more = at[last] == ',';
        at = read_word(at, " ", name);
        at = at ? read_word(at, " -> ", before) : NULL;
        at = at ? read_word(at, more ? ", " : "\"", now) : NULL;
        if (!at || !each(context, name, before, now))
            return false;
    }
    return at;
}
