/* SPDX-License-Identifier: MIT
 *
 * version - what this program is and which of its paths runs on this machine.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "dnn/dnn.h"

struct args {
    bool json;
};

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print one flat JSON object", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    struct args *a = state->input;
    if (key != 'j')
        return ARGP_ERR_UNKNOWN;
    a->json = true;
    return 0;
}

static const struct argp argp = {
    options, parse, NULL, "Tells the version, the compiler, and what runs on this machine.", NULL, NULL, NULL};

static enum weft_status run(void *args)
{
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "version", weft_version());
#ifdef __clang__
    weft_result_text(r, "compiler", "clang " __clang_version__);
#else
    weft_result_text(r, "compiler", "gcc " __VERSION__);
#endif
    weft_result_text(r, "isa", weft_isa_name(weft_isa()));
    weft_result_text(r, "products", weft_dnn_describe());
    weft_result_int(r, "threads", weft_threads());
    enum weft_status status = weft_result_print(r, stdout, ((const struct args *)args)->json);
    weft_result_free(r);
    return status;
}

const struct weft_cmd weft_cmd_version = {"version", "what this is and what it runs on", &argp, sizeof(struct args),
                                          run};
