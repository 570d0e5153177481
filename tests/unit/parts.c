/* SPDX-License-Identifier: MIT
 *
 * parts.c - parts, tasks and optimisers from outside the tree, registered at run time and chosen by name, pass the
 * gates with only the hooks that their kind requires.
 *
 * run-tests: 17 s
 */
#include "nn/parts.h"
#include "check/check.h"
#include "nn/build.h"
#include "ops/ops.h"
#include "test.h"
#include "train/learner.h"

static void failed_check(void *context, const struct weft_check *c)
{
    if (!c->passed)
        print_message("%s: %s: %.3g, limit %.3g: %s\n", c->gate, c->name, c->figure, c->limit, c->where);
}

/* All gates on gpt2 with the settings, which end with NULL. */
static void pass(const char *const *settings)
{
    struct weft_settings s = {0};
    struct weft_spec spec;
    struct weft_gates report = {.on_check = failed_check};
    for (; *settings; settings++)
        check(weft_settings_add(&s, *settings));
    check(weft_spec_init(&spec, "gpt2", &s));
    check(weft_settings_finish(&s));
    check(weft_gates_run(&spec, NULL, WEFT_GATES_ALL, &report));
    assert_true(report.checks > 0);
    assert_int_equal(report.failed, 0);
    weft_spec_release(&spec);
    weft_settings_release(&s);
}
#define PASS(...) pass((const char *const[]){__VA_ARGS__, NULL})

/* The gate live on a small gpt2 of 5 layers, twin and itself, with the settings: how many checks fail. `expected` is
 * part of the name of one of them. */
static void note_expected(void *context, const struct weft_check *c)
{
    const char **expected = context;
    failed_check(NULL, c);
    if (!c->passed && *expected && strstr(c->name, *expected))
        *expected = NULL;
}

static int live(const char *settings, const char *expected)
{
    struct weft_settings s = {0};
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_gates report = {.on_check = note_expected, .context = &expected};
    check(add_settings(&s, "layers=5 width=32 heads=4 context=40 vocab=20 batch=2 dtype=f32"));
    check(add_settings(&s, settings));
    check(weft_spec_init(&spec, "gpt2", &s));
    check(weft_settings_finish(&s));
    check(weft_recipe_plain(&recipe, &spec));
    check(weft_gates_run(&spec, &recipe, 1u << WEFT_GATE_LIVE, &report));
    assert_null(expected); /* else that check has not failed */
    weft_recipe_release(&recipe);
    weft_spec_release(&spec);
    weft_settings_release(&s);
    return report.failed;
}

/* ---- a geometry with the one hook it needs: no scale, no resolve */

static struct weft_qk plain_qk(struct weft_build *b, const void *opts, const struct weft_qk_raw *r, bool norms)
{
    struct weft_value *x = r->rotated ? weft_join_heads(b->g, r->mean, r->heads, r->rotated, r->rotated_heads, r->heads)
                                      : weft_build_rotate(b, r->mean, r->heads, r->side);
    return (struct weft_qk){.vectors = weft_scale(b->g, x, 0.5)};
}

static const struct weft_geom plain = {
    .part = {.kind = WEFT_GEOM, .name = "plain", .summary = "<q, k> / 4", .owner = {.name = "geom=plain"}},
    .qk = plain_qk,
    .linear = true,
};

/* ---- a norm and a feed-forward without weights of their own */

static struct weft_value *no_norm(struct weft_build *b, const void *opts, struct weft_value *x)
{
    return weft_cast(b->g, x, weft_build_norm_dtype(b));
}

static const struct weft_norm identity = {
    .part = {.kind = WEFT_NORM, .name = "identity", .summary = "x", .owner = {.name = "norm=identity"}},
    .build = no_norm,
};

static struct weft_value *activate(struct weft_build *b, const void *opts, struct weft_value *x)
{
    struct weft_value *y = weft_gelu(b->g, x);
    return weft_concat(b->g, y, weft_concat(b->g, y, y));
}

/* The tiny twin is 32 wide and its feed-forward 24: this one takes F = 3C, whatever was asked for. */
static enum weft_status three_times(struct weft_spec *spec, void *opts)
{
    spec->ffn_width = 3 * spec->width;
    return WEFT_OK;
}

