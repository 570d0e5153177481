/* SPDX-License-Identifier: MIT
 *
 * version - prints the version, the compiler and the instruction set used on this machine.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "dnn/dnn.h"

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
    return weft_result_finish(r, stdout, ((const struct weft_common *)args)->json);
}

const struct weft_cmd weft_cmd_version = {
    .name = "version",
    .summary = "print version, compiler and instruction set",
    .doc = "Prints the version, the compiler, and which instruction set and GEMM kernels run on this machine.",
    .takes = WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct weft_common),
    .run = run,
};
