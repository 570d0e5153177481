/* SPDX-License-Identifier: MIT
 *
 * check - runs every op of the registry through the harness on this machine, or trains small models and compares their
 * hashes with recorded ones, which are the same on every machine.
 */
#include "check/check.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

static const char *op_at(int i) { return i < WEFT_OP_COUNT ? weft_op((enum weft_op_id)i)->name : NULL; }

struct args {
    struct weft_common common;
    const char *op;
    const char *model;
    bool hashes, pairs;
    int64_t every;
};

static const struct weft_arg table[] = {
    {"op", 'o', "NAME", WEFT_ARG_TEXT, offsetof(struct args, op), .help = "Check only this op and list its cases",
     .choice_at = op_at},
    {"hashes", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, hashes),
     .help = "Instead train small models and compare their hashes with the recorded ones, which are the same on every "
             "machine"},
    {"model", 'm', "NAME", WEFT_ARG_TEXT, offsetof(struct args, model),
     .help = "With --hashes: train only models of this preset", .choice_at = weft_preset_name_at},
    {"pairs", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, pairs),
     .help = "With --hashes: instead train combinations in which all pairs of choices occur. No hashes are recorded "
             "for them: compare sha256, the hash of all results, between two machines"},
    {"every", 0, "N", WEFT_ARG_INT, offsetof(struct args, every), .initial = "1", .min = 1, .max = 1000,
     .help = "Check every N-th case of every op, starting with the first, or with --pairs every N-th combination"},
    {0},
};

struct tally { /* results of the op being checked */
    const struct args *args;
    char op[64];
    int cases, failed;
    double error, gradient_error;
};

static void print_tally(struct tally *t)
{
    if (t->cases && !t->args->common.json) {
        printf("%-8s %-16s %3d cases   error %.3f", t->failed ? "FAILED" : "passed", t->op, t->cases, t->error);
        if (isnan(t->gradient_error))
            printf("   no derivative\n");
        else
            printf("   derivative %.3f\n", t->gradient_error);
    }
    t->cases = t->failed = 0;
    t->error = 0;
    t->gradient_error = NAN;
}

static void add_case(void *context, const struct weft_opcheck_case *c)
{
    struct tally *t = context;
    if (strcmp(t->op, c->op) != 0) {
        print_tally(t);
        snprintf(t->op, sizeof t->op, "%s", c->op);
    }
    t->cases++;
    t->failed += c->failed;
    t->error = fmax(t->error, c->error);
    t->gradient_error = fmax(t->gradient_error, c->gradient_error);
    if (c->failed)
        weft_say(stderr, "weft check: %s, %s, %s: %s\n", c->op, c->name, weft_dtype_name(c->dtype), c->message);
    if ((t->args->op || t->args->common.verbose) && !t->args->common.json)
        printf("  %-6s %-5s %-28s error %.3f\n", c->failed ? "FAILED" : "passed", weft_dtype_name(c->dtype), c->name,
               c->error);
}

/* ---- hashes */

struct hashes {
    const struct args *args;
    int models, differ;
    struct weft_sha256 all;
};

static void add_hash(void *context, const struct weft_hashes_case *c)
{
    struct hashes *h = context;
    bool same = !c->wanted || strcmp(c->hash, c->wanted) == 0;
    const char *verdict = same ? "same" : "DIFFERS";
    h->models++;
    h->differ += !same;
    weft_sha256_add(&h->all, c->hash, 64);
    if (!h->args->common.json)
        printf("%-7s %-4s %s%s%s\n        %s\n", c->wanted ? verdict : "", c->dtype, c->model,
               *c->model && *c->settings ? " " : "", c->settings, c->hash);
    if (!same)
        weft_say(stderr, "weft check: %s %s %s: the hash is %s, not %s\n", c->model, c->settings, c->dtype, c->hash,
                 c->wanted);
}

static enum weft_status run_hashes(const struct args *a)
{
    struct hashes h = {.args = a};
    char all[65];
    weft_sha256_init(&h.all);
    if (a->pairs)
        TRY(weft_hashes_pairs((int)a->every, add_hash, &h));
    else
        TRY(weft_hashes_run(a->model, add_hash, &h));
    weft_sha256_hex(&h.all, all);
    if (h.models == 0)
        return FAIL(WEFT_INVALID, "no hashes are recorded for %s: `weft help models` lists the presets", a->model);
    struct weft_result *r = weft_result_create();
    weft_result_int(r, "models", h.models);
    weft_result_int(r, "differ", h.differ);
    weft_result_text(r, "sha256", all);
    weft_result_text(r, "isa", weft_dnn_path());
    enum weft_status status = weft_result_finish(r, stdout, a->common.json);
    if (status == WEFT_OK && h.differ)
        return FAIL(
            WEFT_CHECK,
            "%d of %d models differ from the recorded hashes; please report this with the output of `weft version`",
            h.differ, h.models);
    return status;
}

static enum weft_status run(void *args)
{
    const struct args *a = args;
    if (a->op && a->hashes)
        return FAIL(WEFT_INVALID, "--op and --hashes are mutually exclusive: --hashes trains whole models");
    if ((a->model || a->pairs) && !a->hashes)
        return FAIL(WEFT_INVALID, "%s needs --hashes", a->model ? "--model" : "--pairs");
    if (a->model && a->pairs)
        return FAIL(WEFT_INVALID, "--pairs combines all choices, not those of one preset: remove --model");
    if (a->every > 1 && a->hashes && !a->pairs)
        return FAIL(WEFT_INVALID,
                    "--every selects ops or, with --pairs, combinations: --hashes alone compares all recorded hashes");
    if (a->hashes)
        return run_hashes(a);
    struct weft_opcheck sum;
    struct tally tally = {.args = a, .gradient_error = NAN};
    enum weft_status status = weft_opcheck_run(a->op, (int)a->every, &sum, add_case, &tally);
    print_tally(&tally);
    if (status != WEFT_OK)
        return status;
    struct weft_result *r = weft_result_create();
    weft_result_int(r, "ops", sum.ops);
    weft_result_int(r, "cases", sum.cases);
    weft_result_int(r, "failed", sum.failed);
    weft_result_int(r, "thread_mismatches", sum.thread_mismatches);
    weft_result_int(r, "row_mismatches", sum.row_mismatches);
    weft_result_text(r, "isa", weft_dnn_path());
    status = weft_result_finish(r, stdout, a->common.json);
    if (status == WEFT_OK && sum.failed)
        return FAIL(WEFT_CHECK, "%d of %d cases failed: see the lines above", sum.failed, sum.cases);
    return status;
}

const struct weft_cmd weft_cmd_check = {
    .name = "check",
    .summary = "check every op on this machine",
    .doc = "Checks every op against its reference in double precision and its derivative against finite differences, "
           "and checks that its results are bit-identical for different thread counts, row counts and memory layouts. "
           "--verbose lists every case. With --hashes it trains small models for 20 steps and compares hashes of their "
           "losses and weights with those that every machine must reproduce.",
    .notes = "Errors are given as multiples of the tolerance: a case with an error above 1 fails.",
    .args = table,
    .takes = WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
