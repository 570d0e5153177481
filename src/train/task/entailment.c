/* SPDX-License-Identifier: MIT
 *
 * task/entailment - is a an ancestor of b? The input is [a, b]; the answer after b is scored: token 0 no, 1 yes.
 *
 * The tree is grown from the seed, level by level: nodes above depth 6 have 1 to 4 children, until the vocabulary is
 * used up; node i is token 2 + i. The model has to learn it from the pairs: every tenth pair, by hash(seed, a, b), is
 * held out, half of these for validation and half for the test.
 *
 * A sample is drawn as two nodes b, c and a depth at which their ancestors differ: a is the ancestor of b at that depth
 * (yes) or of c (no), each with probability 1/2. So wrong and right ancestors have the same depths. The root, ancestor
 * of all, is neither a nor b. Training uses a draw only if the pairs obtained by swapping b and c, or their ancestors,
 * are also training pairs, so that neither token alone carries information about the answer. Merely leaving out the
 * held-out pairs would leak information: for a node that lost a yes, the answer is more often no, and a table of
 * answers by b, built in training, was right on one in five of the held-out pairs.
 */
#include "train/task/draw_inl.h"

enum { DEPTH = 6, CHILDREN = 4, MOST_NODES = 5461 /* 4^0 + .. + 4^6 */, ANSWERS = 2 };

struct entailment {
    int64_t nodes;
    int32_t *parent, *depth;
    uint64_t split; /* key of the held-out pairs */
};

static void grow(struct entailment *o, int64_t most, uint64_t key)
{
    o->parent[0] = -1;
    o->nodes = 1;
    for (int64_t i = 0; i < o->nodes && o->depth[i] < DEPTH; i++)
        for (uint64_t left = 1 + weft_below(key, (uint64_t)i, CHILDREN); left > 0 && o->nodes < most; left--) {
            o->parent[o->nodes] = (int32_t)i;
            o->depth[o->nodes++] = o->depth[i] + 1;
        }
}

/* Returns the ancestor of a node at a smaller depth; -1: none. */
static int64_t ancestor(const struct entailment *o, int64_t node, int64_t depth)
{
    if (o->depth[node] <= depth)
        return -1;
    while (o->depth[node] > depth)
        node = o->parent[node];
    return node;
}

enum use { TRAINING, VALIDATION, TEST };

static enum use use_of(const struct entailment *o, int64_t a, int64_t b)
{
    switch (weft_key(weft_key(o->split, (uint64_t)a), (uint64_t)b) % 20) {
    case 0:
        return VALIDATION;
    case 10:
        return TEST;
    default:
        return TRAINING;
    }
}

/* Two nodes and their ancestors at the same depth. */
struct fork {
    int64_t node[2], above[2];
};

static bool make_fork(const struct entailment *o, int64_t b, int64_t c, int64_t depth, struct fork *f)
{
    *f = (struct fork){{b, c}, {ancestor(o, b, depth), ancestor(o, c, depth)}};
    return f->above[0] >= 0 && f->above[1] >= 0 && f->above[0] != f->above[1];
}

/* Returns whether samples with this answer may be drawn from the fork. For training, all four pairs must be in
 * training. */
static bool serves(const struct entailment *o, const struct fork *f, enum use use, bool yes)
{
    bool all = true;
    for (int i = 0; i < 4; i++)
        all &= use_of(o, f->above[i / 2], f->node[i % 2]) == TRAINING;
    return use == TRAINING ? all : use_of(o, f->above[!yes], f->node[0]) == use;
}

/* Returns whether there are samples to draw for every use, so that drawing terminates. */
static bool is_enough(const struct entailment *o)
{
    enum { ALL = 1 << 2 * (TEST + 1) };
    unsigned found = 0; /* a bit for each use and answer */
    struct fork f;
    for (int64_t b = 1; b < o->nodes; b++)
        for (int64_t c = 1; c < o->nodes; c++)
            for (int64_t depth = 1; depth < DEPTH && found != ALL - 1; depth++)
                for (int i = 0; make_fork(o, b, c, depth, &f) && i < 2 * (TEST + 1); i++)
                    found |= (unsigned)serves(o, &f, (enum use)(i / 2), i % 2) << i;
    return found == ALL - 1;
}

static enum weft_status resolve(const struct weft_spec *spec, void *opts, struct weft_arena *arena)
{
    struct entailment *o = opts;
    int64_t most = weft_max(1, weft_min(spec->vocab - ANSWERS, MOST_NODES));
    uint64_t seed = (uint64_t)spec->seed;
    o->parent = weft_arena_alloc(arena, (size_t)most * sizeof *o->parent);
    o->depth = weft_arena_alloc(arena, (size_t)most * sizeof *o->depth);
    if (!o->parent || !o->depth)
        return FAIL(WEFT_NOMEM, "not enough memory for a task");
    o->split = weft_key_name(seed, "task.entailment.split");
    grow(o, most, weft_key_name(seed, "task.entailment.tree"));
    if (!is_enough(o))
        return FAIL(WEFT_INVALID,
                    "a tree of %lld nodes, from seed=%lld and vocab=%lld, is too small to hold pairs out: make vocab "
                    "larger (64 is usually enough) or try another seed",
                    (long long)o->nodes, (long long)seed, (long long)spec->vocab);
    return WEFT_OK;
}

static int64_t length(const void *opts)
{
    (void)opts;
    return 2;
}

static void sample(const struct weft_spec *spec, const void *opts, uint64_t index, int32_t *tokens, int32_t *targets)
{
    const struct entailment *o = opts;
    struct draw d = draw_begin(spec, "task.entailment", index);
    bool yes = draw_below(&d, 2);
    enum use use = index >= WEFT_TEST ? TEST : index >= WEFT_HELD_OUT ? VALIDATION : TRAINING;
    struct fork f;
    int64_t b, c;
    do {
        b = 1 + draw_below(&d, o->nodes - 1);
        c = 1 + draw_below(&d, o->nodes - 1);
    } while (!make_fork(o, b, c, 1 + draw_below(&d, DEPTH - 1), &f) || !serves(o, &f, use, yes));
    tokens[0] = (int32_t)(ANSWERS + f.above[!yes]);
    tokens[1] = (int32_t)(ANSWERS + b);
    targets[0] = -1;
    targets[1] = yes;
}

static struct weft_floor find_floor(const struct weft_spec *spec, const void *opts)
{
    (void)spec;
    (void)opts;
    return (struct weft_floor){.accuracy = 1, .chance = 0.5};
}

const struct weft_task weft_task_entailment = {
    .name = "entailment",
    .summary = "decide whether one node of a tree is an ancestor of another",
    .owner = {.name = "task=entailment"},
    .options_bytes = sizeof(struct entailment),
    .resolve = resolve,
    .length = length,
    .sample = sample,
    .floor = find_floor,
};
