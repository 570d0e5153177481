/* SPDX-License-Identifier: MIT
 *
 * weights.c - weights read back from disk bit by bit, from a file, a checkpoint or a run; errors name weights that do
 * not fit. Models have the same initial values in weights with the same name and shape.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "ckpt/ckpt.h"
#include "nn/model.h"
#include "test.h"

#include <math.h>

static void open_small(struct weft_spec *spec, struct weft_nn **model, const char *setting)
{
    char settings[128];
    snprintf(settings, sizeof settings, "layers=1 width=16 heads=2 vocab=20 context=8 %s", setting ? setting : "");
    open_model(spec, model, "gpt2", settings);
}

static void hash_of(const char *path, char hex[65])
{
    struct weft_spec spec;
    struct weft_nn *model;
    open_small(&spec, &model, NULL);
    check(weft_nn_load(model, path));
    weft_params_hash(&model->params, hex);
    close_model(&spec, model);
}

static void save_step(int64_t step, const struct weft_nn *model)
{
    char path[300];
    check(weft_ckpt_begin(in_scratch("run"), step, path, sizeof path - 20));
    strcat(path, "/model.safetensors");
    check(weft_nn_save(model, path));
    check(weft_ckpt_commit(in_scratch("run"), step, 3));
}

static void they_come_back(void **state)
{
    (void)state;
    struct weft_spec spec;
    struct weft_nn *model;
    char old[65], new[65], hex[65], folder[300];
    open_small(&spec, &model, NULL);
    check(weft_nn_init(model));
    weft_params_hash(&model->params, old);
    save_step(10, model);
    model->params.weights[3] += 1;
    weft_params_hash(&model->params, new);
    save_step(20, model);
    check(weft_nn_load(model, in_scratch("run/step-000000010"))); /* in the place of what it has */
    weft_params_hash(&model->params, hex);
    assert_string_equal(hex, old);
    close_model(&spec, model);
    hash_of(in_scratch("run"), hex);
    assert_string_equal(hex, new);
    hash_of(in_scratch("run/step-000000010/model.safetensors"), hex);
    assert_string_equal(hex, old);
    assert_int_equal(truncate(in_scratch("run/step-000000020/model.safetensors"), 200), 0);
    hash_of(in_scratch("run"), hex);
    assert_string_equal(hex, old);
    check(weft_nn_folder(in_scratch("run"), folder, sizeof folder));
    assert_string_equal(folder, in_scratch("run/step-000000010"));
    check_error(weft_nn_folder(in_scratch("run"), folder, 10), WEFT_INVALID, "too long");
}

/* Writes the model's weights with one changed entry, or one more. */
static void write_changed(const struct weft_nn *m, const struct weft_entry *changed)
{
    struct weft_entry list[64];
    int n = 0;
    for (; n < m->params.count; n++) {
        const struct weft_param *w = &m->params.list[n];
        list[n] = (struct weft_entry){w->name, WEFT_F32, w->ndim, {0}, m->params.weights + w->offset, 0, NULL};
        memcpy(list[n].dim, w->dim, sizeof w->dim);
    }
    int at = weft_params_find(&m->params, changed->name);
    list[at < 0 ? n++ : at] = *changed;
    check(weft_safetensors_write(in_scratch("changed"), list, n, NULL));
}

