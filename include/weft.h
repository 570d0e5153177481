/* SPDX-License-Identifier: MIT
 *
 * weft.h - the public interface of libweft, for programs that embed it.
 *
 * Every function that can fail returns a status; weft_error() returns the message of the calling thread's last error.
 * Nothing here exits or prints.
 */
#ifndef WEFT_H
#define WEFT_H

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_API __attribute__((visibility("default")))

enum weft_status {
    WEFT_OK = 0,
    WEFT_INVALID,     /* invalid argument: a bad option, shape or combination */
    WEFT_NOMEM,       /* not enough memory, or a size does not fit in 64 bits */
    WEFT_IO,          /* a file could not be read or written */
    WEFT_FORMAT,      /* the contents of a file or request are invalid */
    WEFT_UNSUPPORTED, /* valid, but not supported on this machine or in this build */
    WEFT_CHECK,       /* a check or gate ran and found a defect */
    WEFT_STOPPED,     /* stopped before it was finished, by a signal or a time limit; what was done is saved */
};

/* "major.minor.patch" of this header and its release date; the Makefile reads both. weft_version() is the library's. */
#define WEFT_VERSION "0.1.0"
#define WEFT_RELEASE_DATE "2026-11-15"
WEFT_API const char *weft_version(void);

/* The message of the calling thread's last error: what is wrong, where, and what to do. Never NULL. Control characters
 * of files and arguments that it quotes are shown as \xNN. */
WEFT_API const char *weft_error(void);
/* The source lines that the error passed through, "at a.c:12, b.c:34", for bug reports. Never NULL. */
WEFT_API const char *weft_error_trace(void);

/* The default number of threads of this process, for what is created later; 0 means one per core that it may use, or
 * fewer if OMP_NUM_THREADS or SLURM_CPUS_PER_TASK says so. Results never depend on it. */
WEFT_API enum weft_status weft_threads_set(int threads);

#ifdef __cplusplus
}
#endif
#endif
