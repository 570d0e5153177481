/* SPDX-License-Identifier: MIT
 *
 * embed.h - embeds files in the program, so that it needs no data files at run time.
 *
 * Paths are relative to the top of the source tree, where make runs; the Makefile lists the files as dependencies.
 */
#ifndef WEFT_EMBED_H
#define WEFT_EMBED_H

/* Defines weft_embedded_NAME, the NUL-terminated text of a file. */
#define WEFT_EMBED(name, path)                                                                                         \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".hidden weft_embedded_" #name "\n"                                                                        \
            ".global weft_embedded_" #name "\n"                                                                        \
            "weft_embedded_" #name ":\n"                                                                               \
            ".incbin \"" path "\"\n"                                                                                   \
            ".byte 0\n"                                                                                                \
            ".popsection\n");                                                                                          \
    extern const char weft_embedded_##name[]

#endif
