/* SPDX-License-Identifier: MIT
 *
 * profile.c - measures time, FLOPs and bytes per op, forward and backward.
 */
#include "graph/internal.h"

#include <stdlib.h>
#include <string.h>

struct line {
    const struct weft_op *op;
    bool backward;
    double seconds, flops, bytes;
    int64_t runs;
};

static struct weft_cost step_cost(const struct weft_exec *exec, const struct step *step)
{
    const struct weft_kernel *k = step->node->backward ? &step->node->op->bwd : &step->node->op->fwd;
    struct weft_cost cost = {.flops = k->flops ? k->flops(&step->call) : 0};
    struct weft_value *list[2 * MAX_TOUCHED];
    int n = weft_node_reads(step->node, list);
    n += weft_node_writes(step->node, list + n);
    for (int i = 0; i < n; i++) {
        const struct weft_tensor *t = &exec->tensors[list[i]->id];
        if (step->node->op->updates && weft_value_is_bound(list[i]))
            continue; /* only a few rows of a state are written; the rows stored into it are counted as read */
        cost.bytes += list[i]->packed_bytes ? (double)list[i]->packed_bytes
                                            : (double)weft_tensor_count(t) * (double)weft_dtype_bytes(t->dtype);
    }
    return cost;
}

struct weft_cost weft_exec_cost(const struct weft_exec *exec)
{
    struct weft_cost sum = {0, 0};
    for (int s = 0; s < exec->run_count; s++) {
        struct weft_cost c = step_cost(exec, &exec->run[s]);
        sum.flops += c.flops;
        sum.bytes += c.bytes;
    }
    return sum;
}

double weft_exec_flops_of(const struct weft_exec *exec, const struct weft_op *op)
{
    double sum = 0;
    for (int s = 0; s < exec->run_count; s++)
        if (exec->run[s].node->op == op)
            sum += step_cost(exec, &exec->run[s]).flops;
    return sum;
}

void weft_exec_flops_by_group(const struct weft_exec *exec, double flops[WEFT_MAX_GROUPS])
{
    memset(flops, 0, WEFT_MAX_GROUPS * sizeof *flops);
    for (int s = 0; s < exec->run_count; s++)
        flops[exec->run[s].node->group] += step_cost(exec, &exec->run[s]).flops;
}

int weft_exec_products(const struct weft_exec *exec, struct weft_product *list, int room)
{
    int count = 0;
    for (int s = 0; s < exec->run_count; s++) {
        const struct weft_node *node = exec->run[s].node;
        const struct weft_kernel *k = node->backward ? &node->op->bwd : &node->op->fwd;
        struct weft_product some[WEFT_MAX_PRODUCTS];
        int n = k->products ? k->products(&exec->run[s].call, some) : 0;
        for (int i = 0; i < n; i++, count++)
            if (count < room)
                list[count] = some[i];
    }
    return count;
}

void weft_exec_profile(struct weft_exec *exec, bool on)
{
    exec->profiling = on;
    for (int s = 0; on && s < exec->prepare_count + exec->run_count; s++) {
        exec->prepare[s].seconds = 0;
        exec->prepare[s].runs = 0;
    }
}

static int slower_first(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : strcmp(x->op->name, y->op->name);
}

void weft_exec_profile_print(const struct weft_exec *exec, FILE *to)
{
    int steps = exec->prepare_count + exec->run_count, count = 0;
    struct line *lines = calloc((size_t)steps + 1, sizeof *lines);
    double total = 0;
    for (int s = 0; lines && s < steps; s++) {
        const struct step *step = &exec->prepare[s];
        if (!step->runs)
            continue;
        int l = 0;
        while (l < count && (lines[l].op != step->node->op || lines[l].backward != step->node->backward))
            l++;
        count += l == count;
        struct weft_cost cost = step_cost(exec, step);
        lines[l].op = step->node->op;
        lines[l].backward = step->node->backward;
        lines[l].seconds += step->seconds;
        lines[l].flops += cost.flops * (double)step->runs;
        lines[l].bytes += cost.bytes * (double)step->runs;
        lines[l].runs += step->runs;
        total += step->seconds;
    }
    qsort(lines, (size_t)count, sizeof *lines, slower_first);
    fprintf(to, "%-24s %8s %10s %8s %10s %10s\n", "op", "runs", "ms", "share", "GFLOP/s", "GB/s");
    for (int l = 0; l < count; l++) {
        const struct line *x = &lines[l];
        fprintf(to, "%-15s %-8s %8lld %10.2f %7.1f%% %10.1f %10.1f\n", x->op->name, x->backward ? "backward" : "",
                (long long)x->runs, 1e3 * x->seconds, 100 * x->seconds / total, 1e-9 * x->flops / x->seconds,
                1e-9 * x->bytes / x->seconds);
    }
    free(lines);
}
