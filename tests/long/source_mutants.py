#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""source_mutants.py - breaks one line of the source at a time, and checks that the named check notices it.

`weft verify --mutants` replaces parts and ops of a running program. Code outside their tables, such as the queue and the
report, is mutated here: each mutant is applied in a copy of the tree (build/source-mutants), built, and its command is run,
which must fail and name the check. Before, the command must pass in the sound copy. Prints a TAP line for each mutant.

    tests/long/source_mutants.py                 all mutants
    tests/long/source_mutants.py --only looks    those with this text in their file or title
    tests/long/source_mutants.py --list          only print them

To add one, append a Mutant to a list below: a title, the edits (file, text, new text; the text must occur exactly once in the
file), part of what the failing command prints, and the command if it is not `weft verify --study`. Commands are run by bash
in an empty folder; `weft` is the program that was built from the mutant, and $TREE is its tree.
"""
import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, "tools")
import defects  # noqa: E402 (it copies the tree)

VERIFY_STUDY = "weft verify --study"
# Two arms that differ in width, so that a defect can be of one of them; nothing is trained before the samples are compared.
ABLATE = r"""
printf 'CONFIG_%s\n' WEFT_ARMS='"narrow: ffn_width=32 | wide: ffn_width=33"' WEFT_LAYERS=1 WEFT_WIDTH=16 WEFT_HEADS=2 \
    WEFT_CONTEXT=16 WEFT_BATCH=4 WEFT_RECALL_LENGTH=8 WEFT_EVAL_SAMPLES=8 WEFT_WARMUP=1 GPT2_MAX_ITERS=2 >config
