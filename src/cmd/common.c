/* SPDX-License-Identifier: MIT
 *
 * common.c - what commands have in common: numbers as options, paths, progress; on a model also --set, --threads,
 * --json and MODEL, parsed and resolved.
 */
#include "base/json.h"
#include "cmd/cmd.h"

#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct argp_option options[] = {
    {"set", 's', "NAME=VALUE", 0,
     "Set an option of the model or of training (see `weft help options`); may be repeated", 0},
    {"threads", 't', "N", 0,
     "Threads to use; 0, the default, is one per core, or OMP_NUM_THREADS. Results do not depend on it", 0},
    {"json", 'j', NULL, 0, "Print one flat JSON object", 0},
    {0},
};

static enum weft_status set_threads(const char *text)
{
    int64_t n;
    if (!weft_text_int(text, &n) || n < 0 || n > 4096)
        return FAIL(WEFT_INVALID, "--threads %s: give a number from 0 to 4096", text);
    return weft_threads_set((int)n);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct weft_common *c = state->input;
    switch (key) {
    case 's':
        if (c->status == WEFT_OK)
            c->status = weft_settings_add(&c->settings, arg);
        return 0;
    case 't':
        if (c->status == WEFT_OK)
            c->status = set_threads(arg);
        return 0;
    case 'j':
        c->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp weft_common_argp = {.options = options, .parser = parse};

static error_t parse_model(int key, char *arg, struct argp_state *state)
{
    struct weft_common *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = c;
        return 0;
    case ARGP_KEY_ARG:
        if (c->model)
            return ARGP_ERR_UNKNOWN;
        c->model = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which MODEL? `weft help models` lists presets; a config file or a folder with config.json "
                          "is one too");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&weft_common_argp, 0, NULL, 0}, {0}};
const struct argp weft_model_argp = {.parser = parse_model, .args_doc = "MODEL", .children = children};

enum weft_status weft_common_init(struct weft_common *c)
{
    if (c->status != WEFT_OK)
        return c->status;
    TRY(weft_spec_init(&c->spec, c->model, &c->settings));
    TRY(weft_recipe_init(&c->recipe, &c->spec, &c->settings));
    return WEFT_OK;
}

void weft_common_release(struct weft_common *c)
{
    weft_recipe_release(&c->recipe);
    weft_spec_release(&c->spec);
    weft_settings_release(&c->settings);
}

/* ---- any command */

int64_t weft_arg_int(const struct argp_state *state, const char *name, const char *text, int64_t least, int64_t most)
{
    int64_t n;
    if (!weft_text_int(text, &n) || n < least || n > most)
        argp_error(state, "--%s %s: give a number from %lld to %lld", name, text, (long long)least, (long long)most);
    return n;
}

double weft_arg_real(const struct argp_state *state, const char *name, const char *text, double least, double most)
{
    double x;
    if (!weft_text_real(text, &x) || x < least || x > most)
        argp_error(state, "--%s %s: give a number from %g to %g", name, text, least, most);
    return x;
}

bool weft_ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

bool weft_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool weft_model_is_folder(const char *model)
{
    const char *summary, *preset;
    for (int i = 0; (preset = weft_preset_at(i, &summary)); i++)
        if (strcmp(preset, model) == 0)
            return false;
    return weft_is_folder(model);
}

void weft_scores_add(struct weft_result *r, const struct weft_scores *scores)
{
    weft_result_real(r, "eval_loss", scores->val.loss);
    weft_result_real(r, "accuracy", scores->val.accuracy);
    weft_result_real(r, "test_loss", scores->test.loss);
    weft_result_real(r, "test_accuracy", scores->test.accuracy);
}

void weft_line_init(struct weft_line *line)
{
    double now = weft_seconds();
    *line = (struct weft_line){.terminal = isatty(STDERR_FILENO), .start = now, .said = now};
}

void weft_line_tell(struct weft_line *line, const char *format, ...)
{
    double now = weft_seconds();
    va_list args;
    if (now - line->said < (line->terminal ? 0.1 : 10))
        return;
    line->said = now;
    line->told = true;
    if (line->terminal)
        fputc('\r', stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs(line->terminal ? "    " : "\n", stderr); /* over what is left of a longer line */
}

void weft_line_end(const struct weft_line *line)
{
    if (line->terminal && line->told)
        fputc('\n', stderr);
}
