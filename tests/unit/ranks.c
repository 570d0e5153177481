/* SPDX-License-Identifier: MIT
 *
 * ranks.c - training on several ranks, which are threads here: the same bits as on one rank, and the ownership of data.
 *
 * run-tests: 12 s, tsan 118 s
 */
#include "train/ranks/ranks.h"
#include "check/mutants/mutants.h"
#include "comm/comm.h"
#include "ops/ops.h"
#include "stage.h"

#include <pthread.h>

enum { STEPS = 4 };

/* A rank's final state. */
struct result {
    char weights[65], stream[65], losses[65];
    double norm;
    int64_t sent, moments;
};

struct training {
    const char *preset, *settings;
    int threads;
    struct result *of; /* each rank's */
};

static void copy_result(struct result *to, const struct stage *s)
{
    weft_params_hash(&s->model->params, to->weights);
    memcpy(to->stream, s->t->stream, sizeof to->stream);
    memcpy(to->losses, s->t->loss_chain, sizeof to->losses);
    to->norm = s->t->grad_norm;
    to->sent = s->t->comm->bytes_sent;
    to->moments = s->t->moment_count;
}

static enum weft_status open_rank(struct stage *s, const struct training *tr, struct weft_comm *c)
{
    TRY(add_settings(&s->settings, "dtype=f32 layers=1 width=32 heads=2 ffn_width=64 context=16 recall_length=8"));
    TRY(add_settings(&s->settings, tr->settings));
    TRY(weft_spec_init(&s->spec, tr->preset, &s->settings));
    TRY(weft_recipe_init(&s->recipe, &s->spec, &s->settings));
    TRY(weft_nn_create(&s->model, &s->spec));
    TRY(weft_nn_init(s->model));
    TRY(weft_learner_create(&s->t, s->model, &s->recipe, c));
    return WEFT_OK;
}

static enum weft_status train_rank(struct weft_comm *c, void *context)
{
    const struct training *tr = context;
    struct stage s = {0};
    struct weft_losses losses;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, tr->threads);
    enum weft_status status = open_rank(&s, tr, c);
    for (int i = 0; status == WEFT_OK && i < STEPS; i++)
        status = weft_learner_step(s.t, &losses);
    if (status == WEFT_OK)
        copy_result(&tr->of[c->rank], &s);
    weft_threads_leave(&scope);
    close_stage(&s);
    return status;
}

/* ---- the same bits */

static void any_number_of_ranks_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const models[][2] = {
        {"gpt2", "batch=2 micro_batches=8 dropout=0.1"},
        {"llama", "batch=1 micro_batches=12 grad_groups=11 dtype=bf16 logits_z=0.01"},
        {"ws", "batch=3 micro_batches=9 grad_groups=9 layers=2 m1=yes m2=yes m3=yes dropout=0.1"},
        {"gpt2", "batch=1 micro_batches=8 optim=adamwspam attn=latent width=128 vocab=4096"},
        {"gpt2", "batch=1 micro_batches=8 width=160 steps=4 prune=0.7 prune_begin=0 prune_end=0.75 prune_every=1"},
        {"gpt2", "batch=1 micro_batches=8 width=160 heads=4 layers=2 m1=yes m3=yes steps=4 prune=0.4 prune_heads=0.5 "
                 "prune_channels=0.7 prune_ranks=0.5 prune_begin=0 prune_end=0.75 prune_every=1"},
    };
    static const int counts[] = {1, 2, 3, 4, 7, 8};
    for (size_t m = 0; m < sizeof models / sizeof *models; m += (size_t)(THREADS_SANITIZED ? one_of(5) : 1)) {
        struct result alone[1], of[8];
        struct training tr = {models[m][0], models[m][1], 1, alone};
        check(weft_comm_loopback(1, train_rank, &tr));
        for (int i = 5; i >= 0; i -= one_of(SANITIZED ? 3 : 2))
            for (tr.threads = 1; tr.threads <= 2; tr.threads++) {
                tr.of = of;
                check(weft_comm_loopback(counts[i], train_rank, &tr));
                for (int r = 0; r < counts[i]; r++) {
                    assert_string_equal(of[r].weights, alone->weights);
                    assert_string_equal(of[r].stream, alone->stream);
                    assert_string_equal(of[r].losses, alone->losses);
                    assert_true(of[r].norm == alone->norm);
                }
            }
        print_message("%s %s: %.16s\n", models[m][0], models[m][1], alone->weights);
    }
}

