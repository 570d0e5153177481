/* SPDX-License-Identifier: MIT
 *
 * args.c - parses a command's arguments by its table, and defines the rows that commands share.
 */
#include "cmd/kit/args.h"
#include "cmd/cmd.h"

#include <assert.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- tables */

#define COMMON(field) offsetof(struct weft_common, field)

static const struct {
    unsigned taken; /* flag of the commands that accept it; 0: all commands */
    struct weft_arg arg;
} shared[] = {
    {WEFT_TAKES_MODEL,
     {NULL, 0, "MODEL", WEFT_ARG_FILE, COMMON(model), .help = "Preset, config file, STUDY:ARM, or folder of a run",
      .choice_at = weft_preset_name_at,
      .missing =
          "no MODEL given: pass a preset (listed by `weft help models`), a config file or a folder with config.json"}},
    {WEFT_TAKES_WEIGHTS,
     {NULL, 0, "MODEL", WEFT_ARG_FILE, COMMON(model), .help = "Folder of a run, of a checkpoint, or of a model",
      .missing = "no MODEL given: pass a run (weft train --out), a checkpoint or a model folder"}},
    {WEFT_TAKES_SET,
     {"set", 's', "NAME=VALUE", WEFT_ARG_SETTING, COMMON(settings),
      .help = "Set an option of the model or of training (see `weft help options`); may be repeated"}},
    {WEFT_TAKES_STUDY_SET,
     {"set", 's', "NAME=VALUE", WEFT_ARG_STUDY_SETTING, COMMON(settings),
      .help = "Set an option of the study or of all its arms (see `weft help options`); may be repeated"}},
    {WEFT_TAKES_THREADS,
     {"threads", 't', "N", WEFT_ARG_INT, COMMON(threads),
      .help = "Use N threads; 0, the default: OMP_NUM_THREADS or one per core. Results do not depend on it",
      .max = 4096}},
    {WEFT_TAKES_JSON, {"json", 'j', NULL, WEFT_ARG_FLAG, COMMON(json), .help = "Print one flat JSON object"}},
    {0,
     {"verbose", 0, NULL, WEFT_ARG_FLAG, COMMON(verbose),
      .help = "Print errors with the source lines that they passed through"}},
    {0, {"help", 'h', NULL, WEFT_ARG_FLAG, COMMON(help), .help = "Print this help"}},
};

const struct weft_arg *weft_arg_at(const struct weft_cmd *cmd, int i)
{
    const struct weft_arg *own = cmd->args;
    for (; own && (own->name || own->value); own++)
        if (i-- == 0)
            return own;
    for (size_t s = 0; s < sizeof shared / sizeof *shared; s++)
        if ((!shared[s].taken || (shared[s].taken & cmd->takes)) && i-- == 0)
            return &shared[s].arg;
    return NULL;
}

const char *weft_arg_choice(const struct weft_arg *arg, int i)
{
    return arg->choices ? arg->choices[i] : arg->choice_at ? arg->choice_at(i) : NULL;
}

const struct weft_arg *weft_arg_verb(const struct weft_cmd *cmd)
{
    const struct weft_arg *arg;
    for (int i = 0; (arg = weft_arg_at(cmd, i)); i++)
        if (!arg->name)
            return arg->type == WEFT_ARG_CHOICE && arg->missing ? arg : NULL;
    return NULL;
}

bool weft_arg_fits(const struct weft_arg *arg, const char *verb)
{
    size_t n = verb ? strlen(verb) : 0;
    const char *at = n ? arg->only : NULL;
    if (!at)
        return true;
    while (strncmp(at, verb, n) != 0 || (at[n] && at[n] != ' ')) {
        at = strchr(at, ' ');
        if (!at)
            return false;
        at++;
    }
    return true;
}

const struct weft_arg *weft_arg_positional(const struct weft_cmd *cmd, const char *verb, int n)
{
    const struct weft_arg *arg;
    for (int i = 0; (arg = weft_arg_at(cmd, i)); i++)
        if (!arg->name && weft_arg_fits(arg, verb) && (n-- == 0 || arg->many))
            return arg;
    return NULL;
}

/* ---- values */

static bool in_range(const struct weft_arg *arg, double x) { return x >= arg->min && x <= arg->max; }

