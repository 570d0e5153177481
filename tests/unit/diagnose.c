/* SPDX-License-Identifier: MIT
 *
 * diagnose.c - compares diagnostics with the same numbers computed naively: all scores of a layer together, softmax,
 * sums over pairs. For every geometry and representation, with weights that are not small.
 *
 * run-tests: 1 s
 */
#include "stage.h"
#include "train/learner.h"

#include <math.h>

/* ---- the model and its graph */

/* The node that an op made in a layer; nodes are in the order of layers. */
static const struct weft_node *node_of(const struct stage *s, const char *op, int layer)
{
    struct weft_value *const *all;
    int n = weft_graph_values(s->net.g, &all);
    for (int i = 0; i < n; i++)
        if (all[i]->node && all[i]->node->out[0] == all[i] && strcmp(all[i]->node->op->name, op) == 0 &&
            all[i]->node->label == layer)
            return all[i]->node;
    return NULL;
}

static void keep_inputs(struct stage *s, const char *op)
{
    for (int layer = 0; layer < s->spec.layers; layer++) {
        const struct weft_node *node = node_of(s, op, layer);
        for (int i = 0; node && i < WEFT_MAX_ARGS; i++)
            weft_graph_output(s->net.g, node->in[i]);
    }
}

static void run_graph(struct stage *s)
{
    struct weft_net_size size = {.sequences = s->spec.batch, .length = s->t->length};
    check(weft_net_init(&s->net, s->model, WEFT_WATCH, size));
    keep_inputs(s, "entropy");
    keep_inputs(s, "prefix_mean");
    check(weft_exec_create(&s->exec, s->net.g, WEFT_FAST));
    weft_net_bind(&s->net, s->exec, s->model, NULL);
    weft_net_plain_rows(&s->net, s->exec, s->spec.batch, s->t->length);
    weft_recipe_fill(&s->recipe, &s->spec, &s->net, s->exec, WEFT_HELD_OUT, s->spec.batch);
    weft_exec_prepare(s->exec);
    weft_exec_run(s->exec);
}

static void open_watched(struct stage *s, const char *settings)
{
    *s = (struct stage){0};
    check(add_settings(&s->settings, "layers=2 width=32 heads=4 ffn_width=64 context=160 vocab=128 batch=2"));
    check(add_settings(&s->settings, "recall_length=70"));
    check(add_settings(&s->settings, settings));
    open_settings(s, "llama", NULL);
    perturb(s->model, 7);
    run_graph(s);
}

/* ---- plain computation */

/* Element [row, at] of an input of a node; 0 if there is no such input. */
static double get(const struct stage *s, const struct weft_value *v, int64_t row, int64_t at)
{
    const struct weft_tensor *x = v ? weft_exec_tensor(s->exec, v) : NULL;
    return x ? weft_tensor_get(x, row * weft_tensor_width(x) + at) : 0;
}

enum { Q = 0, K = 1, SCALE = 3, KEY_BIAS = 4, POS_BIAS = 5, Q_BIAS = 10 }; /* inputs of attention and of entropy */

/* x[i][j] = <q_i, k_j> of a head and a sequence, whose first row is `first`. */
static void products(const struct stage *s, const struct weft_node *n, int64_t first, int64_t h, double *x)
{
    int64_t T = s->t->length, D = s->spec.qk_width, kv = h / (s->spec.heads / s->spec.kv_heads);
    for (int64_t i = 0; i < T; i++)
        for (int64_t j = 0; j < T; j++) {
            x[i * T + j] = 0;
            for (int64_t d = 0; d < D; d++)
                x[i * T + j] += get(s, n->in[Q], first + i, h * D + d) * get(s, n->in[K], first + j, kv * D + d);
        }
}

static double logit(const struct stage *s, const struct weft_node *n, int64_t first, int64_t h, const double *x,
                    int64_t i, int64_t j)
{
    int64_t T = s->t->length, offsets = n->in[POS_BIAS] ? weft_shape_width(&n->in[POS_BIAS]->shape) : 1;
    double a = get(s, n->in[SCALE], 0, h), y = a * x[i * T + j] + get(s, n->in[KEY_BIAS], first + j, h);
    y += get(s, n->in[POS_BIAS], h, weft_min(i - j, offsets - 1));
    if (s->spec.ra_alpha != 0 && i > j && i - j <= s->spec.ra_window)
        y += s->spec.ra_alpha *
             (a * x[j * T + i] + get(s, n->in[Q_BIAS], first + j, h) + get(s, n->in[KEY_BIAS], first + i, h));
    return y;
}

