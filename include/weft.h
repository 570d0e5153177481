/* SPDX-License-Identifier: MIT
 *
 * weft.h - the public face of libweft: what a program that embeds it needs.
 *
 * Every function that can fail returns a status; the readable story of the last failure of the calling thread is
 * weft_error(). Nothing here exits or prints.
 */
#ifndef WEFT_H
#define WEFT_H

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_API __attribute__((visibility("default")))

enum weft_status {
    WEFT_OK = 0,
    WEFT_INVALID,     /* the caller asked for something that cannot be: a bad option, shape or combination */
    WEFT_NOMEM,       /* memory could not be had, or a size does not fit 64 bits */
    WEFT_IO,          /* a file could not be read or written */
    WEFT_FORMAT,      /* a file or request was read but says something it must not */
    WEFT_UNSUPPORTED, /* right, but not on this machine or in this build */
    WEFT_CHECK,       /* a check or gate ran and found a defect */
    WEFT_STOPPED,     /* stopped before it was finished, by a signal or a time limit; what was done is saved */
};

/* "major.minor.patch" of this header; the Makefile reads it here too. The linked library's is weft_version(). */
#define WEFT_VERSION "0.1.0"
WEFT_API const char *weft_version(void);

/* One paragraph on the last failure of the calling thread: what, where it passed through, what to do. Never NULL. */
WEFT_API const char *weft_error(void);

/* Threads for every later computation; 0 means one per core this process may use. Results never depend on it. */
WEFT_API enum weft_status weft_threads_set(int threads);

#ifdef __cplusplus
}
#endif
#endif
