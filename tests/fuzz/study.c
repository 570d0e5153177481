/* SPDX-License-Identifier: MIT
 *
 * study.c - any bytes as a study's folder: study.json up to the first 0, runs.jsonl behind it. What is accepted can be
 * told as a page, which brings no markup of the files along.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "lab/report/results.h"

#include <string.h>

/* Links to files in memory. */
static char folder[] = "/tmp/weft-fuzz-study-XXXXXX";
static int study = -1, runs = -1;

static void remove_folder(void)
{
    static const char *const names[] = {"study.json", "runs.jsonl"};
    char path[128];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static int link_memory(const char *name)
{
    char path[128], target[64];
    int fd = memfd_create(name, 0);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(target, sizeof target, "/proc/self/fd/%d", fd);
    MUST(fd >= 0 && symlink(target, path) == 0);
    return fd;
}

static void make_folder(void)
{
    MUST(mkdtemp(folder));
    atexit(remove_folder);
    study = link_memory("study.json");
    runs = link_memory("runs.jsonl");
}

static void fill(int fd, const void *data, size_t size)
{
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
}

static void tell(const struct weft_results *r)
{
    struct weft_curves c;
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    MUST(to);
    if (weft_curves_init(&c, r) == WEFT_OK) {
        weft_report_page(r, &c, to);
        MUST(fflush(to) == 0 && !strstr(text, "<hostile"));
        weft_report_markdown(r, to);
        weft_report_csv(r, to);
        weft_results_print(r, to);
    }
    weft_curves_release(&c);
    MUST(fclose(to) == 0);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = memchr(data, 0, size);
    size_t first = zero ? (size_t)(zero - data) : size;
    struct weft_results r;
    if (study < 0)
        make_folder();
    fill(study, data, first);
    fill(runs, data + first + (zero != NULL), size - first - (zero != NULL));
    if (weft_results_load(&r, folder) == WEFT_OK)
        tell(&r);
    weft_results_release(&r);
    return 0;
}
