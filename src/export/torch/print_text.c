/* SPDX-License-Identifier: MIT
 *
 * print_text.c - text in the printer's arena: numbers, long texts and calls.
 */
#include "export/torch/print.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *weft_torch_text(struct weft_torch_printer *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    char *text = p->status == WEFT_OK ? weft_arena_alloc(&p->arena, (size_t)length + 1) : NULL;
    if (!text) {
        p->status = p->status == WEFT_OK ? WEFT_NOMEM : p->status;
        return "";
    }
    va_start(list, format);
    vsnprintf(text, (size_t)length + 1, format, list);
    va_end(list);
    return text;
}

/* ---- numbers */

const char *weft_torch_real(struct weft_torch_printer *p, double value)
{
    char text[40];
    if (isinf(value))
        return value < 0 ? "-torch.inf" : "torch.inf";
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return weft_torch_text(p, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

/* ---- long text */

void weft_torch_open(struct weft_torch_printer *p, struct weft_torch_output *o)
{
    *o = (struct weft_torch_output){.before = p->out};
    p->out = open_memstream(&o->text, &o->bytes);
    if (!p->out && p->status == WEFT_OK)
        p->status = FAIL(WEFT_NOMEM, "not enough memory to print the model");
}

const char *weft_torch_close(struct weft_torch_printer *p, struct weft_torch_output *o)
{
    if (p->out)
        fclose(p->out);
    p->out = o->before;
    const char *text = weft_torch_text(p, "%s", o->text ? o->text : "");
    free(o->text);
    return text;
}

static const char *spaces(int count) { return &"            "[12 - count]; }

const char *weft_torch_call(struct weft_torch_printer *p, int indent, const char *start, const char *const *args,
                            int count, const char *end)
{
    const char *all = "", *lines = "", *in = spaces(indent);
    for (int i = 0; i < count; i++) {
        all = weft_torch_text(p, "%s%s%s", all, i ? ", " : "", args[i]);
        lines = weft_torch_text(p, "%s%s    %s,\n", lines, in, args[i]);
    }
    if ((size_t)indent + strlen(start) + strlen(all) + strlen(end) + 2 <= 120)
        return weft_torch_text(p, "%s%s(%s)%s\n", in, start, all, end);
    if ((size_t)indent + 4 + strlen(all) <= 120)
        lines = weft_torch_text(p, "%s    %s\n", in, all);
    return weft_torch_text(p, "%s%s(\n%s%s)%s\n", in, start, lines, in, end);
}