static const struct weft_ffn bare = {
    .part = {.kind = WEFT_FFN,
             .name = "bare",
             .summary = "gelu(x) proj",
             .owner = {.name = "ffn=bare"},
             .resolve = three_times},
    .build = activate,
};

/* ---- a mechanism that passes the mean of a layer's hidden activation to the heads of the next one */

struct passing {
    double alpha;
};

static const struct weft_opt passing_options[] = {
    {"passing_alpha", WEFT_OPT_REAL, offsetof(struct passing, alpha), "0.5", 0, 1, .off = "0", .help = "share"},
};

struct passed {
    struct weft_value *gate;
};

static void passing_params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    if (p->layer + 1 < spec->layers)
        weft_params_matrix(p, "w", weft_grows(spec, spec->heads), weft_grows(spec, spec->ffn_width), WEFT_DEVIATION);
}

static struct weft_value *passing_reads(struct weft_build *b, struct weft_instance *m)
{
    return b->layer + 1 < b->spec->layers ? weft_build_weight(b, "w") : NULL;
}

static void passing_hidden(struct weft_build *b, struct weft_instance *m, struct weft_hidden *h)
{
    struct passed *s = m->state;
    if (b->layer + 1 < b->spec->layers)
        s->gate = weft_sigmoid(b->g, weft_cast(b->g, weft_hidden_read(b, h, m), WEFT_F32));
}

static struct weft_value *passing_heads(struct weft_build *b, struct weft_instance *m, struct weft_value *o)
{
    const struct passing *opts = m->options;
    struct passed *s = m->state;
    struct weft_value *gate = s->gate;
    s->gate = NULL;
    return gate ? weft_gate_heads(b->g, o, gate, weft_build_alpha(b, opts->alpha)) : o;
}

static const struct weft_mechanism passing = {
    .part = {.kind = WEFT_RECIP,
             .name = "passing",
             .summary = "heads of the next layer times 1 - alpha + alpha sigmoid(W h)",
             .owner = WEFT_OWNER("passing=yes", passing_options),
             .options_bytes = sizeof(struct passing),
             .params = passing_params},
    .help = "a gate from outside the tree",
    .state_bytes = sizeof(struct passed),
    .hidden = passing_hidden,
    .reads = passing_reads,
    .heads = passing_heads,
};

/* ---- positions in every second layer only: by design, or undeclared */

static bool is_odd(const struct weft_spec *spec, const void *opts, int layer) { return layer % 2; }

static struct weft_value *even_bias(struct weft_build *b, const void *opts)
{
    return b->layer % 2 ? NULL : weft_pos_alibi.bias(b, opts);
}

static const struct weft_pos even = {
    .part = {.kind = WEFT_POS, .name = "even", .summary = "alibi", .owner = {.name = "pos=even"}, .skips = is_odd},
    .bias = even_bias,
};
static const struct weft_pos uneven = {
    .part = {.kind = WEFT_POS, .name = "uneven", .summary = "alibi", .owner = {.name = "pos=uneven"}},
    .bias = even_bias,
};

/* ---- a mechanism that adds to the hidden activation with a factor that is far too small in layer 3 and above */

static void fading_params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    weft_params_matrix(p, "w", weft_grows(spec, spec->heads), weft_grows(spec, spec->ffn_width), WEFT_DEVIATION);
    weft_params_matrix(p, "v", weft_grows(spec, spec->ffn_width), weft_grows(spec, spec->heads), WEFT_DEVIATION);
}

static struct weft_value *fading_reads(struct weft_build *b, struct weft_instance *m)
{
    return weft_build_weight(b, "w");
}

static void fading_hidden(struct weft_build *b, struct weft_instance *m, struct weft_hidden *h)
{
    weft_hidden_add(b, h, weft_hidden_read(b, h, m), weft_build_alpha(b, b->layer < 3 ? 1 : 1e-9), "v");
}

