/* SPDX-License-Identifier: MIT
 *
 * assets.c - the files of the report's page, as part of the program: it must be told where there is nothing but it.
 *
 * Paths are as seen from the top of the tree, where make runs; the Makefile knows that the object depends on them.
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
