/* SPDX-License-Identifier: MIT
 *
 * progress.c - prints the progress line of a command.
 */
#include "cmd/kit/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PARTS = 20 };

struct weft_words weft_duration(double seconds)
{
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{86400, "days"}, {3600, "hours"}, {60, "minutes"}};
    struct weft_words w;
    for (int i = 0; i < 3; i++)
        if (seconds >= 2 * units[i].seconds) {
            snprintf(w.text, sizeof w.text, "%.*f %s", seconds < 10 * units[i].seconds, seconds / units[i].seconds,
                     units[i].name);
            return w;
        }
    snprintf(w.text, sizeof w.text, "%.0f second%s", ceil(seconds), seconds > 1 ? "s" : "");
    return w;
}

void weft_line_init(struct weft_line *line, double from)
{
    double now = weft_seconds();
    *line = (struct weft_line){.terminal = isatty(STDERR_FILENO), .start = now, .from = from, .printed = now};
}

static bool is_due(const struct weft_line *line, double now, int part)
{
    double since = now - line->printed;
    if (part == PARTS && line->part < PARTS)
        return true; /* the first line after completion */
    if (line->terminal)
        return since >= 0.1;
    return part < 0 ? since >= 10 : part > line->part;
}

/* Cuts the line to the terminal's width, between UTF-8 characters, because a wider line could not be rewritten. */
static void fit(char *text)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
        return;
    for (int column = 0; *text; text++)
        if (((unsigned char)*text & 0xc0) != 0x80 && ++column == size.ws_col) {
            *text = 0;
            return;
        }
}

void weft_line_show(struct weft_line *line, double done, double all, const char *format, ...)
{
    char raw[512], text[1024];
    double now = weft_seconds();
    int part = all > 0 ? (int)(PARTS * done / all) : -1;
    if (!is_due(line, now, part))
        return;
    line->printed = now;
    line->part = part;
    va_list args;
    va_start(args, format);
    vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    double left = done > line->from ? (now - line->start) * (all - done) / (done - line->from) : 0;
    if (left > 0)
        snprintf(raw + strlen(raw), sizeof raw - strlen(raw), "  %s left", weft_duration(left).text);
    weft_text_escape(raw, text, sizeof text);
    if (line->terminal)
        fit(text);
    fprintf(stderr, line->terminal ? "\r%s\033[K" : "%s\n", text);
    line->shown = line->terminal;
}

void weft_line_say(struct weft_line *line, const char *format, ...)
{
    char raw[2048], text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    weft_text_escape(raw, text, sizeof text);
    fprintf(stderr, "%s%s\n", line->shown ? "\r\033[K" : "", text);
    line->shown = false; /* until the next line is due */
}

void weft_line_end(struct weft_line *line)
{
    if (line->shown)
        fputc('\n', stderr);
    line->shown = false;
}
