/* SPDX-License-Identifier: MIT
 *
 * hf_setting.c - converts a value of config.json to a setting.
 */
#include "export/hf/hf.h"

#include <stdio.h>

enum weft_status weft_hf_setting(struct weft_settings *s, const char *name, const json_t *value, const char *where)
{
    char text[160];
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%s=%lld", name, (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, sizeof text, "%s=%.17g", name, json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(text, sizeof text, "%s=%s", name, json_is_true(value) ? "yes" : "no");
    else
        return FAIL(WEFT_FORMAT, "%s: the value of %s is neither a number nor a boolean", where, name);
    return weft_settings_add(s, text);
}