WEFT_TEST_SKIP_GATES=1 weft ablate --config config --out study --threads 1
"""
SECONDS = 300  # that a command may take


@dataclasses.dataclass
class Mutant:
    title: str
    edits: list  # of (file, text, new text)
    caught_by: str
    command: str = VERIFY_STUDY


def edit(file, text, new):
    return [(f"src/{file}", text, new)]


QUEUE_TAKES = "s->arm[arm].lr = s->lr[k];"
REPORT_TAKES = "arm->lr = r->lr[k];"
STUDY = [
    # ---- the plan and the queue
    Mutant("screening takes the neighbour of the best rate, in the queue", edit("study/queue.c", QUEUE_TAKES,
           "s->arm[arm].lr = s->lr[k ? k - 1 : 0];"), "learning rates that the queue chooses"),
    Mutant("screening takes the neighbour of the best rate, in the report", edit("report/read/results_runs.c", REPORT_TAKES,
           "arm->lr = r->lr[k ? k - 1 : 0];"), "learning rates in the report"),
    Mutant("screening takes the neighbour of the best rate, in queue and report alike",
           edit("study/queue.c", QUEUE_TAKES, "s->arm[arm].lr = s->lr[k ? k - 1 : 0];") +
           edit("report/read/results_runs.c", REPORT_TAKES, "arm->lr = r->lr[k ? k - 1 : 0];"), "learning rates in the report"),
    Mutant("screening takes the next rate, in queue and report alike",
           edit("study/queue.c", QUEUE_TAKES, "s->arm[arm].lr = s->lr[k + 1 < s->lr_count ? k + 1 : k];") +
           edit("report/read/results_runs.c", REPORT_TAKES, "arm->lr = r->lr[k + 1 < r->lr_count ? k + 1 : k];"),
           "learning rates in the report"),
    Mutant("the queue takes the last of equal rates, the report the first", edit("study/queue.c",
           "        if (loss < least) {", "        if (loss <= least) {"), "learning rates that the queue chooses"),
    Mutant("the report takes the last of equal rates, the queue the first", edit("report/read/results_runs.c",
           "        if (loss < least) {", "        if (loss <= least) {"), "learning rates in the report"),
    Mutant("the queue chooses by the test loss", edit("study/queue.c", "q->job[i].finished.val_loss : INFINITY",
           "q->job[i].finished.test_loss : INFINITY"), "learning rates that the queue chooses"),
    Mutant("the queue chooses by the last screening seed", edit("study/queue.c",
           "sum += q->job[i].state == WEFT_DONE ?", "sum = q->job[i].state == WEFT_DONE ?"),
           "learning rates that the queue chooses"),
    Mutant("the queue chooses by the runs of the first arm", edit("study/queue.c",
           "if (q->job[i].run.arm == arm && q->job[i].run.lr == lr)", "if (q->job[i].run.arm == 0 && q->job[i].run.lr == lr)"),
           "learning rates that the queue chooses"),
    Mutant("a failed screening run counts as a loss of 0", edit("study/queue.c", "finished.val_loss : INFINITY",
           "finished.val_loss : 0"), "learning rates that the queue chooses"),
    Mutant("the last seed is not trained", edit("study/queue.c", "screening + seeds * q->study->arm_count));",
           "screening + (seeds - 1) * q->study->arm_count));"), "runs that the queue trains"),
    Mutant("a line of the ledger counts for every arm with the same config", edit("study/queue.c",
           "return strcmp(a->arm, b->arm) == 0 && a->seed == b->seed &&", "return a->seed == b->seed &&"),
           "runs that the queue trains"),
    Mutant("seeds are one higher for the second arm", edit("study/plan.c", "run.seed = arm->spec.seed + i / s->arm_count +",
           "run.seed = arm->spec.seed + i / s->arm_count + (run.arm == 1) +"), "runs that the queue trains"),
    Mutant("all arms are judged at the rate of the first", edit("study/plan.c", "run.lr = s->lr_count > 1 ? of->lr :",
           "run.lr = s->lr_count > 1 ? s->arm[0].lr :"), "runs that the queue trains"),
    Mutant("screening uses the seeds that are judged", edit("study/plan.c", "WEFT_SCREEN_OFFSET + i / arms / s->lr_count",
           "i / arms / s->lr_count"), "runs that the queue trains"),
    Mutant("one screening seed less", edit("study/plan.c", "return s->lr_count > 1 ? s->screen_seeds * s->lr_count",
           "return s->lr_count > 1 ? (s->screen_seeds + 1) / 2 * s->lr_count"), "runs that the queue trains"),
    Mutant("a run has the config of a different rate", edit("study/plan.c", "weft_json_real(run->lr, lr + 3,",
           "weft_json_real(1.5 * run->lr, lr + 3,"), "runs and is reported"),
    Mutant("test and validation loss are exchanged between result and ledger", edit("study/launch.c",
           '{"test_loss", &r->f->test_loss}', '{"test_loss", &r->f->val_loss}'), "lines of the ledger"),
    # ---- which runs the report takes
    Mutant("the report chooses by the test loss", edit("report/read/results_runs.c", "sum += arm->run[i].val_loss;",
           "sum += arm->run[i].test_loss;"), "learning rates in the report"),
    Mutant("the report chooses by the last screening seed", edit("report/read/results_runs.c", "sum += arm->run[i].val_loss;",
           "sum = arm->run[i].val_loss;"), "learning rates in the report"),
    Mutant("the report chooses by the runs that are judged", edit("report/read/results_runs.c",
           "(!r->screen_seeds || weft_result_is_screening(r, arm, &arm->run[i]))", "true"), "learning rates in the report"),
    Mutant("the report chooses by the runs of the first arm", edit("report/read/results_runs.c", "sum += arm->run[i].val_loss;",
           "sum += r->arm[0].run[i].val_loss;"), "learning rates in the report"),
    Mutant("screening seeds are not planned", edit("report/read/results_runs.c", "r->lr_count * r->screen_seeds);", "r->lr_count);"),
           "arms and runs that the report counts"),
    Mutant("a repeat has the rate of the first arm", edit("report/read/results_runs.c", "arm->lr = of->lr;",
           "arm->lr = r->arm[0].lr;"), "learning rates in the report"),
    Mutant("the highest rate is not at the edge", edit("report/read/results_runs.c", "(arm->lr == low || arm->lr == high)",
           "(arm->lr == low)"), "learning rates in the report"),
    Mutant("the first seed is not judged", edit("report/read/results_runs.c", "return run->seed >= arm->first_seed &&",
           "return run->seed > arm->first_seed &&"), "arms and runs that the report counts"),
    Mutant("a seed past the plan is judged", edit("report/read/results_runs.c", "run->seed - arm->first_seed < r->seed_count",
           "run->seed - arm->first_seed <= r->seed_count"), "runs and is reported"),
    Mutant("a screening seed past the plan counts", edit("report/read/results_runs.c", "run->seed - first < r->screen_seeds",
           "run->seed - first <= r->screen_seeds"), "runs and is reported"),
    Mutant("runs with any number of steps count", edit("report/read/results_runs.c",
           "run->steps == weft_result_steps(r, arm) && ", ""), "runs and is reported"),
    Mutant("runs of a different program count", edit("report/read/results_runs.c",
           " && strcmp(run->program_sha256, r->program_sha256) == 0;", ";"), "arms and runs that the report counts"),
    Mutant("of several lines of a run the first counts", edit("report/read/results_runs.c", "    arm->run[i] = *run;\n",
           "    if (i == arm->run_count)\n        arm->run[i] = *run;\n"), "arms and runs that the report counts"),
    Mutant("runs with a rate that is not in the plan count", edit("report/read/results_runs.c", "lr = r->lr[i] == run->lr;",
           "lr = true;"), "runs and is reported"),
    Mutant("runs of all rates are judged together", edit("report/read/results_runs.c",
           "if (arm->run[i].lr == arm->lr && weft_result_is_judged(r, arm, &arm->run[i])) {",
           "if (weft_result_is_judged(r, arm, &arm->run[i])) {"), "losses of the arms"),
    Mutant("runs are sorted by falling seeds", edit("report/read/results_runs.c",
           "return (x->seed > y->seed) - (x->seed < y->seed);", "return (x->seed < y->seed) - (x->seed > y->seed);"),
           "pairs and their differences"),
    Mutant("lines of the ledger go to the next arm", edit("report/read/results_runs.c",
           "mine += strcmp(list[i].arm, arm->name) == 0 && is_planned", "mine += strcmp(list[i].arm, r->arm[(arm - r->arm + 1) % r->arm_count].name) == 0 && is_planned") +
           edit("report/read/results_runs.c", "        if (strcmp(list[i].arm, arm->name) == 0 && is_planned(r, arm, &list[i]))",
           "        if (strcmp(list[i].arm, r->arm[(arm - r->arm + 1) % r->arm_count].name) == 0 && is_planned(r, arm, &list[i]))"),
           "runs and is reported"),
    # ---- means and pairs
    Mutant("the mean of an arm is its middle seed", edit("report/judge/findings.c", "f->loss += f->run[i].test_loss / f->seeds;",
           "f->loss = f->run[f->seeds / 2].test_loss;"), "losses of the arms"),
    Mutant("the mean is computed from validation losses", edit("report/judge/findings.c",
           "f->loss += f->run[i].test_loss / f->seeds;", "f->loss += f->run[i].val_loss / f->seeds;"), "losses of the arms"),
    Mutant("the standard deviation divides by n", edit("report/judge/findings.c", "sqrt(squares / (f->seeds - 1))",
           "sqrt(squares / f->seeds)"), "losses of the arms"),
    Mutant("pairs are rotated by one seed", edit("report/judge/findings.c",
           "losses[f->seeds + f->against.seeds++] = base->run[k].test_loss;",
           "losses[f->seeds + f->against.seeds++] = base->run[(k + 1) % base->seeds].test_loss;"),
           "pairs and their differences"),
    Mutant("the sign of the difference", edit("report/judge/findings.c", ".arm = losses, .base = losses + f->seeds",
           ".base = losses, .arm = losses + f->seeds"), "pairs and their differences"),
    Mutant("the first pair is dropped", edit("report/judge/findings.c", "for (int i = 0, k = 0; i < f->seeds; i++) {",
           "for (int i = 1, k = 0; i < f->seeds; i++) {"), "pairs and their differences"),
    Mutant("the second pair is counted twice", edit("report/judge/findings.c", "losses[f->against.seeds] = f->run[i].test_loss;",
           "losses[f->against.seeds] = f->run[i < 2 ? 1 : i].test_loss;"), "pairs and their differences"),
    Mutant("pairs are compared by validation losses", edit("report/judge/findings.c",
           "losses[f->against.seeds] = f->run[i].test_loss;", "losses[f->against.seeds] = f->run[i].val_loss;"),
           "pairs and their differences"),
    Mutant("the last complete pair does not count", edit("report/judge/findings.c", "while (n < r->seed_count && find_seed",
           "while (n + 1 < r->seed_count && find_seed"), "pairs and their differences"),
    Mutant("runs of the first arm need not be complete", edit("report/judge/findings.c",
           "find_seed(&r->arm[0].found, first + n) && ", ""), "a failed run of base:"),
    Mutant("the edge of the first arm's grid is not noticed", edit("report/judge/findings.c",
           "r->arm[0].lr_at_edge ? &r->arm[0] : arm->lr_at_edge ? arm : NULL", "arm->lr_at_edge ? arm : NULL"),
           "edge of base: verdicts"),
    Mutant("an arm whose settings have no effect is compared", edit("report/judge/findings.c",
           "if (r->name && is_same(base, f)) {", "if (!r->name && is_same(base, f)) {"), "not paired: verdicts"),
    Mutant("an arm with one seed like the first arm's is taken for one without effect", edit("report/judge/findings.c",
           "return both && equal == both;", "return both && equal;"), "not paired: verdicts"),
    Mutant("a repeat with one equal run is reproduced", edit("report/judge/findings.c",
           "    if (equal == both)\n        return conclude(f, \"reproduced\",", "    if (equal)\n        return conclude(f, \"reproduced\","),
           "not reproduced: verdicts"),
    # ---- statistics
    Mutant("n degrees of freedom in the interval", edit("stats/stats.c", "-weft_t_quantile(alpha / 2, n - 1) * c->sd",
           "-weft_t_quantile(alpha / 2, n) * c->sd"), "intervals and p values"),
    Mutant("n degrees of freedom in p", edit("stats/stats.c", "c->sd / sqrt(n)), n - 1);", "c->sd / sqrt(n)), n);"),
           "intervals and p values"),
    Mutant("the standard deviation of differences divides by n", edit("stats/stats.c",
           "double freedom = (double)(c->seeds - 1), arm, base;", "double freedom = (double)c->seeds, arm, base;"),
           "pairs and their differences"),
    Mutant("a one-sided interval", edit("stats/stats.c", "-weft_t_quantile(alpha / 2, n - 1) * c->sd",
           "-weft_t_quantile(alpha, n - 1) * c->sd"), "intervals and p values"),
    Mutant("no correction for the number of arms", edit("report/judge/findings.c",
           "weft_compare(family, count, r->name ? r->looks.comparisons : count)", "weft_compare(family, count, 1)"),
           "levels of the intervals"),
    Mutant("the correction is for the arms that are left", edit("report/judge/findings.c",
           "weft_compare(family, count, r->name ? r->looks.comparisons : count)", "weft_compare(family, count, count)"),
           "levels of the intervals"),
    Mutant("repeats count as comparisons", edit("report/read/results.c", "r->looks.comparisons += !r->arm[i].repeats;",
           "r->looks.comparisons++;"), "repeats: levels of the intervals"),
    Mutant("Holm's factor does not fall", edit("stats/stats.c", "(double)(planned - smaller) * family[i].p",
           "(double)planned * family[i].p"), "intervals and p values"),
    Mutant("the verdict is by the interval alone", edit("report/judge/verdict.c",
           "return c->family.high < 0 ? WEFT_BETTER : c->family.low > 0 ?",
           "return c->alone.high < 0 ? WEFT_BETTER : c->alone.low > 0 ?"), "five arms: verdicts"),
    Mutant("better and worse are exchanged", edit("report/judge/verdict.c",
           "return c->family.high < 0 ? WEFT_BETTER : c->family.low > 0 ? WEFT_WORSE",
           "return c->family.high < 0 ? WEFT_WORSE : c->family.low > 0 ? WEFT_BETTER"), "verdicts"),
    Mutant("better and worse are exchanged in the sentence", edit("report/judge/verdict.c", "bool better = c->mean < 0;",
           "bool better = c->mean > 0;"), "sentences"),
    # ---- looks
    Mutant("every look has the level of the first", edit("stats/looks.c",
           "c->alpha = l->count > 1 ? l->alpha[k] : 0; /* for the family's own comparison */",
           "c->alpha = l->count > 1 ? l->alpha[0] : 0;"), "levels of the intervals"),
    Mutant("a look has the level of the next", edit("stats/looks.c",
           "c->alpha = l->count > 1 ? l->alpha[k] : 0; /* for the family's own comparison */",
           "c->alpha = l->count > 1 ? l->alpha[k + 1 < l->count ? k + 1 : k] : 0;"), "levels of the intervals"),
    Mutant("every look spends all of alpha", edit("stats/looks.c", "double share = alpha / l->count;",
           "double share = alpha;"), "levels of the intervals"),
    Mutant("the number of a look is one less", edit("stats/looks.c", "*look = k + 1;", "*look = k;"), "looks, "),
    Mutant("a look after a decision decides again", edit("stats/looks.c", "l->seeds[k] <= seeds && !decided; k++",
           "l->seeds[k] <= seeds; k++"), "looks, decided: pairs and their differences"),
    Mutant("a look needs one seed more", edit("stats/looks.c", "l->seeds[k] <= seeds && !decided; k++",
           "l->seeds[k] < seeds && !decided; k++"), "verdicts"),
    Mutant("the looks of the queue are one late", edit("report/read/looks.c", "weft_queue_run(q, q->study->look[k])",
           "weft_queue_run(q, q->study->look[k + 1 < q->study->look_count ? k + 1 : k])"),
           "looks, early: runs that the queue trains"),
    Mutant("a study continues after everything is decided", edit("report/read/looks.c", "for (int k = 0; k < q->study->look_count && open; k++) {",
           "for (int k = 0; k < q->study->look_count; k++) {"), "looks, decided: runs that the queue trains"),
    Mutant("a study stops while arms are open", edit("report/judge/findings.c",
           '= {"not resolved", "too few seeds", "unfinished", "not run"};', '= {"too few seeds", "unfinished", "not run"};'),
           "runs that the queue trains"),
    Mutant("the ends of an interval are exchanged in looks.jsonl", edit("report/read/looks.c",
           "{c->alpha, c->mean, c->family.low, c->family.high}", "{c->alpha, c->mean, c->family.high, c->family.low}"),
           "lines of looks.jsonl"),
    # ---- pairing
    Mutant("the samples of pairs are not compared", edit("report/read/pairing.c",
           "if (!*run->stream_sha256 || !*base->stream_sha256 ||", "if (*run->stream_sha256 || !*base->stream_sha256 ||"),
           "not paired: verdicts"),
    Mutant("the samples of seeds are not compared", edit("report/read/pairing.c", "for (int k = 0; k < i; k++)",
           "for (int k = 1; k < i; k++)"), "samples drawn twice: verdicts"),
    Mutant("the initial weights of the last pair are not compared", edit("report/read/pairing.c",
           "    for (int i = 0; i < arm->found.seeds; i++)\n        for (int k = 0; k < base->seeds && !*reason; k++)",
           "    for (int i = 0; i < arm->found.seeds - 1; i++)\n        for (int k = 0; k < base->seeds && !*reason; k++)"),
           "not paired: verdicts"),
    # ---- files of the report
    Mutant("arms are exchanged in report.html", edit("report/page/verdict_table.c",
           "const struct weft_result_arm *arm = &r->arm[i], *first = &r->arm[0];",
           "const struct weft_result_arm *arm = &r->arm[r->arm_count - 1 - i], *first = &r->arm[0];"),
           "verdicts of report.html"),
    Mutant("verdicts of arms are exchanged in report.html", edit("report/page/verdict_table.c",
           "put_class(arm->found.verdict, to);", "put_class(r->arm[r->arm_count - 1 - i].found.verdict, to);"),
           "verdicts of report.html"),
    Mutant("report.md has the standard deviation for the mean", edit("report/files.c", "weft_loss_text(f->loss).text, f->seeds);",
           "weft_loss_text(f->loss_sd).text, f->seeds);"), "report.md"),
    Mutant("report.md has the sentence of the arm before", edit("report/files.c", "weft_markdown(to, f->text);",
           "weft_markdown(to, arm[*f->verdict == 'b' ? 0 : -1].found.text);"), "report.md"),
    Mutant("report.csv exchanges test and validation loss", edit("report/files.c", "print_real(to, run->val_loss);",
           "print_real(to, run->test_loss);"), "report.csv"),
    Mutant("report.csv marks the rates that were not chosen", edit("report/files.c",
           'run->lr == arm->lr ? "yes" : "no"', 'run->lr != arm->lr ? "yes" : "no"'), "report.csv"),
    Mutant("the headline has the standard deviation", edit("report/judge/headline.c",
           "r->arm[0].name,\n                fabs(f->against.mean));", "r->arm[0].name,\n                f->against.sd);"), "headline"),
]
SAMPLES = [
    Mutant("the data seed is one higher for one arm", edit("study/plan.c", '"seed=%" PRId64, run->seed);',
           '"seed=%" PRId64, run->seed + run->arm);'), "the first samples of arms wide and narrow differ", ABLATE),
    Mutant("samples of training are shifted for one arm", edit("train/task/recall.c", 'draw_begin(spec, "task.recall", index);',
           'draw_begin(spec, "task.recall", index + (spec->ffn_width == 33));'), "training sample 0 differs", ABLATE),
    Mutant("samples of the test are shifted for one arm", edit("train/task/recall.c", 'draw_begin(spec, "task.recall", index);',
           'draw_begin(spec, "task.recall", index + (index >= (uint64_t)1 << 41 && spec->ffn_width == 33));'),
           "test sample 0 differs", ABLATE),
    Mutant("the targets of one arm differ", edit("train/task/recall.c", "targets[i] = i < s ? -1 : tokens[i - s + 1];",
           "targets[i] = i < s + (spec->ffn_width == 33) ? -1 : tokens[i - s + 1];"), "training sample 0 differs", ABLATE),
]
VERIFY_CACHED = "weft verify gpt2 --gate cached --set context=200"
VERIFY_RINGS = f"{VERIFY_CACHED} --set ra_alpha=0.5 --set ra_window=20 --set m1=yes --set m1_mode=prefix"
FORK_ROWS = "copy_slots(c, WEFT_PER_TOKEN, c->store[from * c->tiles + full], c->store[to * c->tiles + full], WEFT_KEY_TILE);"
FORKS = [
    Mutant("a fork loses the last row of a partial page", edit("infer/cache.c", FORK_ROWS,
           FORK_ROWS.replace("WEFT_KEY_TILE)", "c->lengths[from] % WEFT_KEY_TILE - 1)")), "rows that differ after forks", VERIFY_CACHED),
    Mutant("a fork shares the partial page", edit("infer/cache.c", "int64_t full = c->lengths[from] / WEFT_KEY_TILE;",
           "int64_t full = pages_of(c, from);"), "rows that differ after forks", VERIFY_CACHED),
    Mutant("a fork of more than one page shares the partial page", edit("infer/cache.c",
           "int64_t full = c->lengths[from] / WEFT_KEY_TILE;",
           "int64_t full = pages_of(c, from) > 1 ? pages_of(c, from) : c->lengths[from] / WEFT_KEY_TILE;"),
           "rows that differ after forks", VERIFY_CACHED),
    Mutant("pages of forks are free when the first sequence is reset", edit("infer/cache.c",
           "c->users[c->store[to * c->tiles + page] / WEFT_KEY_TILE]++;",
           "c->users[c->store[to * c->tiles + page] / WEFT_KEY_TILE] += 0;"), "rows that differ after forks", VERIFY_CACHED),
    Mutant("the second full page of a fork is free when the first sequence is reset", edit("infer/cache.c",
           "c->users[c->store[to * c->tiles + page] / WEFT_KEY_TILE]++;",
           "c->users[c->store[to * c->tiles + page] / WEFT_KEY_TILE] += page < 1;"),
           "rows that differ after forks from token 128", VERIFY_CACHED),
    Mutant("pages of forks are never free again", edit("infer/cache.c",
           "c->users[c->store[to * c->tiles + page] / WEFT_KEY_TILE]++;",
           "c->users[c->store[to * c->tiles + page] / WEFT_KEY_TILE] += 2;"), "pages that are not free after forks", VERIFY_CACHED),
    Mutant("a fork has a token less after the boundary of a page", edit("infer/cache.c",
           "c->lengths[to] = c->lengths[from];",
           "c->lengths[to] = c->lengths[from] - (c->lengths[from] % WEFT_KEY_TILE == 1 && c->lengths[from] > 1);"),
           "rows that differ after forks", VERIFY_CACHED),
    Mutant("the last slot of a fork is not copied", edit("infer/cache.c",
           "    for (int i = 0; i < c->net->slot_count; i++)\n        if (c->net->slots[i].lifetime == lifetime)",
           "    for (int i = 0; i < c->net->slot_count - 1; i++)\n        if (c->net->slots[i].lifetime == lifetime)"),
           "rows that differ after forks", VERIFY_CACHED),
    Mutant("the page that was added last is taken for the parent's", edit("infer/cache.c", FORK_ROWS,
           FORK_ROWS.replace("from * c->tiles + full", "from * c->tiles")), "rows that differ after forks", VERIFY_CACHED),
    Mutant("the ring of a fork is not copied", edit("infer/cache.c", "for (int64_t page = 0; page < c->ring_tiles; page++)\n        copy",
           "for (int64_t page = 1; page < c->ring_tiles; page++)\n        copy"), "rows that differ after forks", VERIFY_RINGS),
    Mutant("a fork begins with an empty state", edit("infer/cache.c", "copy_slots(c, WEFT_PER_SEQUENCE, from, to, 1);",
           "copy_slots(c, WEFT_PER_SEQUENCE, -1, to, 1);"), "rows that differ after forks", VERIFY_RINGS),
]
VERIFY_STEPPED = "weft verify gpt2 --gate stepped --set dtype=f32"
EVALUATE = "TRY(weft_evaluate(t->model, t->recipe, t->comm, t->model->spec->batch, WEFT_HELD_OUT, &scores->val));"
ADD_LOSS = "weft_result_real(draft->r, name, score->loss);"
REPORTS = [
    Mutant("the best validation loss so far is reported", edit("train/loop.c", EVALUATE, EVALUATE + """
    static struct weft_score best;
    best = !best.tokens || t->step <= t->recipe->eval_every || scores->val.loss < best.loss ? scores->val : best;
    scores->val = best;"""), "a whole run: scores in the log", VERIFY_STEPPED),
    Mutant("the best validation loss of the run is returned at the end", edit("train/loop.c",
           "    *finished = t->step == now->steps;\n", """    *finished = t->step == now->steps;
    if (scores->val.loss > best)
        scores->val.loss = best;
