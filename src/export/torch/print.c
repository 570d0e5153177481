/* SPDX-License-Identifier: MIT
 *
 * print.c - a model as a Python file. The file follows module.py or decoder.py: these are Python files in which lines
 * "#: NAME" stand for what is printed, and of whose functions and classes only those are kept that the model uses.
 */
#include "export/torch/print.h"
#include "base/embed.h"
#include "ckpt/ckpt.h"

#include <stdlib.h>
#include <string.h>

WEFT_EMBED(torch_module, "src/export/torch/module.py");
WEFT_EMBED(torch_decoder, "src/export/torch/decoder.py");

/* ---- what the lines "#: NAME" stand for */

static void print_blocks(struct weft_torch_printer *p)
{
    for (int i = 0; i < p->class_count; i++)
        fprintf(p->out, "%sclass %s(nn.Module):\n%s\n%s", i ? "\n\n" : "", p->classes[i].name, p->classes[i].init,
                p->classes[i].forward);
}

static void print_modules(struct weft_torch_printer *p)
{
    p->scope = WEFT_TORCH_MODEL;
    p->indent = "        ";
    weft_torch_modules(p, WEFT_TORCH_MODEL);
    weft_torch_buffers(p, WEFT_TORCH_MODEL);
}

static void print_tables(struct weft_torch_printer *p) { weft_torch_tables(p, WEFT_TORCH_MODEL); }

/* Fields of the class of a decoder. */
static void print_class(struct weft_torch_printer *p)
{
    const char *names = "";
    for (int i = 0; i < p->class_count; i++)
        names = weft_torch_text(p, "%s%s\"%s\"", names, i ? ", " : "", p->classes[i].name);
    fprintf(p->out, "    _no_split_modules = [%s]\n", names);
    if (p->model->spec->tie)
        fprintf(p->out, "    _tied_weights_keys = {\"lm_head.weight\": \"wte.weight\"}\n");
}

/* A decoder's code is for one width and depth, so a different config is an error. */
static void print_sizes(struct weft_torch_printer *p)
{
    long long width = p->model->spec->width, layers = p->model->spec->layers;
    fprintf(p->out, "        if (config.hidden_size, config.num_hidden_layers) != (%lld, %lld):\n", width, layers);
    fprintf(p->out, "            raise ValueError(\"this code is for a model of width %lld with %lld layers\")\n",
            width, layers);
}

static void print_fill(struct weft_torch_printer *p)
{
    fprintf(p->out, "        if hasattr(module, \"tables\"):\n"
                    "            for name, table in module.tables().items():\n"
                    "                module.get_buffer(name).copy_(table)\n");
}

static const struct {
    const char *name;
    void (*print)(struct weft_torch_printer *p);
} holes[] = {{"blocks", print_blocks},     {"modules", print_modules}, {"tables", print_tables},
             {"draws", weft_torch_draws},  {"body", weft_torch_body},  {"loss", weft_torch_loss},
             {"class", print_class},       {"sizes", print_sizes},     {"fill", print_fill},
             {"embeds", weft_torch_inputs}};

static void fill(struct weft_torch_printer *p, const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof holes / sizeof *holes; i++)
        if (strlen(holes[i].name) == length && strncmp(holes[i].name, name, length) == 0)
            holes[i].print(p);
}

