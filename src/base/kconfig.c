/* SPDX-License-Identifier: MIT
 *
 * kconfig.c - reads settings from a .config or defconfig file. Kconfig itself accepts almost anything: it drops unknown
 * symbols and invalid values, and still exits with 0. Here every line must be valid.
 */
#include "base/json.h"
#include "base/opt.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    struct weft_settings *s;
    const struct weft_owner *const *owners;
    int owner_count;
    const char *path;
    int line;
};

/* ---- symbols */

static enum weft_status unknown_symbol(const struct reader *r, const char *symbol)
{
    const char *names[512];
    char texts[512][64];
    int n = 0;
    for (int o = 0; o < r->owner_count; o++)
        for (int i = 0; i < r->owners[o]->count && n < 512; i++, n++)
            names[n] = weft_opt_symbol(&r->owners[o]->options[i], texts[n], sizeof texts[n]);
    const char *near = weft_suggest(symbol, names, n);
    return FAIL(WEFT_INVALID, "%s:%d: there is no symbol CONFIG_%s%s%s%s All symbols are in docs/options.md", r->path,
                r->line, symbol, near ? ": did you mean CONFIG_" : "", near ? near : "", near ? "?" : ".");
}

static const struct weft_opt *find(const struct reader *r, const char *symbol)
{
    char text[64];
    for (int o = 0; o < r->owner_count; o++)
        for (int i = 0; i < r->owners[o]->count; i++)
            if (strcmp(symbol, weft_opt_symbol(&r->owners[o]->options[i], text, sizeof text)) == 0)
                return &r->owners[o]->options[i];
    return NULL;
}

/* ---- values */

/* Decodes a quoted string with backslash escapes in place. Returns NULL if it is not one. */
static char *unquote(char *text)
{
    char *to = text, *from = text;
    if (*from++ != '"')
        return NULL;
    for (; *from && *from != '"'; *to++ = *from++)
        if (*from == '\\' && !*++from)
            return NULL;
    if (from[0] != '"' || from[1])
        return NULL;
    *to = '\0';
    return text;
}

/* Converts the text after the =, as Kconfig writes it for the option's type, into a setting's value. Returns NULL if it
 * is invalid. A real number, which is a string in Kconfig, may also be unquoted. */
static const char *decode(const struct weft_opt *opt, char *text)
{
    switch (opt->type) {
    case WEFT_OPT_BOOL:
        return strcmp(text, "y") == 0 ? "yes" : strcmp(text, "n") == 0 ? "no" : NULL;
    case WEFT_OPT_INT:
        return *text == '"' ? NULL : text;
    case WEFT_OPT_REAL:
        return *text == '"' ? unquote(text) : text;
    default:
        return unquote(text);
    }
}

static enum weft_status add(struct reader *r, const char *symbol, char *text)
{
    static const char *const forms[] = {[WEFT_OPT_INT] = "12",
                                        [WEFT_OPT_REAL] = "\"0.5\"",
                                        [WEFT_OPT_BOOL] = "y",
                                        [WEFT_OPT_CHOICE] = "\"name\"",
                                        [WEFT_OPT_TEXT] = "\"text\""};
    struct weft_settings *s = r->s;
    union {
        int64_t n;
        double x;
        bool yes;
        int choice;
        const char *text;
    } value;
    const struct weft_opt *opt = find(r, symbol);
    if (!opt)
        return unknown_symbol(r, symbol);
    const char *decoded = decode(opt, text);
    if (!decoded)
        return FAIL(WEFT_FORMAT, "%s:%d: invalid value of CONFIG_%s: write it like CONFIG_%s=%s", r->path, r->line,
                    symbol, symbol, forms[opt->type]);
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->setting[i].name, opt->name) == 0)
            return FAIL(WEFT_FORMAT, "%s:%d: CONFIG_%s is already set in line %d: keep one of them", r->path, r->line,
                        symbol, s->setting[i].line);
    struct weft_setting setting = {opt->name, weft_arena_print(&s->arena, "%s", decoded), r->path, .line = r->line};
    TRY(weft_settings_put(s, setting));
    TRY(weft_opt_read(opt, &setting, &value));
    return WEFT_OK;
}

/* ---- lines */

/* Returns X of "# CONFIG_X is not set", or NULL for any other comment. */
static char *not_set(char *text)
{
    static const char start[] = "# CONFIG_", end[] = " is not set";
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    if (strncmp(text, start, sizeof start - 1) != 0)
        return NULL;
    char *symbol = text + sizeof start - 1, *rest = symbol + strspn(symbol, letters);
    if (strcmp(rest, end) != 0)
        return NULL;
    *rest = '\0';
    return symbol;
}

static enum weft_status read_line(struct reader *r, char *text)
{
    char *symbol = NULL, *equals = NULL, no[] = "n";
    if (*text == '#')
        return (symbol = not_set(text)) ? add(r, symbol, no) : WEFT_OK;
    if (text[strspn(text, " \t")] == '\0')
        return WEFT_OK;
    if (!weft_json_is_text(text))
        return FAIL(WEFT_FORMAT, "%s:%d: this line is not UTF-8, has control characters or is longer than %d bytes",
                    r->path, r->line, WEFT_MAX_TEXT - 1);
    if (strncmp(text, "CONFIG_", 7) != 0 || !(equals = strchr(text, '=')))
        return FAIL(WEFT_FORMAT, "%s:%d: \"%.80s\" is neither CONFIG_NAME=VALUE nor a comment", r->path, r->line, text);
    *equals = '\0';
    return add(r, text + 7, equals + 1);
}

static enum weft_status read_lines(struct reader *r, char *text, size_t size)
{
    for (char *end = text + size, *next; text < end; text = next, r->line++) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        next = stop + 1;
        if (memchr(text, '\0', (size_t)(stop - text)))
            return FAIL(WEFT_FORMAT, "%s:%d: this line has a zero byte: the file is not a config file", r->path,
                        r->line);
        if (stop > text && stop[-1] == '\r')
            stop--;
        *stop = '\0';
        TRY(read_line(r, text));
    }
    r->s->loaded = r->s->count;
    return WEFT_OK;
}

enum weft_status weft_settings_load_kconfig(struct weft_settings *s, const char *path,
                                            const struct weft_owner *const *owners, int count)
{
    struct reader r = {s, owners, count, weft_arena_print(&s->arena, "%s", path), 1};
    char *bytes = NULL;
    size_t size = 0;
    if (!r.path)
        return FAIL(WEFT_NOMEM, "not enough memory for settings");
    enum weft_status status = weft_slurp(path, WEFT_MAX_CONFIG_BYTES, &bytes, &size);
    if (status == WEFT_OK)
        status = read_lines(&r, bytes, size);
    free(bytes);
    return status;
}