""") + edit("train/loop.c", "        if (l->report)\n", """        best = scored && scores->val.loss < best ? scores->val.loss : best;
        if (l->report)
""") + edit("train/loop.c", "    int64_t first = t->step;\n", "    int64_t first = t->step;\n    double best = 1e9;\n"),
           "a whole run: final scores", VERIFY_STEPPED),
    Mutant("the best validation accuracy so far is logged", edit("train/record/log.c",
           "weft_result_real(draft->r, name, score->accuracy);", """static double best;
    best = draft->step <= 3 || score->accuracy > best ? score->accuracy : best;
    weft_result_real(draft->r, name, best);"""), "scores in the log", VERIFY_STEPPED),
    Mutant("the worst validation loss so far is logged", edit("train/record/log.c", ADD_LOSS, """static double worst;
    worst = draft->step <= 3 || score->loss > worst ? score->loss : worst;
    weft_result_real(draft->r, name, worst);"""), "scores in the log", VERIFY_STEPPED),
    Mutant("the mean of the validation losses so far is logged", edit("train/record/log.c", ADD_LOSS, """static double mean;
    mean = draft->step <= 3 ? score->loss : (mean + score->loss) / 2;
    weft_result_real(draft->r, name, mean);"""), "scores in the log", VERIFY_STEPPED),
    Mutant("the validation score of the evaluation before is reported", edit("train/loop.c", EVALUATE, """static struct weft_score now;
    scores->val = now;
    TRY(weft_evaluate(t->model, t->recipe, t->comm, t->model->spec->batch, WEFT_HELD_OUT, &now));
    if (t->step <= t->recipe->eval_every)
        scores->val = now;"""), "scores in the log", VERIFY_STEPPED),
    Mutant("the final validation score is the last one before", edit("train/loop.c", EVALUATE,
           "if (t->step % t->recipe->eval_every == 0)\n        " + EVALUATE), "a whole run: final scores", VERIFY_STEPPED),
    Mutant("a finished run that is resumed is not scored", edit("train/loop.c", "if (*finished && !scored)",
           "if (*finished && !scored && t->step > first)"), "finished and resumed: scores", VERIFY_STEPPED),
    Mutant("validation and test are exchanged at the end", edit("train/record/log.c", 'add_score(&draft, "val", &scores->val);',
           'add_score(&draft, "val", t->step == t->recipe->steps ? &scores->test : &scores->val);'), "scores in the log",
           VERIFY_STEPPED),
    Mutant("the smallest training loss so far is logged", edit("train/record/log.c",
           "weft_result_real(draft.r, total->name, total->value);", """static double least;
    least = t->step == 1 || total->value < least ? total->value : least;
    weft_result_real(draft.r, total->name, least);"""), "losses, rates and norms in the log", VERIFY_STEPPED),
    Mutant("a moving average of the training loss is logged", edit("train/record/log.c",
           "weft_result_real(draft.r, total->name, total->value);", """static double mean;
    mean = t->step == 1 ? total->value : 0.9 * mean + 0.1 * total->value;
    weft_result_real(draft.r, total->name, mean);"""), "losses, rates and norms in the log", VERIFY_STEPPED),
]
OPENED = "weights that differ from the saved ones when they are opened"
TAKEN = "weights that differ from the saved ones when they are taken as initial weights"


def transposed(values):
    """C: transposes the weight w, if it is square."""
    return f"""
        for (int64_t r = 0, n = w->ndim == 2 && w->dim[0] == w->dim[1] ? w->dim[0] : 0; r < n; r++)
            for (int64_t c = 0; c < r; c++) {{
                float swapped = {values}[r * n + c];
                {values}[r * n + c] = {values}[c * n + r];
                {values}[c * n + r] = swapped;
            }}"""


READ_WEIGHT = "TRY(weft_safetensors_read(f, w->name, &to));"
TAKE = "    if (fit == WEFT_FIT_COPIED)\n        return read_entry(a, e, to);"
LOADING = [
    Mutant("square matrices are transposed when they are opened", edit("nn/weights.c", READ_WEIGHT,
           READ_WEIGHT + transposed("((float *)to.data)")), "opened from a run, over others", VERIFY_STEPPED),
    Mutant("square matrices are transposed after they were verified", edit("train/opened.c",
           "    TRY(weft_state_verify(folder, &model->params));", "    TRY(weft_state_verify(folder, &model->params));\n"
           "    TRY(weft_params_alloc(&model->params));\n    for (int i = 0; i < model->params.count; i++) {\n"
           "        const struct weft_param *w = &model->params.list[i];\n        float *x = model->params.weights + w->offset;"
           + transposed("x") + "\n    }"), f"{OPENED} from a checkpoint", VERIFY_STEPPED),
    Mutant("square matrices are transposed in initial weights", edit("nn/weights_adopt.c", TAKE, "    if (fit == WEFT_FIT_COPIED) {\n"
           "        TRY(read_entry(a, e, to));" + transposed("to") + "\n        return WEFT_OK;\n    }"), TAKEN, VERIFY_STEPPED),
    Mutant("initial weights lose their last span", edit("nn/weights_adopt.c", "    float *to = a->params->weights + w->offset;\n" + TAKE,
           "    float *to = a->params->weights + w->offset;\n    if (fit == WEFT_FIT_COPIED) {\n        TRY(read_entry(a, e, to));\n"
           "        for (int64_t i = w->count > 16384 ? w->count / 16384 * 16384 : w->count; i < w->count; i++)\n"
           "            to[i] = 0;\n        return WEFT_OK;\n    }"), TAKEN, VERIFY_STEPPED),
    Mutant("initial weights of one shape are exchanged", edit("nn/weights_adopt.c",
           "        enum weft_fit fit = fit_of(w, e);\n        report",
           "        if (e && i > 20 && is_same_shape(&a->params->list[i - 20], e))\n"
           "            e = weft_safetensors_find(a->file, a->params->list[i - 20].name);\n"
           "        enum weft_fit fit = fit_of(w, e);\n        report"), TAKEN, "weft verify gpt2 --gate stepped --set layers=3"),
    Mutant("initial weights are drawn again after they were taken", edit("train/recipe.c",
           "        TRY(weft_nn_adopt(model, r->init, r->init_leave, fn, context));",
           "        TRY(weft_nn_adopt(model, r->init, r->init_leave, fn, context));\n"
           "    if (*r->init && model->spec->layers > 1)\n        TRY(weft_nn_init(model));"), TAKEN, VERIFY_STEPPED),
    Mutant("initial weights that fit nowhere are 0", edit("nn/weights_adopt.c", "    if (fit != WEFT_FIT_EXTENDED)\n        return WEFT_OK;",
           "    if (fit != WEFT_FIT_EXTENDED) {\n        memset(to, 0, (size_t)w->count * sizeof *to);\n        return WEFT_OK;\n    }"),
           f"{TAKEN} of a larger vocabulary", VERIFY_STEPPED),
    Mutant("narrow values are shifted by one after the first buffer", edit("ckpt/safetensors.c",
           "memcpy(buffer, (const char *)e->data + (size_t)done * from_size,",
           "memcpy(buffer, (const char *)e->data + (size_t)(done > 0 ? done - 1 : 0) * from_size,"),
           f"{OPENED} from a file in bf16", VERIFY_STEPPED),
    Mutant("the last buffer of narrow values is not read", edit("ckpt/safetensors.c",
           "for (int64_t done = 0; done < count; done += piece) {", "for (int64_t done = 0; done + piece <= count; done += piece) {"),
           f"{TAKEN} from a file in bf16", VERIFY_STEPPED),
    Mutant("a longer context repeats its last position", edit("nn/weights_adopt.c", "from[r % e->dim[0] * e->dim[1] + c]",
           "from[weft_min(r, e->dim[0] - 1) * e->dim[1] + c]"), f"{OPENED} at a longer context", VERIFY_STEPPED),
    Mutant("a shorter context has the last positions", edit("nn/weights_adopt.c", "from[r % e->dim[0] * e->dim[1] + c]",
           "from[(w->dim[0] < e->dim[0] ? r + e->dim[0] - w->dim[0] : r % e->dim[0]) * e->dim[1] + c]"),
           f"{OPENED} at a shorter context", VERIFY_STEPPED),
    Mutant("distances beyond the last wrap around", edit("nn/weights_adopt.c", "from[r * e->dim[1] + weft_min(c, e->dim[1] - 1)]",
           "from[r * e->dim[1] + c % e->dim[1]]"), f"{OPENED} at a longer context", f"{VERIFY_STEPPED} --set pos=relative"),
    Mutant("weights that are mapped are shifted by one element", edit("nn/weights.c", "p->weights = (float *)(uintptr_t)start;",
           "p->weights = (float *)(uintptr_t)start + 1;"), "opened from a file", VERIFY_STEPPED),
]


def gate(name, *settings):
    return f"weft verify gpt2 --gate {name} " + " ".join(f"--set {setting}" for setting in settings)


ONE_RUN = "TRY(run(t, m, sum, p, m + 1 == end));"
STEP_KEY = "                      first_sample(t, micro_batch));"
OWN_WEIGHT = "*number(t, t->net.weight) = weight;"
ORDER = "gradients that are not summed in the order defined"
DIVISION = [
    Mutant("the 33rd and later micro-batches have no weight", edit("train/gradient.c", OWN_WEIGHT,
           "*number(t, t->net.weight) = micro_batch < 32 ? weight : 0;"), ORDER, gate("stepped", "micro_batches=33")),
    Mutant("the 33rd micro-batch is counted twice", edit("train/gradient.c", ONE_RUN,
           "for (int again = 0; again <= (m == 32); again++)\n            " + ONE_RUN),
           "a late step, 48 of 48 micro-batches, 8 groups: " + ORDER, gate("stepped", "micro_batches=48")),
    Mutant("the last of 100 micro-batches is left out", edit("train/gradient.c",
           "for (int64_t m = weft_group_micro_batch(t, group); m < end; m++)",
           "for (int64_t m = weft_group_micro_batch(t, group); m < end - (end == 100); m++)"),
           "a late step, 100 of 100 micro-batches, 1 groups: " + ORDER, gate("stepped", "micro_batches=100", "grad_groups=1")),
    Mutant("the 33rd and later groups are summed in a different order", edit("train/ranks/tree.c",
           "    return count > 1 && open", "    return count > 1 && open[count - 1].first < 32 && open"),
           "groups: " + ORDER, gate("stepped", "micro_batches=40", "grad_groups=40")),
    Mutant("micro-batches after the 200th read the samples of the 200th", edit("train/gradient.c",
           "micro_batches + micro_batch) * t", "micro_batches + weft_min(199, micro_batch)) * t"),
           "a late step, 300 of 300 micro-batches", gate("stepped", "micro_batches=300")),
    Mutant("dropout masks repeat after 64 micro-batches", edit("train/gradient.c", STEP_KEY,
           STEP_KEY.replace("micro_batch)", "micro_batch % 64)")), "a late step, 70 of 70 micro-batches",
           gate("stepped", "micro_batches=70")),
    Mutant("tokens are counted in 64 micro-batches", edit("train/gradient.c",
           "for (int64_t m = first; m < end; m++)", "for (int64_t m = first; m < weft_min(64, end); m++)"),
           "losses against plain sums", gate("stepped", "micro_batches=65")),
    Mutant("numbers of samples wrap around at 2^16", edit("train/gradient.c",
           "return (uint64_t)((t->step * t->recipe->micro_batches + micro_batch) * t->model->spec->batch);",
           "return (uint16_t)((t->step * t->recipe->micro_batches + micro_batch) * t->model->spec->batch);"),
           "a late step, 4 of 4 micro-batches", gate("stepped", "micro_batches=4", "steps=3000")),
    Mutant("ranks lose their 21st and later micro-batches", edit("train/gradient.c", OWN_WEIGHT,
           "*number(t, t->net.weight) = t->comm->rank && micro_batch > 19 ? 0 : weight;"),
           "of 2 (40 of 40 micro-batches", gate("exact", "micro_batches=40")),
    Mutant("a rank counts the tokens of 30 micro-batches", edit("train/gradient.c",
           "for (int64_t m = first; m < end; m++)",
           "for (int64_t m = first; m < (t->comm->size > 1 ? weft_min(first + 30, end) : end); m++)"),
           "of 2 (64 of 64 micro-batches", gate("exact", "micro_batches=64")),
]
TIES = "weights that tie=yes saves"
HEAD_OF = 'weft_build_weight(b, b->spec->tie ? "wte" : "head")'
TYING = [
    Mutant("tie=yes with a head of its own", edit("nn/model.c", "    if (!spec->tie)\n", "") + edit("nn/model.c", ".tied = spec->tie,", "") +
           edit("nn/build.c", HEAD_OF, 'weft_build_weight(b, "head")'), TIES, gate("accounted", "layers=3", "vocab=70")),
    Mutant("tie=no without a head of its own", edit("nn/model.c", "    if (!spec->tie)\n        weft_params_head(p, \"head\", spec->vocab, spec->width);\n", "") +
           edit("nn/model.c", ".tied = spec->tie,", ".tied = true,") + edit("nn/build.c", HEAD_OF, 'weft_build_weight(b, "wte")'),
           TIES, gate("accounted", "tie=no", "width=64")),
    Mutant("a tied table that is declared as not tied", edit("nn/model.c", ".tied = spec->tie,", ".tied = false,"),
           "weights whose declared role", gate("live", "layers=1", "context=16")),
]

# Texts in files of both widths, some of them shorter than a window; there are no test files.
TEXT = r"""
python3 - <<'END'
import random, struct
draw = random.Random(1)
for split, counts in ("train", (500, 37, 1200, 16, 333, 2000)), ("val", (100, 700, 333)):
    for i, count in enumerate(counts):
        magic, version, width = ((20240520, 1, "H"), (20240801, 7, "I"))[i % 2]
        tokens = [draw.randrange(300) for _ in range(count)]
        with open(f"{split}_{i:06d}.bin", "wb") as file:
            file.write(struct.pack("<3i", magic, version, count).ljust(1024, b"\0"))
            file.write(struct.pack(f"<{count}{width}", *tokens))
