/* SPDX-License-Identifier: MIT
 *
 * shards.h - writes token files in the scratch folder, for tests that read them.
 */
#ifndef WEFT_TEST_SHARDS_H
#define WEFT_TEST_SHARDS_H

#include "test.h"
#include "text/text.h"

static inline void save(const char *name, const void *header, size_t header_bytes, const void *tokens, size_t bytes)
{
    FILE *f = fopen(in_scratch(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(header, 1, header_bytes, f), header_bytes);
    assert_int_equal(fwrite(tokens, 1, bytes, f), bytes);
    fclose(f);
}

static inline void save_llmc(const char *name, int width, int32_t count, const void *tokens)
{
    int32_t header[256] = {width == 2 ? 20240520 : 20240801, width == 2 ? 1 : 7, count};
    save(name, header, sizeof header, tokens, (size_t)count * (size_t)width);
}

/* Writes the tokens first, first + 1, .. of a split to files of growing size and both widths, so that the tokens of a
 * window show its position. Returns the number of files. */
static inline int save_counting(const char *split, int32_t first, int32_t count)
{
    int files = 0;
    for (int32_t done = 0, size; done < count; done += size, files++) {
        char name[64];
        uint16_t narrow[2048];
        uint32_t wide[2048];
        size = (int32_t)weft_min(weft_min(1 + 13 * files * files, 2048), count - done);
        for (int32_t i = 0; i < size; i++)
            narrow[i] = (uint16_t)(wide[i] = (uint32_t)(first + done + i));
        snprintf(name, sizeof name, "%s_%06d.bin", split, files);
        save_llmc(name, files % 2 ? 4 : 2, size, files % 2 ? (void *)wide : narrow);
    }
    return files;
}

/* The index of the window that starts with these tokens, as written by save_counting from `first` on. */
static inline int64_t window_of(const int32_t *tokens, int64_t length, int32_t first)
{
    assert_true(tokens[0] >= first);
    assert_int_equal((tokens[0] - first) % length, 0);
    for (int64_t i = 1; i < length; i++)
        assert_int_equal(tokens[i], tokens[0] + i);
    return (tokens[0] - first) / length;
}

#endif