/* Prints lines up to `end`. */
static void print_part(struct weft_torch_printer *p, const char *line, const char *end)
{
    while (line < end && p->status == WEFT_OK) {
        size_t length = strcspn(line, "\n"), indent = strspn(line, " ");
        if (strncmp(line + indent, "#: ", 3) == 0)
            fill(p, line + indent + 3, length - indent - 3);
        else
            fprintf(p->out, "%.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

/* ---- the parts of a file, which two empty lines divide */

enum { MAX_PARTS = 24 };
struct part {
    const char *start, *end, *text;
    bool kept;
};

static int divide(const char *text, struct part *parts)
{
    int count = 0;
    while (*text && count < MAX_PARTS) {
        const char *end = strstr(text, "\n\n\n");
        end = end ? end + 1 : text + strlen(text);
        parts[count++] = (struct part){text, end, NULL, false};
        text = end + strspn(end, "\n");
    }
    return count;
}

/* Returns whether a part is a function, or a class that is not the model. */
static bool is_optional(const struct part *part)
{
    return strncmp(part->start, "def ", 4) == 0 || strncmp(part->start, "class State", 11) == 0;
}

/* Returns whether another part that is kept uses the name that a part defines. */
static bool is_used(const struct part *parts, int count, const struct part *part)
{
    char name[64];
    if (sscanf(part->start, "%*s %63[a-zA-Z_]", name) != 1 || strcmp(name, "load") == 0)
        return true;
    strcat(name, "(");
    for (int i = 0; i < count; i++)
        for (const char *at = parts[i].kept && &parts[i] != part ? parts[i].text : NULL; at && (at = strstr(at, name));
             at++)
            if (at == parts[i].text || !strchr("abcdefghijklmnopqrstuvwxyz_.", at[-1]))
                return true;
    return false;
}

static void keep_used(struct part *parts, int count)
{
    for (int i = 0; i < count; i++)
        parts[i].kept = !is_optional(&parts[i]);
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < count; i++)
            if (!parts[i].kept && is_used(parts, count, &parts[i]))
                parts[i].kept = more = true;
    }
}

/* Lists the parts of the file to follow and, for decoder.py, the functions of module.py that it does not define itself.
 */
static int collect(const struct weft_torch_printer *p, struct part *parts)
{
    struct part others[MAX_PARTS];
    const char *own = p->code == WEFT_TORCH_MODULE ? weft_embedded_torch_module : weft_embedded_torch_decoder;
    int count = divide(own, parts),
        more = p->code == WEFT_TORCH_MODULE ? 0 : divide(weft_embedded_torch_module, others);
    for (int i = 0; i < more; i++) {
        char start[64];
        snprintf(start, sizeof start, "\n%.*s", (int)strcspn(others[i].start, "(") + 1, others[i].start);
        if (strncmp(start, "\ndef ", 5) != 0 || strstr(own, start) || strstr(start, " load("))
            continue;
        memmove(parts + 2, parts + 1, (size_t)(count++ - 1) * sizeof *parts);
        parts[1] = others[i];
    }
    return count;
}

/* Prints the first part without the imports that nothing needs. */
static void print_head(struct weft_torch_printer *p, const struct part *parts, int count, FILE *file)
{
    bool math = false, functional = false, state = false;
    for (int i = 1; i < count; i++) {
        math = math || (parts[i].kept && strstr(parts[i].text, "math."));
        functional = functional || (parts[i].kept && strstr(parts[i].text, "F."));
        state = state || (parts[i].kept && strstr(parts[i].text, "DynamicLayer"));
    }
    const char *text = parts[0].text, *line = text;
    for (size_t length; *line; line += length + (line[length] == '\n')) {
        length = strcspn(line, "\n");
        if (!math && strncmp(line, "import math\n", 12) == 0) {
            line++; /* and the empty line after it */
            continue;
        }
        if (!functional && strncmp(line, "import torch.nn.functional", 26) == 0)
            continue;
        const char *layer = state ? NULL : strstr(line, "DynamicLayer, ");
        if (layer && layer < line + length)
            fprintf(file, "%.*s%.*s\n", (int)(layer - line), line, (int)(line + length - layer - 14), layer + 14);
        else
            fprintf(file, "%.*s\n", (int)length, line);
    }
}

static void print_file(struct weft_torch_printer *p, FILE *file)
{
    struct part parts[2 * MAX_PARTS];
    int count = collect(p, parts);
    weft_torch_blocks(p);
    for (int i = 0; i < count && p->status == WEFT_OK; i++) {
        struct weft_torch_output output;
        weft_torch_open(p, &output);
        print_part(p, parts[i].start, parts[i].end);
        parts[i].text = weft_torch_close(p, &output);
    }
    if (p->status != WEFT_OK)
        return;
    keep_used(parts, count);
    print_head(p, parts, count, file);
    for (int i = 1; i < count; i++)
        if (parts[i].kept)
            fprintf(file, "\n\n%s", parts[i].text);
}

/* ---- the model */

static enum weft_status allocate(struct weft_torch_printer *p)
{
    const struct weft_node *last = (p->code == WEFT_TORCH_MODULE ? p->net->nll : p->net->logits)->node;
    int matrix = p->code == WEFT_TORCH_MODULE ? 1 : 4;
    p->of = weft_arena_alloc(&p->arena, (size_t)p->form->count * sizeof *p->of + 1);
    p->names = weft_arena_alloc(&p->arena, (2 * (size_t)p->form->count + 64) * sizeof *p->names);
    p->weight_names = weft_arena_alloc(&p->arena, (size_t)p->model->params.count * sizeof *p->weight_names + 1);
    if (!p->of || !p->names || !p->weight_names)
        return WEFT_NOMEM;
    p->hidden = weft_torch_of(p, last->in[0]);
    p->head = weft_torch_of(p, last->in[matrix]);
    weft_torch_name_weights(p);
    return p->status;
}

static enum weft_status print_model(struct weft_torch_printer *p, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file)
        return FAIL(WEFT_NOMEM, "not enough memory to print the model");
    enum weft_status status = allocate(p);
    if (status == WEFT_OK) {
        weft_torch_divide(p);
        if (p->status == WEFT_OK)
            print_file(p, file);
        status = p->status;
    }
    fclose(file);
    if (status == WEFT_OK)
        status = weft_file_replace(path, text, bytes);
    free(text);
    return status;
}

/* Draws the graph, and lowers it. */
static enum weft_status lower(struct weft_torch_printer *p, struct weft_net *net, struct weft_form *form)
{
    struct weft_net_size size = {.sequences = 1, .length = p->model->spec->context};
    bool trains = p->code == WEFT_TORCH_MODULE;
    if (!trains)
        size.store_rows = size.ring_rows = size.length;
    TRY(weft_net_draw(net, p->model, trains ? WEFT_TRAIN : WEFT_DECODE, size));
    TRY(weft_form_init(form, net->g, trains, p->model->spec->context));
    if (!trains) {
        TRY(weft_torch_check_slots(net));
        TRY(weft_form_check_causal(form, "transformers"));
    }
    return weft_torch_tidy(form, p->code);
}

enum weft_status weft_torch_print(const struct weft_nn *model, enum weft_torch_code code, const char *path)
{
    struct weft_net net = {0};
    struct weft_form form = {0};
    struct weft_torch_printer p = {.model = model, .net = &net, .form = &form, .code = code};
    enum weft_status status = lower(&p, &net, &form);
    if (status == WEFT_OK)
        status = print_model(&p, path);
    weft_arena_release(&p.arena);
    weft_form_release(&form);
    weft_net_release(&net);
    return status;
}