static void bf16_is_widened(void **state)
{
    (void)state;
    struct weft_spec spec;
    struct weft_nn *model;
    uint16_t half[20 * 16];
    open_small(&spec, &model, NULL);
    check(weft_nn_init(model));
    for (int i = 0; i < 20 * 16; i++)
        half[i] = weft_bf16_from_f32((float)i / 7);
    write_changed(model, &(struct weft_entry){"wte", WEFT_BF16, 2, {20, 16}, half, 0, NULL});
    check(weft_nn_load(model, in_scratch("changed")));
    const float *wte = model->params.weights + model->params.list[weft_params_find(&model->params, "wte")].offset;
    for (int i = 0; i < 20 * 16; i++)
        assert_true(wte[i] == weft_f32_from_bf16(half[i]));
    close_model(&spec, model);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    struct weft_spec spec, wide;
    struct weft_nn *model, *other;
    static float zeros[20 * 16];
    open_small(&spec, &model, NULL);
    check(weft_nn_init(model));
    write_changed(model, &(struct weft_entry){"wte", WEFT_F32, 2, {16, 20}, zeros, 0, NULL});
    check_error(weft_nn_load(model, in_scratch("changed")), WEFT_FORMAT,
                "in 1 of its weights: wte is 16x20, not 20x16");
    write_changed(model, &(struct weft_entry){"wte", WEFT_I32, 2, {20, 16}, zeros, 0, NULL});
    check_error(weft_nn_load(model, in_scratch("changed")), WEFT_FORMAT, "wte is i32");
    write_changed(model, &(struct weft_entry){"spare", WEFT_F32, 1, {4}, zeros, 0, NULL});
    check_error(weft_nn_load(model, in_scratch("changed")), WEFT_FORMAT, "spare is not a weight of the model");
    open_small(&wide, &other, "tie=no");
    check(weft_nn_save(model, in_scratch("tied")));
    check_error(weft_nn_load(other, in_scratch("tied")), WEFT_FORMAT, "head is missing");
    close_model(&wide, other);
    open_small(&wide, &other, "layers=40");
    check_error(weft_nn_load(other, in_scratch("tied")), WEFT_FORMAT, "blocks.1.");
    close_model(&wide, other);
    check_error(weft_nn_load(model, scratch), WEFT_INVALID, "nor a valid checkpoint");
    check_error(weft_nn_load(model, in_scratch("nothing")), WEFT_IO, "nothing");
    close_model(&spec, model);
}

static void what_is_not_finite_is_named(void **state)
{
    (void)state;
    struct weft_spec spec;
    struct weft_nn *model;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    float values[20 * 16] = {0};
    open_small(&spec, &model, NULL);
    check(weft_nn_init(model));
    for (int i = 0; i < 3; i++) {
        values[319] = bad[i];
        write_changed(model, &(struct weft_entry){"wte", WEFT_F32, 2, {20, 16}, values, 0, NULL});
        check_error(weft_nn_load(model, in_scratch("changed")), WEFT_FORMAT,
                    "the weight wte is not finite at element 319");
    }
    close_model(&spec, model);
}

/* New memory would be a leak. */
static void memory_is_used_again(void **state)
{
    (void)state;
    struct weft_spec spec;
    struct weft_nn *model;
    char first[65], hex[65];
    open_small(&spec, &model, NULL);
    check(weft_nn_init(model));
    check(weft_nn_save(model, in_scratch("saved")));
    weft_params_hash(&model->params, first);
    const float *weights = model->params.weights;
    model->params.weights[3] += 1;
    check(weft_nn_init(model));
    assert_ptr_equal(model->params.weights, weights);
    weft_params_hash(&model->params, hex);
    assert_string_equal(hex, first);
    check(weft_nn_load(model, in_scratch("saved")));
    check(weft_nn_init(model));
    assert_ptr_equal(model->params.weights, weights);
    close_model(&spec, model);
}

