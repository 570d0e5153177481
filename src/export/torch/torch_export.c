/* SPDX-License-Identifier: MIT
 *
 * torch_export.c - a model as a folder of plain PyTorch: model.py and model.safetensors.
 */
#include "ckpt/ckpt.h"
#include "export/torch/print.h"
#include "export/torch/torch.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

static const char head[] =
    "\"\"\"A model written by weft export. Its parameters have the names of Weft's weights. Usage:\n"
    "\n"
    "    model = load(\"model.safetensors\")\n"
    "    logits = model(tokens)  # tokens: int64 [batch, length]\n"
    "    loss, terms = model(tokens, targets)  # targets: int64 [batch, length], -1 where nothing is scored\n"
    "\n"
    "In training mode, dropout is applied; load() returns the model in evaluation mode.\n"
    "\"\"\"\n"
    "%s"
    "import torch\n"
    "import torch.nn.functional as F\n"
    "from safetensors.torch import load_file\n"
    "from torch import nn\n"
    "\n\n"
    "class Weights(nn.Module):\n"
    "    \"\"\"Parameters of these names and shapes.\"\"\"\n"
    "\n"
    "    def __init__(self, **shapes):\n"
    "        super().__init__()\n"
    "        for name, shape in shapes.items():\n"
    "            self.register_parameter(name, nn.Parameter(torch.empty(shape)))\n";

/* Functions that are printed if the text calls them. */
static const struct {
    const char *call, *text;
} functions[] = {
    {"angles(", "\n\n"
                "def angles(positions, half, base, factor=1.0, low=None, high=None, original=None):\n"
                "    \"\"\"Angles of rotary positions in f64 [positions, half].\"\"\"\n"
                "    frequency = base ** (-torch.arange(half, dtype=torch.float64) / half)\n"
                "    if original is None:\n"
                "        frequency = frequency / factor\n"
                "    else:  # as in Llama 3.1: pairs that rotate slowly are slowed down\n"
                "        share = ((original * frequency / (2 * math.pi) - low) / (high - low)).clamp(0, 1)\n"
                "        frequency = frequency * (share + (1 - share) / factor)\n"
                "    return torch.arange(positions, dtype=torch.float64)[:, None] * frequency\n"},
    {"rotate(", "\n\n"
                "def rotate(x, cos, sin):\n"
                "    \"\"\"Rotates column i with column i + half of each head.\"\"\"\n"
                "    a, b = x.chunk(2, -1)\n"
                "    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)\n"},
    {"attend(",
     "\n\n"
     "def attend(q, k, v, bias=None, dropout_p=0.0):\n"
     "    \"\"\"Causal attention for scaled queries. The bias of each key [batch, heads, 1, length] is one more column "
     "of\n"
     "    queries and keys, and all heads are padded to one width, so that fused kernels can be used.\"\"\"\n"
     "    k, v = (x.repeat_interleave(q.size(1) // x.size(1), 1) for x in (k, v))\n"
     "    if bias is not None:\n"
     "        q, k = torch.cat((q, torch.ones_like(q[..., :1])), -1), torch.cat((k, bias.mT), -1)\n"
     "    width = (max(q.size(-1), v.size(-1)) + 7) // 8 * 8\n"
     "    q, k, padded = (F.pad(x, (0, width - x.size(-1))) for x in (q, k, v))\n"
     "    out = F.scaled_dot_product_attention(q, k, padded, dropout_p=dropout_p, is_causal=True, scale=1.0)\n"
     "    return out[..., : v.size(-1)]\n"},
    {"alibi(", "\n\n"
               "def alibi(heads, offsets):\n"
               "    \"\"\"ALiBi's biases by distance in f64 [heads, offsets].\"\"\"\n"
               "    power = 2 ** (heads.bit_length() - 1)\n"
               "    steps = [h + 1 if h < power else h - power + 0.5 for h in range(heads)]\n"
               "    slopes = 2 ** (-8 / power * torch.tensor(steps, dtype=torch.float64))\n"
               "    return -slopes[:, None] * torch.arange(offsets)\n"},
    {"bucket_columns(", "\n\n"
                        "def bucket_columns(columns, count):\n"
                        "    \"\"\"The columns of each bucket [count, most]; the index `columns` fills up.\"\"\"\n"
                        "    first = -(-torch.arange(count + 1) * columns // count)\n"
                        "    index = first[:-1, None] + torch.arange(int(first.diff().max()))\n"
                        "    return torch.where(index < first[1:, None], index, columns)\n"},
    {"distances(", "\n\n"
                   "def distances(tokens):\n"
                   "    \"\"\"The position of each row minus that of each column [batch, length, length].\"\"\"\n"
                   "    position = torch.arange(tokens.size(1), device=tokens.device)\n"
                   "    return (position[:, None] - position).expand(len(tokens), -1, -1)\n"},
};

