/* SPDX-License-Identifier: MIT
 *
 * hf_code.c - modeling_weft.py for one model: the file of that name beside this one, without what the model does not
 * have.
 *
 * In that file, lines "#: if CONDITION", "#: elif CONDITION", "#: else" and "#: end" say which lines a model gets. A
 * condition is settings joined by "and" or "or", which is the weaker of the two; an option that the model does not have
 * has no value. Neither these lines nor more than two empty lines in a row are in the result.
 */
#include "base/embed.h"
#include "ckpt/ckpt.h"
#include "export/hf/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

WEFT_EMBED(modeling, "src/export/hf/modeling_weft.py");
WEFT_EMBED(configuration, "src/export/hf/configuration_weft.py");

enum { MAX_DEPTH = 8 };

struct level {
    bool outer; /* the lines around this "if" are taken */
    bool taken; /* one of its branches was */
    bool now;   /* its branch here is */
};

/* "name=value" or "name!=value" */
static bool holds(const json_t *options, const char *word, size_t n)
{
    size_t name = strcspn(word, "!=");
    bool unlike = word[name] == '!';
    const char *value = word + name + 1 + unlike;
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)name, word);
    const char *has = json_string_value(json_object_get(options, key));
    size_t wanted = n - (size_t)(value - word);
    bool same = has && strlen(has) == wanted && strncmp(has, value, wanted) == 0;
    return same != unlike;
}

static bool condition(const json_t *options, const char *at, const char *end)
{
    bool all = true;
    while (at < end) {
        size_t n = strcspn(at, " \n");
        if (n == 2 && strncmp(at, "or", 2) == 0) {
            if (all)
                return true;
            all = true;
        } else if (n != 3 || strncmp(at, "and", 3) != 0) {
            all = all && holds(options, at, n);
        }
        at += n + 1;
    }
    return all;
}

/* A directive "#: word ..."; returns the new depth. */
static int direct(const json_t *options, const char *word, const char *end, struct level *level, int depth)
{
    if (strncmp(word, "if ", 3) == 0) {
        struct level *l = &level[++depth];
        l->outer = level[depth - 1].now;
        l->taken = l->now = l->outer && condition(options, word + 3, end);
    } else if (strncmp(word, "end", 3) == 0) {
        depth--;
    } else { /* elif, else */
        struct level *l = &level[depth];
        bool other = strncmp(word, "else", 4) == 0;
        l->now = l->outer && !l->taken && (other || condition(options, word + 5, end));
        l->taken |= l->now;
    }
    return depth;
}

static void write_lines(const json_t *options, FILE *to)
{
    struct level level[MAX_DEPTH] = {{.now = true}};
    int depth = 0, empty = 0;
    for (const char *line = weft_embedded_modeling, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        const char *text = line + strspn(line, " ");
        if (strncmp(text, "#: ", 3) == 0) {
            depth = direct(options, text + 3, end, level, depth);
            continue;
        }
        empty = text == end ? empty + 1 : 0;
        if (level[depth].now && empty <= 2)
            fprintf(to, "%.*s\n", (int)(end - line), line);
    }
}

static enum weft_status write_file(const char *folder, const char *name, const char *text, size_t bytes)
{
    char path[4400];
    snprintf(path, sizeof path, "%.4095s/%s", folder, name);
    return weft_file_replace(path, text, bytes);
}

enum weft_status weft_hf_code(const json_t *options, const char *folder)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        write_lines(options, to);
    enum weft_status status = to && fclose(to) == 0 ? write_file(folder, "modeling_weft.py", text, bytes)
                                                    : FAIL(WEFT_NOMEM, "not enough memory for a model's code");
    free(text);
    TRY(status);
    return write_file(folder, "configuration_weft.py", weft_embedded_configuration,
                      strlen(weft_embedded_configuration));
}