static const struct weft_mechanism fading = {
    .part = {.kind = WEFT_RECIP,
             .name = "fading",
             .summary = "h + V W h",
             .owner = {.name = "fading=yes"},
             .params = fading_params},
    .help = "a defect from outside the tree",
    .hidden = fading_hidden,
    .reads = fading_reads,
};

/* One that does nothing has nothing to show: only building it is asked for. */
static const struct weft_mechanism empty = {
    .part = {.kind = WEFT_RECIP, .name = "empty", .summary = "nothing", .owner = {.name = "empty=yes"}},
    .help = "nothing",
};

static int add_parts(void **state)
{
    const struct weft_part *const parts[] = {&plain.part, &identity.part, &bare.part,   &passing.part,
                                             &empty.part, &even.part,     &uneven.part, &fading.part};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        check(weft_part_register(parts[i]));
    return 0;
}

static void geometry_without_scale(void **state)
{
    PASS("geom=plain", "pos=rope", "dtype=f32");
    PASS("geom=plain", "attn=latent", "pos=alibi");
}

static void norm_and_ffn_without_weights(void **state)
{
    PASS("norm=identity", "dtype=f32");
    PASS("ffn=bare", "ffn_width=384", "m2=yes");
}

static void mechanism_from_outside(void **state)
{
    PASS("passing=yes", "layers=3", "dtype=f32");
    PASS("passing=yes", "m1=yes", "m2=yes", "m3=yes", "layers=3");
    PASS("passing=yes", "passing_alpha=1", "attn=latent", "m3=yes");
}

static void effects_of_outside_parts(void **state)
{
    assert_int_equal(live("passing=yes m1=yes m2=yes m3=yes", NULL), 0);
    assert_int_equal(live("passing=yes attn=latent m3=yes detach=yes pos=rope", NULL), 0);
    assert_int_equal(live("pos=even", NULL), 0);
    assert_true(live("pos=uneven", "pos=uneven: layers whose graph is the same without it (of 5)") > 0);
    assert_true(live("fading=yes", "fading=yes: its least effect on the loss in a layer") > 0);
}

static void mechanism_without_hooks(void **state)
{
    struct weft_settings s = {0};
    struct weft_spec spec;
    struct weft_nn *model;
    struct weft_net net;
    check(weft_settings_add(&s, "empty=yes"));
    check(weft_spec_init(&spec, "gpt2", &s));
    assert_int_equal(spec.mechanism_count, 1);
    assert_ptr_equal(spec.mechanism[0].part, &empty.part);
    check(weft_nn_create(&model, &spec));
    check(weft_net_init(&net, model, WEFT_TRAIN, (struct weft_net_size){.sequences = 1, .length = 4}));
    weft_net_release(&net);
    weft_nn_free(model);
    weft_spec_release(&spec);
    weft_settings_release(&s);
}

/* ---- limits of a model: a part that exceeds one fails the graph, which names it */

static int wanted; /* number of watches, loss terms or slots that the part creates */

static struct weft_value *watching_build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    static char names[64][24];
    for (int i = 0; i < wanted; i++) {
        snprintf(names[i], sizeof names[i], "watched%d", i);
        if (b->layer > 0)
            weft_build_watch(b, names[i], weft_square_mean(b->g, x, 1, 1));
    }
    return x;
}

static struct weft_value *losing_build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    static char names[64][24];
    for (int i = 0; i < wanted; i++) {
        snprintf(names[i], sizeof names[i], "lost%d", i);
        weft_build_loss(b, names[i], weft_square_mean(b->g, x, 1, 1));
    }
    return x;
}

static struct weft_value *keeping_build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    char name[24];
    for (int i = 0; i < wanted; i++) {
        snprintf(name, sizeof name, "kept%d", i);
        weft_build_keep(b, name, WEFT_PER_TOKEN, x);
    }
    return x;
}

