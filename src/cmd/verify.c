/* SPDX-License-Identifier: MIT
 *
 * verify - runs the gates on a model, on the presets and on combinations of all choices, and on mutants.
 */
#include "base/json.h"
#include "check/check.h"
#include "cmd/cmd.h"
#include "cmd/kit/progress.h"
#include "dnn/dnn.h"
#include "nn/part.h"
#include "simulate/simulate.h"

#include <math.h>
#include <string.h>

static const char *gate_at(int i)
{
    const char *summary;
    return i < WEFT_GATE_COUNT ? weft_gate_at(i, &summary) : NULL;
}

struct args {
    struct weft_common common;
    int gate;
    bool pairs, triples, mutants, study;
    int64_t random, seed;
    const char *reference, *reference_inputs;
};

static const struct weft_arg table[] = {
    {NULL, 0, "MODEL", WEFT_ARG_FILE, offsetof(struct args, common.model),
     .help = "Preset, config file, STUDY:ARM, or folder of a run (default: all presets)",
     .choice_at = weft_preset_name_at},
    {"gate", 'g', "NAME", WEFT_ARG_CHOICE, offsetof(struct args, gate), .help = "Run only this gate",
     .choice_at = gate_at},
    {"pairs", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, pairs),
     .help = "Also check combinations in which all pairs of choices occur"},
    {"triples", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, triples),
     .help = "Also check combinations in which all triples of choices occur"},
    {"random", 0, "N", WEFT_ARG_INT, offsetof(struct args, random), .help = "Also check N random combinations",
     .max = WEFT_MAX_COMBINATIONS},
    {"seed", 0, "N", WEFT_ARG_INT, offsetof(struct args, seed), .help = "Draw random combinations with seed N",
     .initial = "1", .max = INFINITY},
    {"mutants", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, mutants),
     .help = "Also break models deliberately, which the gates must detect; includes --pairs"},
    {"study", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, study),
     .help = "Only run simulated studies with known answers through queue, ledger and report; needs no MODEL"},
    {"reference", 0, "FILE", WEFT_ARG_FILE, offsetof(struct args, reference),
     .help = "Also compare MODEL with the logits, loss and gradients in FILE, computed by your own definition of it"},
    {"reference-inputs", 0, "FILE", WEFT_ARG_FILE, offsetof(struct args, reference_inputs),
     .help = "Only write to FILE the weights and tokens that such a definition needs as input"},
    {0},
};

static enum weft_status check(const void *args)
{
    const struct args *a = args;
    const struct weft_common *c = &a->common;
    if (!c->model && c->settings.count)
        return FAIL(WEFT_INVALID, "--set %s=.. needs a MODEL: `weft help models` lists presets",
                    c->settings.setting[0].name);
    if (!c->model && (a->reference || a->reference_inputs))
        return FAIL(WEFT_INVALID, "--reference%s needs a MODEL: `weft help models` lists presets",
                    a->reference ? "" : "-inputs");
    if (a->study && (c->model || a->gate >= 0 || a->pairs || a->triples || a->mutants || a->random))
        return FAIL(WEFT_INVALID,
                    "--study checks no models: pass it without MODEL, --gate, --pairs, --triples, --random "
                    "and --mutants");
    if (a->reference && a->reference_inputs)
        return FAIL(WEFT_INVALID, "--reference and --reference-inputs are mutually exclusive: first write the inputs, "
                                  "compute the reference from them, then compare");
    return WEFT_OK;
}

/* Results so far. */
struct tally {
    bool json;
    char subject[64]; /* model that the lines describe */
    int checks, failed;
    const struct weft_combinations *combinations; /* combinations being checked */
    struct weft_line line;
    int combinations_done, combinations_failed;
    int64_t tuples, impossible;
    int mutants, caught, culprits,
        culprits_named;  /* culprits: failures that must name a part and layer; named: those that do */
    int false_alarms;    /* sound models that failed a gate: combinations, presets, and originals of mutants */
    char undefined[400]; /* parts of MODEL without an independent definition */
};

/* ---- models */

static void print_check(void *context, const struct weft_check *c)
{
    struct tally *t = context;
    t->checks++;
    t->failed += !c->passed;
    if (!t->json)
        printf("%s %-14s %-9s %s: %.4g (limit %.4g)%s%s\n", c->passed ? "PASSED" : "FAILED", t->subject, c->gate,
               c->name, c->figure, c->limit, c->passed ? "" : ": ", c->where);
    else if (!c->passed)
        weft_say(stderr, "weft verify: %s, %s: %s: %.4g, limit %.4g: %s\n", t->subject, c->gate, c->name, c->figure,
                 c->limit, c->where);
}

