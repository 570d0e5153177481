/* SPDX-License-Identifier: MIT
 *
 * opt_page.c - prints all options on one page: for `weft help options`, docs/options.md and Kconfig.
 *
 * Kconfig has neither real numbers nor strings with a fixed list of values: both become plain strings, and the help
 * text lists the allowed values. An owner "pos=rope" becomes a menu that does not depend on the symbol of pos.
 * Otherwise Kconfig would drop its values if the baseline of a study had a different pos, although an arm may need
 * them.
 */
#include "base/opt.h"

#include <string.h>

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

/* Prints the text with a backslash before every `special` character. */
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
    static const char *const kinds[] = {[WEFT_OPT_INT] = "integer, ", [WEFT_OPT_REAL] = "number, "};
    fprintf(to, "\n## %s\n\n| option | values | default | Kconfig symbol | description |\n|---|---|---|---|---|\n",
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

/* The prompt is the help text up to the first ; or : */
static void print_prompt(const char *type, const char *help, FILE *to)
{
    char prompt[80];
    snprintf(prompt, sizeof prompt, "%.*s", (int)strcspn(help, ";:"), help);
    fprintf(to, "\t%s \"", type);
    put_escaped(prompt, "\"\\", to);
    fputs("\"\n", to);
}

static void print_default(const struct weft_opt *opt, const char *value, const char *preset, FILE *to)
{
    if (opt->type == WEFT_OPT_BOOL)
        fprintf(to, "\tdefault %c", value[0]);
    else
        fprintf(to, opt->type == WEFT_OPT_INT ? "\tdefault %s" : "\tdefault \"%s\"", value);
    if (preset)
        fprintf(to, " if WEFT_PRESET = \"%s\"", preset);
    fputc('\n', to);
}

static void print_symbol(const struct weft_opt *opt, const struct weft_preset *presets, FILE *to)
{
    static const char *const types[] = {[WEFT_OPT_INT] = "int", [WEFT_OPT_BOOL] = "bool"};
    char range[256], symbol[128];
    bool native = opt->type == WEFT_OPT_INT || opt->type == WEFT_OPT_BOOL;
    weft_opt_range(opt, range, sizeof range);
    fprintf(to, "\nconfig %s\n", weft_opt_symbol(opt, symbol, sizeof symbol));
    print_prompt(native ? types[opt->type] : "string", opt->help, to);
    if (opt->type == WEFT_OPT_INT)
        fprintf(to, "\trange %lld %lld\n", (long long)opt->min, (long long)opt->max);
    for (; presets && presets->name; presets++) {
        const char *value = weft_preset_value(presets->settings, opt->name);
        if (value)
            print_default(opt, value, presets->name, to);
    }
    print_default(opt, opt->initial, NULL, to);
    fprintf(to, "\thelp\n\t  %s: %s.\n\t  Values: %s.\n", opt->name, opt->help, range);
}

static void print_menu(const struct weft_owner *owner, const struct weft_preset *presets, FILE *to)
{
    fprintf(to, "\nmenu \"%s%s\"\n", strchr(owner->name, '=') ? "with " : "", owner->name);
    for (int i = 0; i < owner->count; i++)
        print_symbol(&owner->options[i], presets, to);
    fputs("\nendmenu\n", to);
}

/* ---- pages */

static const char *const openings[] = {
    [WEFT_PAGE_TEXT] = "",
    [WEFT_PAGE_MARKDOWN] = "<!-- Generated from the option tables by `make generated`. Do not edit. -->\n"
                           "# Options\n\n"
                           "Set an option with `--set NAME=VALUE` or as an entry of a config file, which is one flat "
                           "JSON object. The command\n"
                           "line overrides the config file, which overrides the preset, which overrides the defaults "
                           "below. The options in a\n"
                           "section named `option=value` apply only to models with that value.\n",
    [WEFT_PAGE_KCONFIG] = "# SPDX-License-Identifier: MIT\n"
                          "# Generated from the option tables by `make generated`. Do not edit.\n"
                          "mainmenu \"Weft\"\n",
};

void weft_owners_print(const struct weft_owner *const *owners, int count, const struct weft_preset *presets,
                       enum weft_page page, FILE *to)
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
            print_menu(owners[i], presets, to);
    }
}
