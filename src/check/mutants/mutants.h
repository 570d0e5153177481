/* SPDX-License-Identifier: MIT
 *
 * mutants.h - shared by the mutants: replaces parts and ops by broken copies, and puts a defect anywhere in a model.
 */
#ifndef WEFT_MUTANTS_H
#define WEFT_MUTANTS_H

#include "check/check.h"
#include "nn/build.h"
#include "nn/parts.h"
#include "ops/ops.h"

/* ---- the lists; each ends with a NULL name */

extern const struct weft_mutant weft_mutants_wired[], weft_mutants_masks[], weft_mutants_rows[], weft_mutants_layers[],
    weft_mutants_kernels[], weft_mutants_training[], weft_mutants_loading[], weft_mutants_scaled[],
    weft_mutants_declared[], weft_mutants_tables[], weft_mutants_distances[], weft_mutants_formed[];

/* ---- replacing parts and ops (replace.c); weft_mutants_restore undoes all replacements */

/* Replaces the op by a copy and returns the copy, to be modified; the sound op is weft_sound_op(id). */
struct weft_op *weft_break_op(enum weft_op_id id);
const struct weft_op *weft_sound_op(enum weft_op_id id);
/* Replaces the part by a copy and returns the copy, to be modified. */
#define WEFT_BREAK_PART(kind, whole) ((struct kind *)weft_break_part(&(whole).part, &(whole), sizeof(whole)))
void *weft_break_part(const struct weft_part *part, const void *whole, size_t bytes);
void weft_mutants_restore(void);

/* ---- a defect of rows (defect.c): y = A x with a wrong A. WEFT_SEES_LATER, _BEFORE and _OTHER add `factor` times the
 * x of a different row. */

enum weft_defect_kind {
    WEFT_SEES_LATER,  /* the row of the next token */
    WEFT_SEES_BEFORE, /* the row of the previous token in the same call, which a cache does not keep */
    WEFT_SEES_OTHER,  /* the row of a different sequence at the same position */
    WEFT_SCALES,      /* multiplies by `factor` */
    WEFT_SEES_PLACE,  /* multiplies by 1 + factor * (index of the sequence in the batch) */
    WEFT_SEES_ROWS,   /* multiplies by 1 + factor * (number of rows) */
};

/* The kernels that have the defect: all, the fast ones, or only backward ones. */
enum weft_defect_in { WEFT_IN_ALL, WEFT_IN_FAST, WEFT_IN_FAST_BACKWARD, WEFT_IN_BACKWARD };

struct weft_defect {
    enum weft_defect_kind kind;
    double factor;
    int64_t from, until; /* range of positions with the defect; `until` 0: no upper limit */
    enum weft_defect_in in;
};

/* The value that has the defect. */
enum weft_defect_site {
    WEFT_AT_HIDDEN,
    WEFT_AT_HEADS,
    WEFT_AT_QUERIES,
    WEFT_AT_KEYS,
    WEFT_AT_NORMS,
    WEFT_AT_LAST_NORM
};
enum { /* uses of a graph */
       WEFT_USE_TRAIN = 1u << WEFT_TRAIN,
       WEFT_USE_SCORES = 1u << WEFT_TRAIN | 1u << WEFT_EVAL,
       WEFT_USE_CACHED = 1u << WEFT_PREFILL | 1u << WEFT_DECODE,
};
struct weft_place {
    enum weft_defect_site site;
    int layer;     /* first layer with the defect */
    unsigned uses; /* bit set of the uses with the defect; 0: all */
    bool only_bf16, only_grouped;
    struct weft_defect defect;
};
/* Puts the defect into the parts of gpt2: gelu, full attention, dot geometry, layernorm. The place must outlive the
 * mutant. */
void weft_defect_install(const struct weft_place *place);
/* Writes the part that has the defect, and its first such layer: "ffn=gelu in layer 3". */
void weft_defect_name(const struct weft_place *place, char text[64]);

#endif
