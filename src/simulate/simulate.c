/* SPDX-License-Identifier: MIT
 *
 * simulate.c - runs a simulated study from config to report: the code for real studies plans, saves and runs it, but
 * the files of its runs are written without training. The results are compared with the expected ones.
 */
#include "simulate/simulate.h"
#include "report/read/results.h"
#include "simulate/studies.h"
#include "study/queue.h"

#include <stdio.h>
#include <string.h>

/* ---- the config */

static void print_arms(const struct weft_sim_study *s, FILE *to)
{
    if (s->steps) {
        fprintf(to, "CONFIG_RA_MLA_ABLATION_STEPS=\"%s\"\n", s->steps);
        return;
    }
    fputs("CONFIG_WEFT_ARMS=\"", to);
    for (int i = 0; i < s->arm_count; i++)
        fprintf(to, "%s%s: ffn_width=%d", i ? " | " : "", s->arm[i].name, 32 + i);
    fputs("\"\n", to);
}

static void print_config(const struct weft_sim_study *s, FILE *to)
{
    fprintf(to,
            "CONFIG_WEFT_PRESET=\"gpt2\"\nCONFIG_WEFT_LAYERS=%d\nCONFIG_WEFT_WIDTH=16\nCONFIG_WEFT_HEADS=2\n"
            "CONFIG_WEFT_CONTEXT=16\nCONFIG_WEFT_BATCH=4\nCONFIG_WEFT_RECALL_LENGTH=8\nCONFIG_WEFT_SEED=%lld\n",
            s->steps ? 2 : 1, (long long)s->first_seed);
    print_arms(s, to);
    if (s->rate_count) {
        fprintf(to, "CONFIG_WEFT_SCREEN_SEEDS=%lld\nCONFIG_WEFT_LRS=\"", (long long)s->screen_seeds);
        for (int i = 0; i < s->rate_count; i++)
            fprintf(to, "%s%g", i ? " " : "", s->rate[i]);
        fputs("\"\n", to);
    } else {
        fprintf(to, "CONFIG_WEFT_LR=\"%g\"\n", WEFT_SIM_RATE);
    }
    if (s->look_count) {
        fputs("CONFIG_WEFT_LOOKS=\"", to);
        for (int i = 0; i < s->look_count; i++)
            fprintf(to, "%s%lld", i ? "," : "", (long long)s->look[i]);
        fputs("\"\n", to);
    } else {
        fprintf(to, "CONFIG_WEFT_SEEDS=%lld\n", (long long)s->seeds);
    }
}

static enum weft_status write_config(const struct weft_sim_study *s, const char *path)
{
    FILE *to = fopen(path, "we");
    if (to)
        print_config(s, to);
    return to && weft_output_close(to) ? WEFT_OK : FAIL(WEFT_IO, "%s cannot be written", path);
}

/* ---- running it */

static enum weft_status run_queue(struct weft_simulation *m, struct weft_queue *q)
{
    static const char *const command[] = {"verify", "--study", NULL};
    TRY(weft_queue_init(q));
    TRY(weft_study_save(q->study, q->folder, command));
    m->plan_sha256 = q->plan_sha256;
    m->program_sha256 = q->program_sha256;
    TRY(weft_sim_add_strays(m, q->folder, true));
    TRY(weft_queue_run_looks(q));
    TRY(m->status);
    TRY(weft_sim_add_strays(m, q->folder, false));
    return WEFT_OK;
}

static enum weft_status compare(const struct weft_sim_case *c, const struct weft_study *study, const char *folder)
{
    struct weft_results r;
    TRY(weft_sim_compare_queue(c, study, folder));
    enum weft_status status = weft_results_load(&r, folder);
    if (status == WEFT_OK)
        status = weft_looks_record(&r);
    if (status == WEFT_OK)
        weft_sim_compare_results(c, &r);
    if (status == WEFT_OK && r.arm_count == c->of->arm_count)
        status = weft_sim_compare_files(c, &r);
    weft_results_release(&r);
    return status;
}

/* Runs the queue and the report once. */
static enum weft_status pass(const struct weft_trial *t, struct weft_simulation *m, struct weft_study *study,
                             const char *folder, const double *level)
{
    struct weft_expected expected, stage[WEFT_SIM_LOOKS];
    const struct weft_sim_study *s = m->of;
    struct weft_queue q = {.study = study,
                           .folder = folder,
                           .slots = WEFT_SIM_RUNS,
                           .threads = 1,
                           .simulate = weft_sim_run,
                           .simulation = m};
    struct weft_sim_case c = {.trial = t, .of = s, .expected = &expected, .stage = stage, .runs = m};
    m->study = study;
    m->first = m->count;
    m->retried_from = m->retried ? m->first : WEFT_SIM_RUNS;
    weft_expect(s, s->trained, m->retried, level, &expected);
    for (int k = 0; k < s->look_count; k++)
        weft_expect(s, weft_min(s->look[k], s->trained), m->retried, level, &stage[k]);
    enum weft_status status = run_queue(m, &q);
    if (status == WEFT_OK)
        status = compare(&c, study, folder);
    weft_queue_release(&q);
    return status;
}

static enum weft_status plan_and_pass(const struct weft_trial *t, struct weft_simulation *m, const char *config,
                                      const char *folder, const double *level)
{
    struct weft_study study;
    enum weft_status status = weft_study_init(&study, config, NULL);
    if (status == WEFT_OK)
        status = weft_study_plan(&study);
    if (status == WEFT_OK)
        status = pass(t, m, &study, folder, level);
    weft_study_release(&study);
    return status;
}

/* Reports the error of a study as a failed check, because a study that cannot be run or read is also a defect. */
static enum weft_status report_error(const struct weft_trial *t, const struct weft_sim_study *s,
                                     enum weft_status status)
{
    char name[160];
    if (status == WEFT_OK || status == WEFT_NOMEM || status == WEFT_IO)
        return status;
    snprintf(name, sizeof name, "%s: runs and is reported", s->name);
    weft_trial_report(t, false, 1, 0, name, "%.150s", weft_error());
    weft_error_clear();
    return WEFT_OK;
}

/* If a run failed, the study is continued: the queue trains the missing runs. */
static enum weft_status simulate(const struct weft_trial *t, const struct weft_sim_study *s, int number,
                                 const char *scratch)
{
    static struct weft_simulation m;
    char config[300], folder[300];
    double level[WEFT_SIM_LOOKS] = {0};
    m = (struct weft_simulation){.of = s};
    snprintf(config, sizeof config, "%s/study-%d.config", scratch, number);
    snprintf(folder, sizeof folder, "%s/study-%d", scratch, number);
    if (s->look_count)
        TRY(weft_naive_levels(s->look, s->look_count, 0.05 / (s->arm_count - 1), level));
    TRY(write_config(s, config));
    enum weft_status status = plan_and_pass(t, &m, config, folder, level);
    m.retried = true;
    if (status == WEFT_OK && s->fails)
        status = plan_and_pass(t, &m, config, folder, level);
    return report_error(t, s, status);
}

enum weft_status weft_simulate(struct weft_gates *report)
{
    const struct weft_trial t = {.gate = "study", .report = report};
    const struct weft_sim_study *s;
    struct weft_scratch scratch;
    TRY(weft_scratch_make(&scratch));
    enum weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && (s = weft_sim_study_at(i)); i++)
        status = simulate(&t, s, i, scratch.folder);
    weft_scratch_remove(&scratch);
    return status;
}
