/* SPDX-License-Identifier: MIT
 *
 * hf_tokenizer.c - writes a tokenizer into a Hugging Face folder: tokenizer.json; tokenizer_config.json, which gives
 * transformers the class that reads it and the tokens that begin and end a text; and generation_config.json, so that
 * generate() stops at the end of a text.
 */
#include "export/hf/hf.h"
#include "text/text.h"

#include <stdio.h>

/* Adds the text of a token under a name. */
static enum weft_status add_token(json_t *config, const char *name, const struct weft_tokenizer *t, int32_t token)
{
    char text[256];
    size_t bytes;
    if (token < 0)
        return WEFT_OK;
    TRY(weft_decode(t, &token, 1, false, text, sizeof text, &bytes));
    if (bytes <= sizeof text)
        json_object_set_new(config, name, json_stringn(text, bytes));
    return WEFT_OK;
}

static enum weft_status write_both(const struct weft_tokenizer *t, json_t *config, json_t *generation,
                                   const char *folder)
{
    char path[4200];
    TRY(add_token(config, "bos_token", t, weft_tokenizer_begin(t)));
    TRY(add_token(config, "eos_token", t, weft_tokenizer_end(t)));
    snprintf(path, sizeof path, "%.4095s/tokenizer_config.json", folder);
    TRY(weft_hf_json_write(config, path));
    if (weft_tokenizer_begin(t) >= 0)
        json_object_set_new(generation, "bos_token_id", json_integer(weft_tokenizer_begin(t)));
    if (weft_tokenizer_end(t) >= 0)
        json_object_set_new(generation, "eos_token_id", json_integer(weft_tokenizer_end(t)));
    snprintf(path, sizeof path, "%.4095s/generation_config.json", folder);
    TRY(weft_hf_json_write(generation, path));
    return WEFT_OK;
}

enum weft_status weft_hf_tokenizer(const struct weft_tokenizer *t, int64_t context, const char *folder)
{
    char path[4200];
    if (!t)
        return WEFT_OK;
    snprintf(path, sizeof path, "%.4095s/tokenizer.json", folder);
    TRY(weft_tokenizer_save(t, path));
    json_t *config = json_pack("{s:s, s:I, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "model_max_length",
                               (json_int_t)context, "clean_up_tokenization_spaces", 0);
    json_t *generation = json_object();
    enum weft_status status = config && generation ? write_both(t, config, generation, folder)
                                                   : FAIL(WEFT_NOMEM, "not enough memory for a tokenizer's config");
    json_decref(config);
    json_decref(generation);
    return status;
}
