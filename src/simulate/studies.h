/* SPDX-License-Identifier: MIT
 *
 * studies.h - shared by the files of this room: the simulated studies, their expected results, and their runs.
 */
#ifndef WEFT_SIMULATED_STUDIES_H
#define WEFT_SIMULATED_STUDIES_H

#include "check/probe/gate.h"
#include "study/study.h"

/* ---- the studies (studies.c) */

enum { WEFT_SIM_ARMS = 5, WEFT_SIM_RATES = 5, WEFT_SIM_LOOKS = 3, WEFT_SIM_RUNS = 256 };

/* Special behaviour of an arm. */
enum weft_sim_quirk {
    WEFT_SIM_PLAIN,
    WEFT_SIM_OTHER_SAMPLES, /* its runs read the samples of the next seed */
    WEFT_SIM_SAME_SAMPLES,  /* its second seed reads the samples of its first seed */
    WEFT_SIM_OTHER_WEIGHTS, /* its last run started with different values of a weight that the first arm also has */
    WEFT_SIM_NO_EFFECT,     /* it has the scores of the first arm */
    WEFT_SIM_ONE_EQUAL,     /* its first seed has the scores of the first arm */
    WEFT_SIM_OTHER_BITS,    /* it repeats an arm, but its last run has different weights */
};

struct weft_sim_arm {
    const char *name;
    double effect;       /* difference in test loss from the first arm, without noise */
    double noise;        /* standard deviation of that difference between seeds */
    int best;            /* index of the learning rate with the smallest mean validation loss */
    const char *verdict; /* verdict that the report must have */
    enum weft_sim_quirk quirk;
    bool close;  /* resolved alone, but not after the correction for several arms */
    int tie;     /* index plus 1 of a later learning rate that is exactly as good as the best; 0: none */
    int repeats; /* index plus 1 of the arm that it repeats; 0: none */
};

struct weft_sim_study {
    const char *name;
    const char *steps; /* steps of the RA-MLA study, whose arms are named step0 and so on; NULL: arms differ in width */
    int arm_count;
    struct weft_sim_arm arm[WEFT_SIM_ARMS];
    int64_t first_seed, seeds, screen_seeds;
    int rate_count; /* 0: the learning rate of the recipe */
    double rate[WEFT_SIM_RATES];
    int look_count; /* 0: one look, after all seeds */
    int64_t look[WEFT_SIM_LOOKS];
    bool fails; /* whether one run fails, identified by the next three fields */
    int failing_arm;
    double failing_rate; /* 0: any */
    int64_t failing_seed;
    bool strays;     /* whether its ledger also has lines for runs that are not in the plan */
    int64_t trained; /* number of judged seeds trained by the end of the study */
};

const struct weft_sim_study *weft_sim_study_at(int i); /* NULL past the last */
/* Returns a normally distributed random number, a function of three integers. */
double weft_sim_normal(uint64_t a, uint64_t b, uint64_t c);
/* Return the losses of a run. */
double weft_sim_test_loss(const struct weft_sim_study *s, int arm, double rate, int64_t seed);
double weft_sim_val_loss(const struct weft_sim_study *s, int arm, double rate, int64_t seed);
/* The learning rate of all arms if the study does not screen rates. */
#define WEFT_SIM_RATE 1e-3
/* Offset from the first seed to the first screening seed, see docs/studies.md. */
enum { WEFT_SIM_SCREENING = 2000 };
bool weft_sim_fails(const struct weft_sim_study *s, int arm, double rate, int64_t seed);

/* ---- plain statistics (naive.c) */

/* Returns the limit that |t| exceeds with probability alpha, for Student's t. */
double weft_naive_limit(double alpha, int64_t freedom);
/* Returns the probability that |T| exceeds |t|. */
double weft_naive_beyond(double t, int64_t freedom);
/* Computes the level of the t test at each look from simulated studies of equal arms, to within a few percent. */
enum weft_status weft_naive_levels(const int64_t *seeds, int looks, double alpha, double *level);

/* ---- expected results (expected.c) */

struct weft_expected {
    int64_t seeds; /* number of judged seeds trained so far */
    int comparisons;
    double level[WEFT_SIM_LOOKS];
    struct weft_expected_arm {
        double rate;
        bool edge;
        int64_t finished; /* number of finished judged runs */
        double loss, sd;  /* mean and standard deviation of their test losses */
        int64_t pairs;    /* number of compared pairs; 0: the fields below are unknown */
        int look;         /* number of the look that gave the results, from 1 */
        double mean, pair_sd, over_noise;
        double p, p_holm;   /* NAN: not known */
        double alone, half; /* half-widths of the interval: alone, and for the family (only with one look) */
        const char *verdict;
    } arm[WEFT_SIM_ARMS];
};
/* Computes the expected results after this number of judged seeds; `retried`: whether the failing run was trained again
 * and has finished. */
void weft_expect(const struct weft_sim_study *s, int64_t seeds, bool retried, const double *level,
                 struct weft_expected *e);

/* ---- runs (runs.c) */

struct weft_sim_trained {
    int arm;
    double rate;
    int64_t seed;
};
/* The runs that a queue has started, in order. */
struct weft_simulation {
    const struct weft_sim_study *of;
    const struct weft_study *study;
    const char *plan_sha256, *program_sha256;
    bool retried;     /* the failing run no longer fails */
    int retried_from; /* number of runs before `retried` was set */
    int first, count; /* index of this queue's first run; total number of runs */
    struct weft_sim_trained run[WEFT_SIM_RUNS];
    enum weft_status status; /* status of writing files */
};
struct weft_job;
/* Writes the files of a run in place of training it (weft_simulate_fn). */
int weft_sim_run(void *simulation, const struct weft_job *job, const char *folder);
/* Adds to the ledger, before or after the lines of all runs, lines that the report must ignore. */
enum { WEFT_SIM_STRAYS_BEFORE = 1 };
enum weft_status weft_sim_add_strays(const struct weft_simulation *m, const char *folder, bool before);
int weft_sim_count_strays(const struct weft_sim_study *s);

/* ---- comparing */

struct weft_results;
struct weft_sim_case {
    const struct weft_trial *trial;
    const struct weft_sim_study *of;
    const struct weft_expected *expected; /* expected results after the last seed */
    const struct weft_expected *stage;    /* [look_count], expected results after the seeds of each look */
    const struct weft_simulation *runs;
};
/* The largest deviation of a check, its limit, and where it occurred. */
struct weft_sim_worst {
    double figure, limit;
    char where[160];
};
/* Reports a check of this study. */
void weft_sim_report(const struct weft_sim_case *c, const char *name, const struct weft_sim_worst *w);
/* Notes a deviation if it is the largest so far. Two NANs count as equal. */
void weft_sim_note(struct weft_sim_worst *w, double found, double expected, const char *arm, const char *what);
/* Notes a string that differs. */
void weft_sim_note_text(struct weft_sim_worst *w, const char *found, const char *expected, const char *arm,
                        const char *what);

/* Compare with the expected results: the runs and choices of the queue (compare_queue.c), the conclusions of the report
 * (compare_results.c), and its files (compare_files.c). */
enum weft_status weft_sim_compare_queue(const struct weft_sim_case *c, const struct weft_study *s, const char *folder);
void weft_sim_compare_results(const struct weft_sim_case *c, const struct weft_results *r);
enum weft_status weft_sim_compare_files(const struct weft_sim_case *c, const struct weft_results *r);

#endif
