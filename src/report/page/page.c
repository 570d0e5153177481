/* SPDX-License-Identifier: MIT
 *
 * page.c - writes report.html: fills in the slots, {{like_this}}, of the template src/report/page/page.html.
 */
#include "report/read/results.h"

#include <math.h>
#include <string.h>

/* ---- small slots */

struct page {
    const struct weft_results *r;
    const struct weft_curves *c;
    FILE *to;
};

static void put_name(const struct page *p) { weft_html(p->to, p->r->name); }
static void put_command(const struct page *p) { weft_html(p->to, p->r->command); }
static void put_config(const struct page *p) { weft_html(p->to, p->r->arm[0].config); }
static void put_first(const struct page *p) { weft_html(p->to, p->r->arm[0].name); }
static void put_machine(const struct page *p) { weft_html(p->to, p->r->machine); }
static void put_version(const struct page *p) { weft_html(p->to, p->r->version); }
static void put_program(const struct page *p) { weft_html(p->to, p->r->program_sha256); }
static void put_style(const struct page *p) { fputs(weft_embedded_style, p->to); }
static void put_script(const struct page *p) { fputs(weft_embedded_charts, p->to); }
static void put_uplot_js(const struct page *p) { fputs(weft_embedded_uplot_js, p->to); }
static void put_uplot_css(const struct page *p) { fputs(weft_embedded_uplot_css, p->to); }
static void put_uplot_licence(const struct page *p) { fputs(weft_embedded_uplot_licence, p->to); }

/* The page reloads itself while planned runs are missing. */
static void put_refresh(const struct page *p)
{
    if (p->r->finished < p->r->planned && weft_results_open(p->r))
        fputs("<meta http-equiv=\"refresh\" content=\"20\">\n", p->to);
}
static void put_headline(const struct page *p)
{
    char text[WEFT_VERDICT_TEXT];
    weft_results_headline(p->r, text);
    weft_html(p->to, text);
}
static void put_notes(const struct page *p) { weft_results_notes(p->r, weft_html_note, p->to); }

/* ---- large slots */

static void put_dots(const struct page *p) { weft_html_dots(p->r, p->to); }
static void put_verdicts(const struct page *p) { weft_html_verdicts(p->r, p->to); }
static void put_charts(const struct page *p) { weft_html_charts(p->r, p->c, p->to); }
static void put_data(const struct page *p) { weft_html_charts_data(p->r, p->c, p->to); }
static void put_numbers(const struct page *p) { weft_html_numbers(p->r, p->to); }
static void put_lrs(const struct page *p) { weft_html_lrs(p->r, p->to); }
static void put_runs(const struct page *p) { weft_html_runs(p->r, p->to); }
static void put_gates(const struct page *p) { weft_html_gates(p->r, p->to); }
static void put_configs(const struct page *p) { weft_html_configs(p->r, p->to); }

static const struct slot {
    const char *name;
    void (*put)(const struct page *p);
} slots[] = {
    {"refresh", put_refresh},   {"headline", put_headline},   {"name", put_name},
    {"notes", put_notes},       {"dots", put_dots},           {"verdicts", put_verdicts},
    {"charts", put_charts},     {"data", put_data},           {"numbers", put_numbers},
    {"lrs", put_lrs},           {"runs", put_runs},           {"gates", put_gates},
    {"configs", put_configs},   {"command", put_command},     {"config", put_config},
    {"first", put_first},       {"machine", put_machine},     {"version", put_version},
    {"program", put_program},   {"style", put_style},         {"script", put_script},
    {"uplot_js", put_uplot_js}, {"uplot_css", put_uplot_css}, {"uplot_licence", put_uplot_licence},
};

static const struct slot *find_slot(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (strlen(slots[i].name) == length && memcmp(slots[i].name, name, length) == 0)
            return &slots[i];
    return NULL;
}

void weft_report_page(const struct weft_results *r, const struct weft_curves *c, FILE *to)
{
    struct page p = {r, c, to};
    const char *at = weft_embedded_page, *open, *close;
    while ((open = strstr(at, "{{")) && (close = strstr(open, "}}"))) {
        fwrite(at, 1, (size_t)(open - at), to);
        const struct slot *slot = find_slot(open + 2, (size_t)(close - open - 2));
        if (slot) /* an unknown name leaves the slot empty, which a test detects */
            slot->put(&p);
        at = close + 2;
    }
    fputs(at, to);
}
