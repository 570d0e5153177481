/* SPDX-License-Identifier: MIT
 *
 * stats.h - statistics of the losses of a few seeds: intervals, p values, and the number of seeds needed to find a
 * difference.
 *
 * Invariants: results depend only on the arguments; no memory stays allocated. Unknown results are NAN, never a guess.
 * An alpha is the accepted probability of an error, two-sided.
 */
#ifndef WEFT_STATS_H
#define WEFT_STATS_H

#include "base/base.h"

struct weft_interval {
    double low, high;
};

/* ---- distributions (distribution.c), with a relative error of 1e-10 in p and in 1 - p */

double weft_beta_cdf(double a, double b, double x);
double weft_beta_quantile(double a, double b, double p);
double weft_t_cdf(double t, double freedom);
double weft_t_quantile(double p, double freedom);
/* Returns the probability that |T| exceeds |t|. */
double weft_t_beyond(double t, double freedom);
/* Returns the Clopper-Pearson interval of a rate, given `hits` in `trials`: its coverage is at least 1 - alpha. */
struct weft_interval weft_rate_interval(int64_t hits, int64_t trials, double alpha);

/* ---- number of seeds (distribution.c). An effect is a mean difference divided by the standard deviation of the paired
 * differences. */

/* Returns the probability that a t test finds an effect, exact for normal noise. */
double weft_power(double effect, int64_t seeds, double alpha);
/* Returns the smallest number of seeds with which four of five studies find an effect; 0: more than WEFT_MOST_SEEDS. */
enum { WEFT_MOST_SEEDS = 1000000 };
int64_t weft_seeds_needed(double effect, double alpha);
/* Returns the smallest effect that four of five studies with `seeds` seeds find; NAN below two seeds. */
double weft_effect_resolved(int64_t seeds, double alpha);

/* ---- several looks at one study (looks.c) */

/* Constants fixed before the first run. A verdict needs WEFT_LEAST_SEEDS seeds: with two, the estimated noise is a
 * matter of chance. */
#define WEFT_FAMILY_ALPHA 0.05
enum { WEFT_MAX_LOOKS = 16, WEFT_LEAST_SEEDS = 3 };
struct weft_looks {
    int64_t comparisons;           /* input: size of the family as planned, even if arms fail */
    int count;                     /* input: number of looks */
    int64_t seeds[WEFT_MAX_LOOKS]; /* input: number of seeds at each look, ascending */
    double alpha[WEFT_MAX_LOOKS];  /* level of a comparison's t test at each look */
};
/* Computes the levels. With these levels, at most 5% of studies of equal arms find a difference in any arm at any look.
 * For one look the level is the family's alpha divided by the number of comparisons; several looks take about a second
 * to simulate. */
enum weft_status weft_looks_init(struct weft_looks *l);

/* ---- comparing arms with a base (stats.c), paired by seed */

struct weft_comparison {
    const double *arm, *base; /* input: losses by seed, in the same order */
    int64_t seeds;            /* input: number of seeds */
    double mean, sd;          /* mean and standard deviation of arm - base; a negative mean: the arm is better */
    double over_noise;        /* mean divided by the standard deviation between seeds, pooled over both arms */
    double p, p_holm;         /* p values of the t test that the mean is 0: alone, and adjusted for the family (Holm);
                               * p_holm is NAN if alpha is set */
    double alpha;             /* input: level of the family's interval; 0: 0.05 divided by the number of comparisons */
    /* t intervals of the mean: at 95% alone, and simultaneously at 95% for the whole family (Bonferroni). NAN for one
     * seed, or if all differences are equal but not 0, because the noise is then unknown. */
    struct weft_interval alone, family;
};
/* Compares `count` arms of a family of `planned` comparisons (at least `count`). Non-finite losses are an error. */
enum weft_status weft_compare(struct weft_comparison *family, int64_t count, int64_t planned);

/* Shortens a comparison of a planned study to the first look that decides it, or else to the last look that its seeds
 * complete, and sets its alpha. The seeds must be the plan's, in order. *look is the number of that look, from 1; 0:
 * not even the first look is complete. */
enum weft_status weft_look(const struct weft_looks *l, struct weft_comparison *c, int *look);

/* ---- the noise of a test set (items.c) */

/* The noise of a loss over the items of a test set, or of the difference of two losses, item by item. */
struct weft_item_noise {
    int64_t items;
    double mean;    /* total cost divided by total weight, like a test loss */
    double error;   /* its standard error over items; NAN for fewer than two items */
    double freedom; /* degrees of freedom of the t distribution */
    /* 95% intervals: of the mean over the population of items, and of the mean over another test set of the same size.
     * NAN if the error is NAN or all items have the same nonzero mean. */
    struct weft_interval interval, another;
};
/* cost[i] is the sum of item i's losses (or of their differences), weight[i] the number of its losses, above 0. */
struct weft_item_noise weft_item_noise(const double *cost, const double *weight, int64_t items);
/* Returns the mean of several means, each over its own test set. */
struct weft_item_noise weft_item_noise_join(const struct weft_item_noise *sets, int64_t count);

/* ---- the same arms at several sizes (ladder.c) */

enum { WEFT_LEAST_RUNGS = 3, WEFT_MAX_RUNGS = 8, WEFT_LADDER_SEEDS = 64 };
/* A multiplier holds if it changes by less than this factor per tenfold increase in compute. */
#define WEFT_TREND_MARGIN 1.1
enum weft_trend { WEFT_TREND_UNKNOWN, WEFT_TREND_HOLDS, WEFT_TREND_GROWS, WEFT_TREND_SHRINKS };
struct weft_estimate_of {
    double value;
    struct weft_interval interval; /* 95% interval, simultaneous for the family */
};
struct weft_ladder {
    int rungs;                                /* input: number of rungs */
    int64_t seeds;                            /* input: number of seeds, the same on every rung */
    int64_t comparisons;                      /* input: size of the family; 0: one */
    const double *base_compute, *arm_compute; /* input: compute of a run on each rung, ascending */
    const double *base, *arm;                 /* input: losses [rungs, seeds] */
    double floor, exponent[2];                /* curves of base and arm: floor + factor * compute^-exponent */
    double residual[2][WEFT_MAX_RUNGS];       /* mean loss minus the curve, for base and arm */
    /* Logarithm of the compute multiplier, which is the compute that the base would need to reach the arm's loss,
     * divided by the arm's compute: at each rung, the mean over rungs, and the growth per e-fold increase in compute.
     * NAN if the arm's loss is below any loss that the base can reach. */
    struct weft_estimate_of multiplier[WEFT_MAX_RUNGS], mean, trend;
    double prediction_error; /* predicted minus measured loss of the base's largest rung, predicted from the smaller
                              * rungs; NAN: too few rungs */
    enum weft_trend verdict;
};
enum weft_status weft_ladder(struct weft_ladder *l);

/* Returns a 95% interval of the mean difference that does not assume a normal distribution. It is a second opinion; the
 * t interval decides. NAN if the t interval is NAN or there are fewer than WEFT_BOOTSTRAP_SEEDS seeds, because
 * resampling cannot show tails that did not occur. */
enum { WEFT_BOOTSTRAP_SEEDS = 8 };
struct weft_interval weft_bootstrap(const struct weft_comparison *c);

#endif