static enum weft_status refuse_number(const struct weft_arg *arg, const char *text)
{
    char most[40] = "";
    if (isfinite(arg->max))
        snprintf(most, sizeof most, " to %.10g", arg->max);
    return FAIL(WEFT_INVALID, "--%s %s is invalid: expected %s from %.10g%s", arg->name, text,
                arg->type == WEFT_ARG_INT ? "an integer" : "a number", arg->min, *most ? most : " up");
}

static enum weft_status refuse_choice(const struct weft_arg *arg, const char *text)
{
    const char *names[64];
    char list[1024] = "";
    int n = 0;
    for (size_t used = 0; n < 64 && used < sizeof list && (names[n] = weft_arg_choice(arg, n)); n++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", n ? ", " : "", names[n]);
    const char *near = weft_suggest(text, names, n);
    return FAIL(WEFT_INVALID, "%s%s%s%s is invalid: expected %s%s%s%s", arg->name ? "--" : "",
                arg->name ? arg->name : "", arg->name ? " " : "", text, list, near ? "; did you mean " : "",
                near ? near : "", near ? "?" : "");
}

static enum weft_status store_number(const struct weft_arg *arg, const char *text, void *at, bool check)
{
    int64_t n;
    double x;
    bool whole = arg->type == WEFT_ARG_INT, read = whole ? weft_text_int(text, &n) : weft_text_real(text, &x);
    if (!read || (check && !in_range(arg, whole ? (double)n : x)))
        return refuse_number(arg, text);
    if (whole)
        *(int64_t *)at = n;
    else
        *(double *)at = x;
    return WEFT_OK;
}

static enum weft_status store_choice(const struct weft_arg *arg, const char *text, int *at)
{
    const char *choice;
    for (int i = 0; (choice = weft_arg_choice(arg, i)); i++)
        if (strcmp(text, choice) == 0) {
            *at = i;
            return WEFT_OK;
        }
    return refuse_choice(arg, text);
}

static void store_text(const struct weft_arg *arg, const char *text, void *at)
{
    struct weft_arg_list *list = at;
    if (arg->many)
        list->item[list->count++] = text;
    else
        *(const char **)at = text;
}

/* If `check` is true, the value must be in the range; a default need not be. */
static enum weft_status store(const struct weft_arg *arg, const char *text, void *args, bool check)
{
    void *at = (char *)args + arg->offset;
    switch (arg->type) {
    case WEFT_ARG_FLAG:
        *(bool *)at = true;
        return WEFT_OK;
    case WEFT_ARG_INT:
    case WEFT_ARG_REAL:
        return store_number(arg, text, at, check);
    case WEFT_ARG_CHOICE:
        return store_choice(arg, text, at);
    case WEFT_ARG_SETTING:
    case WEFT_ARG_STUDY_SETTING:
        return arg->sets ? weft_settings_put(at, (struct weft_setting){.name = arg->sets, .value = text})
                         : weft_settings_add(at, text);
    default:
        store_text(arg, text, at);
        return WEFT_OK;
    }
}

/* ---- words */

enum { MOST_ROWS = 40, LONG = 256 }; /* a long option's code is LONG plus its row */

struct parsing {
    const struct weft_cmd *cmd;
    void *args;
    const char *verb;
    bool given[MOST_ROWS];
    struct option options[MOST_ROWS + 1]; /* the same rows in getopt's format */
    char letters[2 * MOST_ROWS + 2];
};

static enum weft_status init(struct parsing *p, int argc)
{
    const struct weft_arg *arg;
    char *letter = p->letters;
    int options = 0;
    assert(!weft_arg_at(p->cmd, MOST_ROWS));
    *letter++ = ':'; /* suppresses getopt's own messages */
    for (int i = 0; (arg = weft_arg_at(p->cmd, i)); i++) {
        void *at = (char *)p->args + arg->offset;
        bool value = arg->type != WEFT_ARG_FLAG;
        if (arg->type == WEFT_ARG_CHOICE)
            *(int *)at = -1;
        if (arg->initial)
            TRY(store(arg, arg->initial, p->args, false));
        if (arg->many && !(((struct weft_arg_list *)at)->item = calloc((size_t)argc + 1, sizeof(char *))))
            return FAIL(WEFT_NOMEM, "not enough memory for the command's options");
        if (arg->name)
            p->options[options++] = (struct option){arg->name, value, NULL, LONG + i};
        if (arg->letter)
            letter += sprintf(letter, "%c%s", arg->letter, value ? ":" : "");
    }
    return WEFT_OK;
}

/* Writes "--seed or --stop": the option that is closest to --word, or those that begin with the letter of -x. */
static void name_near(const struct parsing *p, const char *word, char text[256])
{
    const char *names[MOST_ROWS];
    int n = 0;
    size_t used = 0;
    text[0] = 0;
    for (const struct option *o = p->options; o->name; o++)
        if (word[1] == '-')
            names[n++] = o->name;
        else if (o->name[0] == word[1] && used < 256)
            used += (size_t)snprintf(text + used, 256 - used, "%s--%s", used ? " or " : "", o->name);
    const char *near = word[1] == '-' ? weft_suggest(word + 2, names, n) : NULL;
    if (near)
        snprintf(text, 256, "--%s", near);
}

static enum weft_status refuse_unknown(const struct parsing *p, const char *word)
{
    char near[256];
    name_near(p, word, near);
    return FAIL(WEFT_INVALID, "there is no option %s%s%s%s `weft %s --help` lists the options", word,
                *near ? ": did you mean " : "", near, *near ? "?" : ";", p->cmd->name);
}

/* Returns the row of getopt's result; -1: none. */
static int row_of(const struct parsing *p, int code)
{
    const struct weft_arg *arg;
    if (code >= LONG)
        return code - LONG;
    for (int i = 0; (arg = weft_arg_at(p->cmd, i)); i++)
        if (arg->letter && arg->letter == code)
            return i;
    return -1;
}

static enum weft_status take_option(struct parsing *p, int code, char **argv)
{
    bool wrong = code == '?' || code == ':';
    int row = row_of(p, wrong ? optopt : code);
    const struct weft_arg *arg = row < 0 ? NULL : weft_arg_at(p->cmd, row);
    if (code == ':')
        return FAIL(WEFT_INVALID, "--%s needs a value: --%s=%s", arg->name, arg->name, arg->value);
    if (wrong && arg)
        return FAIL(WEFT_INVALID, "--%s takes no value", arg->name);
    if (wrong && optopt)
        return refuse_unknown(p, (char[]){'-', (char)optopt, 0});
    if (wrong)
        return refuse_unknown(p, argv[optind - 1]);
    p->given[row] = true;
    return store(arg, optarg, p->args, true);
}

static enum weft_status take_argument(struct parsing *p, int n, const char *word)
{
    const struct weft_arg *arg = weft_arg_positional(p->cmd, p->verb, n);
    if (!arg)
        return FAIL(WEFT_INVALID, "unexpected argument \"%s\": see `weft %s --help`", word, p->cmd->name);
    TRY(store(arg, word, p->args, true));
    if (arg == weft_arg_verb(p->cmd))
        p->verb = word;
    for (int i = 0; weft_arg_at(p->cmd, i); i++)
        p->given[i] |= weft_arg_at(p->cmd, i) == arg;
    return WEFT_OK;
}

/* Fails if a required argument is missing or an option belongs to a different verb. */
static enum weft_status check(const struct parsing *p)
{
    const struct weft_arg *arg;
    for (int i = 0; (arg = weft_arg_at(p->cmd, i)); i++) {
        bool fits = weft_arg_fits(arg, p->verb);
        if (p->given[i] && !fits)
            return FAIL(WEFT_INVALID, "--%s is not an option of %s", arg->name, p->verb);
        if (arg->missing && fits && !p->given[i])
            return FAIL(WEFT_INVALID, "%s", arg->missing);
    }
    return WEFT_OK;
}

enum weft_status weft_args_parse(const struct weft_cmd *cmd, int argc, char **argv, void *args)
{
    struct parsing p = {.cmd = cmd, .args = args};
    TRY(init(&p, argc));
    optind = 0; /* makes glibc accept a new table */
    for (int code; (code = getopt_long(argc, argv, p.letters, p.options, NULL)) != -1;)
        TRY(take_option(&p, code, argv));
    const struct weft_common *common = args;
    if (common->help)
        return WEFT_OK;
    for (int i = optind; i < argc; i++)
        TRY(take_argument(&p, i - optind, argv[i]));
    TRY(check(&p));
    if (cmd->check)
        TRY(cmd->check(args));
    return WEFT_OK;
}

void weft_args_release(const struct weft_cmd *cmd, void *args)
{
    const struct weft_arg *arg;
    struct weft_common *common = args;
    for (int i = 0; (arg = weft_arg_at(cmd, i)); i++)
        if (arg->many)
            free(((struct weft_arg_list *)((char *)args + arg->offset))->item);
    weft_common_release(common);
}
