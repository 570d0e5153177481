/* SPDX-License-Identifier: MIT
 *
 * print_draws.c - the initial weights: a loop over all parameters, with a branch for each way of initialising them,
 * chosen by name. Weights that are initialised alike are one branch.
 */
#include "export/torch/print.h"

#include <math.h>
#include <string.h>

struct draws {
    struct weft_torch_printer *p;
    const struct weft_params *list;
    const struct weft_param *usual; /* a normally distributed weight like most others */
    bool *done;                     /* by index of the weight */
};

static bool is_alike(const struct weft_param *a, const struct weft_param *b)
{
    return a->init == b->init && a->init_value == b->init_value && a->init_blocks == b->init_blocks &&
           (!a->init_blocks || memcmp(a->dim, b->dim, sizeof a->dim) == 0);
}

/* Returns whether the loop's last two branches initialise a weight: vectors with 0, others like the usual one. */
static bool is_usual(const struct draws *d, const struct weft_param *w)
{
    if (w->ndim == 1)
        return w->init == WEFT_INIT_CONSTANT && w->init_value == 0;
    return d->usual && is_alike(w, d->usual);
}

static const struct weft_param *find_usual(const struct weft_params *list)
{
    const struct weft_param *found = NULL;
    for (int i = 0, most = 0, count; i < list->count; i++) {
        const struct weft_param *w = &list->list[i];
        if (w->ndim == 1 || w->init != WEFT_INIT_NORMAL || w->init_blocks)
            continue;
        count = 0;
        for (int k = 0; k < list->count; k++)
            count += list->list[k].ndim > 1 && is_alike(w, &list->list[k]);
        if (count > most) {
            most = count;
            found = w;
        }
    }
    return found;
}

/* Returns whether the weights of all layers with the local name of `w` are alike. */
static bool is_alike_in_layers(const struct draws *d, const struct weft_param *w)
{
    const char *name = weft_torch_local_name(d->p, w);
    for (int i = 0; i < d->list->count; i++)
        if (strcmp(weft_torch_local_name(d->p, &d->list->list[i]), name) == 0 && !is_alike(w, &d->list->list[i]))
            return false;
    return true;
}

/* Returns the end of a weight's name in the file by which its branch is chosen: ".attn.wo.weight". */
static const char *end_of(const struct draws *d, const struct weft_param *w)
{
    char name[128];
    weft_torch_weight_name(w, name);
    if (weft_torch_layer_of(w) != WEFT_TORCH_MODEL && is_alike_in_layers(d, w))
        return weft_torch_text(d->p, ".%s", weft_torch_local_name(d->p, w));
    return weft_torch_text(d->p, "%s", name);
}

/* Fails if a weight that is initialised differently has a name with the same end. */
static void check_end(const struct draws *d, const char *end, const struct weft_param *w)
{
    for (int i = 0; i < d->list->count; i++) {
        char name[128];
        weft_torch_weight_name(&d->list->list[i], name);
        if (weft_ends_in(name, end) && !is_alike(w, &d->list->list[i]) && d->p->status == WEFT_OK)
            d->p->status = FAIL(WEFT_INVALID, "PyTorch export: the weights %s and %s need names with different ends",
                                w->name, d->list->list[i].name);
    }
}

/* Returns a number, if possible as a / sqrt(n) with a short a. */
static const char *number(struct weft_torch_printer *p, double value)
{
    static const double over[] = {WEFT_DEVIATION, 1};
    for (size_t i = 0; i < sizeof over / sizeof *over && strlen(weft_torch_real(p, value)) > 8; i++) {
        double n = round(over[i] * over[i] / (value * value));
        if (n > 1 && n < 1e6 && fabs(over[i] / sqrt(n) - value) < 1e-15 * value)
            return weft_torch_text(p, "%g / math.sqrt(%.0f)", over[i], n);
    }
    return weft_torch_real(p, value);
}

static const char *draw_of(struct weft_torch_printer *p, const struct weft_param *w)
{
    const char *value = number(p, w->init_value);
    if (w->init == WEFT_INIT_UNIFORM)
        return weft_torch_text(p, "nn.init.uniform_(w, -%s, %s)", value, value);
    if (w->init == WEFT_INIT_NORMAL)
        return weft_torch_text(p, "nn.init.normal_(w, std=%s)", value);
    if (w->init_value == 0 || w->init_value == 1)
        return w->init_value == 0 ? "nn.init.zeros_(w)" : "nn.init.ones_(w)";
    return weft_torch_text(p, "nn.init.constant_(w, %s)", value);
}

/* Prints the condition of a branch in one line or, if it is too long, with a line for each name. */
static void print_condition(const struct draws *d, const char *word, const char *const *ends, int count)
{
    FILE *out = d->p->out;
    const char *all = "";
    for (int i = 0; i < count; i++)
        all = weft_torch_text(d->p, "%s%s%s", all, i ? ", " : "", ends[i]);
    if (strlen(word) + strlen(all) <= 120 - strlen("             name.endswith(()):")) {
        fprintf(out, "            %s name.endswith(%s%s%s):\n", word, count > 1 ? "(" : "", all, count > 1 ? ")" : "");
        return;
    }
    fprintf(out, "            %s name.endswith(\n                (\n", word);
    for (int i = 0; i < count; i++)
        fprintf(out, "                    %s,\n", ends[i]);
    fprintf(out, "                )\n            ):\n");
}

static bool contains(const char *const *list, int count, const char *text)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i], text) == 0)
            return true;
    return false;
}

/* Prints the branch of all weights that are initialised like weight i. */
static void print_branch(struct draws *d, int i, const char *word)
{
    const struct weft_param *w = &d->list->list[i];
    const char **ends = weft_arena_alloc(&d->p->arena, (size_t)d->list->count * sizeof *ends);
    int count = 0;
    for (int k = i; ends && k < d->list->count; k++) {
        if (d->done[k] || is_usual(d, &d->list->list[k]) || !is_alike(w, &d->list->list[k]))
            continue;
        const char *end = end_of(d, &d->list->list[k]), *quoted = weft_torch_text(d->p, "\"%s\"", end);
        check_end(d, end, w);
        d->done[k] = true;
        if (!contains(ends, count, quoted))
            ends[count++] = quoted;
    }
    if (!ends)
        return;
    print_condition(d, word, ends, count);
    fprintf(d->p->out, "                %s\n", draw_of(d->p, w));
    if (w->init_blocks)
        fprintf(d->p->out, "                w *= torch.block_diag(*torch.ones(%lld, %lld, %lld))\n",
                (long long)w->init_blocks, (long long)(w->dim[0] / w->init_blocks),
                (long long)(w->dim[1] / w->init_blocks));
}

void weft_torch_draws(struct weft_torch_printer *p)
{
    struct draws d = {.p = p, .list = &p->model->params};
    d.done = weft_arena_alloc(&p->arena, (size_t)d.list->count + 1);
    d.usual = find_usual(d.list);
    const char *word = "if";
    if (!d.done)
        p->status = WEFT_NOMEM;
    for (int i = 0; p->status == WEFT_OK && i < d.list->count; i++) {
        if (d.done[i] || is_usual(&d, &d.list->list[i]))
            continue;
        print_branch(&d, i, word);
        word = "elif";
    }
    fprintf(p->out, "            %s w.ndim == 1:\n                nn.init.zeros_(w)\n", word);
    if (d.usual)
        fprintf(p->out, "            else:\n                %s\n", draw_of(p, d.usual));
}
