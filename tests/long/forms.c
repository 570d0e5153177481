/* SPDX-License-Identifier: MIT
 *
 * forms.c - damaged forms are found: `weft check` finds damages of ops, the gate `formed` damages of whole nets.
 *
 * Damages are drawn with a seed: at least one for every op, 80 of ops and 20 of nets that change a result in f64 by
 * more than 1e-6. Whether one does is measured by running forms directly, in the cases of the op, in these cases with
 * different numbers, and in small nets. Damages that change no result are equivalent, and listed.
 *
 *     build/release/tests/long/forms [--seed N] [--ops N] [--nets N] [--json]
 */
#define _GNU_SOURCE
#include "form_nets.h"
#include "form_ops.h"

#include <stdio.h>

enum { MOST_NETS = 10, PAIRS = 5, TRIES = 60, MOST_EQUIVALENT = 1000 };
#define EFFECT 1e-6

static bool is_none(double effect) { return effect != BROKEN && !(effect > EFFECT); }

static const char *const presets[] = {"gpt2", "llama", "w2", "ra-mla", "ws"};

static struct test {
    uint64_t seed, drawn;
    int wanted_of_ops, wanted_of_nets;
    bool json;
    struct op_cases cases[WEFT_OP_COUNT];
    struct net nets[MOST_NETS];
    int net_count;
    int number; /* of TAP lines */
    int effective[2], found[2], per_group[GROUPS], found_per_group[GROUPS];
    int broken, missed; /* damages with which a form cannot be run, and those of them that were not found */
    bool op_damaged[WEFT_OP_COUNT];
    char equivalent[MOST_EQUIVALENT][400];
    int equivalent_count;
} test;

static int draw(int n) { return (int)weft_below(test.seed, test.drawn++, (uint64_t)n); }

static void demand(enum weft_status status)
{
    if (status == WEFT_OK)
        return;
    printf("not ok %d - %s\n", ++test.number, weft_error());
    exit(1);
}

/* ---- one damage */

/* Prints the line of a damage that has an effect, and counts it. */
static void judge(bool of_net, const char *what, const struct damage *d, double effect, bool found, const char *how)
{
    char text[96];
    describe_damage(d, text);
    test.effective[of_net]++;
    test.found[of_net] += found;
    test.per_group[d->group]++;
    test.found_per_group[d->group] += found;
    printf("%sok %d - %s, %s (changes a result by %.1e): %s\n", found ? "" : "not ", ++test.number, what, text, effect,
           found ? how : "not found");
    fflush(stdout);
}

/* Lists a damage with which the form cannot be run. It must be found, but does not count. */
static void list_broken(const char *what, const struct damage *d, bool found)
{
    char text[96];
    describe_damage(d, text);
    test.broken++;
    test.missed += !found;
    if (found)
        printf("# cannot be run, which is found: %s, %s\n", what, text);
    else
        printf("not ok %d - %s, %s cannot be run: not found\n", ++test.number, what, text);
    fflush(stdout);
}

static void list_equivalent(const char *what, const struct damage *d)
{
    char text[96];
    describe_damage(d, text);
    printf("# equivalent: %s, %s\n", what, text);
    fflush(stdout);
    if (test.equivalent_count < MOST_EQUIVALENT)
        snprintf(test.equivalent[test.equivalent_count++], sizeof test.equivalent[0], "%.290s, %s", what, text);
}

/* ---- damages of ops */

static void note_failure(void *context, const struct weft_opcheck_case *c)
{
    char *message = context;
    if (c->failed && !*message)
        snprintf(message, 400, "case %s: %s", c->name, c->message);
}

/* Returns whether `weft check` passes the op, and the first failure. */
static bool passes_check(const char *op, char message[400])
{
    struct weft_opcheck sum;
    *message = 0;
    demand(weft_opcheck_run(op, 1, &sum, note_failure, message));
    return sum.failed == 0;
}

/* Returns the largest effect on a net. */
static double effect_on_nets(const struct hook *how, const char **where)
{
    double most = 0;
    for (int n = 0; n < test.net_count; n++)
        for (int i = 0; i < test.nets[n].use_count; i++) {
            struct use *u = &test.nets[n].use[i];
            struct values damaged = {0};
            hook_begin(*how);
            bool ran = run_use(u, &damaged, true);
            hook_end();
            double effect = ran ? effect_of(&u->sound, &damaged) : 0;
            free_values(&damaged);
            if (effect > most || effect == BROKEN) {
                most = most > 0 ? most : effect;
                *where = test.nets[n].name;
            }
        }
    return most;
}

