/* SPDX-License-Identifier: MIT
 *
 * studies.c - the simulated studies, with their known answers, and the losses of their runs.
 *
 * Differences between seeds are much larger than differences between arms, so mismatched pairs are detected. Test and
 * validation loss depend on the learning rate in different ways, so a rate that was not chosen, or was chosen by the
 * test loss, is detected. At the rates next to the best one, one of three screening seeds is an outlier: the mean loss
 * is worse than at the best rate, but the median and the losses of the other two seeds are better.
 */
#include "simulate/studies.h"

#include <math.h>
#include <string.h>

static const struct weft_sim_study studies[] = {
    {.name = "one better arm",
     .arm_count = 2,
     .arm = {{"base", .verdict = "base"}, {"better", -0.05, 0.004, .verdict = "better"}},
     .first_seed = 1,
     .seeds = 3,
     .trained = 3},
    {.name = "five arms",
     .arm_count = 5,
     .arm = {{"base", .verdict = "base"},
             {"better", -0.08, 0.01, .verdict = "better"},
             {"worse", 0.06, 0.003, .verdict = "worse"},
             {"equal", 0, 0.02, .verdict = "not resolved"},
             {"close", -0.0175, 0.01, .verdict = "not resolved", .close = true}},
     .first_seed = 7,
     .seeds = 5,
     .strays = true,
     .trained = 5},
    {.name = "screened",
     .arm_count = 3,
     .arm = {{"base", 0, 0, 0, "base"}, {"first", -0.1, 0.01, 1, "better"}, {"second", 0.04, 0.01, 3, "worse"}},
     .first_seed = 1,
     .seeds = 4,
     .screen_seeds = 3,
     .rate_count = 5,
     .rate = {1e-3, 3e-3, 3e-4, 2e-3, 1e-2},
     .strays = true,
     .trained = 4},
    {.name = "edge of grid",
     .arm_count = 3,
     .arm = {{"base", 0, 0, 1, "base"},
             {"low", -0.1, 0.01, 0, "edge of grid"},
             {"high", -0.1, 0.01, 2, "edge of grid"}},
     .first_seed = 1,
     .seeds = 3,
     .screen_seeds = 1,
     .rate_count = 3,
     .rate = {3e-4, 1e-3, 3e-3},
     .trained = 3},
    {.name = "edge of base",
     .arm_count = 2,
     .arm = {{"base", 0, 0, 2, "base"}, {"middle", -0.1, 0.01, 1, "edge of grid"}},
     .first_seed = 1,
     .seeds = 3,
     .screen_seeds = 2,
     .rate_count = 3,
     .rate = {1e-2, 3e-3, 1e-3},
     .trained = 3},
    {.name = "rate ruled out",
     .arm_count = 2,
     .arm = {{"base", 0, 0, 1, "base"}, {"gain", -0.1, 0.01, 2, "better"}},
     .first_seed = 1,
     .seeds = 3,
     .screen_seeds = 2,
     .rate_count = 4,
     .rate = {1e-4, 3e-4, 1e-3, 3e-3},
     .fails = true,
     .failing_arm = 0,
     .failing_rate = 1e-3, /* would be the baseline's best rate if its run did not fail */
     .failing_seed = 2001,
     .trained = 3},
    {.name = "looks, early",
     .arm_count = 3,
     .arm = {{"base", .verdict = "base"},
             {"first", -0.2, 0.01, .verdict = "better"},
             {"second", 0.3, 0.01, .verdict = "worse"}},
     .first_seed = 1,
     .seeds = 8,
     .look_count = 3,
     .look = {3, 5, 8},
     .trained = 3},
    {.name = "looks, decided",
     .arm_count = 3,
     .arm = {{"base", .verdict = "base"},
             {"early", -0.2, 0.01, .verdict = "better"},
             {"late", 0.0255, 0.01, .verdict = "worse"}},
     .first_seed = 1,
     .seeds = 8,
     .look_count = 3,
     .look = {3, 5, 8},
     .trained = 5},
    {.name = "looks, open",
     .arm_count = 3,
     .arm = {{"base", .verdict = "base"},
             {"last", -0.0145, 0.01, .verdict = "better"},
             {"never", 0.002, 0.01, .verdict = "not resolved"}},
     .first_seed = 1,
     .seeds = 8,
     .look_count = 3,
     .look = {3, 5, 8},
     .trained = 8},
    {.name = "a failed run",
     .arm_count = 3,
     .arm = {{"base", .verdict = "base"},
             {"whole", 0.03, 0.005, .verdict = "worse"},
             {"missing", 0.03, 0.005, .verdict = "unfinished"}},
     .first_seed = 1,
     .seeds = 4,
     .fails = true,
     .failing_arm = 2,
     .failing_seed = 2,
     .trained = 4},
    {.name = "a failed run of base",
     .arm_count = 2,
     .arm = {{"base", .verdict = "base"}, {"whole", 0.03, 0.005, .verdict = "unfinished"}},
     .first_seed = 1,
     .seeds = 3,
     .fails = true,
     .failing_arm = 0,
     .failing_seed = 3,
     .trained = 3},
    {.name = "a tie of rates",
     .arm_count = 2,
     .arm = {{"base", 0, 0, 1, "base", .tie = 3}, {"gain", -0.1, 0.01, 2, "better", .tie = 4}},
     .first_seed = 1,
     .seeds = 3,
     .screen_seeds = 2,
     .rate_count = 5,
     .rate = {1e-4, 3e-4, 1e-3, 3e-3, 1e-2},
     .trained = 3},
    {.name = "samples drawn twice",
     .arm_count = 2,
     .arm = {{"base", 0, 0, 0, "base", WEFT_SIM_SAME_SAMPLES},
             {"gain", -0.1, 0.01, 0, "not paired", WEFT_SIM_SAME_SAMPLES}},
     .first_seed = 1,
     .seeds = 3,
     .trained = 3},
    {.name = "not paired",
     .arm_count = 5,
     .arm = {{"base", .verdict = "base"},
             {"shifted", -0.1, 0.01, 0, "not paired", WEFT_SIM_OTHER_SAMPLES},
             {"weights", -0.1, 0.01, 0, "not paired", WEFT_SIM_OTHER_WEIGHTS},
             {"idle", 0, 0, 0, "failed", WEFT_SIM_NO_EFFECT},
             {"equal-once", 0.001, 0.01, 0, "not resolved", WEFT_SIM_ONE_EQUAL}},
     .first_seed = 1,
     .seeds = 3,
     .trained = 3},
    {.name = "repeats",
     .steps = "0,1,2,4",
     .arm_count = 4,
     .arm = {{"step0", 0, 0, 1, "base"},
             {"step1", -0.01, 0.02, 2, "not resolved"},
             {"step2", -0.05, 0.01, 2, "better"},
             {"step4", -0.05, 0.01, 2, "reproduced", .repeats = 3}},
     .first_seed = 1,
     .seeds = 3,
     .fails = true, /* so that the next queue finds the identical config of step2 in the ledger */
     .failing_arm = 3,
     .failing_seed = 2,
     .screen_seeds = 1,
     .rate_count = 4,
     .rate = {3e-4, 1e-3, 3e-3, 1e-2},
     .trained = 3},
    {.name = "not reproduced",
     .steps = "0,2,4",
     .arm_count = 3,
     .arm = {{"step0", .verdict = "base"},
             {"step2", -0.05, 0.01, .verdict = "better"},
             {"step4", -0.05, 0.01, 0, "not reproduced", WEFT_SIM_OTHER_BITS, .repeats = 2}},
     .first_seed = 1,
     .seeds = 3,
     .trained = 3},
    {.name = "nine seeds",
     .arm_count = 2,
     .arm = {{"base", .verdict = "base"}, {"equal", 0, 0.01, .verdict = "not resolved"}},
     .first_seed = 3,
     .seeds = 9,
     .trained = 9},
    {.name = "no noise",
     .arm_count = 2,
     .arm = {{"base", .verdict = "base"}, {"constant", -0.25, 0, .verdict = "too few seeds"}},
     .first_seed = 1,
     .seeds = 3,
     .trained = 3},
};

