/* SPDX-License-Identifier: MIT
 *
 * names.c - the names of weights in PyTorch, and names that Python code can use.
 */
#include "export/torch/print.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void replace_end(char name[128], const char *end, const char *by)
{
    snprintf(name + strlen(name) - strlen(end), strlen(end) + 16, "%s", by);
}

void weft_torch_weight_name(const struct weft_param *w, char name[128])
{
    bool is_matrix = w->ndim == 2 && w->group <= WEFT_TRAINED_HEAD && !w->init_blocks;
    snprintf(name, 128, "%.100s", w->name);
    if (w->role == WEFT_HEAD)
        snprintf(name, 128, "lm_head.weight");
    else if (weft_ends_in(name, "_bias"))
        replace_end(name, "_bias", ".bias");
    else if (weft_ends_in(name, "_gain"))
        replace_end(name, "_gain", "_norm.weight");
    else if (weft_ends_in(name, ".gain"))
        replace_end(name, ".gain", ".weight");
    else if (is_matrix)
        replace_end(name, "", ".weight");
}

/* ---- names in Python code */

/* In alphabetical order: Python's keywords, and what a module of PyTorch has. */
static const char *const taken[] = {
    "False",
    "None",
    "T_destination",
    "True",
    "add_module",
    "and",
    "apply",
    "as",
    "assert",
    "async",
    "await",
    "bfloat16",
    "break",
    "buffers",
    "call_super_init",
    "children",
    "class",
    "compile",
    "continue",
    "cpu",
    "cuda",
    "def",
    "del",
    "double",
    "dump_patches",
    "elif",
    "else",
    "eval",
    "except",
    "extra_repr",
    "finally",
    "float",
    "for",
    "forward",
    "from",
    "get_buffer",
    "get_extra_state",
    "get_parameter",
    "get_submodule",
    "global",
    "half",
    "if",
    "import",
    "in",
    "ipu",
    "is",
    "lambda",
    "load_state_dict",
    "modules",
    "mtia",
    "named_buffers",
    "named_children",
    "named_modules",
    "named_parameters",
    "nonlocal",
    "not",
    "or",
    "parameters",
    "pass",
    "raise",
    "requires_grad_",
    "return",
    "set_extra_state",
    "set_submodule",
    "share_memory",
    "slot",
    "state_dict",
    "tables",
    "to",
    "to_empty",
    "train",
    "training",
    "try",
    "type",
    "while",
    "with",
    "xpu",
    "yield",
    "zero_grad",
};

static int compare(const void *a, const void *b) { return strcmp(a, *(const char *const *)b); }

bool weft_torch_is_name(const char *text, int length)
{
    char name[128];
    bool good = length > 0 && length < (int)sizeof name && !isdigit((unsigned char)*text);
    for (int i = 0; good && i < length; i++)
        good = isalnum((unsigned char)text[i]) || text[i] == '_';
    if (!good || strncmp(text, "register_", 9) == 0 || strncmp(text, "__", 2) == 0)
        return false;
    snprintf(name, sizeof name, "%.*s", length, text);
    return !bsearch(name, taken, sizeof taken / sizeof *taken, sizeof *taken, compare);
}

const char *weft_torch_identifier(struct weft_torch_printer *p, const char *text)
{
    if (weft_torch_is_name(text, (int)strlen(text)))
        return text;
    bool begins = isalpha((unsigned char)*text) && strncmp(text, "register_", 9) != 0;
    const char *name = weft_torch_text(p, "%s%s_", begins ? "" : "x", text);
    for (char *c = (char *)name; *c; c++)
        *c = isalnum((unsigned char)*c) ? *c : '_';
    return name;
}