/* Returns the largest effect of a damage: in the op's cases, with different numbers in them, in nets. *where is the
 * first of these with an effect, NULL for the first. */
static double find_effect(const struct site *s, struct op_cases *o, const struct hook *how, const char **where)
{
    double effect = 0;
    *where = NULL;
    for (int otherwise = 0; otherwise < 2 && s->in_cases && is_none(effect); otherwise++) {
        hook_begin(*how);
        effect = effect_on_cases(o, otherwise);
        hook_end();
        *where = otherwise ? "different numbers" : NULL;
    }
    return is_none(effect) ? effect_on_nets(how, where) : effect;
}

/* Damages a site. Returns whether that has an effect. */
static bool try_site(const struct site *s, struct op_cases *o, const struct damage *d)
{
    struct hook how = {.mode = BREAK_SITE, .site = s, .damage = *d};
    char what[200], message[400];
    const char *where;
    double effect = find_effect(s, o, &how, &where);
    int n = snprintf(what, sizeof what, "%s, atom %d (%s)", s->op, s->number, weft_atom_name(s->kind));
    if (is_none(effect)) {
        list_equivalent(what, d);
        return false;
    }
    if (where)
        snprintf(what + n, sizeof what - (size_t)n, ", has an effect only with %.40s", where);
    hook_begin(how);
    bool found = !passes_check(s->op, message);
    hook_end();
    if (effect == BROKEN)
        list_broken(what, d, found);
    else
        judge(false, what, d, effect, found, message);
    return effect != BROKEN;
}

/* Returns a damage drawn from those of an op, or of all ops if it is NULL, that belong to a group (GROUPS: any) and
 * were not tried yet. */
static struct damage *draw_damage(const char *op, int group, struct site **site)
{
    struct damage *chosen = NULL;
    int seen = 0;
    for (int i = 0; i < site_count; i++)
        for (int k = 0; k < sites[i].possible.count; k++) {
            struct damage *d = &sites[i].possible.list[k];
            if (sites[i].tried[k] || (op && strcmp(op, sites[i].op) != 0) ||
                (group != GROUPS && (int)d->group != group))
                continue;
            if (draw(++seen) == 0) {
                chosen = d;
                *site = &sites[i];
            }
        }
    if (chosen)
        (*site)->tried[chosen - (*site)->possible.list] = true;
    return chosen;
}

/* Draws damages of an op until one has an effect. Returns whether there is one. */
static bool damage_op(int id, int group)
{
    struct site *site = NULL;
    struct damage *d;
    for (int tries = 0; tries < TRIES && (d = draw_damage(weft_op((enum weft_op_id)id)->name, group, &site)); tries++)
        if (try_site(site, &test.cases[id], d)) {
            test.op_damaged[id] = true;
            return true;
        }
    return false;
}

/* Returns the group of which the fewest damages had an effect so far. */
static int rarest_group(void)
{
    int rarest = 0;
    for (int g = 1; g < GROUPS; g++)
        rarest = test.per_group[g] < test.per_group[rarest] ? g : rarest;
    return rarest;
}

static void damage_ops(void)
{
    for (int id = 0; id < WEFT_OP_COUNT; id++)
        if (!damage_op(id, GROUPS)) {
            printf("# no damage of %s is possible, or has an effect\n", weft_op((enum weft_op_id)id)->name);
        }
    for (int failures = 0; test.effective[false] < test.wanted_of_ops && failures < 1000;)
        failures += !damage_op(draw(WEFT_OP_COUNT), rarest_group());
}

/* ---- damages of nets */

static void count_failures(void *context, const struct weft_check *c)
{
    char *message = context;
    if (!c->passed && !*message)
        snprintf(message, 400, "%s: %s", c->name, c->where);
}

/* Returns whether the gate passes the net, and the first failure. (Not through weft_gates_run, which then looks for the
 * part that is the cause.) */
