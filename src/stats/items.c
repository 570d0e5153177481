/* SPDX-License-Identifier: MIT
 *
 * items.c - the noise of a test set: how much results would vary with different items of the same kind.
 *
 * A test loss is a ratio: the total cost of all items over their total weight (their scored tokens). Its variance is
 * estimated by the jackknife: how much the ratio changes when an item is left out. Long items count for more, so there
 * are fewer degrees of freedom than items: (sum of weights)^2 / (sum of squared weights) - 1, by Kish's effective
 * sample size (Survey Sampling, 1965). With equal weights, both formulas reduce to those for a mean. To compare two
 * models, each cost is the difference between the two models' costs of an item, so that the difficulty of the item
 * cancels.
 */
#include "stats/stats.h"

#include <math.h>

static const struct weft_interval unknown = {NAN, NAN};

/* Returns the jackknife standard error of the ratio; 0 if all items agree up to rounding. */
static double standard_error(const double *cost, const double *weight, int64_t items, double ratio, double all)
{
    double sum = 0, size = 0, n = (double)items;
    for (int64_t i = 0; i < items; i++) {
        double off = (cost[i] - ratio * weight[i]) / (all - weight[i]);
        sum += off * off;
        size += fabs(cost[i]);
    }
    double error = sqrt((n - 1) / n * sum);
    return error < 1e-14 * size / all ? 0 : error;
}

static struct weft_interval around(const struct weft_item_noise *n, double factor)
{
    if (!(n->error > 0 || (n->error == 0 && n->mean == 0)) ||
        !(n->freedom > 1 - 1e-9)) /* effective number of items below two */
        return unknown;
    double half = n->error > 0 ? -weft_t_quantile(WEFT_FAMILY_ALPHA / 2, n->freedom) * factor * n->error : 0;
    return (struct weft_interval){n->mean - half, n->mean + half};
}

/* A second test set would have the same noise, so the difference between the two is sqrt(2) times as noisy. */
static void fill_in(struct weft_item_noise *n)
{
    n->interval = around(n, 1);
    n->another = around(n, sqrt(2));
}

struct weft_item_noise weft_item_noise(const double *cost, const double *weight, int64_t items)
{
    struct weft_item_noise n = {.items = items, .mean = NAN, .error = NAN};
    double all = 0, sum = 0, squares = 0;
    for (int64_t i = 0; i < items; i++) {
        sum += cost[i];
        all += weight[i];
        squares += weight[i] * weight[i];
    }
    if (items > 0 && all > 0)
        n.mean = sum / all;
    if (items > 1 && all > 0) {
        n.error = standard_error(cost, weight, items, n.mean, all);
        n.freedom = all / squares * all - 1;
    }
    fill_in(&n);
    return n;
}

struct weft_item_noise weft_item_noise_join(const struct weft_item_noise *sets, int64_t count)
{
    struct weft_item_noise n = {.mean = count > 0 ? 0 : NAN, .error = count > 0 ? 0 : NAN};
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        n.items += sets[i].items;
        n.freedom += sets[i].freedom;
        n.mean += sets[i].mean / (double)count;
        squares += sets[i].error * sets[i].error;
    }
    if (count > 0)
        n.error = sqrt(squares) / (double)count;
    fill_in(&n);
    return n;
}
