/* SPDX-License-Identifier: MIT
 *
 * dropout.c - checks dropout in the graphs of a model: where it is applied, its rate and factor, whether its masks are
 * independent, and whether the same key gives the same bits.
 *
 * A mask is visible as zeros in the output of its node. Attention drops probabilities, which are visible only at the
 * first position of a sequence: that position sees only itself, so a head's output there is its value times 1/(1-p) or
 * 0.
 */
#include "check/probe/dropout.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_KEY = 91, MOST_BITS = 1 << 14, VALUES_OF_ATTENTION = 12, MOST_SITES = 1024, UNKNOWN = 2 };

double weft_count_sigmas(int64_t count, int64_t n, double q)
{
    double away = fabs((double)count - (double)n * q);
    return 6 * away / (6 * sqrt((double)n * q * (1 - q)) + 6);
}

struct site {
    const struct weft_node *node;
    bool in_attention;
    int64_t dropped, all, wrong; /* wrong: values that are neither 0 nor x / (1-p) */
    int64_t row, kept;           /* elements of a row; elements per run whose masks are stored */
    unsigned char *masks;        /* [runs, kept]: 1: dropped; UNKNOWN: the value was already 0 */
};

struct masks {
    struct weft_probe probe;
    struct site site[MOST_SITES];
    int sites, dropouts, attentions;
    int64_t sequences, length, positions; /* positions: number of leading positions with stored masks */
    int runs, most_runs;
    double p;
};

/* ---- finding the sites */

static void add_site(struct masks *m, const struct weft_node *node, bool in_attention)
{
    if (m->sites == MOST_SITES)
        return;
    m->site[m->sites++] = (struct site){.node = node, .in_attention = in_attention};
    m->attentions += in_attention;
    m->dropouts += !in_attention;
    weft_graph_output(m->probe.net.g, node->in[in_attention ? VALUES_OF_ATTENTION : 0]);
    weft_graph_output(m->probe.net.g, node->out[0]);
}

static void find_sites(struct masks *m)
{
    struct weft_node *const *nodes;
    int n = weft_graph_nodes(m->probe.net.g, &nodes);
    for (int i = 0; i < n; i++) {
        bool in_attention = nodes[i]->op == weft_op(WEFT_OP_attention);
        if (!nodes[i]->in_backward_pass && (in_attention || nodes[i]->op == weft_op(WEFT_OP_dropout)))
            add_site(m, nodes[i], in_attention);
    }
}

static enum weft_status open_masks(struct masks *m, const struct weft_nn *model, enum weft_use use)
{
    m->probe = (struct weft_probe){.model = model, .dtype = WEFT_F32};
    TRY(weft_net_init(&m->probe.net, model, use,
                      (struct weft_net_size){.sequences = m->sequences, .length = m->length}));
    find_sites(m);
    TRY(weft_probe_plan(&m->probe, WEFT_FAST));
    weft_probe_rows(&m->probe, m->sequences, m->length, NULL);
    weft_probe_fill(&m->probe, TOKENS_KEY);
    m->positions = weft_min(m->length, weft_max(2, MOST_BITS / (m->sequences * model->spec->width)));
    for (int i = 0; i < m->sites; i++) {
        struct site *s = &m->site[i];
        s->row = s->in_attention ? model->spec->heads : weft_shape_width(&s->node->out[0]->shape);
        s->kept = m->sequences * (s->in_attention ? 1 : m->positions) * s->row;
        if (!(s->masks = calloc((size_t)s->kept, (size_t)m->most_runs)))
            return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    }
    return WEFT_OK;
}

static void close_masks(struct masks *m)
{
    for (int i = 0; i < m->sites; i++)
        free(m->site[i].masks);
    weft_probe_close(&m->probe);
}

/* ---- reading the masks */

/* Counts one element of the mask, where y is the value after dropping and x the value before. */
static unsigned char count(const struct masks *m, struct site *s, double x, double y, enum weft_dtype dtype)
{
    double rounding = dtype == WEFT_F32 ? 1e-5 : 0.02;
    if (x == 0 && y == 0)
        return UNKNOWN;
    s->all++;
    s->dropped += y == 0;
    s->wrong += y != 0 && !(fabs(y * (1 - m->p) / x - 1) <= rounding);
    return y == 0;
}

static void read_elements(struct masks *m, struct site *s)
{
    const struct weft_tensor *x = weft_exec_tensor(m->probe.exec, s->node->in[0]),
                             *y = weft_exec_tensor(m->probe.exec, s->node->out[0]);
    unsigned char *to = s->masks + m->runs * s->kept;
    for (int64_t i = 0; i < weft_tensor_count(x); i++) {
        unsigned char bit = count(m, s, weft_tensor_get(x, i), weft_tensor_get(y, i), y->dtype);
        if (i / s->row % m->length < m->positions)
            *to++ = bit;
    }
}