static bool passes_gate(const struct net *net, char message[400])
{
    struct weft_gates report = {.on_check = count_failures, .context = message};
    *message = 0;
    demand(weft_gate_formed(&(struct weft_trial){"formed", net->twin, NULL, &report}));
    demand(weft_deferred());
    return report.failed == 0;
}

/* Damages an atom in one use of a net. Returns whether that has an effect. */
static bool try_call(struct net *net, int use, int call, const struct damage *d)
{
    struct use *u = &net->use[use];
    struct hook how = {.mode = BREAK_CALL, .want_form = 0, .want_call = call, .damage = *d};
    struct values damaged = {0};
    char what[400], message[400];
    snprintf(what, sizeof what, "%s, %s, atom %d (%s of %s)", net->name, use_names[use], call,
             weft_atom_name(u->calls[call].kind), u->calls[call].op);
    hook_begin(how);
    run_use(u, &damaged, false);
    hook_end();
    double effect = effect_of(&u->sound, &damaged);
    free_values(&damaged);
    if (is_none(effect)) {
        list_equivalent(what, d);
        return false;
    }
    how.want_form = use;
    hook_begin(how);
    bool found = !passes_gate(net, message);
    bool done = hook.done == 1;
    hook_end();
    if (effect == BROKEN)
        list_broken(what, d, found && done);
    else
        judge(true, what, d, effect, found && done, message);
    return effect != BROKEN;
}

/* Draws one of the damages of a use: first the kind of atom, so that rare kinds occur, then an atom of it. */
static bool draw_call(struct use *u, int *call, int *damage)
{
    int kind = -1, seen = 0, last = -1;
    for (int turn = 0; turn < 2; turn++, seen = 0)
        for (int k = 0; k < WEFT_ATOMS; k++, last = -1)
            for (int i = 0; i < u->call_count; i++)
                for (int j = 0; (int)u->calls[i].kind == k && j < u->calls[i].possible.count; j++) {
                    if (u->calls[i].tried[j] || (turn == 1 && k != kind) || (turn == 0 && last == k))
                        continue;
                    last = k;
                    if (draw(++seen) == 0) {
                        kind = k;
                        *call = i;
                        *damage = j;
                    }
                }
    if (kind >= 0)
        u->calls[*call].tried[*damage] = true;
    return kind >= 0;
}

static void damage_nets(void)
{
    for (int turn = 0; test.effective[true] < test.wanted_of_nets && turn < 50 * test.wanted_of_nets; turn++) {
        struct net *net = &test.nets[turn % test.net_count];
        int cached = net->use_count - 3, use = draw(2) ? 3 + draw(cached) : draw(3), call, damage;
        if (draw_call(&net->use[use], &call, &damage))
            try_call(net, use, call, &net->use[use].calls[call].possible.list[damage]);
    }
}

/* ---- the sound forms */

static void open_ops(void)
{
    char message[400];
    for (int id = 0; id < WEFT_OP_COUNT; id++) {
        const struct weft_op *op = weft_op((enum weft_op_id)id);
        double begun = weft_seconds();
        demand(open_cases(&test.cases[id], op));
        if (!passes_check(op->name, message))
            demand(FAIL(WEFT_CHECK, "%s without damage: %s", op->name, message));
        int count = 0, damages = 0;
        for (int i = 0; i < site_count; i++)
            if (strcmp(sites[i].op, op->name) == 0) {
                count++;
                damages += sites[i].possible.count;
            }
        printf("# %s: %d cases, %d atoms, %d damages, %.1f s\n", op->name, op->case_count, count, damages,
               weft_seconds() - begun);
        fflush(stdout);
    }
    printf("ok %d - the sound forms of %d ops pass\n", ++test.number, WEFT_OP_COUNT);
}

/* Checks that the gate lowers the same graphs in the same order, so that a form and a call name the same atom. */
static void open_one_net(const char *preset, const char *settings)
{
    struct net *net = &test.nets[test.net_count++];
    char message[400];
    int calls = 0;
    demand(open_net(net, preset, settings));
    hook_begin((struct hook){.mode = COUNT_CALLS});
    bool passes = passes_gate(net, message);
    hook_end();
    for (int i = 0; i < net->use_count; i++)
        calls += net->use[i].call_count;
    bool same = hook.form + 1 == net->use_count && hook.call + 1 == net->use[net->use_count - 1].call_count;
    bool good = passes && same;
    printf("%sok %d - the sound forms of %s pass%s%s\n", good ? "" : "not ", ++test.number, net->name, good ? "" : ": ",
           passes ? same ? "" : "the gate lowers different graphs" : message);
    printf("# %d uses, %d atoms\n", net->use_count, calls);
    fflush(stdout);
    hook_begin((struct hook){.mode = LIST_SITES});
    for (int i = 0; i < net->use_count; i++) {
        struct values ignored = {0};
        run_use(&net->use[i], &ignored, true);
    }
    hook_end();
}