static enum weft_status check_in(struct tally *t, const struct weft_spec *spec, const struct weft_recipe *recipe,
                                 unsigned gates)
{
    struct weft_gates report = {.on_check = print_check, .context = t};
    snprintf(t->subject, sizeof t->subject, "%s %s", spec->preset, weft_dtype_name(spec->compute));
    TRY(weft_gates_run(spec, recipe, gates, &report));
    t->false_alarms += report.failed > 0;
    return WEFT_OK;
}

static enum weft_status check_model(struct tally *t, const struct weft_spec *spec, const struct weft_recipe *recipe,
                                    unsigned gates)
{
    struct weft_spec exact;
    TRY(check_in(t, spec, recipe, gates));
    if (spec->compute == WEFT_F32)
        return WEFT_OK;
    enum weft_status status = weft_spec_vary(&exact, spec, "dtype=f32");
    if (status == WEFT_OK)
        status = check_in(t, &exact, recipe, gates);
    weft_spec_release(&exact);
    return status;
}

/* Appends to a list of parts: "geom=dot, attn=full". */
static void list_part(char list[400], const struct weft_chosen *c)
{
    size_t used = strlen(list);
    snprintf(list + used, 400 - used, "%s%s", used ? ", " : "", c->part->owner.name);
}

/* Prints which parts Weft's tests compare with an independent definition. */
static void print_parts(struct tally *t, const struct weft_spec *spec)
{
    char defined[400] = "";
    for (int i = 0; i < WEFT_SINGLE_KINDS + spec->mechanism_count; i++) {
        const struct weft_chosen *c = i < WEFT_SINGLE_KINDS ? &spec->part[i] : &spec->mechanism[i - WEFT_SINGLE_KINDS];
        list_part(weft_part_is_defined(c->part) ? defined : t->undefined, c);
    }
    if (t->json)
        return;
    if (*defined)
        weft_say(stdout, "%s: compared with an independent PyTorch definition (tests/golden)\n", defined);
    if (*t->undefined)
        weft_say(stdout, "%s: no independent definition; pass one with --reference\n", t->undefined);
}

static enum weft_status check_reference(struct tally *t, const struct weft_spec *spec, const char *path)
{
    struct weft_gates report = {.on_check = print_check, .context = t};
    snprintf(t->subject, sizeof t->subject, "%s %s", spec->preset, weft_dtype_name(spec->compute));
    return weft_reference_check(spec, path, &report);
}

/* Checks MODEL with the recipe of its settings, or with defaults that fit it. */
static enum weft_status check_given(struct tally *t, struct args *a, unsigned gates)
{
    struct weft_common *c = &a->common;
    struct weft_recipe *r = &c->recipe;
    print_parts(t, &c->spec);
    if (a->reference)
        TRY(check_reference(t, &c->spec, a->reference));
    if (r->task->length(r->task_options) > c->spec.context) {
        weft_recipe_release(r);
        TRY(weft_recipe_plain(r, &c->spec));
    }
    TRY(weft_recipe_open(r, &c->spec));
    return check_model(t, &c->spec, r, gates);
}

static enum weft_status check_presets(struct tally *t, unsigned gates)
{
    const char *summary, *preset;
    struct weft_gates report = {.on_check = print_check, .context = t};
    snprintf(t->subject, sizeof t->subject, "tiny f32");
    TRY(weft_source_checks(&report));
    for (int i = 0; (preset = weft_preset_at(i, &summary)); i++) {
        struct weft_settings settings = {0};
        struct weft_spec spec;
        struct weft_recipe recipe = {0};
        enum weft_status status = weft_spec_init(&spec, preset, &settings);
        if (status == WEFT_OK)
            status = weft_recipe_plain(&recipe, &spec);
        if (status == WEFT_OK)
            status = check_model(t, &spec, &recipe, gates);
        weft_recipe_release(&recipe);
        weft_spec_release(&spec);
        weft_settings_release(&settings);
        TRY(status);
    }
    return WEFT_OK;
}

/* ---- combinations */

static void add_result(void *context, const struct weft_sweep_result *r)
{
    struct tally *t = context;
    const char *settings = t->combinations->rows[r->row];
    t->checks += r->checks;
    t->failed += r->failed;
    t->combinations_failed += r->failed > 0;
    t->false_alarms += r->failed > 0;
    if (r->failed) {
        weft_line_end(&t->line);
        weft_say(t->json ? stderr : stdout, "FAILED %s %s: %s\n", weft_dtype_name(r->dtype), r->message, settings);
    }
    weft_line_show(&t->line, r->row + 1, t->combinations->count, "combination %d of %d", r->row + 1,
                   t->combinations->count);
}