static double size_of(const struct weft_tensor *x, int64_t first, int64_t count)
{
    double sum = 0;
    for (int64_t i = first; i < first + count; i++)
        sum += fabs(weft_tensor_get(x, i));
    return sum;
}

static void read_heads(struct masks *m, struct site *s)
{
    const struct weft_tensor *v = weft_exec_tensor(m->probe.exec, s->node->in[VALUES_OF_ATTENTION]),
                             *o = weft_exec_tensor(m->probe.exec, s->node->out[0]);
    int64_t heads = s->row, width = weft_tensor_width(o) / heads;
    int64_t group = heads / (weft_tensor_width(v) / width);
    unsigned char *to = s->masks + m->runs * s->kept;
    for (int64_t b = 0; b < m->sequences; b++)
        for (int64_t h = 0; h < heads; h++) {
            int64_t row = b * m->length;
            double x = size_of(v, row * weft_tensor_width(v) + h / group * width, width);
            double y = size_of(o, row * weft_tensor_width(o) + h * width, width);
            *to++ = count(m, s, x, y, o->dtype);
        }
}

/* The step and the first sample of a run: small ones, and large ones that a narrow counter would confuse with them. */
struct moment {
    uint64_t step, sample;
};

static struct moment moment_of(int number)
{
    const uint64_t one = 1;
    const struct moment far[] = {
        {0, 0},    {1, 0},    {2, 0},     {64, 0},        {65, 0},        {128, 0},       {512, 0},       {1000, 0},
        {1024, 0}, {4096, 0}, {10000, 0}, {one << 16, 0}, {one << 20, 0}, {one << 31, 0}, {one << 32, 0}, {0, 64},
        {0, 1024}, {0, 4096}, {0, 10000}, {0, one << 16}, {0, one << 20}, {0, one << 31}};
    int count = sizeof far / sizeof *far;
    return number < count ? far[number] : (struct moment){(uint64_t)number, 0};
}

static void run(struct masks *m, uint64_t seed, struct moment at)
{
    weft_net_step_key(&m->probe.net, m->probe.exec, seed, at.step, at.sample);
    weft_probe_run(&m->probe);
    for (int i = 0; i < m->sites; i++)
        m->site[i].in_attention ? read_heads(m, &m->site[i]) : read_elements(m, &m->site[i]);
    m->runs++;
}

/* ---- requirements */

/* Returns, in sigmas, how far the number of values that two places both drop deviates from chance: element i of a and,
 * `later` runs later, element i + lag of b. */
static double dependence(const struct masks *m, const struct site *a, const struct site *b, int64_t lag, int later)
{
    int64_t both = 0, all = 0, n = weft_min(a->kept, b->kept);
    for (int r = 0; r + later < m->runs; r++) {
        const unsigned char *x = a->masks + r * a->kept, *y = b->masks + (r + later) * b->kept;
        for (int64_t i = 0; i + lag < n; i++) {
            both += x[i] == 1 && y[i + lag] == 1;
            all += x[i] != UNKNOWN && y[i + lag] != UNKNOWN;
        }
    }
    return weft_count_sigmas(both, all, m->p * m->p);
}

struct worst {
    double sigmas;
    const char *what;
    int layer;
};

static void look(struct worst *w, double sigmas, const char *what, const struct site *s)
{
    if (!(sigmas <= w->sigmas))
        *w = (struct worst){sigmas, what, s->node->label};
}

/* Like dependence, but for the same elements in two runs. */
static double likeness(const struct masks *m, const struct site *s, int r, int other)
{
    int64_t both = 0, all = 0;
    const unsigned char *x = s->masks + r * s->kept, *y = s->masks + other * s->kept;
    for (int64_t i = 0; i < s->kept; i++) {
        both += x[i] == 1 && y[i] == 1;
        all += x[i] != UNKNOWN && y[i] != UNKNOWN;
    }
    return weft_count_sigmas(both, all, m->p * m->p);
}