#define LIMITED(what)                                                                                                  \
    static const struct weft_ffn what = {                                                                              \
        .part = {.kind = WEFT_FFN, .name = #what, .summary = "more of one thing than fits", .owner = {.name = #what}}, \
        .build = what##_build}
LIMITED(watching);
LIMITED(losing);
LIMITED(keeping);

/* Builds gpt2 with ffn=NAME, a part that creates `count` watches, loss terms or slots. */
static enum weft_status build_with(const char *name, int count, enum weft_use use)
{
    struct weft_settings s = {0};
    struct weft_spec spec;
    struct weft_nn *model = NULL;
    struct weft_net net = {0};
    char setting[40];
    wanted = count;
    snprintf(setting, sizeof setting, "ffn=%s", name);
    check(weft_settings_add(&s, setting));
    check(weft_settings_add_words(&s, "layers=3 ffn_width=128"));
    check(weft_spec_init(&spec, "gpt2", &s));
    check(weft_nn_create(&model, &spec));
    struct weft_net_size size = {.sequences = 1, .length = 4};
    if (use == WEFT_PREFILL)
        size = (struct weft_net_size){
            .sequences = 1, .length = 4, .rows = 4, .store_rows = 64, .ring_rows = 64, .logits = 1};
    enum weft_status status = weft_net_init(&net, model, use, size);
    weft_net_release(&net);
    weft_nn_free(model);
    weft_spec_release(&spec);
    weft_settings_release(&s);
    return status;
}

static void limits_name_the_part(void **state)
{
    check(weft_part_register(&watching.part));
    check(weft_part_register(&losing.part));
    check(weft_part_register(&keeping.part));
    check(build_with("watching", 14, WEFT_WATCH)); /* attention has two of 16 */
    check_error(build_with("watching", 20, WEFT_WATCH), WEFT_INVALID, "blocks.1.ffn: cannot watch watched14");
    check(build_with("losing", 7, WEFT_TRAIN));
    check_error(build_with("losing", 12, WEFT_TRAIN), WEFT_INVALID, "blocks.0.ffn: cannot add the loss term lost");
    check(build_with("keeping", 8, WEFT_PREFILL));
    check_error(build_with("keeping", 40, WEFT_PREFILL), WEFT_INVALID, "ffn: cannot add the cache kept");
}

/* ---- mistakes in a part: a weight that it does not declare, and shapes that differ */

static void mistaken_params(struct weft_params *p, const struct weft_spec *spec, const void *opts)
{
    weft_params_linear(p, spec, "fc", spec->ffn_width / 2, spec->width);
}

static struct weft_value *misspelt_build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    return weft_gelu(b->g, weft_build_linear(b, x, "fc1"));
}

static struct weft_value *crooked_build(struct weft_build *b, const void *opts, struct weft_value *x)
{
    return weft_add(b->g, x, weft_build_linear(b, x, "fc"));
}

static void mistakes_are_explained(void **state)
{
    static struct weft_ffn misspelt, crooked;
    misspelt = crooked = bare;
    misspelt.part.name = "misspelt";
    crooked.part.name = "crooked";
    misspelt.part.resolve = crooked.part.resolve = NULL;
    misspelt.part.params = crooked.part.params = mistaken_params;
    misspelt.build = misspelt_build;
    crooked.build = crooked_build;
    check(weft_part_register(&misspelt.part));
    check(weft_part_register(&crooked.part));
    check_error(build_with("misspelt", 0, WEFT_TRAIN), WEFT_INVALID,
                "the weight blocks.0.ffn.fc1 is not declared in params(), which declares fc, fc_bias, proj, "
                "proj_bias: did you mean fc?");
    for (int i = 0; i < 3; i++)
        check_error(build_with("crooked", 0, WEFT_TRAIN), WEFT_INVALID,
                    ((const char *[]){"have different shapes; inputs: ", "128], ", "64]"})[i]);
}

/* Every registered part is found by its name, and its options follow the model's. */
static void listed(void **state)
{
    const struct weft_owner *owner;
    bool model = false, own = false;
    for (int i = 0; (owner = weft_nn_owner_at(i)); i++)
        for (int o = 0; o < owner->count; o++) {
            model |= i == 0 && strcmp(owner->options[o].name, "passing") == 0;
            own |= i > 0 && strcmp(owner->options[o].name, "passing_alpha") == 0;
        }
    assert_true(model);
    assert_true(own);
    int last = 0;
    while (weft_part_at(WEFT_GEOM, last + 1))
        last++;
    assert_string_equal(weft_part_at(WEFT_GEOM, last)->name, "plain");
}

static void refused(void **state)
{
    struct weft_geom hollow = plain;
    struct weft_norm nameless = identity;
    hollow.part.name = "hollow";
    hollow.qk = NULL;
    nameless.part.name = "";
    check_error(weft_part_register(&weft_geom_dot.part), WEFT_INVALID, "named dot already");
    check_error(weft_part_register(&plain.part), WEFT_INVALID, "named plain already");
    check_error(weft_part_register(&hollow.part), WEFT_INVALID, "no hook `qk`");
    check_error(weft_part_register(&nameless.part), WEFT_INVALID, "a name");
    static struct weft_mechanism many[WEFT_MAX_PARTS];
    static char names[WEFT_MAX_PARTS][16];
    enum weft_status status = WEFT_OK;
    for (int i = 0; i < WEFT_MAX_PARTS && status == WEFT_OK; i++) {
        snprintf(names[i], sizeof names[i], "many%d", i);
        many[i].part.kind = WEFT_RECIP;
        many[i].part.name = many[i].part.summary = many[i].part.owner.name = many[i].help = names[i];
        status = weft_part_register(&many[i].part);
    }
    check_error(status, WEFT_INVALID, "at most");
    static struct weft_combinations all;
    check_error(weft_combinations_cover(&all, 2, 1), WEFT_INVALID, "is one option too many to combine");
    check_error(weft_combinations_draw(&all, 1, 1), WEFT_INVALID, "is one option too many to combine");
}

/* ---- a task and an optimiser */

static int64_t ones_length(const void *options) { return 8; }

static void ones_sample(const struct weft_spec *spec, const void *options, uint64_t index, int32_t *tokens,
                        int32_t *targets)
{
    for (int i = 0; i < 8; i++)
        tokens[i] = targets[i] = 1;
}

static const struct weft_task ones = {.name = "ones",
                                      .summary = "always 1",
                                      .owner = {.name = "task=ones"},
                                      .length = ones_length,
                                      .sample = ones_sample};

static void descend(const void *options, const struct weft_update *u, const struct weft_span *span)
{
    for (int64_t i = span->first; i < span->first + span->count; i++)
        u->weights[i] -= (float)u->lr * u->grad_scale * u->grads[i];
}

static const struct weft_optim sgd = {
    .name = "sgd", .summary = "w -= lr g", .owner = {.name = "optim=sgd"}, .update = descend};

static void task_and_optimiser(void **state)
{
    struct weft_settings s = {0};
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_nn *model;
    struct weft_learner *trainer;
    struct weft_losses losses;
    check(weft_task_register(&ones));
    check(weft_optim_register(&sgd));
    check_error(weft_task_register(&ones), WEFT_INVALID, "named ones already");
    check_error(weft_optim_register(&(struct weft_optim){.name = "hollow"}), WEFT_INVALID, "update");
    const char *settings[] = {"task=ones", "optim=sgd", "lr=0.1", "warmup=0", "steps=20", "width=32", "dtype=f32"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check(weft_settings_add(&s, settings[i]));
    check(weft_spec_init(&spec, "gpt2", &s));
    check(weft_recipe_init(&recipe, &spec, &s));
    check(weft_nn_create(&model, &spec));
    check(weft_nn_init(model));
    check(weft_learner_create(&trainer, model, &recipe, NULL));
    check(weft_learner_step(trainer, &losses));
    double first = trainer->loss;
    for (int i = 1; i < 20; i++)
        check(weft_learner_step(trainer, &losses));
    assert_true(trainer->loss < 0.9 * first);
    weft_learner_free(trainer);
    weft_nn_free(model);
    weft_recipe_release(&recipe);
    weft_spec_release(&spec);
    weft_settings_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(geometry_without_scale),  cmocka_unit_test(norm_and_ffn_without_weights),
        cmocka_unit_test(mechanism_from_outside),  cmocka_unit_test(effects_of_outside_parts),
        cmocka_unit_test(mechanism_without_hooks), cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(limits_name_the_part),    cmocka_unit_test(listed),
        cmocka_unit_test(task_and_optimiser),      cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, add_parts, NULL);
}
