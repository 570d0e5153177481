/* SPDX-License-Identifier: MIT
 *
 * reference.c - a correct reference raises no alarm with any model, in f32 and bf16; one with a single wrong tensor
 * does. A missing tensor is an error. (tests/cli/reference.sh uses an independent definition.)
 *
 * run-tests: 4 s
 */
#include "check/probe/gate.h"
#include "ckpt/ckpt.h"
#include "test.h"

#include <math.h>

/* ---- a reference computed in f64, from the inputs as they were written */

struct making {
    struct weft_spec tiny;
    struct weft_nn *model;
    struct weft_probe logits, train;
    struct weft_entry *entry;
    char (*name)[200];
};

static void take(const struct weft_safetensors *f, const char *name, const struct weft_probe *p,
                 const struct weft_value *v)
{
    const struct weft_tensor *to = weft_exec_tensor(p->exec, v);
    const struct weft_entry *e = weft_safetensors_find(f, name);
    assert_true(e && e->dtype == WEFT_I32 && e->bytes == (size_t)weft_tensor_count(to) * sizeof(int32_t));
    memcpy(to->data, e->data, e->bytes);
}

static void open_one(struct making *m, struct weft_probe *p, enum weft_use use, const struct weft_safetensors *f)
{
    int64_t sequences = weft_safetensors_find(f, "tokens")->dim[0], length = weft_safetensors_find(f, "tokens")->dim[1];
    struct weft_net_size size = {.sequences = sequences, .length = length};
    check(weft_probe_open(p, m->model, use, size, WEFT_REFERENCE));
    weft_probe_rows(p, sequences, length, NULL);
    take(f, "tokens", p, p->net.tokens);
    if (use == WEFT_TRAIN)
        take(f, "targets", p, p->net.targets);
    weft_probe_run(p);
    check(weft_deferred());
}

static struct weft_entry entry_of(const char *name, const struct weft_tensor *t)
{
    struct weft_entry e = {.name = name, .dtype = t->dtype, .ndim = t->ndim, .data = t->data};
    memcpy(e.dim, t->dim, sizeof e.dim);
    return e;
}

static void make(struct making *m, const struct weft_spec *spec)
{
    struct weft_safetensors *f;
    const char *path = in_scratch("inputs");
    check(weft_reference_inputs(spec, path));
    check(weft_safetensors_open(&f, path));
    check(weft_spec_shrink(&m->tiny, spec));
    m->tiny.dropout = 0;
    check(weft_twin_create(&m->model, &m->tiny));
    open_one(m, &m->logits, WEFT_FORWARD, f);
    open_one(m, &m->train, WEFT_TRAIN, f);
    weft_safetensors_close(f);
    const struct weft_params *p = &m->model->params;
    m->entry = calloc((size_t)p->count + 2, sizeof *m->entry);
    m->name = calloc((size_t)p->count, sizeof *m->name);
    assert_true(m->entry && m->name);
    for (int i = 0; i < p->count; i++) {
        struct weft_tensor grad = {(double *)m->train.grads + p->list[i].offset, WEFT_F64, p->list[i].ndim, {0}};
        memcpy(grad.dim, p->list[i].dim, sizeof grad.dim);
        snprintf(m->name[i], sizeof m->name[i], "grad.%s", p->list[i].name);
        m->entry[i] = entry_of(m->name[i], &grad);
    }
    m->entry[p->count] = entry_of("logits", weft_exec_tensor(m->logits.exec, m->logits.net.logits));
    m->entry[p->count + 1] = entry_of("loss", weft_exec_tensor(m->train.exec, m->train.net.loss));
}

static void forget(struct making *m)
{
    weft_probe_close(&m->logits);
    weft_probe_close(&m->train);
    weft_nn_free(m->model);
    weft_spec_release(&m->tiny);
    free(m->entry);
    free(m->name);
}

/* ---- what is found */

struct found {
    int checks, failed;
    char first[500];
};

static void count(void *context, const struct weft_check *c)
{
    struct found *f = context;
    f->checks++;
    if (!c->passed && !f->failed++)
        snprintf(f->first, sizeof f->first, "%s: %g (limit %g): %s", c->name, c->figure, c->limit, c->where);
}