const struct weft_sim_study *weft_sim_study_at(int i)
{
    return i < (int)(sizeof studies / sizeof *studies) ? &studies[i] : NULL;
}

/* ---- random numbers, independent of room `base` */

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static double uniform(uint64_t x) { return ((double)(mix(x) >> 11) + 0.5) / 9007199254740992.0; }

double weft_sim_normal(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = mix(mix(mix(a) ^ b) ^ c);
    return sqrt(-2 * log(uniform(x))) * cos(2 * acos(-1) * uniform(x + 1));
}

/* ---- losses */

/* Rounds a loss, which is between 1 and 10, to nine digits, as results are. */
static double shorten(double x) { return round(x * 1e8) / 1e8; }

/* Returns the arm whose losses this arm copies, or the arm itself. */
static int source(const struct weft_sim_study *s, int arm, int64_t seed)
{
    enum weft_sim_quirk quirk = s->arm[arm].quirk;
    if (quirk == WEFT_SIM_NO_EFFECT || (quirk == WEFT_SIM_ONE_EQUAL && seed == s->first_seed))
        return 0;
    return s->arm[arm].repeats ? s->arm[arm].repeats - 1 : arm;
}

/* Returns the part of the loss that all arms share for this seed. */
static double of_seed(int64_t seed) { return shorten(2.5 + 0.3 * weft_sim_normal(1, (uint64_t)seed, 0)); }

