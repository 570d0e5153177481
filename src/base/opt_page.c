/* SPDX-License-Identifier: MIT
 *
 * opt_page.c - all options on one page: for `weft help options`, for docs/options.md and for Kconfig.
 *
 * Kconfig knows neither real numbers nor texts with a list of values inside: both are strings there, and their help
 * says what may be given. An owner "pos=rope" becomes a menu that depends on the symbol of pos.
 */
#include "base/json.h"
#include "base/opt.h"

#include <ctype.h>
#include <string.h>

void weft_opt_range(const struct weft_opt *opt, char *text, size_t size)
{
    size_t used = 0;
    if (opt->type == WEFT_OPT_BOOL)
        snprintf(text, size, "yes or no");
    else if (opt->type == WEFT_OPT_TEXT)
        snprintf(text, size, "a text of at most %d bytes, without control characters", WEFT_MAX_TEXT - 1);
    else if (opt->type != WEFT_OPT_CHOICE)
        snprintf(text, size, "%.10g to %.10g", opt->min, opt->max);
    else
        for (int i = 0; opt->choices[i] && used < size; i++)
            used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", opt->choices[i]);
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

static const char *initial_of(const struct weft_opt *opt) { return *opt->initial ? opt->initial : "none"; }

/* ---- text */

static void print_text(const struct weft_owner *owner, FILE *to)
{
    fprintf(to, "%s\n", owner->name);
    for (int i = 0; i < owner->count; i++) {
        const struct weft_opt *opt = &owner->options[i];
        char range[256];
        weft_opt_range(opt, range, sizeof range);
        fprintf(to, "  %-14s %s\n  %-14s %s; default %s\n", opt->name, opt->help, "", range, initial_of(opt));
    }
}

/* ---- Markdown */

/* The text with every `special` character behind a backslash. */
static void put_escaped(const char *text, const char *special, FILE *to)
{
    for (; *text; text++) {
        if (strchr(special, *text))
            fputc('\\', to);
        fputc(*text, to);
    }
}

static void print_markdown(const struct weft_owner *owner, FILE *to)
{
    static const char *const kinds[] = {[WEFT_OPT_INT] = "whole number, ", [WEFT_OPT_REAL] = "number, "};
    fprintf(to, "\n## %s\n\n| option | values | default | Kconfig symbol | what it is |\n|---|---|---|---|---|\n",
            owner->name);
    for (int i = 0; i < owner->count; i++) {
        const struct weft_opt *opt = &owner->options[i];
        char range[256], symbol[128];
        weft_opt_range(opt, range, sizeof range);
        fprintf(to, "| `%s` | %s%s | %s | `%s` | ", opt->name, opt->type <= WEFT_OPT_REAL ? kinds[opt->type] : "",
                range, initial_of(opt), weft_opt_symbol(opt, symbol, sizeof symbol));
        put_escaped(opt->help, "|*_<", to);
        fputs(" |\n", to);
    }
}

/* ---- Kconfig */

static const struct weft_opt *find(const struct weft_owner *const *owners, int count, const char *name, size_t length)
{
    for (int o = 0; o < count; o++)
        for (int i = 0; i < owners[o]->count; i++) {
            const char *other = owners[o]->options[i].name;
            if (strlen(other) == length && memcmp(other, name, length) == 0)
                return &owners[o]->options[i];
        }
    return NULL;
}

/* "pos=rope": depends on WEFT_POS = "rope"; "m1=yes": depends on WEFT_M1. */
static void print_dependency(const struct weft_owner *const *owners, int count, const char *name, FILE *to)
{
    const char *is = strchr(name, '=');
    const struct weft_opt *opt = is ? find(owners, count, name, (size_t)(is - name)) : NULL;
    char text[128];
    if (!opt)
        return;
    const char *symbol = weft_opt_symbol(opt, text, sizeof text);
    if (opt->type == WEFT_OPT_BOOL)
        fprintf(to, "\tdepends on %s%s\n", strcmp(is, "=no") == 0 ? "!" : "", symbol);
    else
        fprintf(to, "\tdepends on %s = \"%s\"\n", symbol, is + 1);
}

/* The help up to its first stop. */
static void print_prompt(const char *type, const char *help, FILE *to)
{
    char prompt[80];
    snprintf(prompt, sizeof prompt, "%.*s", (int)strcspn(help, ";:"), help);
    fprintf(to, "\t%s \"", type);
    put_escaped(prompt, "\"\\", to);
    fputs("\"\n", to);
}

static void print_symbol(const struct weft_opt *opt, FILE *to)
{
    char range[256], symbol[128];
    weft_opt_range(opt, range, sizeof range);
    fprintf(to, "\nconfig %s\n", weft_opt_symbol(opt, symbol, sizeof symbol));
    switch (opt->type) {
    case WEFT_OPT_BOOL:
        print_prompt("bool", opt->help, to);
        fprintf(to, "\tdefault %c\n", opt->initial[0]);
        break;
    case WEFT_OPT_INT:
        print_prompt("int", opt->help, to);
        fprintf(to, "\trange %lld %lld\n\tdefault %s\n", (long long)opt->min, (long long)opt->max, opt->initial);
        break;
    default:
        print_prompt("string", opt->help, to);
        fprintf(to, "\tdefault \"%s\"\n", opt->initial);
    }
    fprintf(to, "\thelp\n\t  %s: %s.\n\t  Values: %s.\n", opt->name, opt->help, range);
}

static void print_menu(const struct weft_owner *const *owners, int count, const struct weft_owner *owner, FILE *to)
{
    fprintf(to, "\nmenu \"%s\"\n", owner->name);
    print_dependency(owners, count, owner->name, to);
    for (int i = 0; i < owner->count; i++)
        print_symbol(&owner->options[i], to);
    fputs("\nendmenu\n", to);
}

/* ---- pages */

static const char *const openings[] = {
    [WEFT_PAGE_TEXT] = "",
    [WEFT_PAGE_MARKDOWN] =
        "<!-- Written by `make generated` from the option tables: change those. -->\n"
        "# Options\n\n"
        "`--set NAME=VALUE` sets an option, and so does an entry of a config file, one flat JSON object. The command\n"
        "line stands above the config file, that above the preset, and that above the defaults below. A section named\n"
        "`option=value` has a part only in models with that value.\n",
    [WEFT_PAGE_KCONFIG] = "# SPDX-License-Identifier: MIT\n"
                          "# Written by `make generated` from the option tables: change those.\n"
                          "mainmenu \"Weft\"\n",
};

void weft_owners_print(const struct weft_owner *const *owners, int count, enum weft_page page, FILE *to)
{
    fputs(openings[page], to);
    for (int i = 0; i < count; i++) {
        if (!owners[i]->count)
            continue;
        if (page == WEFT_PAGE_TEXT)
            print_text(owners[i], to);
        else if (page == WEFT_PAGE_MARKDOWN)
            print_markdown(owners[i], to);
        else
            print_menu(owners, count, owners[i], to);
    }
}
