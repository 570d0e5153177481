/* SPDX-License-Identifier: MIT
 *
 * golden_presets.c - compares small models of the presets, in f32 and bf16, with golden values that PyTorch computed in
 * double precision, see golden/case.h. The argument is the folder, tests/golden by default.
 *
 * run-tests: 1 s
 */
#include "golden/case.h"

/* Every attribute but the preset is a setting. */
static enum weft_status add_settings(struct run *r)
{
    const char *name;
    json_t *value;
    TRY(weft_settings_add(&r->settings, r->way->compute == WEFT_BF16 ? "dtype=bf16" : "dtype=f32"));
    json_object_foreach(json_object_get(r->c, "attr"), name, value)
    {
        char setting[64];
        if (json_is_integer(value))
            snprintf(setting, sizeof setting, "%s=%lld", name, (long long)json_integer_value(value));
        else
            snprintf(setting, sizeof setting, "%s=%s", name, json_string_value(value));
        if (strcmp(name, "preset"))
            TRY(weft_settings_add(&r->settings, setting));
    }
    return WEFT_OK;
}

/* Built for evaluation, that is without dropout, and then differentiated. */
static enum weft_status build_graph(struct run *r)
{
    struct weft_net net;
    int64_t sequences = stored_rows(tensor_of(r->c, "in", "tiles"));
    TRY(add_settings(r));
    TRY(weft_spec_init(&r->spec, word(r, "preset"), &r->settings));
    TRY(weft_settings_finish(&r->settings));
    TRY(weft_nn_create(&r->model, &r->spec));
    enum weft_status status = weft_net_init(
        &net, r->model, WEFT_EVAL, (struct weft_net_size){.sequences = sequences + SPARE, .length = r->spec.context});
    r->g = net.g;
    TRY(status);
    r->out[0] = net.loss;
    struct weft_value *const inputs[] = {net.tokens, net.targets, net.weight, net.at.seq, net.at.pos, net.at.tiles};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        remember(r, tensor_of(r->c, "in", inputs[i]->name), inputs[i]);
    remember(r, tensor_of(r->c, "in", "pos"), net.position);
    for (int i = 0; i < r->model->params.count; i++)
        remember(r, tensor_of(r->c, "in", r->model->params.list[i].name), net.weights[i]);
    return WEFT_OK;
}

int main(int argc, char **argv) { return run_files(argc, argv, (const char *const[]){"gpt2", "llama", NULL}); }