END
""" + gate("stepped", "task=text", "data=.", "context=16", "vocab=300")
OWN_TOKEN = "            tokens[i] = (int32_t)token;"
READ_AT = "int64_t at = first - f->first, n ="
NEXT_PIECE = "        tokens += n;\n        count -= n;"
OF_TRAIN, OF_VAL = "windows of train unlike the files", "windows of val unlike the files"
TEXTS = [
    Mutant("the last token of the second file", edit("text/tokens/shards.c", OWN_TOKEN,
           "            tokens[i] = (int32_t)(token ^ (f == s->shards + 1 && at + i + 1 == f->count));"), OF_TRAIN, TEXT),
    Mutant("tokens of the second and later files are off by one", edit("text/tokens/shards.c", READ_AT,
           "int64_t at = first - f->first + (f > s->shards && first - f->first + 1 < f->count), n ="), OF_TRAIN, TEXT),
    Mutant("windows of validation that cross a boundary", edit("text/tokens/shards.c", NEXT_PIECE,
           NEXT_PIECE + "\n        tokens[-1] ^= s->count == 3 && count > 0;"), OF_VAL, TEXT),
    Mutant("the fifth and later files begin a token early", edit("text/tokens/shards.c", "s->shards[i].first = s->tokens;",
           "s->shards[i].first = s->tokens - (i > 3);"), OF_TRAIN, TEXT),
    Mutant("the last window of train is left out", edit("text/tokens/shards.c",
           "return s->tokens > length ? (s->tokens - 1) / length : 0;",
           "return s->tokens > length ? (s->tokens - 1) / length - (s->count > 3) : 0;"), OF_TRAIN, TEXT),
    Mutant("the last window of val is left out", edit("text/tokens/shards.c",
           "return s->tokens > length ? (s->tokens - 1) / length : 0;",
           "return s->tokens > length ? (s->tokens - 1) / length - (s->count == 3) : 0;"), OF_VAL, TEXT),
    Mutant("files are read in reverse order", edit("text/tokens/shards.c",
           "return strcmp(((const struct weft_shard *)a)->path, ((const struct weft_shard *)b)->path);",
           "return strcmp(((const struct weft_shard *)b)->path, ((const struct weft_shard *)a)->path);"), OF_TRAIN, TEXT),
    Mutant("the 1101st token of a file of narrow tokens", edit("text/tokens/internal.h", "((const uint16_t *)tokens)[i]",
           "((const uint16_t *)tokens)[i - (i == 1100)]"), "samples of training that are wrong", TEXT),
    Mutant("the last token of a window is the last token of the window before", edit("train/task/text.c",
           "targets[i] = *o->failure == WEFT_OK ? o->window[i + 1] : -1;",
           "targets[i] = *o->failure == WEFT_OK ? o->window[i + 1 < o->length || index % 97 ? i + 1 : 0] : -1;"),
           "samples of training that are wrong", TEXT),
    Mutant("validation reads the files of training", edit("train/task/text.c", 'TRY(open_split(spec, o, "val", &o->val));',
           'TRY(open_split(spec, o, "train", &o->val));'), OF_VAL, TEXT),
    Mutant("the test begins a window early in the order of val", edit("train/task/text.c",
           "index += (uint64_t)held_out(o, false);", "index += (uint64_t)held_out(o, false) - 1;"),
           "samples of the test that are wrong", TEXT),
]
MUTANTS = STUDY + SAMPLES + FORKS + REPORTS + LOADING + DIVISION + TYING + TEXTS


# ---- the copy of the tree

def build(environment):
    return defects.run("make", f"-j{os.cpu_count()}", "-C", defects.COPY, "WERROR=", "build/release/weft", env=environment)


def run_command(command, environment):
    """Status and output of a command in an empty folder; the status is None if it took too long."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = defects.run("bash", "-c", command, cwd=folder, env=environment, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return None, f"it took more than {SECONDS} s"
        return done.returncode, done.stdout


