/* SPDX-License-Identifier: MIT
 *
 * progress.h - shows the progress of a command on stderr: on a terminal as one line that is rewritten, otherwise as at
 * most twenty plain lines, or one every ten seconds if the total is unknown.
 */
#ifndef WEFT_CMD_PROGRESS_H
#define WEFT_CMD_PROGRESS_H

#include "base/base.h"

struct weft_line {
    bool terminal;
    double start; /* start time */
    double from;  /* amount done before the start */
    /* Internal: */
    bool shown;     /* the terminal's line has text */
    double printed; /* time of the last print */
    int part;       /* completed twentieths at the last print; -1: unknown total */
};
void weft_line_init(struct weft_line *line, double from);
/* Shows progress: the amount `done` of the total `all`, in any unit; all = 0: the total is unknown. The remaining time
 * follows the message if it is known. */
void weft_line_show(struct weft_line *line, double done, double all, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Prints a permanent message on its own line. */
void weft_line_say(struct weft_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the line, so that further output begins on a new line. */
void weft_line_end(struct weft_line *line);

struct weft_words {
    char text[40];
};
struct weft_words weft_duration(double seconds); /* "3.5 hours" */

#endif