static const char tail[] = "\n\n"
                           "def load(path):\n"
                           "    \"\"\"The model with the weights of this file.\"\"\"\n"
                           "    model = Model()\n"
                           "    model.load_state_dict(load_file(path))\n"
                           "    return model.eval()\n";

static void print_file(struct weft_torch_printer *p, FILE *file)
{
    char *text = NULL;
    size_t bytes;
    weft_torch_blocks(p);
    p->out = open_memstream(&text, &bytes);
    if (!p->out) {
        p->status = FAIL(WEFT_NOMEM, "not enough memory to print the model");
        return;
    }
    for (int i = 0; i < p->class_count; i++)
        fprintf(p->out, "\n\nclass %s(nn.Module):\n%s\n%s", p->classes[i].name, p->classes[i].init,
                p->classes[i].forward);
    fprintf(p->out, "\n\nclass Model(nn.Module):\n");
    weft_torch_model(p);
    fclose(p->out);
    bool uses_math = strstr(text, "math.") || strstr(text, "angles(");
    fprintf(file, head, uses_math ? "\nimport math\n\n" : "\n");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strstr(text, functions[i].call))
            fputs(functions[i].text, file);
    fputs(text, file);
    fputs(tail, file);
    free(text);
}

static enum weft_status allocate(struct weft_torch_printer *p)
{
    const struct weft_node *loss = p->net->nll->node;
    p->of = weft_arena_alloc(&p->arena, (size_t)p->form->count * sizeof *p->of + 1);
    p->names = weft_arena_alloc(&p->arena, (2 * (size_t)p->form->count + 64) * sizeof *p->names);
    if (!p->of || !p->names)
        return WEFT_NOMEM;
    p->hidden = weft_torch_of(p, loss->in[0]);
    p->head = weft_torch_of(p, loss->in[1]);
    return WEFT_OK;
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

static enum weft_status write_weights(const struct weft_nn *model, const char *path)
{
    const struct weft_params *params = &model->params;
    struct weft_entry *entries = calloc((size_t)params->count, sizeof *entries);
    if (!entries)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of weights");
    for (int i = 0; i < params->count; i++) {
        const struct weft_param *w = &params->list[i];
        entries[i] = (struct weft_entry){
            .name = w->name, .dtype = WEFT_F32, .ndim = w->ndim, .data = params->weights + w->offset};
        memcpy(entries[i].dim, w->dim, sizeof w->dim);
    }
    enum weft_status status =
        weft_safetensors_write(path, entries, params->count, (const char *const[]){"format", "pt", NULL});
    free(entries);
    return status;
}

/* Draws the graph that trains, and lowers it. */
static enum weft_status lower(struct weft_net *net, struct weft_form *form, const struct weft_nn *model)
{
    TRY(weft_net_draw(net, model, WEFT_TRAIN, (struct weft_net_size){.sequences = 1, .length = model->spec->context}));
    TRY(weft_form_init(form, net->g, true, model->spec->context));
    return weft_torch_tidy(form);
}

static enum weft_status write_folder(struct weft_torch_printer *p, const char *folder)
{
    char path[4200];
    TRY(weft_folder_make(folder));
    snprintf(path, sizeof path, "%s/model.py", folder);
    TRY(print_model(p, path));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    return write_weights(p->model, path);
}

enum weft_status weft_torch_export(const struct weft_nn *model, const char *folder)
{
    struct weft_net net = {0};
    struct weft_form form = {0};
    struct weft_torch_printer p = {.model = model, .net = &net, .form = &form};
    enum weft_status status = lower(&net, &form, model);
    if (status == WEFT_OK)
        status = write_folder(&p, folder);
    weft_arena_release(&p.arena);
    weft_form_release(&form);
    weft_net_release(&net);
    return status;
}