static void moments_and_traffic_are_shared_out(void **state)
{
    (void)state;
    struct result one[1], of[4];
    struct training tr = {"gpt2", "batch=1 micro_batches=8 width=256 ffn_width=1024 vocab=2048", 1, one};
    check(weft_comm_loopback(1, train_rank, &tr));
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        tr.of = of;
        check(weft_comm_loopback(ranks, train_rank, &tr));
        double optimal = 2.0 * STEPS * 4 * (double)one->moments * (ranks - 1) / ranks;
        for (int r = 0; r < ranks; r++) {
            print_message("%d ranks: moments %.4f of all, sent %.4f of the least\n", ranks,
                          (double)of[r].moments / (double)one->moments, (double)of[r].sent / optimal);
            assert_true((double)of[r].moments < 1.1 / ranks * (double)one->moments);
            assert_true((double)of[r].sent < 1.05 * optimal);
        }
    }
}

static void more_ranks_than_groups_are_refused(void **state)
{
    (void)state;
    struct result of[3];
    struct training tr = {"gpt2", "batch=1 micro_batches=2", 1, of};
    assert_int_equal(weft_comm_loopback(3, train_rank, &tr), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), "3 ranks share the 2 groups"));
}

/* ---- a rank whose arithmetic is broken */

static _Thread_local bool broken_here; /* the rank of this thread */
static struct fault {
    enum weft_op_id op;
    bool backward;
    int bit;      /* bit that is flipped in an f32 or bf16 */
    int64_t from; /* first element that the fault affects */
} fault;

static void flip(const struct weft_tensor *t)
{
    if (!t || !t->data)
        return;
    for (int64_t i = fault.from; i < weft_tensor_count(t); i++)
        if (t->dtype == WEFT_F32)
            ((uint32_t *)t->data)[i] ^= 1u << fault.bit;
        else if (t->dtype == WEFT_BF16)
            ((uint16_t *)t->data)[i] ^= (uint16_t)(1u << fault.bit % 7);
}

static void run_broken(const struct weft_call *call)
{
    const struct weft_op *sound = weft_sound_op(fault.op);
    (fault.backward ? sound->bwd.run : sound->fwd.run)(call);
    for (int i = 0; broken_here && i < WEFT_MAX_ARGS; i++)
        flip(fault.backward ? call->gin[i] : call->out[i]);
}

enum { VERIFY_EVERY = 2, RANKS = 4, GROUPS_EACH = 2 };

struct verified {
    int broken;          /* rank */
    int64_t step[RANKS]; /* final step of each rank */
};

static enum weft_status train_verified(struct weft_comm *c, void *context)
{
    struct verified *v = context;
    struct training tr = {"gpt2", "batch=1 micro_batches=8 layers=2 dropout=0.1 ffn=gelu", 1, NULL};
    struct stage s = {0};
    struct weft_losses losses;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, 1);
    broken_here = c->rank == v->broken;
    enum weft_status status = open_rank(&s, &tr, c);
    if (status == WEFT_OK)
        s.t->verify_every = VERIFY_EVERY;
    for (int i = 0; status == WEFT_OK && i < 3 * VERIFY_EVERY * GROUPS_EACH; i++)
        status = weft_learner_step(s.t, &losses);
    v->step[c->rank] = s.t ? s.t->step : -1;
    weft_threads_leave(&scope);
    close_stage(&s);
    return status;
}

static void a_broken_rank_is_found(void **state)
{
    (void)state;
    static const struct fault faults[] = {
        {WEFT_OP_linear, false},       {WEFT_OP_layernorm, false}, {WEFT_OP_layernorm, true}, {WEFT_OP_gelu, false},
        {WEFT_OP_gelu, true},          {WEFT_OP_attention, false}, {WEFT_OP_attention, true}, {WEFT_OP_embed, false},
        {WEFT_OP_cross_entropy, true}, {WEFT_OP_linear, false}};
    struct verified v = {.broken = -1};
    check(weft_comm_loopback(RANKS, train_verified, &v));
    for (int i = 0; i < 20; i += one_of(SANITIZED ? 7 : 2)) {
        char wanted[64];
        v.broken = i % RANKS;
        fault = faults[i % 10];
        fault.bit = 4 + i;
        fault.from = i / 10;
        struct weft_op *op = weft_break_op(fault.op);
        *(fault.backward ? &op->bwd.run : &op->fwd.run) = run_broken;
        enum weft_status status = weft_comm_loopback(RANKS, train_verified, &v);
        weft_mutants_restore();
        snprintf(wanted, sizeof wanted, "differs on rank %d:", v.broken);
        print_message("%s %s, bit %d: found at step %lld\n", weft_op(fault.op)->name,
                      fault.backward ? "backward" : "forward", fault.bit, (long long)v.step[v.broken] + 1);
        assert_int_equal(status, WEFT_CHECK);
        assert_non_null(strstr(weft_error(), wanted));
        assert_true(v.step[v.broken] < VERIFY_EVERY * GROUPS_EACH);
    }
}

/* ---- the tree */

/* Sums as texts show their order. */
struct texts {
    char text[WEFT_TREE_NODES][512];
};

static void join_texts(void *context, int to)
{
    struct texts *t = context;
    char both[1040];
    snprintf(both, sizeof both, "(%s+%s)", t->text[to], t->text[to + 1]);
    snprintf(t->text[to], sizeof t->text[to], "%.511s", both);
}