static struct found compare(const struct making *m, const struct weft_spec *spec)
{
    struct found found = {0};
    struct weft_gates report = {.on_check = count, .context = &found};
    const char *path = in_scratch("reference");
    check(weft_safetensors_write(path, m->entry, m->model->params.count + 2, NULL));
    check(weft_reference_check(spec, path, &report));
    assert_int_equal(found.checks, spec->compute == WEFT_BF16 ? 8 : 6);
    return found;
}

static void expect_sound(const struct weft_spec *spec, const char *what)
{
    struct making m = {0};
    make(&m, spec);
    struct found found = compare(&m, spec);
    if (found.failed)
        fail_msg("%s: %s", what, found.first);
    forget(&m);
}

/* ---- tests */

static void presets_are_sound(void **state)
{
    (void)state;
    const char *summary, *preset;
    for (int i = 0; (preset = weft_preset_at(i, &summary)); i++) {
        struct weft_settings settings = {0};
        struct weft_spec spec;
        check(weft_spec_init(&spec, preset, &settings));
        expect_sound(&spec, preset);
        weft_spec_release(&spec);
        weft_settings_release(&settings);
    }
}

static void combinations_are_sound(void **state)
{
    (void)state;
    static struct weft_combinations c;
    const enum weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16};
    check(weft_combinations_draw(&c, 30, 1));
    for (int i = 0; i < c.count; i++)
        for (int k = 0; k < 2; k++) {
            struct weft_spec spec;
            check(weft_combination_spec(&spec, c.rows[i], dtypes[k]));
            expect_sound(&spec, c.rows[i]);
            weft_spec_release(&spec);
        }
    weft_combinations_release(&c);
}

/* An error of a tenth in any tensor, and of one element, is found. */
static void defects_are_found(void **state)
{
    (void)state;
    struct weft_settings settings = {0};
    struct weft_spec spec;
    struct making m = {0};
    check(weft_settings_add(&settings, "layers=1"));
    check(weft_spec_init(&spec, "llama", &settings));
    make(&m, &spec);
    assert_int_equal(compare(&m, &spec).failed, 0);
    for (int i = 0; i < m.model->params.count + 2; i++) {
        double *x = (double *)m.entry[i].data, before = x[0];
        x[0] += 0.1 * (fabs(before) + 0.1);
        struct found found = compare(&m, &spec);
        x[0] = before;
        assert_true(found.failed > 0);
        assert_non_null(strstr(found.first, "element 0 is "));
    }
    forget(&m);
    weft_spec_release(&spec);
    weft_settings_release(&settings);
}

static void lacks_are_refused(void **state)
{
    (void)state;
    struct weft_settings settings = {0};
    struct weft_spec spec;
    struct making m = {0};
    struct weft_gates report = {0};
    const char *path = in_scratch("reference");
    check(weft_spec_init(&spec, "gpt2", &settings));
    make(&m, &spec);
    int n = m.model->params.count;
    check(weft_safetensors_write(path, m.entry, n + 1, NULL));
    check_error(weft_reference_check(&spec, path, &report), WEFT_FORMAT, "has no tensor loss: write the loss");
    check(weft_safetensors_write(path, m.entry + 1, n + 1, NULL));
    check_error(weft_reference_check(&spec, path, &report), WEFT_FORMAT, "has no tensor grad.wte");
    m.entry[n].dim[m.entry[n].ndim - 1] *= 2; /* logits: two rows in one */
    m.entry[n].dim[0] /= 2;
    check(weft_safetensors_write(path, m.entry, n + 2, NULL));
    check_error(weft_reference_check(&spec, path, &report), WEFT_FORMAT, "logits has shape [");
    m.entry[n].name = "logit";
    check(weft_safetensors_write(path, m.entry, n + 2, NULL));
    check_error(weft_reference_check(&spec, path, &report), WEFT_FORMAT, "an unknown tensor logit: write only");
    assert_int_equal(report.checks, 0);
    forget(&m);
    weft_spec_release(&spec);
    weft_settings_release(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_are_sound),
        cmocka_unit_test(combinations_are_sound),
        cmocka_unit_test(defects_are_found),
        cmocka_unit_test(lacks_are_refused),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
