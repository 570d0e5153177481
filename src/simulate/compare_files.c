/* SPDX-License-Identifier: MIT
 *
 * compare_files.c - checks the written results of a simulated study: the headline, report.md, report.csv, the table of
 * verdicts in report.html, and looks.jsonl.
 */
#include "report/read/results.h"
#include "simulate/studies.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the output of one of the report's print functions in *text, which the caller frees. */
static enum weft_status print_text(const struct weft_results *r, void (*print)(const struct weft_results *, FILE *),
                                   char **text)
{
    size_t bytes = 0;
    FILE *to = open_memstream(text, &bytes);
    if (to)
        print(r, to);
    return to && weft_output_close(to) ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a report");
}

/* ---- the headline */

static void compare_headline(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {0};
    char headline[WEFT_VERDICT_TEXT], wanted[200];
    weft_results_headline(r, headline);
    for (int k = 0; k < 2; k++) {
        const char *word = k ? "worse" : "better";
        for (int i = 1, named = 0; i < c->of->arm_count; i++) {
            const struct weft_expected_arm *e = &c->expected->arm[i];
            if (strcmp(e->verdict, word) != 0)
                continue;
            if (!named++)
                snprintf(wanted, sizeof wanted, "%s is %s than %s by %.2g nats", c->of->arm[i].name, word,
                         c->of->arm[0].name, fabs(e->mean));
            else
                snprintf(wanted, sizeof wanted, ", %s by %.2g", c->of->arm[i].name, fabs(e->mean));
            weft_sim_note(&w, !strstr(headline, wanted), 0, c->of->arm[i].name, "not in the headline");
        }
    }
    weft_sim_report(c, "headline", &w);
}

/* ---- report.md: | arm | settings | .. | learning rate | test loss | seeds | verdict | .. */

/* Returns cell n of a row, counted from 0, or NULL if the row has fewer cells. */
static const char *find_cell(const char *row, int n)
{
    for (row++; row && n >= 0; n--)
        row = n ? strstr(row + 1, " | ") : row;
    return row ? row + strspn(row, " |") : NULL;
}

/* Returns whether a cell begins with the text, compared up to the first character that Markdown escapes. */
static bool begins_like(const char *cell, const char *text)
{
    size_t n = strcspn(text, "|\\`*<>[]");
    return strncmp(cell, text, n) == 0 && n > 0;
}

static void compare_row(const struct weft_sim_case *c, const struct weft_results *r, int i, const char *markdown,
                        struct weft_sim_worst *w)
{
    enum { RATE = 6, LOSS, SEEDS, VERDICT };
    const struct weft_expected_arm *e = &c->expected->arm[i];
    const char *name = c->of->arm[i].name;
    char start[80];
    snprintf(start, sizeof start, "\n| %s | ", name);
    const char *row = strstr(markdown, start);
    if (!row || !find_cell(row + 1, VERDICT)) {
        weft_sim_note(w, 0, 1, name, "number of rows");
        return;
    }
    row++;
    weft_sim_note(w, strtod(find_cell(row, RATE), NULL), e->rate, name, "learning rate");
    weft_sim_note(w, strtod(find_cell(row, LOSS), NULL), e->loss, name, "test loss");
    weft_sim_note(w, strtod(find_cell(row, SEEDS), NULL), (double)e->finished, name, "seeds");
    weft_sim_note(w, !begins_like(find_cell(row, VERDICT), r->arm[i].found.text), 0, name, "a different sentence");
}

static enum weft_status compare_markdown(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {.limit = 5.1e-5};
    char *text = NULL;
    enum weft_status status = print_text(r, weft_report_markdown, &text);
    for (int i = 0; status == WEFT_OK && i < c->of->arm_count; i++)
        compare_row(c, r, i, text, &w);
    free(text);
    if (status == WEFT_OK)
        weft_sim_report(c, "report.md", &w);
    return status;
}

/* ---- report.csv: arm,lr,lr_chosen,seed,steps,params,train_loss,val_loss,val_accuracy,test_loss,.. */

static int find_arm(const struct weft_sim_study *s, const char *name)
{
    for (int i = 0; i < s->arm_count; i++)
        if (strcmp(s->arm[i].name, name) == 0)
            return i;
    return -1;
}

static void compare_line(const struct weft_sim_case *c, const char *line, struct weft_sim_worst *w)
{
    char name[64] = "", chosen[8] = "";
    double rate = NAN, train = NAN, val = NAN, accuracy = NAN, test = NAN;
    long long seed = 0, steps = 0, params = 0;
    sscanf(line, "%63[^,],%lf,%7[^,],%lld,%lld,%lld,%lf,%lf,%lf,%lf", name, &rate, chosen, &seed, &steps, &params,
           &train, &val, &accuracy, &test);
    int arm = find_arm(c->of, name);
    weft_sim_note(w, arm < 0, 0, name, "not an arm");
    if (arm < 0)
        return;
    weft_sim_note_text(w, chosen, rate == c->expected->arm[arm].rate ? "yes" : "no", name, "lr_chosen");
    weft_sim_note(w, val, weft_sim_val_loss(c->of, arm, rate, seed), name, "val_loss");
    weft_sim_note(w, train, weft_sim_val_loss(c->of, arm, rate, seed) - 0.5, name, "train_loss");
    weft_sim_note(w, test, weft_sim_test_loss(c->of, arm, rate, seed), name, "test_loss");
}