/* Joined by one rank, or each by its own and then all. */
static void write_tree(int64_t groups, int ranks, char *tree, size_t size)
{
    struct texts all = {0}, mine = {0};
    struct weft_tree_node open[WEFT_TREE_NODES], nodes[WEFT_TREE_NODES];
    int top = 0;
    for (int r = 0; r < ranks; r++) {
        int count = 0;
        for (int64_t g = weft_rank_first(groups, r, ranks); g < weft_rank_first(groups, r + 1, ranks); g++) {
            snprintf(mine.text[count], sizeof mine.text[count], "%lld", (long long)g);
            count = weft_tree_add(nodes, count, (struct weft_tree_node){g, 1}, join_texts, &mine);
        }
        for (int i = 0; i < count; i++) {
            memcpy(all.text[top], mine.text[i], sizeof all.text[top]);
            top = weft_tree_add(open, top, nodes[i], join_texts, &all);
        }
    }
    weft_tree_finish(open, top, join_texts, &all);
    snprintf(tree, size, "%s", all.text[0]);
}

static void the_tree_does_not_depend_on_ranks(void **state)
{
    (void)state;
    char alone[512], several[512];
    write_tree(7, 1, alone, sizeof alone);
    assert_string_equal(alone, "(((0+1)+(2+3))+((4+5)+6))");
    for (int64_t groups = 1; groups <= 40; groups++) {
        write_tree(groups, 1, alone, sizeof alone);
        for (int ranks = 2; ranks <= groups; ranks++) {
            write_tree(groups, ranks, several, sizeof several);
            assert_string_equal(several, alone);
        }
    }
}

/* ---- collecting */

static enum weft_status collect(struct weft_comm *c, void *context)
{
    int64_t blocks[9] = {0}, at[10];
    bool any;
    (void)context;
    blocks[c->rank] = 100 + c->rank;
    TRY(weft_comm_gather(c, blocks, sizeof *blocks));
    for (int r = 0; r < c->size; r++)
        if (blocks[r] != 100 + r)
            return FAIL(WEFT_CHECK, "rank %d has %lld of rank %d", c->rank, (long long)blocks[r], r);
    char array[64] = "";
    for (int r = 0; r <= c->size; r++)
        at[r] = r * (r + 1) / 2; /* the first has none */
    memset(array + at[c->rank], 'a' + c->rank, (size_t)(at[c->rank + 1] - at[c->rank]));
    TRY(weft_comm_spread(c, array, at));
    for (int r = 0; r < c->size; r++)
        for (int64_t i = at[r]; i < at[r + 1]; i++)
            if (array[i] != 'a' + r)
                return FAIL(WEFT_CHECK, "rank %d has '%s'", c->rank, array);
    TRY(weft_comm_any(c, c->rank == c->size - 1, &any));
    return any ? weft_comm_agree(c, "config", "the same") : FAIL(WEFT_CHECK, "no rank passed true");
}

static void ranks_collect(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 9; ranks++)
        check(weft_comm_loopback(ranks, collect, NULL));
}

static enum weft_status disagree(struct weft_comm *c, void *context)
{
    (void)context;
    return weft_comm_agree(c, "config", c->rank == 2 ? "one" : "another");
}

static enum weft_status fail_alone(struct weft_comm *c, void *context)
{
    (void)context;
    TRY(weft_comm_join(c, c->rank == 1 ? FAIL(WEFT_NOMEM, "rank 1 has no memory") : WEFT_OK));
    return WEFT_OK;
}

/* Rank 1 leaves while the others wait for it. */
static enum weft_status leave(struct weft_comm *c, void *context)
{
    int64_t blocks[4] = {0};
    (void)context;
    if (c->rank == 1)
        return FAIL(WEFT_NOMEM, "rank 1 was lost");
    TRY(weft_comm_gather(c, blocks, sizeof *blocks));
    return WEFT_OK;
}

static void failures_reach_all(void **state)
{
    (void)state;
    assert_int_equal(weft_comm_loopback(4, disagree, NULL), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), "rank 2 of 4: its config differs from rank 0's"));
    assert_int_equal(weft_comm_loopback(4, fail_alone, NULL), WEFT_NOMEM);
    assert_int_equal(weft_comm_loopback(4, leave, NULL), WEFT_NOMEM);
    assert_non_null(strstr(weft_error(), "rank 1 was lost"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tree_does_not_depend_on_ranks),
        cmocka_unit_test(ranks_collect),
        cmocka_unit_test(failures_reach_all),
        cmocka_unit_test(any_number_of_ranks_gives_the_same_bits),
        cmocka_unit_test(moments_and_traffic_are_shared_out),
        cmocka_unit_test(a_broken_rank_is_found),
        cmocka_unit_test(more_ranks_than_groups_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
