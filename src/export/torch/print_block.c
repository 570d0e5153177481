/* SPDX-License-Identifier: MIT
 *
 * print_block.c - the classes of blocks: layers with the same text share one class.
 */
#include "export/torch/print.h"

#include <stdlib.h>
#include <string.h>

static const char *const indent = "        ";

/* ---- __init__: the weights of a scope */

static const char *dims_of(struct weft_torch_printer *p, const struct weft_param *w)
{
    const char *text = "";
    for (int i = 0; i < w->ndim; i++)
        text = weft_torch_print(p, "%s%s%lld", text, i ? ", " : "", (long long)w->dim[i]);
    return text;
}

/* Returns the name of a weight within the scope, such as "attn.wq"; NULL if it belongs to a different one. */
static const char *name_in(int scope, const struct weft_param *w)
{
    int layer, length;
    if (sscanf(w->name, "blocks.%d.%n", &layer, &length) != 1)
        return scope == WEFT_TORCH_MODEL ? w->name : NULL;
    return layer == scope ? w->name + length : NULL;
}

/* Returns the next weight of the scope that has the same holder as `name`, which ends at `dot`; -1: none. */
static int next_of(const struct weft_params *list, int scope, int i, const char *name, const char *dot)
{
    for (; i < list->count; i++) {
        const char *other = name_in(scope, &list->list[i]);
        if (other && strncmp(other, name, (size_t)(dot - name) + 1) == 0)
            return i;
    }
    return -1;
}

/* Prints a holder of several weights, unless an earlier weight has printed it. */
static void print_holder(struct weft_torch_printer *p, int scope, int i, const char *name, const char *dot)
{
    const struct weft_params *list = &p->model->params;
    const char **args = weft_arena_alloc(&p->arena, (size_t)list->count * sizeof *args);
    int count = 0;
    if (!args || next_of(list, scope, 0, name, dot) < i)
        return;
    for (int k = i; k >= 0; k = next_of(list, scope, k + 1, name, dot)) {
        const struct weft_param *w = &list->list[k];
        args[count++] = weft_torch_print(p, "%s=(%s%s)", name_in(scope, w) + (dot - name) + 1, dims_of(p, w),
                                         w->ndim == 1 ? "," : "");
    }
    fputs(weft_torch_call(p, 8, weft_torch_print(p, "self.%.*s = Weights", (int)(dot - name), name), args, count, ""),
          p->out);
}

void weft_torch_init(struct weft_torch_printer *p, int scope)
{
    const struct weft_params *list = &p->model->params;
    for (int i = 0; i < list->count; i++) {
        const char *name = name_in(scope, &list->list[i]), *dot = name ? strchr(name, '.') : NULL;
        if (dot)
            print_holder(p, scope, i, name, dot);
        else if (name)
            fprintf(p->out, "%sself.%s = nn.Parameter(torch.empty(%s))\n", indent, name, dims_of(p, &list->list[i]));
    }
    weft_torch_tables(p, scope);
}

/* ---- forward */

static void print_lines(struct weft_torch_printer *p, int layer)
{
    const struct weft_form *f = p->form;
    for (int i = 0; i < f->count; i++)
        if (p->of[i].needed && p->of[i].home == layer && !weft_torch_is_source(f->list[i]))
            weft_torch_line(p, f->list[i]);
}

static const char *body(struct weft_torch_printer *p, int layer)
{
    struct weft_torch_layer *l = &p->layers[layer];
    char *text = NULL;
    size_t bytes;
    const char **names = weft_arena_alloc(&p->arena, ((size_t)l->in_count + 1) * sizeof *names), *returned = "";
    p->out = open_memstream(&text, &bytes);
    if (!p->out || !names) {
        p->status = FAIL(WEFT_NOMEM, "not enough memory to print a block");
        return "";
    }
    names[0] = "self";
    weft_torch_begin(p, layer);
    p->indent = indent;
    for (int i = 0; i < l->in_count; i++)
        names[i + 1] = weft_torch_name(p, l->in[i], weft_torch_hint(p, l->in[i]));
    for (int i = 0; i < l->out_count; i++)
        weft_torch_count(p, l->out[i], 1);
    print_lines(p, layer);
    for (int i = 0; i < l->out_count; i++)
        returned = weft_torch_print(p, "%s%s%s", returned, i ? ", " : "",
                                    weft_torch_text(p, l->out[i], WEFT_BINDS_COMPARISON));
    fclose(p->out);
    const char *whole = weft_torch_print(
        p, "%s%s%s%s        return %s\n", weft_torch_call(p, 4, "def forward", names, l->in_count + 1, ":"),
        p->sizes ? indent : "",
        p->sizes ? strstr(text, "batch") ? "batch, length = x.shape[:2]\n" : "length = x.size(1)\n" : "", text,
        returned);
    free(text);
    return whole;
}

static const char *init(struct weft_torch_printer *p, int layer)
{
    char *text = NULL;
    size_t bytes;
    p->out = open_memstream(&text, &bytes);
    if (!p->out) {
        p->status = FAIL(WEFT_NOMEM, "not enough memory to print a block");
        return "";
    }
    weft_torch_init(p, layer);
    fclose(p->out);
    const char *whole = weft_torch_print(p, "    def __init__(self):\n        super().__init__()\n%s", text);
    free(text);
    return whole;
}

/* ---- classes */

static int find_class(struct weft_torch_printer *p, const char *init_text, const char *forward)
{
    for (int i = 0; i < p->class_count; i++)
        if (strcmp(p->classes[i].init, init_text) == 0 && strcmp(p->classes[i].forward, forward) == 0)
            return i;
    p->classes[p->class_count] = (struct weft_torch_class){.init = init_text, .forward = forward, .first = -1};
    return p->class_count++;
}

static void name_classes(struct weft_torch_printer *p)
{
    int most = 0, number = 2;
    for (int i = 1; i < p->class_count; i++)
        if (p->classes[i].count > p->classes[most].count || p->classes[most].first == 0)
            most = p->classes[i].count >= p->classes[most].count ? i : most;
    for (int i = 0; i < p->class_count; i++) {
        struct weft_torch_class *c = &p->classes[i];
        if (i == most)
            c->name = "Block";
        else if (c->count == 1 && c->first == 0)
            c->name = "FirstBlock";
        else if (c->count == 1 && c->first == p->layer_count - 1)
            c->name = "LastBlock";
        else
            c->name = weft_torch_print(p, "Block%d", number++);
    }
}

void weft_torch_blocks(struct weft_torch_printer *p)
{
    p->classes = weft_arena_alloc(&p->arena, (size_t)p->layer_count * sizeof *p->classes + 1);
    if (!p->classes)
        p->status = WEFT_NOMEM;
    for (int i = 0; i < p->layer_count && p->status == WEFT_OK; i++) {
        int c = find_class(p, init(p, i), body(p, i));
        p->layers[i].class = c;
        if (p->classes[c].first < 0)
            p->classes[c].first = i;
        p->classes[c].count++;
    }
    if (p->status == WEFT_OK)
        name_classes(p);
}
