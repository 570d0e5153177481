/* SPDX-License-Identifier: MIT
 *
 * stats.h - what losses of a few seeds allow one to say: intervals, chances, the seeds a difference takes, verdicts.
 *
 * Invariants: functions of their arguments alone; nothing is allocated. What cannot be told is NAN, never a guess. An
 * alpha is the chance of being wrong that is accepted, both sides together.
 */
#ifndef WEFT_STATS_H
#define WEFT_STATS_H

#include "base/base.h"

struct weft_interval {
    double low, high;
};

/* ---- distributions (distribution.c), to 1e-10 of the value and of one minus it */

double weft_beta_cdf(double a, double b, double x);
double weft_beta_quantile(double a, double b, double p);
double weft_t_cdf(double t, double freedom);
double weft_t_quantile(double p, double freedom);
/* The chance that |T| exceeds |t|. */
double weft_t_beyond(double t, double freedom);
/* Of a rate, when `hits` of `trials` were seen (Clopper and Pearson): right in at least 1 - alpha of all cases. */
struct weft_interval weft_rate_interval(int64_t hits, int64_t trials, double alpha);

/* ---- how many seeds (distribution.c). An effect is a difference over the standard deviation of paired differences. */

/* The chance that a t test finds an effect: exact for normal noise. */
double weft_power(double effect, int64_t seeds, double alpha);
/* The fewest seeds that find an effect in four of five studies; 0: more than WEFT_MOST_SEEDS. */
enum { WEFT_MOST_SEEDS = 1000000 };
int64_t weft_seeds_needed(double effect, double alpha);
/* The smallest effect that so many seeds find in four of five studies; NAN below two. */
double weft_effect_resolved(int64_t seeds, double alpha);

/* ---- comparing arms with a base (stats.c), paired by seed */

struct weft_comparison {
    const double *arm, *base; /* in: losses, in the same order of seeds */
    int64_t seeds;            /* in */
    double mean, sd;          /* of arm - base: below 0 the arm is better */
    double over_noise;        /* mean over the deviation between seeds, of both arms together */
    double p, p_holm;         /* that the mean is 0, by the t test: alone, and in the family (Holm) */
    double alpha;             /* of the family's interval: 0.05 over the number of comparisons */
    /* Of the mean, by the t test: alone at 95 %, and so wide that all of the family's hold at once in 95 %
     * (Bonferroni). NAN from one seed, or when all differences are the same but not 0: the noise is not known then. */
    struct weft_interval alone, family;
};
/* All comparisons that are made of a study belong into one family. Refuses losses that are not finite. */
enum weft_status weft_compare(struct weft_comparison *family, int64_t count);

/* Of the mean difference without assuming a normal distribution, at 95 %: a look from another side, for the t interval
 * decides. NAN where that is, and below so many seeds: resampling cannot show tails it has not seen. */
enum { WEFT_BOOTSTRAP_SEEDS = 8 };
struct weft_interval weft_bootstrap(const struct weft_comparison *c);

#endif
