/* SPDX-License-Identifier: MIT
 *
 * assets.c - the files of the page as part of the program, so that it needs no files of its own at run time.
 *
 * Paths are relative to the top of the source tree, where make runs; the Makefile has them as dependencies.
 */
#include "report/results.h"

#define ASSET(name, path)                                                                                              \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".hidden weft_asset_" #name "\n"                                                                           \
            ".global weft_asset_" #name "\n"                                                                           \
            "weft_asset_" #name ":\n"                                                                                  \
            ".incbin \"" path "\"\n"                                                                                   \
            ".byte 0\n"                                                                                                \
            ".popsection\n")

ASSET(page, "src/report/page.html");
ASSET(style, "src/report/style.css");
ASSET(charts, "src/report/charts.js");
ASSET(uplot_js, "third_party/uPlot/uPlot.iife.min.js");
ASSET(uplot_css, "third_party/uPlot/uPlot.min.css");
ASSET(uplot_licence, "third_party/uPlot/LICENSE");
