/* SPDX-License-Identifier: MIT
 *
 * configs.c - writes the tables of gates and of the options in which the arms differ.
 */
#include "report/read/results.h"

#include <string.h>

/* ---- gates */

static const struct weft_result_gate *find_gate(const struct weft_result_arm *arm, const char *name)
{
    for (int i = 0; i < arm->gate_count; i++)
        if (strcmp(arm->gate[i].gate, name) == 0)
            return &arm->gate[i];
    return NULL;
}

static void put_gate(const struct weft_result_gate *gate, FILE *to)
{
    if (!gate || !gate->checks)
        fputs("<td>not run</td>", to);
    else if (!gate->failed)
        fprintf(to, "<td class=\"good\">passed <small>%d checks</small></td>", gate->checks);
    else {
        fprintf(to, "<td class=\"bad\">FAILED <small>%d of %d: ", gate->failed, gate->checks);
        weft_html(to, gate->message);
        fputs("</small></td>", to);
    }
}

/* Gates are rows because there are more gates than arms, and their summaries need several lines. */
void weft_html_gates(const struct weft_results *r, FILE *to)
{
    const char *name, *summary;
    fputs(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Gates\"><table class=\"plain gates\"><thead>"
        "<tr><th scope=\"col\">Gate</th>",
        to);
    for (int arm = 0; arm < r->arm_count; arm++)
        fprintf(to, "<th scope=\"col\">%s</th>", r->arm[arm].name);
    fputs("</tr></thead><tbody>\n", to);
    for (int i = 0; (name = weft_gate_at(i, &summary)); i++) {
        fprintf(to, "<tr><th scope=\"row\">%s <small>", name);
        weft_html(to, summary);
        fputs("</small></th>", to);
        for (int arm = 0; arm < r->arm_count; arm++)
            put_gate(find_gate(&r->arm[arm], name), to);
        fputs("</tr>\n", to);
    }
    fputs("</tbody></table></div>\n", to);
}

/* ---- options */

static void put_option(const struct weft_results *r, const char *option, FILE *to)
{
    fputs("<tr><th scope=\"row\"><code>", to);
    weft_html(to, option);
    fputs("</code></th>", to);
    for (int i = 0; i < r->arm_count; i++) {
        const char *value = weft_result_option(&r->arm[i], option), *first = weft_result_option(&r->arm[0], option);
        bool other = !first != !value || (first && strcmp(first, value) != 0);
        fputs(other ? "<td><strong>" : "<td>", to);
        weft_html(to, value ? value : "-");
        fputs(other ? "</strong></td>" : "</td>", to);
    }
    fputs("</tr>\n", to);
}

/* Returns whether an earlier arm has the option, so that the table already contains it. */
static bool is_listed(const struct weft_results *r, int arm, const char *option)
{
    for (int i = 0; i < arm; i++)
        if (weft_result_option(&r->arm[i], option))
            return true;
    return false;
}

void weft_html_configs(const struct weft_results *r, FILE *to)
{
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Options that differ\"><table "
          "class=\"plain\"><thead><tr><th scope=\"col\">Option</th>",
          to);
    for (int i = 0; i < r->arm_count; i++)
        fprintf(to, "<th scope=\"col\">%s</th>", r->arm[i].name);
    fputs("</tr></thead><tbody>\n", to);
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].entry_count; k++) {
            const char *option = r->arm[i].entry[k].name;
            if (!is_listed(r, i, option) && weft_results_differ(r, option))
                put_option(r, option, to);
        }
    fputs("</tbody></table></div>\n", to);
}
