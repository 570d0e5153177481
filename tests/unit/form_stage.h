/* SPDX-License-Identifier: MIT
 *
 * form_stage.h - a form to which tests add atoms, and checks of the numbers that they compute.
 */
#ifndef WEFT_TEST_FORM_STAGE_H
#define WEFT_TEST_FORM_STAGE_H

#include "graph/form.h"
#include "ops/ops.h"
#include "test.h"

#include <math.h>

enum { MOST_SOURCES = 16 };

/* A form without a graph's nodes, to which a test adds atoms, and the values of its inputs. */
static struct stage {
    struct weft_graph *g;
    struct weft_form f;
    struct weft_form_frame frame;
    struct source {
        char name[16];
        const double *data;
        int64_t count;
    } sources[MOST_SOURCES];
    int source_count;
} s;

static inline const double *read_source(void *context, const struct weft_atom *source, int64_t *count)
{
    (void)context;
    for (int i = 0; i < s.source_count; i++)
        if (strcmp(s.sources[i].name, source->name) == 0) {
            *count = s.sources[i].count;
            return s.sources[i].data;
        }
    return NULL;
}

/* Drops every element whose head, row and column have an even sum. */
static inline bool drops(void *context, const struct weft_drop *d, int64_t row, int64_t head, int64_t column)
{
    (void)context;
    assert_int_equal(d->layer, 3);
    return (row + head + column) % 2 == 0;
}

static inline int open_stage(void **state)
{
    (void)state;
    memset(&s, 0, sizeof s);
    s.g = weft_graph_new(WEFT_F32);
    s.frame =
        (struct weft_form_frame){.batch = 1, .fresh = 1, .all = 1, .sequences = 1, .tile = 2, .read = read_source};
    s.frame.drops = drops;
    return weft_form_init(&s.f, s.g, true, 8) == WEFT_OK ? 0 : -1;
}

static inline int close_stage(void **state)
{
    (void)state;
    weft_form_release(&s.f);
    weft_graph_free(s.g);
    weft_error_clear();
    return 0;
}

#define NUMBERS(...) (const double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double))
#define FIXED(...) WEFT_FIXED_TYPE(__VA_ARGS__)
#define ROWS_OF(width) ((struct weft_type){WEFT_REAL, 3, {{WEFT_BATCH, 1}, {WEFT_NEW, 1}, {WEFT_FIXED, width}}})
#define COLUMNS_OF(width) ((struct weft_type){WEFT_REAL, 3, {{WEFT_BATCH, 1}, {WEFT_ALL, 1}, {WEFT_FIXED, width}}})
#define RING_OF(width) ((struct weft_type){WEFT_REAL, 3, {{WEFT_BATCH, 1}, {WEFT_RING, 1}, {WEFT_FIXED, width}}})
#define LANES_OF(width) ((struct weft_type){WEFT_REAL, 2, {{WEFT_SEQUENCES, 1}, {WEFT_FIXED, width}}})

static inline const char *supply(const double *data, int64_t count)
{
    struct source *source = &s.sources[s.source_count++];
    assert_true(s.source_count <= MOST_SOURCES);
    snprintf(source->name, sizeof source->name, "source%d", s.source_count);
    source->data = data;
    source->count = count;
    return source->name;
}

static inline struct weft_atom *real(struct weft_type type, const double *data, int64_t count)
{
    return weft_input_of(&s.f, supply(data, count), type);
}

static inline struct weft_atom *whole(struct weft_type type, const double *data, int64_t count)
{
    type.of = WEFT_WHOLE;
    return weft_input_of(&s.f, supply(data, count), type);
}

static inline struct weft_atom *held(struct weft_type type, const double *data, int64_t count)
{
    return weft_state_of(&s.f, supply(data, count), type);
}

static inline struct weft_atom *truth(struct weft_type type, const double *data, int64_t count)
{
    return weft_to_of(&s.f, real(type, data, count), WEFT_TRUTH);
}

#define expect(atom, ...) expect_at((atom), NUMBERS(__VA_ARGS__), __FILE__, __LINE__)

static inline void expect_at(struct weft_atom *a, const double *want, int64_t count, const char *file, int line)
{
    struct weft_form_results r;
    check_at(s.f.status, file, line);
    check_at(weft_form_results_init(&r, &s.f), file, line);
    r.wanted[a->id] = true;
    check_at(weft_form_run(&s.f, &s.frame, &r), file, line);
    bool same = r.count[a->id] == count;
    for (int64_t i = 0; same && i < count; i++) {
        double got = r.of[a->id][i];
        if (!(got == want[i] || fabs(got - want[i]) <= 1e-12 * fabs(want[i]))) {
            print_error("element %d is %.17g, expected %.17g\n", (int)i, got, want[i]);
            same = false;
        }
    }
    if (!same)
        print_error("%s has %d elements, expected %d\n", weft_atom_name(a->kind), (int)r.count[a->id], (int)count);
    weft_form_results_release(&r);
    if (!same)
        _fail(file, line);
}

/* Demands that a form cannot be run, for a reason with these words. */
static inline void expect_failure(struct weft_atom *a, const char *words)
{
    struct weft_form_results r;
    check(weft_form_results_init(&r, &s.f));
    r.wanted[a->id] = true;
    check_error(weft_form_run(&s.f, &s.frame, &r), WEFT_INVALID, words);
    weft_form_results_release(&r);
}

static inline void fill_squares(const void *context, double *to)
{
    for (int i = 0; i < *(const int *)context; i++)
        to[i] = i * i;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_stage, close_stage)

#endif