static enum weft_status check_combinations(struct tally *t, const char *what, struct weft_combinations *c)
{
    int failed = t->combinations_failed;
    t->combinations = c;
    weft_line_init(&t->line, 0);
    enum weft_status status = weft_sweep(c, add_result, t);
    weft_line_end(&t->line);
    TRY(status);
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
    snprintf(what, sizeof what, "random, seed %llu", (unsigned long long)seed);
    if (status == WEFT_OK)
        status = check_combinations(t, what, &c);
    weft_combinations_release(&c);
    return status;
}

/* ---- mutants */

static void add_mutant(void *context, const struct weft_mutant *m, const struct weft_mutant_result *r)
{
    struct tally *t = context;
    t->mutants++;
    t->caught += r->caught;
    t->culprits += r->asked;
    t->culprits_named += r->named;
    t->false_alarms += r->alarm;
    bool passed = r->caught && (r->named || !r->asked);
    if (!t->json || !passed) {
        weft_line_end(&t->line);
        weft_say(t->json ? stderr : stdout, "%s mutant: %s: %s%s\n", passed ? "PASSED" : "FAILED", m->name, r->message,
                 r->caught && !passed ? " (which does not name the part and layer that are broken)" : "");
    }
    weft_line_show(&t->line, t->mutants, weft_mutant_count(), "mutant %d of %d", t->mutants, weft_mutant_count());
}

static enum weft_status check_mutants(struct tally *t)
{
    weft_line_init(&t->line, 0);
    enum weft_status status = weft_mutants_run(add_mutant, t);
    weft_line_end(&t->line);
    return status;
}

static enum weft_status check_study(struct tally *t)
{
    struct weft_gates report = {.on_check = print_check, .context = t};
    snprintf(t->subject, sizeof t->subject, "simulated");
    return weft_simulate(&report);
}

/* ---- all of it */

/* Combinations and mutants run first, because their processes are forked before this one has threads. */
static enum weft_status verify(struct args *a, struct tally *t)
{
    unsigned gates = a->gate < 0 ? WEFT_GATES_ALL : 1u << a->gate;
    if (a->study)
        return check_study(t);
    if (a->pairs || a->mutants)
        TRY(cover(t, 2, (uint64_t)a->seed));
    if (a->triples)
        TRY(cover(t, 3, (uint64_t)a->seed));
    if (a->random)
        TRY(draw(t, (int)a->random, (uint64_t)a->seed));
    if (a->mutants)
        TRY(check_mutants(t));
    return a->common.model ? check_given(t, a, gates) : check_presets(t, gates);
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
        weft_result_int(r, "seed", a->seed);
    }
    if (a->mutants) {
        weft_result_int(r, "mutants", t->mutants);
        weft_result_int(r, "caught", t->caught);
        weft_result_int(r, "culprits", t->culprits);
        weft_result_int(r, "culprits_named", t->culprits_named);
        weft_result_int(r, "false_alarms", t->false_alarms);
    }
    if (a->common.model)
        weft_result_text(r, "parts_without_definition", t->undefined);
    weft_result_text(r, "isa", weft_dnn_path());
    return weft_result_finish(r, stdout, t->json);
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct tally t = {.json = a->common.json};
    if (a->common.model)
        TRY(weft_common_init(&a->common));
    if (a->reference_inputs)
        return weft_reference_inputs(&a->common.spec, a->reference_inputs);
    TRY(verify(a, &t));
    TRY(print_result(a, &t));
    if (t.failed)
        return FAIL(WEFT_CHECK, "%d of %d checks failed: see the lines above", t.failed, t.checks);
    if (t.caught < t.mutants)
        return FAIL(WEFT_CHECK, "%d of %d mutants were not detected", t.mutants - t.caught, t.mutants);
    if (t.culprits_named < t.culprits)
        return FAIL(WEFT_CHECK, "%d of %d failures do not name the part and layer that are broken",
                    t.culprits - t.culprits_named, t.culprits);
    return WEFT_OK;
}

const struct weft_cmd weft_cmd_verify = {
    .name = "verify",
    .summary = "check models by gates: live, causal, cached, exact, ..",
    .doc = "Runs the gates on a tiny twin of MODEL and on MODEL itself, in its own dtype and in f32; without MODEL, on "
           "all presets.",
    .notes = "Each line is a check with its result and limit. Gates: live, every weight, mechanism and loss has an "
             "effect; causal, no row depends on later tokens; cached, decoding through a cache gives the same results; "
             "exact, results are bit-identical for any number of threads and any instruction set; gradient, "
             "derivatives match the loss; stepped, the trainer, its samples and dropout follow their definitions; "
             "formed, the forms from which models are exported compute what the model computes; accounted, parameters, "
             "FLOPs, memory and cache are as predicted. --study checks the machinery around the models instead: plan, "
             "queue, ledger, looks, pairs, statistics and report of simulated studies.",
    .args = table,
    .check = check,
    .takes = WEFT_TAKES_SET | WEFT_TAKES_THREADS | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
