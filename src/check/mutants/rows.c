/* SPDX-License-Identifier: MIT
 *
 * rows.c - mutants whose rows depend on rows they must not see or are computed wrongly, but only in some places: late
 * positions, late layers, grouped heads, one use of the graph, one dtype, the backward pass.
 */
#include "check/mutants/mutants.h"

#define PLACE(...) (&(const struct weft_place){__VA_ARGS__})
#define LATER(...)                                                                                                     \
    {                                                                                                                  \
        WEFT_SEES_LATER, 0.01, __VA_ARGS__                                                                             \
    }
#define OTHER(...)                                                                                                     \
    {                                                                                                                  \
        WEFT_SEES_OTHER, 0.01, __VA_ARGS__                                                                             \
    }
#define DEEP "layers=5 context=200 batch=3 width=32 heads=4"

const struct weft_mutant weft_mutants_rows[] = {
    /* later tokens */
    {"hidden activations see the next token", DEEP, .gate = WEFT_GATE_CAUSAL, .check = "when later tokens change",
     .place = PLACE(WEFT_AT_HIDDEN, .defect = LATER(0))},
    {"heads see the next token at position 72 and later", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "EVAL: rows that change with later tokens", .place = PLACE(WEFT_AT_HEADS, .defect = LATER(72))},
    {"grouped heads see the next token at position 72 and later", DEEP " kv_heads=2", .gate = WEFT_GATE_CAUSAL,
     .check = "EVAL: rows that change with later tokens",
     .place = PLACE(WEFT_AT_HEADS, .only_grouped = true, .defect = LATER(72))},
    {"the next token is seen in the last layer only", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "EVAL: rows that change with later tokens",
     .place = PLACE(WEFT_AT_HIDDEN, .layer = 4, .defect = LATER(0))},
    {"the next token is seen in late layers at late positions in bf16 only", DEEP, .bf16 = true,
     .gate = WEFT_GATE_CAUSAL, .check = "EVAL: rows that change with later tokens",
     .place = PLACE(WEFT_AT_HIDDEN, .layer = 3, .only_bf16 = true, .defect = LATER(150))},
    {"the next token is seen in the training graph only", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "TRAIN: rows that change with later tokens",
     .place = PLACE(WEFT_AT_HIDDEN, .uses = WEFT_USE_TRAIN, .defect = LATER(0))},
    {"the next token is seen in the training graph only, late in the context", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "differs between TRAIN and EVAL",
     .place = PLACE(WEFT_AT_HIDDEN, .uses = WEFT_USE_TRAIN, .defect = LATER(130))},
    {"the next token is seen where losses are computed, but not where logits are", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "EVAL: rows that change with later tokens",
     .place = PLACE(WEFT_AT_LAST_NORM, .uses = WEFT_USE_SCORES, .defect = LATER(0))},
    {"the last token but one sees the last", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "EVAL: rows that change with later tokens", .place = PLACE(WEFT_AT_HEADS, .defect = LATER(198))},
    {"the last row of a tile sees the next tile", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "EVAL: rows that change with later tokens", .place = PLACE(WEFT_AT_HEADS, .defect = LATER(127, 128))},
    {"one position in the middle of a tile sees the next token", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "EVAL: rows that change with later tokens", .place = PLACE(WEFT_AT_HEADS, .defect = LATER(101, 102))},
    {"queries see the next token", DEEP, .gate = WEFT_GATE_CAUSAL, .check = "when later tokens change",
     .place = PLACE(WEFT_AT_QUERIES, .defect = LATER(0))},
    {"keys see the next token", DEEP, .gate = WEFT_GATE_CAUSAL, .check = "when later tokens change",
     .place = PLACE(WEFT_AT_KEYS, .defect = LATER(0))},
    {"norms see the next token at position 90 and later", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "EVAL: rows that change with later tokens", .place = PLACE(WEFT_AT_NORMS, .defect = LATER(90))},
    {"gradients come from later tokens", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "TRAIN: rows with a gradient at a later position",
     .place = PLACE(WEFT_AT_HIDDEN, .defect = LATER(0, .in = WEFT_IN_BACKWARD))},
    {"gradients come from later tokens at position 72 and later", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "TRAIN: rows with a gradient at a later position",
     .place = PLACE(WEFT_AT_HEADS, .defect = LATER(72, .in = WEFT_IN_BACKWARD))},
    /* other sequences */
    {"rows see another sequence", DEEP, .gate = WEFT_GATE_ISOLATED, .check = "FORWARD: rows that differ",
     .place = PLACE(WEFT_AT_HIDDEN, .defect = OTHER(0))},
    {"rows see another sequence late in the context", DEEP, .gate = WEFT_GATE_ISOLATED,
     .check = "EVAL: rows that differ", .place = PLACE(WEFT_AT_HEADS, .layer = 3, .defect = OTHER(140))},
    {"rows see another sequence in the training graph", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "TRAIN: rows that change with another sequence",
     .place = PLACE(WEFT_AT_HEADS, .uses = WEFT_USE_TRAIN, .defect = OTHER(0))},
    {"gradients reach another sequence", DEEP, .gate = WEFT_GATE_CAUSAL,
     .check = "TRAIN: rows with a gradient in another sequence",
     .place = PLACE(WEFT_AT_HIDDEN, .defect = {WEFT_SEES_OTHER, 0.01, 0, .in = WEFT_IN_BACKWARD})},
    {"rows depend on the sequence's index in the batch", DEEP, .gate = WEFT_GATE_ISOLATED, .check = "rows that differ",
     .place = PLACE(WEFT_AT_NORMS, .defect = {WEFT_SEES_PLACE, 1e-3, 0})},
    {"rows depend on the number of rows", DEEP, .gate = WEFT_GATE_CACHED, .check = "rows that differ",
     .place = PLACE(WEFT_AT_HIDDEN, .defect = {WEFT_SEES_ROWS, 1e-4, 0})},
    /* the cache */
    {"rows read the previous row, which a cache does not keep", DEEP, .gate = WEFT_GATE_CACHED,
     .check = "rows that differ", .place = PLACE(WEFT_AT_HIDDEN, .defect = {WEFT_SEES_BEFORE, 0.01, 0})},
    {"decoding differs past the second page", DEEP, .gate = WEFT_GATE_CACHED, .check = "of 200 tokens",
     .place = PLACE(WEFT_AT_HEADS, .uses = WEFT_USE_CACHED, .defect = {WEFT_SCALES, 1.01, 128})},
    {"decoding differs in the last layer in bf16", DEEP, .bf16 = true, .gate = WEFT_GATE_CACHED,
     .check = "rows that differ",
     .place = PLACE(WEFT_AT_HIDDEN, .layer = 4, .uses = WEFT_USE_CACHED, .defect = {WEFT_SCALES, 1.05, 70})},
    /* kernels that do not compute the result of their reference */
    {"a kernel is off by 5%", DEEP, .gate = WEFT_GATE_GRADIENT, .check = "against f64",
     .place = PLACE(WEFT_AT_HIDDEN, .defect = {WEFT_SCALES, 1.05, 0, .in = WEFT_IN_FAST})},
    {"a kernel is off in bf16", DEEP, .bf16 = true, .gate = WEFT_GATE_GRADIENT, .check = "in bf16 against f64",
     .place = PLACE(WEFT_AT_HIDDEN, .only_bf16 = true, .defect = {WEFT_SCALES, 1.1, 0, .in = WEFT_IN_FAST})},
    {"a kernel is off in bf16 in the last layer", DEEP, .bf16 = true, .gate = WEFT_GATE_GRADIENT,
     .check = "in bf16 against f64 (all layers",
     .place =
         PLACE(WEFT_AT_HIDDEN, .layer = 4, .only_bf16 = true, .defect = {WEFT_SCALES, 1.1, 0, .in = WEFT_IN_FAST})},
    {"a kernel is wrong past the second tile", DEEP, .gate = WEFT_GATE_GRADIENT, .check = "against f64 (2 layers",
     .place = PLACE(WEFT_AT_HEADS, .defect = {WEFT_SCALES, 1.05, 130, .in = WEFT_IN_FAST})},
    {"a kernel is wrong past the second tile in bf16", DEEP, .bf16 = true, .gate = WEFT_GATE_GRADIENT,
     .check = "against f64 (2 layers",
     .place = PLACE(WEFT_AT_HEADS, .only_bf16 = true, .defect = {WEFT_SCALES, 1.25, 130, .in = WEFT_IN_FAST})},
    {"a gradient is off by 5% in bf16", DEEP, .bf16 = true, .gate = WEFT_GATE_GRADIENT, .check = "scale of gradients",
     .place = PLACE(WEFT_AT_HIDDEN, .only_bf16 = true, .defect = {WEFT_SCALES, 1.05, 0, .in = WEFT_IN_FAST_BACKWARD})},
    {"a derivative is wrong late in the context", DEEP, .gate = WEFT_GATE_GRADIENT,
     .check = "differences of the loss in f64 (2 layers",
     .place = PLACE(WEFT_AT_HEADS, .defect = {WEFT_SCALES, 0.99, 100, .in = WEFT_IN_BACKWARD})},
    {"a gradient is off late in the context", DEEP, .gate = WEFT_GATE_GRADIENT, .check = "against f64 (2 layers",
     .place = PLACE(WEFT_AT_HEADS, .defect = {WEFT_SCALES, 0.9, 100, .in = WEFT_IN_FAST_BACKWARD})},
    /* derivatives of deep layers, in kernels and references alike: the twin has fewer layers */
    {"keys' gradients are a tenth too small in layer 3 and above", DEEP, .gate = WEFT_GATE_GRADIENT,
     .check = "differences of the loss in f64 (all layers",
     .place = PLACE(WEFT_AT_KEYS, .layer = 3, .defect = {WEFT_SCALES, 0.9, 0, .in = WEFT_IN_BACKWARD})},
    {"hidden activations have hardly any gradient in the sixth layer", "layers=6 context=96 batch=2 width=24 heads=3",
     .gate = WEFT_GATE_GRADIENT, .check = "differences of the loss in f64 (all layers",
     .place = PLACE(WEFT_AT_HIDDEN, .layer = 5, .defect = {WEFT_SCALES, 1e-3, 0, .in = WEFT_IN_BACKWARD})},
    {"norms of deep layers have twice their gradient, with dropout",
     "layers=7 context=70 batch=1 width=32 heads=2 dropout=0.2", .gate = WEFT_GATE_GRADIENT,
     .check = "differences of the loss in f64 (all layers",
     .place = PLACE(WEFT_AT_NORMS, .layer = 4, .defect = {WEFT_SCALES, 2, 0, .in = WEFT_IN_BACKWARD})},
    {"heads of deep layers have no gradient at the end of the context", DEEP, .gate = WEFT_GATE_GRADIENT,
     .check = "differences of the loss in f64 (all layers",
     .place = PLACE(WEFT_AT_HEADS, .layer = 4, .defect = {WEFT_SCALES, 0, 6, .in = WEFT_IN_BACKWARD})},
    /* an output that is always 0 */
    {"the last layer's feed-forward is multiplied by 0", DEEP, .gate = WEFT_GATE_LIVE,
     .check = "every weight has a gradient", .place = PLACE(WEFT_AT_HIDDEN, .layer = 2, .defect = {WEFT_SCALES, 0, 0})},
    {0},
};
