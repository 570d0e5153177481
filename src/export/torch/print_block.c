/* SPDX-License-Identifier: MIT
 *
 * print_block.c - the classes of blocks: layers with the same text share one class.
 */
#include "export/torch/print.h"

#include <string.h>

static const char *const indent = "        ";

/* ---- forward */

static void print_lines(struct weft_torch_printer *p, int layer)
{
    const struct weft_form *f = p->form;
    for (int i = 0; i < f->count; i++)
        if (p->of[i].needed && p->of[i].home == layer && !weft_torch_is_source(f->list[i]))
            weft_torch_line(p, f->list[i]);
}

/* Returns the arguments of a block: self, what it reads, and the cache. */
static const char **arguments(struct weft_torch_printer *p, const struct weft_torch_layer *l, int *count)
{
    const char **names = weft_arena_alloc(&p->arena, ((size_t)l->in_count + 2) * sizeof *names);
    *count = 0;
    if (!names) {
        p->status = WEFT_NOMEM;
        return NULL;
    }
    names[(*count)++] = "self";
    for (int i = 0; i < l->in_count; i++)
        names[(*count)++] = weft_torch_name(p, l->in[i], weft_torch_hint(p, l->in[i]));
    if (l->slots)
        names[(*count)++] = weft_torch_reserve(p, "cache");
    return names;
}

static const char *body(struct weft_torch_printer *p, int layer)
{
    struct weft_torch_layer *l = &p->layers[layer];
    struct weft_torch_output output;
    const char *returned = "", *sizes = "";
    int count;
    weft_torch_begin(p, layer);
    p->indent = indent;
    const char **names = arguments(p, l, &count);
    weft_torch_open(p, &output);
    if (p->status != WEFT_OK)
        return weft_torch_close(p, &output);
    for (int i = 0; i < l->out_count; i++)
        weft_torch_count(p, l->out[i], 1);
    print_lines(p, layer);
    for (int i = 0; i < l->out_count; i++)
        returned = weft_torch_text(p, "%s%s%s", returned, i ? ", " : "",
                                   weft_torch_operand(p, l->out[i], WEFT_BINDS_COMPARISON));
    const char *text = weft_torch_close(p, &output);
    if (p->sizes)
        sizes = strstr(text, "batch") ? "        batch, length = x.shape[:2]\n" : "        length = x.size(1)\n";
    return weft_torch_text(p, "%s%s%s        return %s\n", weft_torch_call(p, 4, "def forward", names, count, ":"),
                           sizes, text, returned);
}

static const char *init(struct weft_torch_printer *p, int layer)
{
    struct weft_torch_output output;
    bool cached = p->layers[layer].slots > 0;
    weft_torch_open(p, &output);
    if (p->status != WEFT_OK)
        return weft_torch_close(p, &output);
    p->scope = layer;
    p->indent = indent;
    fprintf(p->out, "    def __init__(self%s):\n        super().__init__()\n", cached ? ", slot" : "");
    if (cached)
        fprintf(p->out, "        self.slot = slot  # the first of its entries in the cache\n");
    weft_torch_modules(p, layer);
    weft_torch_buffers(p, layer);
    weft_torch_tables(p, layer);
    return weft_torch_close(p, &output);
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
            c->name = weft_torch_text(p, "Block%d", number++);
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