/* A new model reads its weights directly from the file, and writes to them are not lost. */
static void they_stay_in_the_file(void **state)
{
    (void)state;
    struct weft_spec spec;
    struct weft_nn *model;
    char first[65], hex[65], path[300];
    snprintf(path, sizeof path, "%s", in_scratch("stays"));
    open_small(&spec, &model, NULL);
    check(weft_nn_init(model));
    check(weft_nn_save(model, path));
    weft_params_hash(&model->params, first);
    close_model(&spec, model);

    open_small(&spec, &model, NULL);
    check(weft_nn_load(model, path));
    assert_non_null(model->params.file);
    weft_params_drop(&model->params);
    weft_params_hash(&model->params, hex);
    assert_string_equal(hex, first);
    const float *weights = model->params.weights;
    check(weft_params_alloc(&model->params));
    assert_ptr_equal(model->params.weights, weights);
    float was = model->params.weights[3];
    model->params.weights[3] = was + 1;
    weft_params_drop(&model->params);
    assert_true(model->params.weights[3] == was + 1);
    check(weft_nn_save(model, path)); /* onto the file that it reads */
    check(weft_nn_load(model, path));
    assert_true(model->params.weights[3] == was + 1);
    close_model(&spec, model);
}

/* Weights with gaps between them have a different layout in memory than in a file, which may have no gaps. */
static void gaps_are_no_hindrance(void **state)
{
    (void)state;
    struct weft_spec spec;
    struct weft_nn *model;
    char first[65], hex[65];
    open_small(&spec, &model, "ffn_width=20");
    check(weft_nn_init(model));
    assert_true(model->params.elements < model->params.total);
    check(weft_nn_save(model, in_scratch("gaps")));
    weft_params_hash(&model->params, first);
    close_model(&spec, model);
    open_small(&spec, &model, "ffn_width=20");
    check(weft_nn_load(model, in_scratch("gaps")));
    assert_null(model->params.file);
    weft_params_hash(&model->params, hex);
    assert_string_equal(hex, first);
    close_model(&spec, model);
}

/* How many weights by chance have the same name and shape in both, and how many of these the same first values. */
static void compare_first_values(const char *setting, const char *other_setting, int *both, int *same)
{
    struct weft_spec spec, other_spec;
    struct weft_nn *model, *other;
    open_small(&spec, &model, setting);
    open_small(&other_spec, &other, other_setting);
    check(weft_nn_init(model));
    check(weft_nn_init(other));
    *both = *same = 0;
    for (int i = 0; i < model->params.count; i++) {
        const struct weft_param *a = &model->params.list[i];
        int at = weft_params_find(&other->params, a->name);
        const struct weft_param *b = &other->params.list[weft_max(0, at)];
        if (at < 0 || a->init == WEFT_INIT_CONSTANT || a->ndim != b->ndim || memcmp(a->dim, b->dim, sizeof a->dim) != 0)
            continue;
        ++*both;
        *same += memcmp(model->params.weights + a->offset, other->params.weights + b->offset,
                        (size_t)a->count * sizeof(float)) == 0;
    }
    close_model(&spec, model);
    close_model(&other_spec, other);
}

static void arms_begin_alike(void **state)
{
    (void)state;
    static const char *const arms[] = {"geom=w2", "attn=latent", "ffn=swiglu", "ffn_width=40", "pos=rope", "m2=yes"};
    int both, same;
    for (size_t i = 0; i < sizeof arms / sizeof *arms; i++) {
        compare_first_values(NULL, arms[i], &both, &same);
        assert_true(both >= 2 && same == both);
    }
    compare_first_values(NULL, "init_key=0", &both, &same);
    assert_true(both >= 6 && same == both);
    compare_first_values(NULL, "seed=2", &both, &same);
    assert_int_equal(same, 0);
    compare_first_values(NULL, "init_key=1", &both, &same);
    assert_int_equal(same, 0);
    compare_first_values("init_key=2", "init_key=1", &both, &same);
    assert_int_equal(same, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_scratch, remove_scratch)
int main(void)
{
    const struct CMUnitTest tests[] = {CASE(they_come_back),
                                       CASE(bf16_is_widened),
                                       CASE(what_does_not_fit_is_named),
                                       CASE(what_is_not_finite_is_named),
                                       CASE(memory_is_used_again),
                                       CASE(they_stay_in_the_file),
                                       CASE(gaps_are_no_hindrance),
                                       cmocka_unit_test(arms_begin_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
