/* SPDX-License-Identifier: MIT
 *
 * table.c - prints the verdicts as a table on a terminal, and adds them to a flat JSON object.
 */
#include "base/json.h"
#include "report/read/results.h"

#include <math.h>
#include <string.h>

/* ---- the table */

void weft_results_print(const struct weft_results *r, FILE *to)
{
    int width = 3;
    for (int i = 0; i < r->arm_count; i++)
        width = (int)weft_max(width, (int64_t)strlen(r->arm[i].name));
    fprintf(to, "%-*s  %10s  %11s  %9s  %11s  %8s  %9s  %s\n", width, "arm", "parameters", "FLOPs/token", "memory",
            "cache/token", "tokens/s", "loss", "verdict");
    for (int i = 0; i < r->arm_count; i++) {
        const struct weft_result_arm *arm = &r->arm[i];
        fprintf(to, "%-*s  %10s  %11s  %9s  %11s  %8.0f  %9s  %s\n", width, arm->name,
                weft_count_text((double)arm->params).text, weft_count_text(arm->flops).text,
                weft_bytes_text((double)arm->peak_bytes).text, weft_bytes_text(arm->cache_bytes).text,
                arm->found.tokens_per_s, weft_loss_text(arm->found.loss).text, arm->found.text);
    }
    for (int i = 0; i < r->arm_count; i++) {
        struct weft_text range = weft_speeds_text(&r->arm[i].found);
        if (*range.text)
            fprintf(to, "%s: tokens/s of its runs ranges from %s, so do not compare speeds\n", r->arm[i].name,
                    range.text);
    }
}

/* ---- as a flat JSON object */

static const char *key(const struct weft_result_arm *arm, const char *name, char text[128])
{
    snprintf(text, 128, "%s.%s", arm->name, name);
    return text;
}

static void add_arm(const struct weft_results *r, const struct weft_result_arm *arm, struct weft_result *to)
{
    const struct weft_finding *f = &arm->found;
    bool compared = f->against.seeds > 0;
    char text[128];
    weft_result_int(to, key(arm, "params", text), arm->params);
    weft_result_real(to, key(arm, "flops", text), arm->flops);
    weft_result_int(to, key(arm, "peak_bytes", text), arm->peak_bytes);
    weft_result_real(to, key(arm, "cache_bytes", text), arm->cache_bytes);
    weft_result_real(to, key(arm, "tokens_per_s", text), f->tokens_per_s);
    weft_result_real(to, key(arm, "lr", text), arm->lr);
    weft_result_int(to, key(arm, "seeds", text), f->seeds);
    weft_result_real(to, key(arm, "loss_mean", text), f->loss);
    weft_result_real(to, key(arm, "diff_mean", text), compared ? f->against.mean : NAN);
    weft_result_real(to, key(arm, "diff_low", text), compared ? f->against.family.low : NAN);
    weft_result_real(to, key(arm, "diff_high", text), compared ? f->against.family.high : NAN);
    weft_result_real(to, key(arm, "diff_percent", text), compared ? weft_result_percent(r, arm) : NAN);
    weft_result_int(to, key(arm, "test_items", text), f->test.loss.items);
    weft_result_real(to, key(arm, "test_error", text), f->test.loss.items ? f->test.loss.error : NAN);
    const struct weft_item_noise *test = f->test.difference.items ? &f->test.difference : NULL;
    weft_result_real(to, key(arm, "diff_test_error", text), test ? test->error : NAN);
    weft_result_real(to, key(arm, "diff_test_low", text), test ? test->interval.low : NAN);
    weft_result_real(to, key(arm, "diff_test_high", text), test ? test->interval.high : NAN);
    weft_result_text(to, key(arm, "verdict", text), f->verdict);
}

void weft_results_add(const struct weft_results *r, struct weft_result *to)
{
    for (int i = 0; i < r->arm_count; i++)
        add_arm(r, &r->arm[i], to);
    if (r->reproduced >= 0)
        weft_result_int(to, "reproduced", r->reproduced);
    else
        weft_result_real(to, "reproduced", NAN);
}
