/* SPDX-License-Identifier: MIT
 *
 * stats.h - what can be concluded from the losses of a few seeds: intervals, p values, how many seeds a difference
 * needs.
 *
 * Invariants: results depend only on the arguments; nothing stays allocated. What cannot be known is NAN, never a
 * guess. An alpha is the accepted probability of an error, for both sides together.
 */
#ifndef WEFT_STATS_H
#define WEFT_STATS_H

#include "base/base.h"

struct weft_interval {
    double low, high;
};

/* ---- distributions (distribution.c), with a relative error of 1e-10 in the value and in one minus it */

double weft_beta_cdf(double a, double b, double x);
double weft_beta_quantile(double a, double b, double p);
double weft_t_cdf(double t, double freedom);
double weft_t_quantile(double p, double freedom);
/* The probability that |T| exceeds |t|. */
double weft_t_beyond(double t, double freedom);
/* The interval of a rate after `hits` in `trials` (Clopper and Pearson): covers it in at least 1 - alpha of all cases.
 */
struct weft_interval weft_rate_interval(int64_t hits, int64_t trials, double alpha);

/* ---- how many seeds (distribution.c). An effect is a mean difference divided by the standard deviation of the paired
 * differences. */

/* The probability that a t test finds an effect: exact for normal noise. */
double weft_power(double effect, int64_t seeds, double alpha);
/* The smallest number of seeds that finds an effect in four of five studies; 0: more than WEFT_MOST_SEEDS. */
enum { WEFT_MOST_SEEDS = 1000000 };
int64_t weft_seeds_needed(double effect, double alpha);
/* The smallest effect that this many seeds find in four of five studies; NAN below two. */
double weft_effect_resolved(int64_t seeds, double alpha);

/* ---- several looks at one study (looks.c) */

/* What a plan fixes before the first run. A verdict needs the least seeds; two show a noise by chance. */
#define WEFT_FAMILY_ALPHA 0.05
enum { WEFT_MAX_LOOKS = 16, WEFT_LEAST_SEEDS = 3 };
struct weft_looks {
    int64_t comparisons;           /* input: of the family, whatever becomes of its arms */
    int count;                     /* input */
    int64_t seeds[WEFT_MAX_LOOKS]; /* input: after how many seeds, ascending */
    double alpha[WEFT_MAX_LOOKS];  /* the level of the t test of one comparison at each look */
};
/* Fills in the levels. With these, at most 5 % of studies of equal arms find a difference, at any look and in any arm.
 * One look: the family's alpha divided by its comparisons. Several: takes a second of simulation. */
enum weft_status weft_looks_init(struct weft_looks *l);

/* ---- comparing arms with a base (stats.c), paired by seed */

struct weft_comparison {
    const double *arm, *base; /* input: losses, in the same order of seeds */
    int64_t seeds;            /* input */
    double mean, sd;          /* of arm - base: below 0 the arm is better */
    double over_noise;        /* mean divided by the standard deviation between seeds, of both arms together */
    double p, p_holm;         /* of the t test that the mean is 0: alone, and adjusted for the family (Holm); with an
                               * alpha of its own the latter is NAN */
    double alpha;             /* input: of the family's interval; 0: 0.05 divided by the number of comparisons */
    /* Of the mean, by the t test: alone at 95 %, and wide enough that all intervals of the family hold together in 95 %
     * (Bonferroni). NAN for one seed, or if all differences are the same but not 0: then the noise is not known. */
    struct weft_interval alone, family;
};
/* These comparisons belong to a family of `planned`, at least `count`. Refuses losses that are not finite. */
enum weft_status weft_compare(struct weft_comparison *family, int64_t count, int64_t planned);

/* Shortens a comparison of a planned study to the first look that decides it, or else to the last that its seeds
 * complete, and sets its alpha: the seeds must be the plan's, in order. Returns the number of the look, from 1; 0: not
 * even the first is complete. */
enum weft_status weft_look(const struct weft_looks *l, struct weft_comparison *c, int *look);

/* ---- the noise of a test set (items.c) */

/* Of a loss over the items of a test, or of the difference of two losses, item by item. */
struct weft_item_noise {
    int64_t items;
    double mean;    /* what all items cost over what they weigh, as a test loss is */
    double error;   /* its standard error, over items; NAN: fewer than two of them */
    double freedom; /* degrees of freedom of the t distribution */
    /* 95 %: the mean over all items that the test set could have had, and the mean over another test set of as many.
     * NAN where the error is, and if all items agree on a mean that is not 0. */
    struct weft_interval interval, another;
};
/* `cost` is the sum of an item's losses (or of their differences), `weight` the number of its losses, above 0. */
struct weft_item_noise weft_item_noise(const double *cost, const double *weight, int64_t items);
/* The mean of several means, each over a test set of its own. */
struct weft_item_noise weft_item_noise_join(const struct weft_item_noise *sets, int64_t count);

/* ---- the same arms at several sizes (ladder.c) */

enum { WEFT_LEAST_RUNGS = 3, WEFT_MAX_RUNGS = 8, WEFT_LADDER_SEEDS = 64 };
/* A multiplier that changes by less than this factor per tenfold compute holds. */
#define WEFT_TREND_MARGIN 1.1
enum weft_trend { WEFT_TREND_UNKNOWN, WEFT_TREND_HOLDS, WEFT_TREND_GROWS, WEFT_TREND_SHRINKS };
struct weft_estimate_of {
    double value;
    struct weft_interval interval; /* 95 %, of the family together */
};
struct weft_ladder {
    int rungs;                                /* input */
    int64_t seeds;                            /* input: the same on every rung */
    int64_t comparisons;                      /* input: of the family; 0: one */
    const double *base_compute, *arm_compute; /* input: of a run on each rung, ascending */
    const double *base, *arm;                 /* input: losses [rungs, seeds] */
    double floor, exponent[2];                /* of base and arm: floor + factor * compute^-exponent */
    double residual[2][WEFT_MAX_RUNGS];       /* of base and arm: mean loss - curve */
    /* The logarithm of the factor by which the base would need more compute for the arm's loss, and of its growth:
     * per e-fold compute, over all rungs. NAN where the arm is below what the base can reach. */
    struct weft_estimate_of multiplier[WEFT_MAX_RUNGS], mean, trend;
    double prediction_error; /* of the base's largest rung, from the smaller ones: predicted - measured; NAN: too few */
    enum weft_trend verdict;
};
enum weft_status weft_ladder(struct weft_ladder *l);

/* A 95 % interval of the mean difference that does not assume a normal distribution: as a second opinion, since the t
 * interval decides. NAN where that is NAN, and below this many seeds: resampling cannot show tails that did not occur.
 */
enum { WEFT_BOOTSTRAP_SEEDS = 8 };
struct weft_interval weft_bootstrap(const struct weft_comparison *c);

#endif