static enum weft_status compare_csv(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {.limit = 1e-12};
    char *text = NULL, *rest = NULL;
    int64_t lines = 0;
    enum weft_status status = print_text(r, weft_report_csv, &text);
    if (status == WEFT_OK)
        strtok_r(text, "\n", &rest);
    for (const char *line; status == WEFT_OK && (line = strtok_r(NULL, "\n", &rest)); lines++)
        compare_line(c, line, &w);
    free(text);
    weft_sim_note(&w, (double)lines, (double)r->finished, "all arms", "number of lines");
    if (status == WEFT_OK)
        weft_sim_report(c, "report.csv", &w);
    return status;
}

/* ---- the first table of report.html: arms in order, each with the class of its verdict */

static enum weft_status compare_page(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {0};
    char *text = NULL, name[80], class[80], loss[80];
    enum weft_status status = print_text(r, weft_html_verdicts, &text);
    const char *at = text;
    for (int i = 0; status == WEFT_OK && i < c->of->arm_count && at; i++) {
        /* followed by the arm's settings or the end of the cell */
        snprintf(name, sizeof name, "</svg> %s", c->of->arm[i].name);
        snprintf(class, sizeof class, "class=\"verdict %s\"", c->expected->arm[i].verdict);
        snprintf(loss, sizeof loss, ">%.4f <small>", c->expected->arm[i].loss);
        for (char *space = class + strlen("class=\"verdict "); (space = strchr(space, ' '));)
            *space = '-';
        const char *row = strstr(at, name), *end = row ? strstr(row, "</tr>") : NULL;
        const char *verdict = row ? strstr(row, class) : NULL, *mean = row ? strstr(row, loss) : NULL;
        weft_sim_note(&w, end && verdict && verdict < end, 1, c->of->arm[i].name, "row with this verdict");
        weft_sim_note(&w, end && mean && mean < end, 1, c->of->arm[i].name, "row with this test loss");
        at = end;
    }
    free(text);
    if (status == WEFT_OK)
        weft_sim_report(c, "verdicts of report.html", &w);
    return status;
}

/* ---- looks.jsonl */

static void compare_look(const struct weft_sim_case *c, const json_t *line, struct weft_sim_worst *w)
{
    const char *name = json_string_value(json_object_get(line, "arm"));
    const char *verdict = json_string_value(json_object_get(line, "verdict"));
    int look = (int)json_integer_value(json_object_get(line, "look")), arm = name ? find_arm(c->of, name) : -1;
    if (arm < 1 || look < 1 || look > c->of->look_count || !verdict) {
        weft_sim_note(w, 1, 0, name ? name : "", "line without arm, look or verdict");
        return;
    }
    const struct weft_expected_arm *e = &c->stage[look - 1].arm[arm];
    double level = json_number_value(json_object_get(line, "level"));
    double half = weft_naive_limit(level, e->pairs - 1) * e->pair_sd / sqrt((double)e->pairs);
    weft_sim_note(w, look, e->look, name, "look");
    weft_sim_note(w, (double)json_integer_value(json_object_get(line, "seeds")), (double)e->pairs, name, "seeds");
    weft_sim_note(w, json_number_value(json_object_get(line, "mean")), e->mean, name, "mean");
    weft_sim_note(w, json_number_value(json_object_get(line, "low")), e->mean - half, name, "low");
    weft_sim_note(w, json_number_value(json_object_get(line, "high")), e->mean + half, name, "high");
    weft_sim_note_text(w, verdict, e->verdict, name, "verdict");
}

/* An arm has a line for each look up to the one that decided it or, if none did, up to the last look. */
static enum weft_status compare_looks(const struct weft_sim_case *c, const struct weft_results *r)
{
    struct weft_sim_worst w = {.limit = 1e-9};
    char path[4096], line[1024];
    int lines = 0, wanted = 0;
    if (!c->of->look_count)
        return WEFT_OK;
    snprintf(path, sizeof path, "%s/looks.jsonl", r->folder);
    FILE *from = fopen(path, "re");
    if (!from)
        return FAIL(WEFT_IO, "%s cannot be read", path);
    for (; fgets(line, sizeof line, from); lines++) {
        json_t *object = json_loads(line, 0, NULL);
        compare_look(c, object, &w);
        json_decref(object);
    }
    fclose(from);
    for (int i = 1; i < c->of->arm_count; i++)
        wanted += c->expected->arm[i].look;
    weft_sim_note(&w, lines, wanted, "all arms", "number of lines");
    weft_sim_report(c, "lines of looks.jsonl", &w);
    return WEFT_OK;
}

enum weft_status weft_sim_compare_files(const struct weft_sim_case *c, const struct weft_results *r)
{
    compare_headline(c, r);
    TRY(compare_markdown(c, r));
    TRY(compare_csv(c, r));
    TRY(compare_page(c, r));
    TRY(compare_looks(c, r));
    return WEFT_OK;
}
