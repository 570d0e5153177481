/* SPDX-License-Identifier: MIT
 *
 * registry.c - finds commands by index and by name.
 */
#include "cmd/cmd.h"

#include <string.h>

static const struct weft_cmd *const commands[] = {
#define CMD(name) &weft_cmd_##name,
#include "cmd/cmds.def"
#undef CMD
};

const struct weft_cmd *weft_cmd_at(int i)
{
    return i < (int)(sizeof commands / sizeof commands[0]) ? commands[i] : NULL;
}

const struct weft_cmd *weft_cmd_find(const char *name)
{
    for (int i = 0; weft_cmd_at(i); i++)
        if (strcmp(name, weft_cmd_at(i)->name) == 0)
            return weft_cmd_at(i);
    return NULL;
}
