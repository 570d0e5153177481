/* SPDX-License-Identifier: MIT
 *
 * slurp.c - small files whole: configs, of which a large one is a mistake or an attack.
 */
#include "base/base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 20 };

enum weft_status weft_slurp(const char *path, char **text, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return FAIL(WEFT_IO, "%s cannot be read: %s", path, strerror(errno));
    *text = malloc(LARGEST + 2);
    errno = 0;
    *size = *text ? fread(*text, 1, LARGEST + 1, f) : 0;
    int error = ferror(f) ? errno : 0;
    fclose(f);
    if (!*text)
        return FAIL(WEFT_NOMEM, "no memory to read %s", path);
    if (error)
        return FAIL(WEFT_IO, "%s cannot be read: %s", path, strerror(error));
    if (*size > LARGEST)
        return FAIL(WEFT_FORMAT, "%s is larger than %d bytes: it is no config file", path, LARGEST);
    (*text)[*size] = '\0';
    return WEFT_OK;
}
