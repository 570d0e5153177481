/* SPDX-License-Identifier: MIT
 *
 * build.c - describes the build: instruction set, engines and compiler.
 */
#include "base/base.h"
#include "dnn/dnn.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

const char *weft_build_info(void)
{
    static _Thread_local char text[256];
    snprintf(text, sizeof text, "isa %s, products %s, compiler " COMPILER, weft_isa_name(weft_isa()),
             weft_dnn_describe());
    return text;
}
