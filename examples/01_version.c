/* SPDX-License-Identifier: MIT
 *
 * 01 - what the library is and what it computes with here.
 *
 *     cc 01_version.c $(pkg-config --cflags --libs weft) && ./a.out
 */
#include <weft.h>

#include <stdio.h>

int main(void)
{
    printf("libweft %s (compiled against %s)\n%s\n", weft_version(), WEFT_VERSION, weft_build_info());
    return 0;
}