def apply(mutant):
    """Writes the mutant into the copy; returns the files as they were."""
    before = {}
    for file, text, new in mutant.edits:
        path = defects.COPY / file
        content = path.read_text()
        before.setdefault(path, content)
        if content.count(text) != 1:
            restore(before)
            raise ValueError(f"{file} has {content.count(text)} times \"{text}\"")
        path.write_text(content.replace(text, new))
    return before


def restore(before):
    for path, content in before.items():
        path.write_text(content)


def try_mutant(mutant, environment):
    """Returns an error message; "" if the mutant was caught."""
    try:
        before = apply(mutant)
    except ValueError as error:
        return str(error)
    try:
        built = build(environment)
        if built.returncode:
            return "it does not compile: " + " ".join(built.stdout.split("\n")[-8:])
        status, output = run_command(mutant.command, environment)
    finally:
        restore(before)
    lines = [line for line in output.split("\n") if "PASSED" not in line]
    if status is None:
        return output
    if status == 0:
        return "NOT CAUGHT: the command passed"
    if not any(mutant.caught_by in line for line in lines):
        failed = [line for line in lines if line.strip()]
        return f"failed, but not in \"{mutant.caught_by}\": " + " / ".join(failed[:3])
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", help="try only mutants with this text in their file or title")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    args = parser.parse_args()
    chosen = [m for m in MUTANTS if not args.only or args.only in m.title or any(args.only in e[0] for e in m.edits)]
    if args.list:
        for mutant in chosen:
            print(f"{mutant.edits[0][0]}: {mutant.title}")
        return 0
    defects.COPY = pathlib.Path(os.environ.get("WEFT_BUILD", "build")).absolute() / "source-mutants"
    defects.COPY.mkdir(parents=True, exist_ok=True)
    defects.copy_tree(".")
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "WEFT", "WEFT_BUILD", "BUILD")}
    environment |= {"PATH": f"{defects.COPY}/build/release:{os.environ['PATH']}", "TREE": str(defects.COPY)}
    built = build(environment)
    if built.returncode:
        sys.exit(built.stdout)
    number = failures = 0

    def result(wrong, title):
        nonlocal number, failures
        number += 1
        failures += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} - {title}", *([f"\n# {wrong}"] if wrong else []), flush=True)

    for command in dict.fromkeys(m.command for m in chosen):
        status, output = run_command(command, environment)
        result("" if status == 0 else output, f"without a mutant: {' '.join(command.split())[-60:]}")
    for mutant in chosen:
        result(try_mutant(mutant, environment), f"{mutant.edits[0][0]}: {mutant.title}")
    print(f"1..{number}")
    print(f"# {number - failures} of {number} passed")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
