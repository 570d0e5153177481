/* SPDX-License-Identifier: MIT
 *
 * opt_value.c - reads and writes the value of an option, and describes its range.
 */
#include "base/json.h"
#include "base/opt.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- names and ranges */

void weft_opt_range(const struct weft_opt *opt, char *text, size_t size)
{
    size_t used = 0;
    if (opt->type == WEFT_OPT_BOOL)
        snprintf(text, size, "yes or no");
    else if (opt->type == WEFT_OPT_TEXT)
        snprintf(text, size, "a string of at most %d bytes, without control characters", WEFT_MAX_TEXT - 1);
    else if (opt->type != WEFT_OPT_CHOICE)
        snprintf(text, size, "%.10g to %.10g", opt->min, opt->max);
    else
        for (int i = 0; weft_opt_choice(opt, i) && used < size; i++)
            used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", weft_opt_choice(opt, i));
}

const char *weft_opt_symbol(const struct weft_opt *opt, char *text, size_t size)
{
    if (opt->symbol)
        return opt->symbol;
    snprintf(text, size, "WEFT_%s", opt->name);
    for (char *c = text; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return text;
}

const char *weft_preset_value(const char *const *preset, const char *name)
{
    size_t n = strlen(name);
    for (; preset && *preset; preset++)
        if (strncmp(*preset, name, n) == 0 && (*preset)[n] == '=')
            return *preset + n + 1;
    return NULL;
}

/* ---- values */

bool weft_text_int(const char *text, int64_t *n)
{
    char *end = NULL;
    errno = 0;
    *n = strtoll(text, &end, 10);
    return *text && !text[strspn(text, "0123456789+-")] && !errno && !*end;
}

bool weft_text_real(const char *text, double *x)
{
    char *end = NULL;
    errno = 0;
    *x = strtod(text, &end);
    return *text && !text[strspn(text, "0123456789+-.eE")] && !errno && !*end;
}

static bool parse_number(const struct weft_opt *opt, const char *text, void *at)
{
    int64_t *n = at;
    double *x = at;
    if (opt->type == WEFT_OPT_INT)
        return weft_text_int(text, n) && (double)*n >= opt->min && (double)*n <= opt->max;
    return weft_text_real(text, x) && *x >= opt->min && *x <= opt->max;
}

static bool parse(const struct weft_opt *opt, const char *text, void *at)
{
    bool yes = strcmp(text, "yes") == 0;
    switch (opt->type) {
    case WEFT_OPT_BOOL:
        *(bool *)at = yes;
        return yes || strcmp(text, "no") == 0;
    case WEFT_OPT_CHOICE:
        for (int i = 0; weft_opt_choice(opt, i); i++)
            if (strcmp(text, weft_opt_choice(opt, i)) == 0) {
                *(int *)at = i;
                return true;
            }
        return false;
    case WEFT_OPT_TEXT:
        *(const char **)at = text;
        return weft_json_is_text(text);
    default:
        return parse_number(opt, text, at);
    }
}

const char *weft_opt_text(const struct weft_opt *opt, const void *at, char text[WEFT_MAX_VALUE])
{
    switch (opt->type) {
    case WEFT_OPT_INT:
        snprintf(text, WEFT_MAX_VALUE, "%lld", (long long)*(const int64_t *)at);
        return text;
    case WEFT_OPT_REAL:
        weft_json_real(*(const double *)at, text, WEFT_MAX_VALUE);
        return text;
    case WEFT_OPT_BOOL:
        return *(const bool *)at ? "yes" : "no";
    case WEFT_OPT_TEXT:
        return *(const char *const *)at;
    default:
        return weft_opt_choice(opt, *(const int *)at);
    }
}

bool weft_opt_same(const struct weft_opt *opt, const char *value, const char *other_value)
{
    union {
        int64_t n;
        double x;
        bool yes;
        int choice;
        const char *text;
    } one, other;
    char a[WEFT_MAX_VALUE], b[WEFT_MAX_VALUE];
    return parse(opt, value, &one) && parse(opt, other_value, &other) &&
           strcmp(weft_opt_text(opt, &one, a), weft_opt_text(opt, &other, b)) == 0;
}

/* ---- settings */

const char *weft_setting_where(const struct weft_setting *setting, char *text, size_t size)
{
    snprintf(text, size, "%s", setting->file ? setting->file : "");
    size_t n = strlen(text);
    if (setting->line)
        snprintf(text + n, size - n, ":%d: ", setting->line);
    else if (setting->file)
        snprintf(text + n, size - n, ": ");
    return text;
}

const char *weft_setting_text(const struct weft_opt *opt, const struct weft_setting *setting, char *text, size_t size)
{
    char symbol[128];
    if (setting->line)
        snprintf(text, size, "CONFIG_%s=%s", weft_opt_symbol(opt, symbol, sizeof symbol), setting->value);
    else
        snprintf(text, size, "%s=%s", setting->name, setting->value);
    return text;
}

static enum weft_status fail_value(const struct weft_opt *opt, const struct weft_setting *setting)
{
    char range[256], where[512], text[256];
    weft_opt_range(opt, range, sizeof range);
    int n = 0;
    while (opt->type == WEFT_OPT_CHOICE && weft_opt_choice(opt, n))
        n++;
    const char *near = weft_suggest(setting->value, opt->choices, n);
    return FAIL(WEFT_INVALID, "%s%s is invalid: expected %s%s%s%s", weft_setting_where(setting, where, sizeof where),
                weft_setting_text(opt, setting, text, sizeof text), range, near ? "; did you mean " : "",
                near ? near : "", near ? "?" : "");
}

enum weft_status weft_opt_read(const struct weft_opt *opt, const struct weft_setting *setting, void *at)
{
    return parse(opt, setting->value, at) ? WEFT_OK : fail_value(opt, setting);
}
