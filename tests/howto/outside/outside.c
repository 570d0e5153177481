/* SPDX-License-Identifier: MIT
 *
 * outside.c - registers parts that are not in the tree, and exports or checks a model with them; see ../outside.sh.
 *
 *     outside export FORMAT PRESET SETTINGS FOLDER [NAME]
 *     outside gates PRESET SETTINGS
 *
 * `export` writes a model with large random weights as onnx, hf or torch, compares its logits in the program that reads
 * the format with Weft's, and prints a JSON object; with NAME, the weights whose names contain it change after the
 * export. `gates` prints the checks that fail, and the numbers of checks and failures.
 */
#include "check/check.h"
#include "check/probe/gate.h"
#include "export/hf/hf.h"
#include "export/onnx/onnx.h"
#include "export/parity.h"
#include "nn/part.h"

#include <stdio.h>
#include <string.h>

extern const struct weft_attn weft_attn_shared_qk;
extern const struct weft_ffn weft_ffn_glu;
extern const struct weft_mechanism weft_recip_surprise;

static enum weft_status add_parts(void)
{
    TRY(weft_part_register(&weft_attn_shared_qk.part));
    TRY(weft_part_register(&weft_ffn_glu.part));
    return weft_part_register(&weft_recip_surprise.part);
}

static void spoil(struct weft_params *p, const char *name)
{
    for (int i = 0; i < p->count; i++)
        for (int64_t e = 0; strstr(p->list[i].name, name) && e < p->list[i].count; e++)
            p->weights[p->list[i].offset + e] *= 1.1F;
}

static enum weft_status write_folder(const struct weft_nn *model, const char *format, const char *folder)
{
    if (strcmp(format, "hf") == 0)
        return weft_hf_export(model, &weft_hf_own, folder);
    return strcmp(format, "torch") == 0 ? weft_hf_export_module(model, folder) : weft_onnx_export(model, -1, folder);
}

static enum weft_status write_and_compare(struct weft_nn *model, char **words)
{
    const char *format = words[0], *folder = words[3], *spoilt = words[4];
    struct weft_parity p;
    TRY(write_folder(model, format, folder));
    if (spoilt)
        spoil(&model->params, spoilt);
    TRY(weft_parity_check(model, format, folder, &p));
    printf(
        "{\"checked_by\": \"%s\", \"missing\": \"%s\", \"difference\": %.3g, \"tokens\": %lld, \"tokens_agree\": %lld, "
        "\"tokens_unclear\": %lld}\n",
        p.program, p.missing, p.difference, (long long)p.tokens, (long long)p.agree, (long long)p.unclear);
    return WEFT_OK;
}

static enum weft_status export_model(const struct weft_spec *spec, char **words)
{
    struct weft_nn *model;
    enum weft_status status = weft_twin_create(&model, spec);
    if (status == WEFT_OK)
        status = write_and_compare(model, words);
    weft_nn_free(model);
    return status;
}

static void on_check(void *context, const struct weft_check *c)
{
    if (!c->passed)
        printf("# %s: %s: %.3g, limit %.3g: %s\n", c->gate, c->name, c->figure, c->limit, c->where);
}

static enum weft_status check_model(const struct weft_spec *spec)
{
    struct weft_gates report = {.on_check = on_check};
    TRY(weft_gates_run(spec, NULL, WEFT_GATES_ALL, &report));
    printf("{\"checks\": %d, \"failed\": %d}\n", report.checks, report.failed);
    return WEFT_OK;
}

/* Runs "gates" with PRESET SETTINGS, or "export" with the words from FORMAT on. */
static enum weft_status run(bool gates, char **words)
{
    struct weft_settings s = {0};
    struct weft_spec spec = {0};
    char **model = gates ? words : words + 1;
    TRY(add_parts());
    TRY(weft_settings_add_words(&s, model[1]));
    TRY(weft_spec_init(&spec, model[0], &s));
    TRY(weft_settings_finish(&s));
    TRY(gates ? check_model(&spec) : export_model(&spec, words));
    weft_spec_release(&spec);
    weft_settings_release(&s);
    return WEFT_OK;
}

int main(int argc, char **argv)
{
    bool gates = argc == 4 && strcmp(argv[1], "gates") == 0;
    bool exports = (argc == 6 || argc == 7) && strcmp(argv[1], "export") == 0;
    if (!gates && !exports) {
        fprintf(stderr, "usage: see the comment of outside.c\n");
        return 2;
    }
    if (run(gates, argv + 2) == WEFT_OK)
        return 0;
    fprintf(stderr, "%s\n", weft_error());
    return 1;
}
