/* SPDX-License-Identifier: MIT
 *
 * kconfig.c - any bytes as a study's config: if it is accepted, it has arms, and reading it again gives the same study.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "study/study.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct weft_study study, again;
    const char *path = fuzz_file(data, size);
    if (weft_study_init(&study, path, NULL) == WEFT_OK) {
        MUST(study.arm_count > 0 && study.seeds > 0 && *study.name);
        MUST(weft_study_kept(&study, path) == WEFT_OK);
        MUST(weft_study_init(&again, path, NULL) == WEFT_OK && again.arm_count == study.arm_count);
        for (int i = 0; i < study.arm_count; i++)
            MUST(strcmp(study.arm[i].name, again.arm[i].name) == 0 && study.arm[i].repeats < i);
        weft_study_release(&again);
    }
    weft_study_release(&study);
    return 0;
}
