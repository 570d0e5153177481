/* SPDX-License-Identifier: MIT
 *
 * print_tables.c - tables of constants: buffers that model.py computes when the model is created.
 */
#include "export/torch/print.h"

#include <stdlib.h>
#include <string.h>

/* Lists the arrays that a scope reads, up to `room`; returns their number. */
static int arrays_of(const struct weft_torch_printer *p, int scope, const struct weft_atom **arrays, int room)
{
    const struct weft_atom *list[WEFT_TORCH_READS];
    int count = 0;
    for (int i = 0; i < p->form->count; i++) {
        bool here = p->of[i].needed && p->of[i].home == scope && !weft_torch_is_source(p->form->list[i]);
        for (int k = 0, n = here ? weft_torch_reads(p, p->form->list[i], list) : 0; k < n; k++) {
            bool known = list[k]->kind != WEFT_ATOM_array;
            for (int m = 0; m < count && !known; m++)
                known = arrays[m] == list[k];
            if (!known && count < room)
                arrays[count++] = list[k];
        }
    }
    return count;
}

static const char *literal(struct weft_torch_printer *p, const struct weft_atom *a, int axis, int64_t first,
                           int64_t count)
{
    int64_t n = a->type.ndim ? a->type.dim[axis].times : 1;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) {
        p->status = FAIL(WEFT_NOMEM, "not enough memory to print a table");
        return "";
    }
    fprintf(out, "[");
    for (int64_t i = 0; i < n; i++) {
        int64_t at = first + i * (count / n);
        if (i)
            fprintf(out, ", ");
        if (axis < a->type.ndim - 1)
            fprintf(out, "%s", literal(p, a, axis + 1, at, count / n));
        else if (a->type.of == WEFT_REAL)
            fprintf(out, "%s", weft_torch_real(p, a->data[at]));
        else
            fprintf(out, "%lld", (long long)a->data[at]);
    }
    fprintf(out, "]");
    fclose(out);
    const char *copy = weft_torch_text(p, "%s", text);
    free(text);
    return copy;
}

static const char *rope(struct weft_torch_printer *p, const struct weft_atom *a)
{
    long long positions, half, original;
    int scaling;
    double base, factor, low, high;
    if (sscanf(a->name + 4, "positions=%lld half=%lld base=%lg scaling=%d factor=%lg low=%lg high=%lg original=%lld",
               &positions, &half, &base, &scaling, &factor, &low, &high, &original) != 8)
        return NULL;
    const char *turns = weft_torch_text(p, "%lld, %lld, %s", positions, half, weft_torch_real(p, base));
    if (scaling == 1)
        turns = weft_torch_text(p, "%s, factor=%s", turns, weft_torch_real(p, factor));
    if (scaling == 2)
        turns = weft_torch_text(p, "%s, factor=%s, low=%s, high=%s, original=%lld", turns, weft_torch_real(p, factor),
                                weft_torch_real(p, low), weft_torch_real(p, high), original);
    return weft_torch_text(p, "angles(%s).%.3s()%s", turns, a->name,
                           p->code == WEFT_TORCH_DECODER ? ".float()" : ".to(dtype)");
}

static const char *recipe(struct weft_torch_printer *p, const struct weft_atom *a)
{
    long long n, m, heads;
    if (strncmp(a->name, "cos ", 4) == 0 || strncmp(a->name, "sin ", 4) == 0)
        return rope(p, a);
    if (sscanf(a->name, "alibi heads=%lld offsets=%lld", &n, &m) == 2)
        return weft_torch_text(p, "alibi(%lld, %lld).to(dtype)", n, m);
    if (sscanf(a->name, "outside of blocks, n=%lld blocks=%lld", &n, &m) == 2)
        return weft_torch_text(p, "(torch.arange(%lld)[:, None] // %lld != torch.arange(%lld) // %lld).to(dtype)", n,
                               n / m, n, n / m);
    if (sscanf(a->name, "count n=%lld", &n) == 1)
        return weft_torch_text(p, "torch.arange(%lld, dtype=dtype)", n);
    const char *numbers = strstr(a->name, ", columns=");
    if (!numbers || sscanf(numbers, ", columns=%lld count=%lld heads=%lld", &n, &m, &heads) != 3)
        return NULL;
    if (strncmp(a->name, "heads of buckets", 16) == 0)
        return weft_torch_text(p, "(torch.arange(%lld)[:, None] >= torch.arange(1, %lld) * %lld // %lld).sum(1)", m,
                               heads, m, heads);
    if (strncmp(a->name, "buckets of columns", 18) == 0)
        return weft_torch_text(p, "torch.arange(%lld) * %lld // %lld", n, m, n);
    if (strncmp(a->name, "columns of buckets", 18) == 0)
        return weft_torch_text(p, "bucket_columns(%lld, %lld)", n, m);
    if (strncmp(a->name, "shares of columns", 17) == 0)
        return weft_torch_text(p, "1 / (bucket_columns(%lld, %lld) < %lld).sum(1).to(dtype)", n, m, n);
    return NULL;
}

/* Returns the values of a table. Rotations of a decoder are f32, whatever the model's dtype. */
static const char *values_of(struct weft_torch_printer *p, const struct weft_atom *a)
{
    const char *values = recipe(p, a);
    int64_t count = 1;
    for (int d = 0; d < a->type.ndim; d++)
        count *= a->type.dim[d].times;
    if (!values)
        values = weft_torch_text(p, "torch.tensor(%s%s)", literal(p, a, 0, 0, count),
                                 a->type.of == WEFT_REAL ? ", dtype=dtype" : "");
    return values;
}

void weft_torch_buffers(struct weft_torch_printer *p, int scope)
{
    const struct weft_atom *array;
    if (arrays_of(p, scope, &array, 1) > 0)
        fprintf(p->out,
                "%sfor name, table in self.tables().items():\n"
                "%s    self.register_buffer(name, table, persistent=False)\n",
                p->indent, p->indent);
}

void weft_torch_tables(struct weft_torch_printer *p, int scope)
{
    const struct weft_atom **arrays = weft_arena_alloc(&p->arena, (size_t)p->form->count * sizeof(*arrays) + 1);
    int count = arrays ? arrays_of(p, scope, arrays, p->form->count) : 0;
    const char *lines = "";
    for (int i = 0; i < count; i++)
        lines = weft_torch_text(p, "%s            \"%s\": %s,\n", lines, weft_torch_table_name(p, arrays[i]),
                                values_of(p, arrays[i]));
    if (count == 0)
        return;
    fprintf(p->out, "%s    def tables(self):\n        \"\"\"Constants.\"\"\"\n", scope == WEFT_TORCH_MODEL ? "" : "\n");
    if (strstr(lines, "dtype"))
        fprintf(p->out, "        dtype = torch.get_default_dtype()\n");
    fprintf(p->out, "        return {\n%s        }\n%s", lines, scope == WEFT_TORCH_MODEL ? "\n" : "");
}
