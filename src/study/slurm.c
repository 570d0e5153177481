/* SPDX-License-Identifier: MIT
 *
 * slurm.c - writes a study as an array job: a script for sbatch in which every task is a run.
 */
#include "ckpt/ckpt.h"
#include "study/study.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Prints one argument, quoted for a shell. */
static void quote(FILE *to, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@";
    if (*text && !text[strspn(text, plain)]) {
        fputs(text, to);
        return;
    }
    fputc('\'', to);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", to);
        else
            fputc(*text, to);
    fputc('\'', to);
}

void weft_shell_words(const char *const *words, FILE *to)
{
    for (int i = 0; words[i]; i++) {
        if (i)
            fputc(' ', to);
        quote(to, words[i]);
    }
}

static void write_script(const struct weft_study *s, const char *program, const char *here,
                         const char *const *arguments, int threads, FILE *to)
{
    int64_t screening = weft_study_screening(s), runs = weft_study_runs(s);
    fprintf(to, "#!/bin/sh\n#SBATCH --job-name=weft-%s\n#SBATCH --array=0-%lld\n#SBATCH --cpus-per-task=%d\n", s->name,
            (long long)(screening ? screening : runs) - 1, threads);
    if (screening)
        fprintf(to,
                "# These runs choose learning rates. Then submit the runs that are judged: sbatch --array=%lld-%lld\n",
                (long long)screening, (long long)runs - 1);
    fputs("# Submit this again to continue runs that were stopped; `weft report` shows the results.\ncd ", to);
    quote(to, here);
    fputs(" || exit 1\nexec ", to);
    quote(to, program);
    fputc(' ', to);
    weft_shell_words(arguments, to);
    fputs(" --threads \"$SLURM_CPUS_PER_TASK\" --run \"$SLURM_ARRAY_TASK_ID\"\n", to);
}

enum weft_status weft_study_slurm(const struct weft_study *s, const char *path, const char *const *arguments,
                                  int threads)
{
    char program[4096], here[4096], *text = NULL;
    size_t bytes;
    TRY(weft_program_path(program));
    if (!getcwd(here, sizeof here))
        return FAIL(WEFT_IO, "the path of this folder cannot be read: %s", strerror(errno));
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        write_script(s, program, here, arguments, threads, to);
    enum weft_status status = to && weft_output_close(to) ? weft_file_replace(path, text, bytes)
                                                          : FAIL(WEFT_NOMEM, "not enough memory for %s", path);
    free(text);
    return status;
}
