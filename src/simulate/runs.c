/* SPDX-License-Identifier: MIT
 *
 * runs.c - writes the files of a simulated run, which are those files of a trained run that the queue and the report
 * read. The record of its gates and the chain of its log are written by the same functions as for trained runs.
 */
#include "base/json.h"
#include "dnn/dnn.h"
#include "simulate/studies.h"
#include "study/queue.h"
#include "train/record/record.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A run, and the hashes that identify it in its files. */
struct run {
    const struct weft_simulation *of;
    const struct weft_job *job;
    const char *folder;
    char weights[65], stream[65], gates[65];
    struct weft_chain chain;
};

__attribute__((format(printf, 2, 3))) static void hash_text(char sha256[65], const char *format, ...)
{
    char text[256];
    struct weft_sha256 sha;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, text, (size_t)n);
    weft_sha256_hex(&sha, sha256);
}

static enum weft_sim_quirk quirk_of(const struct run *r) { return r->of->of->arm[r->job->run.arm].quirk; }

/* A repeat has the weights of the arm that it repeats. */
static void name_contents(struct run *r)
{
    const struct weft_sim_study *s = r->of->of;
    const struct weft_study_run *run = &r->job->run;
    int64_t stream = run->seed;
    if (quirk_of(r) == WEFT_SIM_OTHER_SAMPLES)
        stream++;
    if (quirk_of(r) == WEFT_SIM_SAME_SAMPLES && run->seed == s->first_seed + 1)
        stream--;
    int arm = s->arm[run->arm].repeats ? s->arm[run->arm].repeats - 1 : run->arm;
    if (quirk_of(r) == WEFT_SIM_OTHER_BITS && run->seed == s->first_seed + s->seeds - 1)
        arm = run->arm;
    hash_text(r->weights, "weights of %s, arm %d, lr %.17g, seed %lld", s->name, arm, run->lr, (long long)run->seed);
    hash_text(r->stream, "samples of seed %lld", (long long)stream);
}

/* ---- the files */

static enum weft_status open_file(const struct run *r, const char *name, FILE **to)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", r->folder, name);
    *to = fopen(path, "we");
    return *to ? WEFT_OK : FAIL(WEFT_IO, "%s cannot be written", path);
}

static enum weft_status close_file(const struct run *r, const char *name, FILE *to)
{
    return weft_output_close(to) ? WEFT_OK : FAIL(WEFT_IO, "%s/%s cannot be written", r->folder, name);
}

static enum weft_status write_gates(struct run *r)
{
    char path[4200];
    struct weft_gates gates = {.checks = 1, .sizes = "simulated"};
    snprintf(path, sizeof path, "%s/gates.json", r->folder);
    memcpy(gates.plan_sha256, r->of->plan_sha256, sizeof gates.plan_sha256);
    TRY(weft_gate_record_save(path, r->job->finished.config_sha256, &gates));
    return weft_sha256_within(path, 1 << 20, r->gates);
}

/* Writes initial.json with one weight that all arms have and one that only this arm has. */
static enum weft_status write_initial(const struct run *r)
{
    const struct weft_sim_study *s = r->of->of;
    int64_t seed = r->job->run.seed;
    bool other = quirk_of(r) == WEFT_SIM_OTHER_WEIGHTS && seed == s->first_seed + s->seeds - 1;
    char wte[65], out[65];
    FILE *to;
    TRY(open_file(r, "initial.json", &to));
    hash_text(wte, "wte of seed %lld", (long long)seed + other);
    hash_text(out, "out of arm %d, seed %lld", r->job->run.arm, (long long)seed);
    fprintf(to, "{\n  \"wte\": \"64x32 normal 0.02 key 0: %s\",\n  \"out\": \"32x%d normal 0.01 key 0: %s\"\n}\n", wte,
            32 + r->job->run.arm, out);
    return close_file(r, "initial.json", to);
}

__attribute__((format(printf, 3, 4))) static bool log_record(struct run *r, FILE *to, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return n > 0 && n < (int)sizeof text && weft_chain_write(&r->chain, text, (size_t)n, to);
}

struct scores {
    double train_loss, val_loss, val_accuracy, test_loss, test_accuracy;
};

/* Returns an accuracy rounded to nine digits, as results are. */
static double accuracy_of(double loss) { return round(0.25 / loss * 1e9) / 1e9; }

static struct scores scores_of(const struct run *r)
{
    const struct weft_study_run *run = &r->job->run;
    double val = weft_sim_val_loss(r->of->of, run->arm, run->lr, run->seed);
    double test = weft_sim_test_loss(r->of->of, run->arm, run->lr, run->seed);
    return (struct scores){round((val - 0.5) * 1e8) / 1e8, val, accuracy_of(val), test, accuracy_of(test)};
}

static int64_t params_of(const struct run *r) { return r->of->study->arm[r->job->run.arm].account.params; }

static int64_t steps_of(const struct run *r) { return r->of->study->arm[r->job->run.arm].recipe.steps; }

