/* SPDX-License-Identifier: MIT
 *
 * pairing.c - checks whether runs of two arms with the same seed are a pair: they read the same stream of samples and
 * started from the same values in the weights that both have (same name, shape, rule and init_key). Seeds are
 * independent draws only if they read different streams. If one of these conditions does not hold, the differences
 * between runs with the same seed do not measure the arms, and there is no verdict. Values that an earlier release did
 * not record are not checked, and the report mentions them.
 */
#include "base/json.h"
#include "report/read/results.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HASH = 64 };

__attribute__((format(printf, 3, 4))) static enum weft_status refuse(struct weft_results *r, const char **reason,
                                                                     const char *format, ...)
{
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    *reason = weft_arena_print(&r->arena, "%s", text);
    return *reason ? WEFT_OK : WEFT_NOMEM;
}

/* ---- the streams */

static enum weft_status check_seeds(struct weft_results *r, const struct weft_result_arm *arm, const char **reason)
{
    const struct weft_finished *run = arm->found.run;
    for (int i = 0; i < arm->found.seeds; i++)
        for (int k = 0; k < i; k++)
            if (*run[i].stream_sha256 && strcmp(run[i].stream_sha256, run[k].stream_sha256) == 0)
                return refuse(r, reason,
                              "seeds %lld and %lld of %s read the same samples in the same order, so they are not "
                              "independent: the task ignores the seed, or has only a few samples",
                              (long long)run[k].seed, (long long)run[i].seed, arm->name);
    return WEFT_OK;
}

/* Returns whether the option affects which samples are read: options of the task have the owner "task=NAME". */
static bool is_deciding(const char *task, const char *option)
{
    static const char *const others[] = {"steps", "batch", "micro_batches", "context", "vocab", "task"};
    const struct weft_owner *owner;
    char name[80];
    bool decides = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        decides |= strcmp(option, others[i]) == 0;
    snprintf(name, sizeof name, "task=%.60s", task ? task : "");
    for (int i = 0; (owner = weft_train_owner_at(i)); i++)
        for (int k = 0; strcmp(owner->name, name) == 0 && k < owner->count; k++)
            decides |= strcmp(option, owner->options[k].name) == 0;
    return decides;
}

/* Lists the options that differ: "batch is 8, not 4". */
static void list_options(const struct weft_results *r, const struct weft_result_arm *arm, char *text, size_t size)
{
    const char *task = weft_result_option(arm, "task");
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < arm->entry_count; i++) {
        const char *name = arm->entry[i].name, *value = arm->entry[i].value;
        const char *first = weft_result_option(&r->arm[0], name);
        if (is_deciding(task, name) && (!first || strcmp(first, value) != 0) && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s is %.40s, not %.40s", used ? ", " : "", name,
                                     value, first ? first : "unset");
    }
}

static enum weft_status check_stream(struct weft_results *r, const struct weft_result_arm *arm,
                                     const struct weft_finished *run, const struct weft_finished *base,
                                     const char **reason)
{
    char options[400];
    if (!*run->stream_sha256 || !*base->stream_sha256 || strcmp(run->stream_sha256, base->stream_sha256) == 0)
        return WEFT_OK;
    list_options(r, arm, options, sizeof options);
    return refuse(r, reason, "with seed %lld its samples or their order differ from those of %s (%s)",
                  (long long)run->seed, r->arm[0].name,
                  *options ? options : "no option that affects the samples differs, so the data may have changed");
}

/* ---- the initial weights */

static bool initial_path(const struct weft_finished *run, char path[4096])
{
    return run->folder && snprintf(path, 4096, "%s/initial.json", run->folder) < 4096 && access(path, F_OK) == 0;
}

/* Weights of one run, in which the entries of a second run are looked up. */
struct weights {
    struct weft_arena arena;
    int count, room;
    struct weight {
        const char *name, *value;
    } * list;
    const struct weights *base; /* NULL: entries are added to the list */
    char differs[128];          /* first weight that should be the same but differs; "": none */
};

