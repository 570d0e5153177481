/* SPDX-License-Identifier: MIT
 *
 * verify_rank.c - finds a rank with broken arithmetic: every verify_every steps each rank also computes one group of
 * the next rank, a different one every time, and both results must be bit-identical. So a fault that affects a group is
 * found within (groups of a rank) x verify_every steps, before it changes a weight. The check costs one additional
 * group in such a step.
 *
 * A difference between two ranks does not show which of them is wrong. So all ranks then compute that group, and the
 * majority is assumed to be right.
 */
#include "train/ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

bool weft_neighbour_due(const struct weft_learner *t)
{
    return t->comm->size > 1 && t->verify_every && (t->step + 1) % t->verify_every == 0;
}

int64_t weft_neighbour_group(const struct weft_learner *t, int rank)
{
    int64_t groups = weft_recipe_groups(t->recipe), first = weft_rank_first(groups, rank, t->comm->size);
    int64_t count = weft_rank_first(groups, rank + 1, t->comm->size) - first;
    return first + (t->step + 1) / t->verify_every % count;
}

void weft_sum_hash(const struct weft_learner *t, const struct weft_sum *sum, char hex[65])
{
    struct weft_sha256 sha;
    weft_array_hash(&t->model->params, sum->grads, hex);
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, hex, 64);
    for (int i = 0; i < sum->losses.count; i++)
        weft_sha256_add(&sha, &sum->losses.list[i].value, sizeof(double));
    weft_sha256_hex(&sha, hex);
}

/* Returns the number of ranks with the same hash as this rank. */
static int count_same(char (*all)[64], int size, int rank)
{
    int same = 0;
    for (int r = 0; r < size; r++)
        same += memcmp(all[r], all[rank], sizeof *all) == 0;
    return same;
}

/* Names the ranks that differ from the majority or, without a majority, all ranks. */
static void name_wrong(char (*all)[64], int size, char *text, size_t room)
{
    int most = 0;
    for (int r = 0; r < size; r++)
        most = (int)weft_max(most, count_same(all, size, r));
    bool majority = 2 * most > size;
    size_t used = 0;
    *text = 0;
    for (int r = 0; r < size && used < room; r++)
        if (!majority || count_same(all, size, r) < most)
            used += (size_t)snprintf(text + used, room - used, "%s%d", used ? majority ? " and " : " or " : "", r);
}

static enum weft_status gather_hash(const struct weft_learner *t, const char *hash, char (**all)[64])
{
    *all = calloc((size_t)t->comm->size, sizeof **all);
    if (!*all)
        return FAIL(WEFT_NOMEM, "not enough memory for the hashes of %d ranks", t->comm->size);
    memcpy((*all)[t->comm->rank], hash, 64);
    t->comm->phase = "comparing gradients with a neighbour's";
    return weft_comm_gather(t->comm, *all, sizeof **all);
}

/* Computes a group on all ranks and names the ranks whose results are wrong. */
static enum weft_status find_wrong(struct weft_learner *t, int64_t group, weft_group_fn *sum_group)
{
    char hash[65], names[256], (*all)[64] = NULL;
    enum weft_status status = sum_group(t, group, &t->sums[0]);
    if (status == WEFT_OK) {
        weft_sum_hash(t, &t->sums[0], hash);
        status = gather_hash(t, hash, &all);
    }
    if (status == WEFT_OK) {
        name_wrong(all, t->comm->size, names, sizeof names);
        status = FAIL(WEFT_CHECK,
                      "step %lld: the gradient of group %lld differs on rank %s: its host makes errors or "
                      "runs a different build. This step changed no weight; continue without that rank",
                      (long long)t->step + 1, (long long)group, *names ? names : "(none when it was recomputed)");
    }
    free(all);
    return status;
}

enum weft_status weft_neighbour_compare(struct weft_learner *t, const char own[65], const char next[65],
                                        weft_group_fn *sum_group)
{
    char(*owns)[64] = NULL, (*nexts)[64] = NULL;
    int size = t->comm->size;
    enum weft_status status = gather_hash(t, own, &owns);
    if (status == WEFT_OK)
        status = gather_hash(t, next, &nexts);
    for (int r = 0; status == WEFT_OK && r < size; r++)
        if (memcmp(nexts[r], owns[(r + 1) % size], sizeof *owns) != 0)
            status = find_wrong(t, weft_neighbour_group(t, (r + 1) % size), sum_group);
    free(owns);
    free(nexts);
    return status;
}