static void check_independence(const struct weft_trial *t, const struct masks *m)
{
    struct worst w = {.what = ""};
    for (int i = 0; i < m->sites; i++) {
        const struct site *s = &m->site[i];
        for (int j = 0; j < i; j++)
            if (m->site[j].in_attention == s->in_attention)
                look(&w, dependence(m, s, &m->site[j], 0, 0), "two places", s);
        look(&w, dependence(m, s, s, 0, 1), "two steps or seeds", s);
        for (int r = 0; r < m->runs; r++)
            for (int other = 0; other < r; other++)
                look(&w, likeness(m, s, r, other), "two far steps or samples", s);
        for (int64_t lag = 1; lag < s->row; lag *= 4) /* one random word is used for 16 or 64 columns */
            look(&w, dependence(m, s, s, lag, 0), "elements of a row", s);
        look(&w, dependence(m, s, s, s->row, 0), "neighbouring rows", s);
        look(&w, dependence(m, s, s, s->kept / m->sequences, 0), "two samples", s);
    }
    weft_trial_report(t, w.sigmas <= 6, w.sigmas, 6, "dropout: masks drop the same by chance only, in sigmas",
                      "the masks of %s, layer %d", w.what, w.layer);
}

static void check_counts(const struct weft_trial *t, const struct masks *m)
{
    struct worst rate = {.what = ""};
    int64_t wrong = 0;
    char name[160];
    for (int i = 0; i < m->sites; i++) {
        const struct site *s = &m->site[i];
        look(&rate, weft_count_sigmas(s->dropped, s->all, m->p), s->in_attention ? "attention" : "dropout", s);
        wrong += s->wrong;
    }
    snprintf(name, sizeof name, "dropout: share of zeros at %d places against p = %g, in sigmas", m->sites, m->p);
    weft_trial_report(t, rate.sigmas <= 6, rate.sigmas, 6, name, "%s, layer %d", rate.what, rate.layer);
    weft_trial_report(t, wrong == 0, (double)wrong, 0, "dropout: what is kept and not x / (1-p)",
                      "the factor of kept values is not 1 / (1-p)");
}

static void check_places(const struct weft_trial *t, const struct masks *m)
{
    int64_t layers = m->probe.model->spec->layers;
    weft_trial_report(t, m->dropouts >= 1 + 2 * layers && m->attentions >= layers, m->sites, (double)(1 + 3 * layers),
                      "dropout: places, one at the embedding and three in every layer",
                      "%d dropout ops, %d attention ops", m->dropouts, m->attentions);
}

static uint64_t hash(const struct weft_probe *p)
{
    const uint32_t *words = p->grads;
    uint64_t h = 0;
    for (int64_t i = 0; i < p->model->params.total; i++)
        h = (h ^ words[i]) * 0x9e3779b97f4a7c15u + (h >> 29);
    return h;
}

static enum weft_status check_training(const struct weft_trial *t, struct masks *m, const struct weft_nn *model)
{
    uint64_t seed = (uint64_t)model->spec->seed;
    TRY(open_masks(m, model, WEFT_TRAIN));
    run(m, seed, moment_of(0));
    uint64_t first = hash(&m->probe);
    for (int i = 1; i < m->most_runs - 2; i++)
        run(m, seed, moment_of(i));
    run(m, seed + 1, moment_of(m->runs - 1)); /* the same step as the last run, with a different seed */
    check_places(t, m);
    check_counts(t, m);
    check_independence(t, m);
    run(m, seed, moment_of(0));
    weft_trial_report(t, hash(&m->probe) == first, hash(&m->probe) != first, 0,
                      "dropout: gradients differ with the same key", "a mask depends on more than its key");
    return WEFT_OK;
}

/* Checks that EVAL drops nothing and leaves the value of the first position unchanged. */
static enum weft_status check_scoring(const struct weft_trial *t, struct masks *m, const struct weft_nn *model)
{
    int64_t dropped = 0;
    m->p = 0;
    TRY(open_masks(m, model, WEFT_EVAL));
    weft_probe_run(&m->probe);
    for (int i = 0; i < m->sites; i++) {
        if (m->site[i].in_attention)
            read_heads(m, &m->site[i]);
        dropped += m->site[i].dropped + m->site[i].wrong;
    }
    weft_trial_report(t, m->dropouts == 0 && dropped == 0, m->dropouts + (double)dropped, 0,
                      "dropout: places and values dropped in EVAL", "%d places", m->dropouts);
    return WEFT_OK;
}

enum weft_status weft_check_dropout(const struct weft_trial *t, const struct weft_nn *model, double dropout,
                                    int64_t sequences, int64_t length, int runs)
{
    static enum weft_status (*const checks[])(const struct weft_trial *, struct masks *,
                                              const struct weft_nn *) = {check_training, check_scoring};
    struct weft_spec spec = *model->spec;
    struct weft_nn masked = *model;
    enum weft_status status = WEFT_OK;
    spec.dropout = dropout;
    masked.spec = &spec;
    for (int i = 0; status == WEFT_OK && i < 2; i++) {
        struct masks m = {.sequences = sequences, .length = length, .most_runs = runs, .p = dropout};
        status = checks[i](t, &m, &masked);
        close_masks(&m);
    }
    return status;
}