static enum weft_status add_weight(struct weights *w, const char *name, const char *value)
{
    if (w->count == w->room) {
        struct weight *more = weft_arena_alloc(&w->arena, (size_t)(2 * w->room + 64) * sizeof *more);
        if (!more)
            return WEFT_NOMEM;
        if (w->count)
            memcpy(more, w->list, (size_t)w->count * sizeof *more);
        w->list = more;
        w->room = 2 * w->room + 64;
    }
    struct weight *to = &w->list[w->count++];
    *to = (struct weight){weft_arena_print(&w->arena, "%s", name), weft_arena_print(&w->arena, "%s", value)};
    return to->name && to->value ? WEFT_OK : WEFT_NOMEM;
}

/* A value consists of the rule, including shape and init_key, and the hash. If the rules are equal, the hashes must be
 * equal. */
static enum weft_status read_weight(void *context, const char *name, const char *value)
{
    struct weights *w = context;
    size_t length = strlen(value);
    if (!w->base)
        return add_weight(w, name, value);
    for (const struct weight *b = w->base->list; b < w->base->list + w->base->count; b++)
        if (strcmp(b->name, name) == 0 && length > HASH && strlen(b->value) == length &&
            strncmp(b->value, value, length - HASH) == 0 && strcmp(b->value, value) != 0 && !*w->differs)
            snprintf(w->differs, sizeof w->differs, "%s", name);
    return WEFT_OK;
}

static enum weft_status compare_weights(const char *base, const char *path, struct weights *found)
{
    struct weights first = {.base = NULL};
    enum weft_status status = weft_json_load(base, read_weight, &first);
    found->base = &first;
    if (status == WEFT_OK)
        status = weft_json_load(path, read_weight, found);
    weft_arena_release(&first.arena);
    return status;
}

static enum weft_status check_weights(struct weft_results *r, const struct weft_finished *run,
                                      const struct weft_finished *base, const char **reason)
{
    char path[4096], first[4096];
    struct weights found = {.differs = ""};
    if (!initial_path(run, path) || !initial_path(base, first))
        return WEFT_OK;
    TRY(compare_weights(first, path, &found));
    if (!*found.differs)
        return WEFT_OK;
    return refuse(
        r, reason,
        "with seed %lld its initial values of %s differ from those of %s, although the same rule generates both",
        (long long)run->seed, found.differs, r->arm[0].name);
}

/* ---- both */

enum weft_status weft_pairing_check(struct weft_results *r, const struct weft_result_arm *arm, const char **reason)
{
    const struct weft_finding *base = &r->arm[0].found;
    *reason = NULL;
    TRY(check_seeds(r, &r->arm[0], reason));
    if (!*reason)
        TRY(check_seeds(r, arm, reason));
    for (int i = 0; i < arm->found.seeds; i++)
        for (int k = 0; k < base->seeds && !*reason; k++)
            if (arm->found.run[i].seed == base->run[k].seed) {
                TRY(check_stream(r, arm, &arm->found.run[i], &base->run[k], reason));
                if (!*reason)
                    TRY(check_weights(r, &arm->found.run[i], &base->run[k], reason));
            }
    return WEFT_OK;
}

bool weft_results_unrecorded(const struct weft_results *r, char text[400])
{
    int64_t runs = 0, streams = 0, weights = 0;
    char path[4096];
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].run_count; k++, runs++) {
            streams += !*r->arm[i].run[k].stream_sha256;
            weights += !initial_path(&r->arm[i].run[k], path);
        }
    snprintf(text, 400,
             "Not recorded: the samples that %lld of %lld runs read and the initial weights of %lld. For these runs, "
             "Weft cannot check that arms with the same seed read the same samples and started from the same weights.",
             (long long)streams, (long long)runs, (long long)weights);
    return streams + weights > 0;
}
