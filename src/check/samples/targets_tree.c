/* SPDX-License-Identifier: MIT
 *
 * targets_tree.c - the definition of entailment: a tree is grown from the seed, the target is 1 if a is an ancestor
 * of b, and no pair occurs in two of training, validation and test.
 *
 * The last rule is checked over many more samples than the others, because only pairs that recur can break it.
 */
#include "check/samples/samples.h"

#include <stdlib.h>

enum { DEPTH = 6, FIRST_NODE = 2, MANY = 4096 };

struct tree {
    int64_t nodes;
    int *parent, *depth;
    unsigned char *uses; /* [nodes, nodes]: bit set of the splits that a pair was drawn for */
};

/* Grows the tree level by level: a node above depth 6 has 1 to 4 children, as long as there are tokens. */
static void grow(struct tree *tree, int64_t most, uint64_t key)
{
    int64_t next = 0;
    tree->nodes = 1;
    tree->parent[0] = -1;
    while (next < tree->nodes && tree->depth[next] < DEPTH && tree->nodes < most) {
        int64_t children = weft_min(1 + (int64_t)weft_below(key, (uint64_t)next, 4), most - tree->nodes);
        for (int64_t i = 0; i < children; i++, tree->nodes++) {
            tree->parent[tree->nodes] = (int)next;
            tree->depth[tree->nodes] = tree->depth[next] + 1;
        }
        next++;
    }
}

static void close_tree(void *context)
{
    struct tree *tree = context;
    if (!tree)
        return;
    free(tree->parent);
    free(tree->depth);
    free(tree->uses);
    free(tree);
}

static enum weft_status open_tree(const struct weft_drawn *d, void **context)
{
    int64_t most = d->spec->vocab - FIRST_NODE;
    struct tree *tree = *context = calloc(1, sizeof *tree);
    most = weft_min(most, (1 - 16384) / (1 - 4)); /* 4^0 + .. + 4^6 */
    if (tree) {
        tree->parent = calloc((size_t)most, sizeof *tree->parent);
        tree->depth = calloc((size_t)most, sizeof *tree->depth);
        tree->uses = calloc((size_t)most, (size_t)most);
    }
    if (!tree || !tree->parent || !tree->depth || !tree->uses)
        return FAIL(WEFT_NOMEM, "not enough memory for samples");
    grow(tree, most, weft_key_name((uint64_t)d->spec->seed, "task.entailment.tree"));
    return WEFT_OK;
}

static const char *wrong_pair(const struct tree *tree, int64_t a, int64_t b, const int32_t *targets)
{
    if (a < 1 || b < 1 || a >= tree->nodes || b >= tree->nodes)
        return "a and b are not nodes below the root";
    if (targets[0] != -1 || targets[1] < 0 || targets[1] > 1)
        return "the only scored target must be the answer after b, 0 or 1";
    if (tree->depth[a] >= tree->depth[b])
        return "a is not above b";
    int64_t up = b;
    while (tree->depth[up] > tree->depth[a])
        up = tree->parent[up];
    return targets[1] == (up == a) ? NULL : "the answer is wrong";
}

/* Marks the pair as used in the split of this sample. Returns whether it is also used in a different split. */
static bool is_shared(struct tree *tree, int64_t a, int64_t b, uint64_t index)
{
    unsigned char *uses = &tree->uses[a * tree->nodes + b];
    *uses |= index >= WEFT_TEST ? 4 : index >= WEFT_HELD_OUT ? 2 : 1;
    return *uses != 1 && *uses != 2 && *uses != 4;
}

static const char *wrong_one(struct tree *tree, uint64_t index, const int32_t *tokens, const int32_t *targets)
{
    int64_t a = tokens[0] - FIRST_NODE, b = tokens[1] - FIRST_NODE;
    const char *wrong = wrong_pair(tree, a, b, targets);
    if (!wrong && is_shared(tree, a, b, index))
        wrong = "a pair is used in two of training, validation and test";
    return wrong;
}

/* Checks a sample; if it is the first, also checks many others. */
static const char *wrong_entailment(const struct weft_drawn *d, void *context)
{
    const char *wrong = NULL;
    int32_t tokens[2], targets[2];
    if (d->length != 2)
        return "the sample has the wrong length";
    for (uint64_t i = 0; d->index == 0 && !wrong && i < MANY; i++) {
        uint64_t index = i / 3 + i % 3 * WEFT_HELD_OUT;
        d->recipe->task->sample(d->spec, d->recipe->task_options, index, tokens, targets);
        wrong = wrong_one(context, index, tokens, targets);
    }
    return wrong ? wrong : wrong_one(context, d->index, d->tokens, d->targets);
}

static double answer(const struct weft_drawn *d) { return d->targets[1]; }

static void expected_answer(const struct weft_drawn *d, double *mean, double *deviation)
{
    (void)d;
    *mean = *deviation = 0.5;
}

const struct weft_definition weft_definition_entailment = {
    "entailment", true, open_tree, close_tree, wrong_entailment, .number = answer, .expected = expected_answer};
