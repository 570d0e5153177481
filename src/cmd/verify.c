/* SPDX-License-Identifier: MIT
 *
 * verify - the six gates on a model, on the presets, on combinations of all choices; and mutants through the gates.
 */
#include "base/json.h"
#include "check/check.h"
#include "cmd/cmd.h"

#include <string.h>
#include <unistd.h>

struct args {
    struct weft_common common;
    const char *gate;
    bool pairs, triples, mutants;
    int random;
    uint64_t seed;
};

enum { PAIRS = 256, TRIPLES, RANDOM, SEED, MUTANTS };

static const struct argp_option options[] = {
    {"gate", 'g', "NAME", 0, "Check models by this gate only: live, causal, cached, exact, gradient or accounted", 0},
    {"pairs", PAIRS, NULL, 0, "Also check combinations in which all pairs of choices occur", 0},
    {"triples", TRIPLES, NULL, 0, "Also check combinations in which all triples of choices occur", 0},
    {"random", RANDOM, "N", 0, "Also check N combinations drawn by chance", 0},
    {"seed", SEED, "N", 0, "Which combinations are drawn; 1 by default", 0},
    {"mutants", MUTANTS, NULL, 0, "Also break models on purpose, which the gates must notice; with --pairs", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        a->seed = 1;
        return 0;
    case 'g':
        a->gate = arg;
        return 0;
    case PAIRS:
        a->pairs = true;
        return 0;
    case TRIPLES:
        a->triples = true;
        return 0;
    case RANDOM:
        a->random = (int)weft_arg_int(state, "random", arg, 0, WEFT_MAX_COMBINATIONS);
        return 0;
    case SEED:
        a->seed = (uint64_t)weft_arg_int(state, "seed", arg, 0, INT64_MAX);
        return 0;
    case MUTANTS:
        a->mutants = a->pairs = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->common.model)
            return ARGP_ERR_UNKNOWN;
        a->common.model = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&weft_common_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[MODEL]",
    .doc = "Runs the gates on a tiny twin of MODEL, in its own dtype and in f32; without MODEL, on those of all "
           "presets.\vA line is a check: what was found, and the limit. Gates: live, every weight, mechanism and loss "
           "has an effect; causal, no row knows of later tokens; cached, decoding through a cache gives the same; "
           "exact, the same bits with any number of threads; gradient, derivatives are those of the loss; accounted, "
           "weights, FLOPs, memory and cache are as predicted.",
    .children = children,
};

/* What was found so far. */
struct tally {
    bool json;
    char subject[64]; /* what the lines are about */
    int checks, failed;
    const struct weft_combinations *combinations; /* those under way */
    double said;                                  /* when progress was told last */
    int combinations_done, combinations_failed;
    int64_t tuples, impossible;
    int mutants, caught, false_alarms;
};

/* ---- models */

static void tell_check(void *context, const struct weft_check *c)
{
    struct tally *t = context;
    t->checks++;
    t->failed += !c->passed;
    if (!t->json)
        printf("%s %-14s %-9s %s: %.4g (limit %.4g)%s%s\n", c->passed ? "PASSED" : "FAILED", t->subject, c->gate,
               c->name, c->figure, c->limit, c->passed ? "" : ": ", c->where);
    else if (!c->passed)
        fprintf(stderr, "weft verify: %s, %s: %s: %.4g, limit %.4g: %s\n", t->subject, c->gate, c->name, c->figure,
                c->limit, c->where);
}

static enum weft_status check_in(struct tally *t, const struct weft_spec *spec, unsigned gates)
{
    struct weft_gates report = {.on_check = tell_check, .context = t};
    snprintf(t->subject, sizeof t->subject, "%s %s", spec->preset, weft_dtype_name(spec->compute));
    return weft_gates_run(spec, gates, &report);
}

static enum weft_status check_model(struct tally *t, const struct weft_spec *spec, unsigned gates)
{
    struct weft_spec exact;
    TRY(check_in(t, spec, gates));
    if (spec->compute == WEFT_F32)
        return WEFT_OK;
    enum weft_status status = weft_spec_vary(&exact, spec, "dtype=f32");
    if (status == WEFT_OK)
        status = check_in(t, &exact, gates);
    weft_spec_release(&exact);
    return status;
}

static enum weft_status check_presets(struct tally *t, unsigned gates)
{
    const char *summary, *preset;
    struct weft_gates report = {.on_check = tell_check, .context = t};
    snprintf(t->subject, sizeof t->subject, "tiny f32");
    TRY(weft_source_checks(&report));
    for (int i = 0; (preset = weft_preset_at(i, &summary)); i++) {
        struct weft_settings settings = {0};
        struct weft_spec spec;
        enum weft_status status = weft_spec_init(&spec, preset, &settings);
        if (status == WEFT_OK)
            status = check_model(t, &spec, gates);
        weft_spec_release(&spec);
        weft_settings_release(&settings);
        TRY(status);
    }
    return WEFT_OK;
}

static enum weft_status find_gates(const char *name, unsigned *gates)
{
    const char *names[WEFT_GATE_COUNT], *summary;
    *gates = name ? 0 : WEFT_GATES_ALL;
    for (int i = 0; i < WEFT_GATE_COUNT; i++) {
        names[i] = weft_gate_at(i, &summary);
        if (name && strcmp(names[i], name) == 0)
            *gates = 1u << i;
    }
    if (*gates)
        return WEFT_OK;
    const char *near = weft_suggest(name, names, WEFT_GATE_COUNT);
    return FAIL(WEFT_INVALID, "there is no gate \"%s\"%s%s%s `weft verify --help` lists them", name,
                near ? ": did you mean " : "", near ? near : "", near ? "?" : ".");
}