/* Lists damages that no case of their op allows, because it does not reach the atom, or two sizes are never equal. */
static void print_gaps(void)
{
    char text[96];
    for (int i = 0; i < site_count; i++)
        for (int k = sites[i].possible_in_cases; k < sites[i].possible.count; k++) {
            describe_damage(&sites[i].possible.list[k], text);
            printf("# possible only in nets: %s, atom %d (%s), %s\n", sites[i].op, sites[i].number,
                   weft_atom_name(sites[i].kind), text);
        }
}

static void open_nets(void)
{
    static struct weft_combinations pairs;
    demand(weft_combinations_cover(&pairs, 2, 1));
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        open_one_net(presets[i], "");
    for (int i = 0; i < PAIRS; i++) {
        char name[24];
        int row = draw(pairs.count);
        snprintf(name, sizeof name, "pair %d", row + 1);
        printf("# %s: %s\n", name, pairs.rows[row]);
        open_one_net(name, pairs.rows[row]);
    }
    weft_combinations_release(&pairs);
    print_gaps();
}

/* ---- the report */

static void print_report(void)
{
    int effective = test.effective[0] + test.effective[1], found = test.found[0] + test.found[1], ops = 0;
    for (int id = 0; id < WEFT_OP_COUNT; id++)
        ops += test.op_damaged[id];
    for (int g = 0; g < GROUPS; g++)
        printf("# %-10s %3d found of %3d\n", group_names[g], test.found_per_group[g], test.per_group[g]);
    for (int i = 0; i < test.equivalent_count; i++)
        printf("# equivalent %d: %s\n", i + 1, test.equivalent[i]);
    if (test.json) {
        printf("{\"seed\": %d, \"damages\": %d, \"found\": %d, \"of_ops\": %d, \"of_nets\": %d, \"ops\": %d, "
               "\"equivalent\": %d, \"cannot_run\": %d",
               (int)test.seed, effective, found, test.effective[0], test.effective[1], ops, test.equivalent_count,
               test.broken);
        for (int g = 0; g < GROUPS; g++)
            printf(", \"%s\": %d", group_names[g], test.per_group[g]);
        printf("}\n");
    }
    printf("1..%d\n", test.number);
    printf("# seed %d: found %d of %d damaged forms, %d of ops (%d ops) and %d of nets; %d equivalent damages\n",
           (int)test.seed, found, effective, test.effective[0], ops, test.effective[1], test.equivalent_count);
}

int main(int count, char **arguments)
{
    struct weft_threads_scope one;
    test.seed = 1;
    test.wanted_of_ops = 80;
    test.wanted_of_nets = 20;
    for (int i = 1; i < count; i++) {
        int n = i + 1 < count ? atoi(arguments[i + 1]) : 0;
        test.json |= strcmp(arguments[i], "--json") == 0;
        test.seed = strcmp(arguments[i], "--seed") == 0 ? (uint64_t)n : test.seed;
        test.wanted_of_ops = strcmp(arguments[i], "--ops") == 0 ? n : test.wanted_of_ops;
        test.wanted_of_nets = strcmp(arguments[i], "--nets") == 0 ? n : test.wanted_of_nets;
    }
    weft_threads_enter(&one, 1);
    open_ops();
    open_nets();
    damage_ops();
    damage_nets();
    print_report();
    for (int id = 0; id < WEFT_OP_COUNT; id++)
        close_cases(&test.cases[id]);
    for (int i = 0; i < test.net_count; i++)
        close_net(&test.nets[i]);
    weft_threads_leave(&one);
    return test.missed || test.found[0] + test.found[1] < test.effective[0] + test.effective[1] ||
           test.effective[0] < test.wanted_of_ops || test.effective[1] < test.wanted_of_nets;
}
