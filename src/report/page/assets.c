/* SPDX-License-Identifier: MIT
 *
 * assets.c - embeds the files of the page in the program, so that it needs no further files at run time.
 */
#include "base/embed.h"
#include "report/read/results.h"

WEFT_EMBED(page, "src/report/page/page.html");
WEFT_EMBED(style, "src/report/page/style.css");
WEFT_EMBED(charts, "src/report/page/charts.js");
WEFT_EMBED(uplot_js, "third_party/uPlot/uPlot.iife.min.js");
WEFT_EMBED(uplot_css, "third_party/uPlot/uPlot.min.css");
WEFT_EMBED(uplot_licence, "third_party/uPlot/LICENSE");