static enum weft_status write_log(struct run *r)
{
    struct scores s = scores_of(r);
    long long steps = steps_of(r);
    FILE *to;
    TRY(open_file(r, "log.jsonl", &to));
    weft_chain_start(&r->chain);
    bool whole =
        log_record(r, to,
                   "{\"step\": 0, \"weft\": \"%s\", \"isa\": \"%s\", \"params\": %lld, \"gates_checks\": 1, "
                   "\"gates_failed\": 0, \"config_sha256\": \"%s\", \"plan_sha256\": \"%s\", \"gates_sha256\": "
                   "\"%s\"",
                   weft_version(), weft_dnn_path(), (long long)params_of(r), r->job->finished.config_sha256,
                   r->of->plan_sha256, r->gates);
    whole &= log_record(r, to, "{\"step\": %lld, \"total\": %.17g, \"main\": %.17g, \"lr\": %.17g", steps, s.train_loss,
                        s.train_loss, r->job->run.lr);
    whole &= log_record(r, to,
                        "{\"step\": %lld, \"val_loss\": %.17g, \"val_accuracy\": %.17g, \"test_loss\": %.17g, "
                        "\"test_accuracy\": %.17g",
                        steps, s.val_loss, s.val_accuracy, s.test_loss, s.test_accuracy);
    whole &=
        log_record(r, to, "{\"step\": %lld, \"weights_sha256\": \"%s\", \"stream_sha256\": \"%s\", \"seconds\": 1.0",
                   steps, r->weights, r->stream);
    TRY(close_file(r, "log.jsonl", to));
    return whole ? WEFT_OK : FAIL(WEFT_IO, "%s/log.jsonl cannot be written", r->folder);
}

/* Writes the final output of `weft train --json`. */
static enum weft_status write_result(const struct run *r)
{
    struct scores s = scores_of(r);
    struct weft_result *result = weft_result_create();
    weft_result_int(result, "params", params_of(r));
    weft_result_int(result, "steps", steps_of(r));
    weft_result_real(result, "loss", s.train_loss);
    weft_result_real(result, "eval_loss", s.val_loss);
    weft_result_real(result, "accuracy", s.val_accuracy);
    weft_result_real(result, "test_loss", s.test_loss);
    weft_result_real(result, "test_accuracy", s.test_accuracy);
    weft_result_real(result, "seconds", 1);
    weft_result_int(result, "threads", 1);
    weft_result_text(result, "isa", weft_dnn_path());
    weft_result_text(result, "program_sha256", r->of->program_sha256);
    weft_result_text(result, "weights_sha256", r->weights);
    weft_result_text(result, "stream_sha256", r->stream);
    weft_result_text(result, "chain", r->chain.head);
    FILE *to = NULL;
    enum weft_status status = open_file(r, "result.json", &to);
    if (status == WEFT_OK)
        status = weft_result_print(result, to, true);
    weft_result_free(result);
    if (to && status != WEFT_OK)
        fclose(to);
    return status == WEFT_OK ? close_file(r, "result.json", to) : status;
}

static enum weft_status write_run(struct run *r)
{
    name_contents(r);
    TRY(write_gates(r));
    TRY(write_initial(r));
    TRY(write_log(r));
    TRY(write_result(r));
    return WEFT_OK;
}

int weft_sim_run(void *simulation, const struct weft_job *job, const char *folder)
{
    enum { EXIT_WITH_1 = 1 << 8 }; /* as returned by waitpid */
    struct weft_simulation *m = simulation;
    struct run r = {.of = m, .job = job, .folder = folder};
    if (m->count == WEFT_SIM_RUNS) {
        m->status = FAIL(WEFT_CHECK, "a simulated study trained more than %d runs", WEFT_SIM_RUNS);
        return EXIT_WITH_1;
    }
    m->run[m->count++] = (struct weft_sim_trained){job->run.arm, job->run.lr, job->run.seed};
    if (!m->retried && weft_sim_fails(m->of, job->run.arm, job->run.lr, job->run.seed))
        return EXIT_WITH_1;
    enum weft_status status = write_run(&r);
    m->status = m->status == WEFT_OK ? status : m->status;
    return status == WEFT_OK ? 0 : EXIT_WITH_1;
}

/* ---- lines with very good scores for runs that are not in the plan */

/* Creates stray line i. The first stray line precedes the line of the run that it imitates and has outdated settings of
 * the arm. The others have a different program, number of steps, seed or learning rate. */
static void make_stray(const struct weft_simulation *m, int i, struct weft_finished *f)
{
    *f = (struct weft_finished){.lr = WEFT_SIM_RATE,
                                .seed = m->of->first_seed,
                                .steps = m->study->arm[1].recipe.steps,
                                .params = 1,
                                .threads = 1,
                                .val_loss = 0.01,
                                .test_loss = 0.01,
                                .seconds = 1};
    snprintf(f->arm, sizeof f->arm, "%s", m->of->arm[i % m->of->arm_count].name);
    snprintf(f->isa, sizeof f->isa, "%s", weft_dnn_path());
    memcpy(f->program_sha256, m->program_sha256, sizeof f->program_sha256);
    hash_text(f->config_sha256, "config of stray %d", i);
    hash_text(f->weights_sha256, "weights of stray %d", i);
    hash_text(f->stream_sha256, "samples of seed %lld", (long long)f->seed);
    hash_text(f->chain, "chain of stray %d", i);
    if (i == 1)
        hash_text(f->program_sha256, "a different program");
    f->steps -= i == 2;
    f->seed += i == 3 ? m->of->seeds : i == 4 ? -1 : i == 5 ? WEFT_SIM_SCREENING + m->of->screen_seeds : 0;
    f->lr = i == 6 ? 0.5 : f->lr;
}

/* The last two stray lines exist only if the study screens learning rates, because without screening, an arm may have
 * any rate. */
int weft_sim_count_strays(const struct weft_sim_study *s) { return !s->strays ? 0 : s->rate_count ? 7 : 5; }

enum weft_status weft_sim_add_strays(const struct weft_simulation *m, const char *folder, bool before)
{
    struct weft_finished f;
    int count = weft_sim_count_strays(m->of), end = before ? WEFT_SIM_STRAYS_BEFORE : count;
    for (int i = before ? 0 : WEFT_SIM_STRAYS_BEFORE; i < end && i < count; i++) {
        make_stray(m, i, &f);
        TRY(weft_ledger_add(folder, &f));
    }
    return WEFT_OK;
}
