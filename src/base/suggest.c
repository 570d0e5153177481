/* SPDX-License-Identifier: MIT
 *
 * suggest.c - finds the closest name by edit distance, for "did you mean". A prefix of a name counts as close.
 */
#include "base/base.h"

#include <string.h>

enum { LONGEST = 63 };

/* Returns the Levenshtein distance, computed row by row. Names longer than LONGEST are never close to any other. */
static int distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b), row[LONGEST + 1];
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int above = row[j], swap = diagonal + (a[i - 1] != b[j - 1]);
            row[j] = (int)weft_min(swap, weft_min(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[m];
}

/* Returns whether one is a prefix of the other, of at least three characters. */
static bool is_prefix(const char *a, const char *b)
{
    size_t n = (size_t)weft_min((int64_t)strlen(a), (int64_t)strlen(b));
    return n >= 3 && strncmp(a, b, n) == 0;
}

const char *weft_suggest(const char *wrong, const char *const *names, int count)
{
    const char *best = NULL;
    int best_distance = (int)strlen(wrong) / 2 + 1;
    for (int i = 0; i < count; i++) {
        int d = is_prefix(wrong, names[i]) ? 1 : distance(wrong, names[i]);
        if (d < best_distance) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}