/* ---- combinations */

static void tell_result(void *context, const struct weft_sweep_result *r)
{
    struct tally *t = context;
    const char *settings = t->combinations->rows[r->row];
    t->checks += r->checks;
    t->failed += r->failed;
    t->combinations_failed += r->failed > 0;
    if (r->failed)
        fprintf(t->json ? stderr : stdout, "FAILED %s %s: %s\n", weft_dtype_name(r->dtype), r->message, settings);
    if (weft_seconds() - t->said < (isatty(STDERR_FILENO) ? 0.5 : 20))
        return;
    t->said = weft_seconds();
    fprintf(stderr, "combination %d of %d\n", r->row + 1, t->combinations->count);
}

static enum weft_status check_combinations(struct tally *t, const char *what, struct weft_combinations *c)
{
    int failed = t->combinations_failed;
    t->combinations = c;
    t->said = weft_seconds();
    TRY(weft_sweep(c, tell_result, t));
    t->combinations_done += c->count;
    t->tuples += c->tuples;
    t->impossible += c->impossible;
    failed = t->combinations_failed - failed;
    if (!t->json)
        printf("%s %d combinations (%s) in f32 and bf16: %d failed\n", failed ? "FAILED" : "PASSED", c->count, what,
               failed);
    return WEFT_OK;
}

static enum weft_status cover(struct tally *t, int strength, uint64_t seed)
{
    static struct weft_combinations c;
    char what[64];
    enum weft_status status = weft_combinations_cover(&c, strength, seed);
    snprintf(what, sizeof what, "%lld %s, %lld impossible", (long long)c.tuples, strength == 2 ? "pairs" : "triples",
             (long long)c.impossible);
    if (status == WEFT_OK)
        status = check_combinations(t, what, &c);
    weft_combinations_release(&c);
    return status;
}

static enum weft_status draw(struct tally *t, int count, uint64_t seed)
{
    static struct weft_combinations c;
    char what[64];
    enum weft_status status = weft_combinations_draw(&c, count, seed);
    snprintf(what, sizeof what, "by chance, seed %llu", (unsigned long long)seed);
    if (status == WEFT_OK)
        status = check_combinations(t, what, &c);
    weft_combinations_release(&c);
    return status;
}

/* ---- mutants */

static enum weft_status check_mutants(struct tally *t)
{
    const struct weft_mutant *m;
    for (; (m = weft_mutant_at(t->mutants)); t->mutants++) {
        bool caught;
        char message[400];
        TRY(weft_mutant_run(m, &caught, message));
        t->caught += caught;
        if (!t->json || !caught)
            fprintf(t->json ? stderr : stdout, "%s mutant: %s: %s\n", caught ? "PASSED" : "FAILED", m->name, message);
    }
    return WEFT_OK;
}

/* ---- all of it */

/* Combinations first: their processes are copies of this one before it has threads. */
static enum weft_status verify(struct args *a, struct tally *t)
{
    unsigned gates;
    TRY(find_gates(a->gate, &gates));
    if (a->pairs)
        TRY(cover(t, 2, a->seed));
    t->false_alarms = t->combinations_failed;
    if (a->triples)
        TRY(cover(t, 3, a->seed));
    if (a->random)
        TRY(draw(t, a->random, a->seed));
    if (a->mutants)
        TRY(check_mutants(t));
    return a->common.model ? check_model(t, &a->common.spec, gates) : check_presets(t, gates);
}

static enum weft_status print_result(const struct args *a, const struct tally *t)
{
    struct weft_result *r = weft_result_create();
    weft_result_int(r, "checks", t->checks);
    weft_result_int(r, "failed", t->failed);
    if (t->combinations_done) {
        weft_result_int(r, "combinations", t->combinations_done);
        weft_result_int(r, "combinations_failed", t->combinations_failed);
        weft_result_int(r, "tuples", t->tuples);
        weft_result_int(r, "impossible", t->impossible);
        weft_result_int(r, "seed", (int64_t)a->seed);
    }
    if (a->mutants) {
        weft_result_int(r, "mutants", t->mutants);
        weft_result_int(r, "caught", t->caught);
        weft_result_int(r, "false_alarms", t->false_alarms);
    }
    weft_result_text(r, "isa", weft_dnn_path());
    enum weft_status status = weft_result_print(r, stdout, t->json);
    weft_result_free(r);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct tally t = {.json = a->common.json};
    enum weft_status status = a->common.status;
    if (status == WEFT_OK && a->common.model)
        status = weft_common_init(&a->common);
    else if (status == WEFT_OK && a->common.settings.count)
        status = FAIL(WEFT_INVALID, "--set %s=..: of which MODEL? `weft help models` lists presets",
                      a->common.settings.setting[0].name);
    if (status == WEFT_OK)
        status = verify(a, &t);
    if (status == WEFT_OK)
        status = print_result(a, &t);
    weft_common_release(&a->common);
    if (status == WEFT_OK && t.failed)
        return FAIL(WEFT_CHECK, "%d of %d checks failed; the lines above name them", t.failed, t.checks);
    if (status == WEFT_OK && t.caught < t.mutants)
        return FAIL(WEFT_CHECK, "%d of %d mutants were not noticed", t.mutants - t.caught, t.mutants);
    return status;
}

const struct weft_cmd weft_cmd_verify = {"verify", "check models by six gates: live, causal, cached, exact, ..", &argp,
                                         sizeof(struct args), run};
