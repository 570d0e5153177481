/* SPDX-License-Identifier: MIT
 *
 * common.c - what commands have in common: MODEL with its settings, resolved; names of presets; paths.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "study/study.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum weft_status weft_common_init(struct weft_common *c)
{
    TRY(weft_spec_init(&c->spec, c->model, &c->settings));
    TRY(weft_recipe_init(&c->recipe, &c->spec, &c->settings));
    return WEFT_OK;
}

const char *weft_preset_name_at(int i)
{
    const char *summary;
    return weft_preset_at(i, &summary);
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
    for (int i = 0; weft_preset_name_at(i); i++)
        if (strcmp(weft_preset_name_at(i), model) == 0)
            return false;
    return weft_is_folder(model);
}

void weft_say_words(const char *const *words)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        weft_shell_words(words, to);
    if (to && weft_output_close(to))
        weft_text_print(stderr, text);
    free(text);
}

void weft_scores_add(struct weft_result *r, const struct weft_scores *scores)
{
    weft_result_real(r, "eval_loss", scores->val.loss);
    weft_result_real(r, "accuracy", scores->val.accuracy);
    weft_result_real(r, "test_loss", scores->test.loss);
    weft_result_real(r, "test_accuracy", scores->test.accuracy);
}