/* Returns the number of grid steps between a rate and the arm's best rate; a rate that ties with the best is at
 * distance 0. */
static int steps_off(const struct weft_sim_study *s, int arm, double rate)
{
    int off = 0;
    if (s->arm[arm].tie && rate == s->rate[s->arm[arm].tie - 1])
        return 0;
    for (int i = 0; i < s->rate_count; i++) {
        double low = fmin(rate, s->rate[s->arm[arm].best]), high = fmax(rate, s->rate[s->arm[arm].best]);
        off += s->rate[i] > low && s->rate[i] <= high;
    }
    return off;
}

double weft_sim_test_loss(const struct weft_sim_study *s, int arm, double rate, int64_t seed)
{
    arm = source(s, arm, seed);
    const struct weft_sim_arm *a = &s->arm[arm];
    return shorten(of_seed(seed) + a->effect + a->noise * weft_sim_normal(2, (uint64_t)arm, (uint64_t)seed) -
                   0.05 * steps_off(s, arm, rate));
}

static double of_screening(const struct weft_sim_study *s, int arm, double rate, int64_t seed)
{
    int off = steps_off(s, arm, rate);
    bool outlier = seed - s->first_seed - WEFT_SIM_SCREENING == arm;
    if (off == 1 && s->screen_seeds == 3)
        return outlier ? 0.6 : -0.05;
    return 0.1 * off;
}

/* Returns the validation loss. A rate ruled out by a failed run has the smallest loss, so choosing that rate by mistake
 * would be detected. */
double weft_sim_val_loss(const struct weft_sim_study *s, int arm, double rate, int64_t seed)
{
    arm = source(s, arm, seed);
    bool ruled_out = s->fails && arm == s->failing_arm && rate == s->failing_rate;
    return shorten(of_seed(seed) + 0.1 * weft_sim_normal(3, (uint64_t)arm, 0) + of_screening(s, arm, rate, seed) -
                   (ruled_out ? 0.5 : 0));
}

bool weft_sim_fails(const struct weft_sim_study *s, int arm, double rate, int64_t seed)
{
    return s->fails && arm == s->failing_arm && seed == s->failing_seed &&
           (!(s->failing_rate > 0) || rate == s->failing_rate);
}
