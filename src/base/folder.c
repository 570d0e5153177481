/* SPDX-License-Identifier: MIT
 *
 * folder.c - folders, made with all folders above them.
 */
#include "base/base.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum weft_status weft_folder_make_above(const char *path)
{
    char above[PATH_MAX];
    for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
        int n = (int)(slash - path);
        if (n >= PATH_MAX)
            return FAIL(WEFT_INVALID, "a path of %zu bytes is too long", strlen(path));
        snprintf(above, sizeof above, "%.*s", n, path);
        if (mkdir(above, 0777) && errno != EEXIST)
            return FAIL(WEFT_IO, "the folder %s cannot be made: %s", above, strerror(errno));
    }
    return WEFT_OK;
}

enum weft_status weft_folder_make(const char *path)
{
    TRY(weft_folder_make_above(path));
    if (mkdir(path, 0777) && errno != EEXIST)
        return FAIL(WEFT_IO, "the folder %s cannot be made: %s", path, strerror(errno));
    return WEFT_OK;
}
