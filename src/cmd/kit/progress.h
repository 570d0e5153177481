/* SPDX-License-Identifier: MIT
 *
 * progress.h - how far a command is, on stderr: on a terminal one line that is rewritten, elsewhere at most twenty
 * plain lines, or one every ten seconds where nobody knows how much there is.
 */
#ifndef WEFT_CMD_PROGRESS_H
#define WEFT_CMD_PROGRESS_H

#include "base/base.h"

struct weft_line {
    bool terminal;
    double start; /* when */
    double from;  /* what was done before */
    /* Its own: */
    bool shown;     /* there is text in the terminal's line */
    double printed; /* when */
    int part;       /* of twenty, when it was printed; -1: nobody knows */
};
void weft_line_init(struct weft_line *line, double from);
/* `done` of `all` in any unit; all = 0: nobody knows. The time left follows the message where it is known. */
void weft_line_show(struct weft_line *line, double done, double all, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A message that stays, in a line of its own. */
void weft_line_say(struct weft_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What is printed next begins a new line. */
void weft_line_end(struct weft_line *line);

struct weft_words {
    char text[40];
};
struct weft_words weft_duration(double seconds); /* "3.5 hours" */

#endif
