/* SPDX-License-Identifier: MIT
 *
 * recount.c - compares the values of arms in study.json with values computed from the arms' configs: costs whenever
 * results are read, and gates in an audit.
 *
 * The config of an arm comes from one of its runs, which has already been compared with the plan, so arms without runs
 * cannot be checked.
 */
#include "dnn/dnn.h"
#include "report/read/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- an arm as planned */

enum weft_status weft_result_arm_configure(const struct weft_result_arm *of, const char *data, struct weft_arm *arm,
                                           bool *there)
{
    char setting[4200];
    const char *const per_run[] = {"seed", "lr"}, *folder = of->run_count ? of->run[0].folder : NULL;
    *there = folder && access(folder, F_OK) == 0;
    if (!*there)
        return WEFT_OK;
    for (size_t i = 0; i < sizeof per_run / sizeof *per_run; i++) {
        const char *value = weft_result_option(of, per_run[i]);
        snprintf(setting, sizeof setting, "%s=%s", per_run[i], value ? value : "");
        TRY(weft_settings_add(&arm->settings, setting));
    }
    snprintf(setting, sizeof setting, "data=%.4095s", data ? data : "");
    const char *task = weft_result_option(of, "task");
    if (data && task && strcmp(task, "text") == 0)
        TRY(weft_settings_add(&arm->settings, setting));
    TRY(weft_spec_init(&arm->spec, folder, &arm->settings));
    TRY(weft_recipe_init(&arm->recipe, &arm->spec, &arm->settings));
    return WEFT_OK;
}

void weft_result_arm_release(struct weft_arm *arm)
{
    weft_recipe_release(&arm->recipe);
    weft_spec_release(&arm->spec);
    weft_settings_release(&arm->settings);
}

bool weft_results_same_isa(const struct weft_results *r, const char *isa)
{
    static const char mark[] = "instruction set ";
    const char *at = strstr(r->machine, mark);
    return at && strcmp(at + strlen(mark), isa) == 0;
}

/* ---- costs */

/* The layout of buffers depends on the instruction set. */
static enum weft_status compare_costs(const struct weft_results *r, const struct weft_result_arm *arm,
                                      const struct weft_account *a, double tokens)
{
    bool same = weft_results_same_isa(r, weft_dnn_path());
    double activations = (double)(same ? a->activation_bytes : arm->activation_bytes);
    const struct {
        const char *name;
        double said, counted;
    } costs[] = {
        {"params", (double)arm->params, (double)a->params},
        {"flops", arm->flops, a->flops_train},
        {"peak_bytes", (double)arm->peak_bytes, (double)a->state_bytes + activations},
        {"activation_bytes", (double)arm->activation_bytes, activations},
        {"state_bytes", (double)arm->state_bytes, (double)a->state_bytes},
        {"cache_bytes", arm->cache_bytes, (double)a->cache_bytes},
        {"tokens", arm->tokens, tokens},
    };
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        if (fabs(costs[i].said - costs[i].counted) > 1e-12 * fabs(costs[i].counted))
            return FAIL(WEFT_FORMAT,
                        "%s/study.json has %s = %.17g for %s, but its config gives %.17g: the plan was edited",
                        r->folder, costs[i].name, costs[i].said, arm->name, costs[i].counted);
    return WEFT_OK;
}

static enum weft_status recount(const struct weft_results *r, const struct weft_result_arm *arm)
{
    struct weft_arm *as = calloc(1, sizeof *as);
    bool there = false;
    enum weft_status status = as ? weft_result_arm_configure(arm, NULL, as, &there)
                                 : FAIL(WEFT_NOMEM, "not enough memory for the arm %s", arm->name);
    if (status == WEFT_OK && there)
        status = weft_arm_account(&as->spec, &as->recipe, &as->account);
    if (status == WEFT_OK && there)
        status = compare_costs(r, arm, &as->account, weft_arm_tokens(as));
    if (as)
        weft_result_arm_release(as);
    free(as);
    return status;
}

/* Compares the values in study.json that apply to all arms with the configs and costs of the arms. */
static enum weft_status check_head(const struct weft_results *r)
{
    char steps[32];
    snprintf(steps, sizeof steps, "%lld", (long long)r->steps);
    const char *const options[][2] = {{"preset", r->preset}, {"task", r->task}, {"steps", steps}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *value = weft_result_option(&r->arm[0], options[i][0]);
        if (!value || strcmp(value, options[i][1]) != 0)
            return FAIL(WEFT_FORMAT, "%s/study.json has %s=%s, but the config of %s has %s: the plan was edited",
                        r->folder, options[i][0], options[i][1], r->arm[0].name, value ? value : "none");
    }
    bool params = strcmp(r->match, weft_match_names[WEFT_MATCH_PARAMS]) == 0;
    bool flops = strcmp(r->match, weft_match_names[WEFT_MATCH_FLOPS]) == 0;
    for (int i = 1; i < r->arm_count; i++) {
        const struct weft_result_arm *a = &r->arm[i], *base = &r->arm[0];
        double ratio = flops ? a->flops / base->flops : (double)a->params / (double)base->params;
        if ((params || flops) && !(fabs(ratio - 1) <= WEFT_MATCH_LIMIT))
            return FAIL(
                WEFT_FORMAT,
                "%s/study.json records that %s is matched in %s, but it differs by %+.1f %%: the plan was edited",
                r->folder, a->name, r->match, 100 * (ratio - 1));
    }
    return WEFT_OK;
}

enum weft_status weft_results_recount(struct weft_results *r)
{
    r->uncounted = !r->plan_recorded || strcmp(r->version, weft_version()) != 0;
    for (int i = 0; i < r->arm_count && !r->uncounted; i++)
        TRY(recount(r, &r->arm[i]));
    return r->uncounted ? WEFT_OK : check_head(r);
}

/* ---- gates */

/* Compares only whether each gate passed, because the number of checks depends on instruction sets, threads and time.
 */
static enum weft_status compare_gates(const struct weft_results *r, const struct weft_result_arm *arm,
                                      const struct weft_arm *as)
{
    for (int i = 0; i < weft_max(arm->gate_count, as->gate_count); i++) {
        const struct weft_result_gate *said = i < arm->gate_count ? &arm->gate[i] : NULL;
        const struct weft_arm_gate *found = i < as->gate_count ? &as->gate[i] : NULL;
        if (!said || !found || strcmp(said->gate, found->gate) != 0)
            return FAIL(WEFT_CHECK, "%s/study.json does not have the gates of this release for %s", r->folder,
                        arm->name);
        if (!said->failed != !found->failed || !said->checks != !found->checks)
            return FAIL(
                WEFT_CHECK,
                "%s/study.json records that %d of %d checks of the gate %s of %s failed, but here %d of %d fail%s%s",
                r->folder, said->failed, said->checks, said->gate, arm->name, found->failed, found->checks,
                *found->message ? ": " : "", found->message);
    }
    return WEFT_OK;
}

enum weft_status weft_results_check_gates(const struct weft_results *r, int i, const char *data, bool *there)
{
    const struct weft_result_arm *arm = &r->arm[i];
    struct weft_arm *as = calloc(1, sizeof *as);
    enum weft_status status = as ? weft_result_arm_configure(arm, data, as, there)
                                 : FAIL(WEFT_NOMEM, "not enough memory for the arm %s", arm->name);
    if (status == WEFT_OK && *there)
        status = weft_arm_gates(as, arm->gates_itself);
    if (status == WEFT_OK && *there)
        status = compare_gates(r, arm, as);
    if (as)
        weft_result_arm_release(as);
    free(as);
    return status;
}