static double row_entropy(const struct stage *s, const struct weft_node *n, int64_t first, int64_t h, const double *x,
                          int64_t i)
{
    double p[512], sum = 0, entropy = 0;
    for (int64_t j = 0; j <= i; j++)
        sum += p[j] = exp(logit(s, n, first, h, x, i, j));
    for (int64_t j = 0; j <= i; j++)
        entropy -= p[j] > 0 ? p[j] / sum * log(p[j] / sum) : 0;
    return entropy;
}

static double pearson(const double *x, const double *y, int64_t n)
{
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    for (int64_t i = 0; i < n; i++) {
        mx += x[i] / (double)n;
        my += y[i] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
        xy += (x[i] - mx) * (y[i] - my);
    }
    return xy / sqrt(xx * yy);
}

static void plain_attention(const struct stage *s, int layer, double *entropy, double *reciprocity)
{
    int64_t T = s->t->length, B = s->spec.batch, H = s->spec.heads, pairs;
    const struct weft_node *n = node_of(s, "entropy", layer);
    double *x = malloc((size_t)(T * T) * sizeof *x);
    double *forth = malloc((size_t)(B * T * T) * sizeof *x), *back = malloc((size_t)(B * T * T) * sizeof *x);
    assert_true(n && x && forth && back);
    *entropy = *reciprocity = 0;
    for (int64_t h = 0; h < H; h++) {
        pairs = 0;
        for (int64_t b = 0; b < B; b++) {
            products(s, n, b * T, h, x);
            for (int64_t i = 0; i < T; i++) {
                *entropy += row_entropy(s, n, b * T, h, x, i) / (double)(B * T * H);
                for (int64_t j = weft_max(0, i - s->spec.ra_window); j < i; j++, pairs++) {
                    forth[pairs] = x[i * T + j];
                    back[pairs] = x[j * T + i];
                }
            }
        }
        *reciprocity += pearson(forth, back, pairs) / (double)H;
    }
    free(x);
    free(forth);
    free(back);
}

static double cosine(const double *a, const double *b, int64_t n)
{
    double aa = 0, bb = 0, ab = 0;
    for (int64_t i = 0; i < n; i++) {
        aa += a[i] * a[i];
        bb += b[i] * b[i];
        ab += a[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

/* z is what prefix_mean reads. */
static double plain_similarity(const struct stage *s, int layer, int64_t heads)
{
    int64_t T = s->t->length, B = s->spec.batch, F = s->spec.ffn_width, w = F / heads;
    const struct weft_node *n = node_of(s, "prefix_mean", layer);
    double context[512], sum = 0;
    for (int64_t b = 0; b < B; b++) {
        for (int64_t f = 0; f < F; f++) {
            context[f] = 0;
            for (int64_t t = 0; t < T; t++)
                context[f] += get(s, n->in[0], b * T + t, f) / (double)T;
        }
        for (int64_t g = 0; g < heads; g++)
            for (int64_t h = 0; h < g; h++)
                sum += cosine(context + g * w, context + h * w, w);
    }
    return sum / (double)(B * heads * (heads - 1) / 2);
}

static double plain_off_block(const struct stage *s, int layer, int64_t heads)
{
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.ffn.wz", layer);
    const struct weft_param *p = &s->model->params.list[weft_params_find(&s->model->params, name)];
    int64_t F = s->spec.ffn_width, w = F / heads;
    double all = 0, outside = 0;
    for (int64_t i = 0; i < F; i++)
        for (int64_t j = 0; j < F; j++) {
            double square = pow(s->model->params.weights[p->offset + i * F + j], 2);
            all += square;
            outside += i / w == j / w ? 0 : square;
        }
    return outside / all;
}

/* ---- tests */

static const struct weft_metric *metric(const struct stage *s, const char *name)
{
    for (int i = 0; i < s->t->diagnosis.count; i++)
        if (strcmp(s->t->diagnosis.list[i].name, name) == 0)
            return &s->t->diagnosis.list[i];
    return NULL;
}

static void expect(const struct stage *s, const char *name, int layer, double want)
{
    const struct weft_metric *f = metric(s, name);
    double allowed = s->spec.compute == WEFT_BF16 ? 2e-3 : 2e-5;
    assert_non_null(f);
    if (!(fabs(f->layer[layer] - want) <= allowed * (1 + fabs(want))))
        fail_msg("%s of layer %d is %.9g, plainly computed %.9g", name, layer, f->layer[layer], want);
}

static void compare(const char *settings)
{
    struct stage s;
    double entropy, reciprocity, spread = 0;
    print_message("%s\n", settings);
    open_watched(&s, settings);
    check(weft_learner_diagnose(s.t));
    check(weft_learner_diagnose(s.t)); /* again: nothing is left of the first */
    assert_int_equal(s.t->diagnosis.layers, s.spec.layers);
    assert_int_equal(s.t->diagnosis.count,
                     2 + (strstr(settings, "ffn=ws") != NULL) + (strstr(settings, "ws_form=dense") != NULL));
    for (int layer = 0; layer < s.spec.layers; layer++) {
        plain_attention(&s, layer, &entropy, &reciprocity);
        expect(&s, "attn_entropy", layer, entropy);
        expect(&s, "reciprocity", layer, reciprocity);
        spread = fmax(spread, fabs(entropy - lgamma((double)s.t->length + 1) / (double)s.t->length));
        if (strstr(settings, "ffn=ws"))
            expect(&s, "head_similarity", layer, plain_similarity(&s, layer, 4));
        if (strstr(settings, "ws_form=dense"))
            expect(&s, "off_block_mass", layer, plain_off_block(&s, layer, 4));
    }
    assert_true(spread > 0.01); /* attention is not uniform: the numbers could be wrong */
    const struct weft_metric *f = metric(&s, "reciprocity");
    assert_true(fabs(f->mean - (f->layer[0] + f->layer[1]) / 2) < 1e-12);
    close_stage(&s);
}

static void agrees_with_plain_computation(void **state)
{
    (void)state;
    static const char *const models[] = {
        "geom=dot dtype=f32",
        "geom=dot dtype=bf16 kv_heads=2",
        "geom=dot pos=alibi kv_heads=1 dtype=f32",
        "geom=dot pos=relative ra_alpha=0.5 ra_window=7 dtype=f32",
        "geom=w2 dtype=f32",
        "geom=w2 dtype=bf16",
        "geom=w2 spread=full ra_alpha=0.3 ra_window=70 kv_heads=2 dtype=f32",
        "geom=overlap dtype=f32",
        "geom=overlap ra_alpha=-0.4 ra_window=5 dtype=f32",
        "attn=latent geom=dot latent_width=12 dtype=f32",
        "attn=latent geom=w2 latent_width=12 latent_shared=yes dtype=f32",
        "attn=latent geom=overlap latent_width=12 latent_heads=shared ra_alpha=0.5 ra_window=9 dtype=f32",
        "m1=yes m2=yes m3=yes norm_place=post dropout=0.3 dtype=f32",
        "ffn=ws ws_heads=4 dtype=f32",
        "ffn=ws ws_heads=4 ws_form=dense dtype=bf16",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        compare(models[i]);
}

/* A diagnosis changes neither weights nor what training holds. */
static void leaves_training_alone(void **state)
{
    (void)state;
    char hash[2][65];
    for (int looks = 0; looks < 2; looks++) {
        struct stage s;
        struct weft_losses losses;
        open_watched(&s, "dropout=0.1 micro_batches=2 dtype=f32 recall_length=10");
        for (int step = 0; step < 3; step++) {
            check(weft_learner_step(s.t, &losses));
            if (looks)
                check(weft_learner_diagnose(s.t));
        }
        weft_params_hash(&s.model->params, hash[looks]);
        close_stage(&s);
    }
    assert_string_equal(hash[0], hash[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_plain_computation),
        cmocka_unit_test(leaves_training_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
