#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""forgeries.py WEFT FOLDER - forges studies in FOLDER and asks report, publish, compare and audit about each.

The forger recomputes every hash and chain that it can. Each forgery states who must refuse it: "report" (and so publish and
audit), "audit" (the report may leave runs out, and report this), or nobody: "unknowable", and then docs/trust.md names it. The script fails on any other result.

FOLDER has the studies of forgeries.sh: study (arms dot and w2, seeds 1-3), more (seeds 4-6 of the same), other (width 24),
screened (three learning rates), looks, failing (an arm whose gates fail, with --unsafe), texts (stand-in data).
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from forger import bind_plan, change_config, edit, plan_hash, real, rewrite_log, set_metadata, sha

WEFT, ROOT = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
FORGED = ROOT / "forged"
forgeries = []


def forgery(expected, base="study", claim=""):
    """Registers a function that forges a copy of a study; its docstring describes the forgery."""
    return lambda f: forgeries.append((expected, base, claim, f)) or f


# ---- what the forger can compute

def load():
    return json.loads((FORGED / "study.json").read_text())


def store(study):
    (FORGED / "study.json").write_text(json.dumps(study, indent=1))


def runs(arm="*", seed="*"):
    return sorted(FORGED.glob(f"runs/{arm}/lr-*-seed-{seed}"))


def run(arm, seed):
    return runs(arm, seed)[0]


def rebind(study):
    bind_plan(FORGED, study)


def ledger():
    return [json.loads(line) for line in (FORGED / "runs.jsonl").read_text().splitlines()]


def write_ledger(lines):
    def value(v):
        return real(v) if isinstance(v, float) else json.dumps(v)
    (FORGED / "runs.jsonl").write_text("".join(
        "{" + ", ".join(f'"{k}": {value(v)}' for k, v in line.items()) + "}\n" for line in lines))


def edit_ledger(change):
    lines = ledger()
    for line in lines:
        change(line)
    write_ledger(lines)


def swap(a, b):
    a.rename(FORGED / "aside")
    b.rename(a)
    (FORGED / "aside").rename(b)


def lower(r, by=0.01):
    """Better losses in a record of a log or a line of the ledger."""
    for name in ("total", "main", "val_loss", "test_loss", "train_loss"):
        if name in r:
            r[name] = round(r[name] - by, 9)


# ---- seeds

@forgery("report")
def swapped_seeds():
    """the folders of two seeds swapped"""
    swap(run("w2", 1), run("w2", 2))


@forgery("audit")
def swapped_ledger_seeds():
    """the seeds of two lines of the ledger swapped"""
    edit_ledger(lambda r: r.update(seed={1: 2, 2: 1}.get(r["seed"], r["seed"])) if r["arm"] == "w2" else None)


@forgery("report")
def swapped_seeds_everywhere():
    """the folders of two seeds swapped, and their lines in the ledger"""
    swap(run("w2", 1), run("w2", 2))
    edit_ledger(lambda r: r.update(seed={1: 2, 2: 1}.get(r["seed"], r["seed"])) if r["arm"] == "w2" else None)


@forgery("audit")
def renumbered_seeds():
    """two seeds of an arm renumbered, with configs, logs, chains and ledger to match"""
    for seed, new in ((1, 91), (2, 1), (91, 2)):
        folder = run("w2", seed)
        change_config(folder, "seed", new)
        rehash_config(folder)
        folder.rename(folder.with_name(folder.name.rsplit("-", 1)[0] + f"-{new}"))
    edit_ledger(lambda r: r.update(seed={1: 2, 2: 1}.get(r["seed"], r["seed"])) if r["arm"] == "w2" else None)
    match_ledger()


def rehash_config(folder):
    """Updates the hash of the config, which the gates' record also contains."""
    edit(folder / "gates.json", config_sha256=sha((folder / "config.json").read_bytes()))
    new = sha((folder / "gates.json").read_bytes())
    rewrite_log(folder, lambda r: r.update(gates_sha256=new) if "gates_sha256" in r else None)


def match_ledger():
    """Sets the config hash and chain of every ledger line to those in its run's folder."""
    lines = ledger()
    for line in lines:
        for folder in runs(line["arm"], line["seed"]):
            line["config_sha256"] = sha((folder / "config.json").read_bytes())
            line["chain"] = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["chain"]
    write_ledger(lines)


def take_seed(arm, seed, old, edit_config):
    """Puts a run of the study `more` in the place of the run of a different seed."""
    target = run(arm, seed)
    shutil.rmtree(target)
    shutil.copytree(next((ROOT / "more").glob(f"runs/{arm}/lr-*-seed-{old}")), target)
    lines = [r for r in ledger() if (r["arm"], r["seed"]) != (arm, seed)]
    new = [json.loads(line) for line in (ROOT / "more/runs.jsonl").read_text().splitlines()]
    lines += [{**r, "seed": seed} for r in new if (r["arm"], r["seed"]) == (arm, old)]
    write_ledger(lines)
    if edit_config:
        change_config(target, "seed", seed)
        rehash_config(target)


@forgery("report")
def chosen_seeds():
    """the best seeds of six under the numbers of the plan"""
    for arm in ("dot", "w2"):
        take_seed(arm, 1, 4, False)


@forgery("report")
def chosen_seeds_with_configs():
    """the same, with seeds in configs, logs and chains to match"""
    for arm in ("dot", "w2"):
        take_seed(arm, 1, 4, True)
    match_ledger()


@forgery("audit")
def chosen_seeds_bound():
    """the same, bound to the plan"""
    for arm in ("dot", "w2"):
        take_seed(arm, 1, 4, True)
    match_ledger()
    rebind(load())


@forgery("audit")
def dropped_seed():
    """a seed removed from ledger and folders"""
    write_ledger([r for r in ledger() if r["seed"] != 3])
    for folder in runs(seed=3):
        shutil.rmtree(folder)


@forgery("report")
def dropped_seed_of_plan():
    """a seed removed from the plan as well"""
    dropped_seed()
    study = load()
    study["seeds"], study["looks"] = [1, 2], [2]
    study["plan_sha256"] = plan_hash(study)
    store(study)


@forgery("unknowable", claim="the plan existed before the runs")
def dropped_seed_bound():
    """a seed removed from the plan, and all runs bound to the new plan"""
    dropped_seed()
    study = load()
    study["seeds"], study["looks"] = [1, 2], [2]
    rebind(study)


@forgery("audit")
def dropped_line():
    """a line removed from the ledger"""
    write_ledger([r for r in ledger() if (r["arm"], r["seed"]) != ("w2", 2)])


@forgery("audit")
def additional_run():
    """a run whose line is not in the ledger"""
    shutil.copytree(run("w2", 1), run("w2", 1).with_name("lr-0.001-seed-9"))


@forgery("report")
def doubled_line():
    """a run's line again, with a different seed"""
    lines = ledger()
    write_ledger(lines + [{**lines[-1], "seed": 9}])


# ---- losses

@forgery("report")
def better_ledger():
    """better losses in the ledger"""
    edit_ledger(lambda r: lower(r) if r["arm"] == "w2" else None)


@forgery("report")
def better_logs():
    """better losses in the ledger and, without their chain, in the logs"""
    better_ledger()
    for folder in runs("w2"):
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        for r in lines:
            lower(r)
        (folder / "log.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines))


@forgery("audit")
def better_chains():
    """better losses in ledger and logs, with all chains"""
    better_ledger()
    for folder in runs("w2"):
        rewrite_log(folder, lower)
    match_ledger()


@forgery("report")
def exchanged_losses():
    """the losses of two arms exchanged in the ledger"""
    by = {(r["arm"], r["seed"]): dict(r) for r in ledger()}

    def change(r):
        twin = by["dot" if r["arm"] == "w2" else "w2", r["seed"]]
        r.update((k, v) for k, v in twin.items() if k.endswith("loss") or k.endswith("accuracy"))
    edit_ledger(change)


@forgery("report")
def stripped_ledger():
    """no chains in the ledger"""
    edit_ledger(lambda r: r.pop("chain"))


@forgery("audit")
def stripped_everywhere():
    """no chains in ledger and logs, as in release 0.1.0, and better losses"""
    edit_ledger(lambda r: (r.pop("chain"), lower(r) if r["arm"] == "w2" else None))
    for folder in runs():
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        for r in lines:
            r.pop("chain")
        (folder / "log.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines))


@forgery("audit")
def no_folders():
    """the folders of all runs removed, no chains in the ledger, and better losses"""
    edit_ledger(lambda r: (r.pop("chain"), lower(r) if r["arm"] == "w2" else None))
    shutil.rmtree(FORGED / "runs")


@forgery("audit")
def empty_ledger():
    """an empty ledger"""
    write_ledger([])


@forgery("audit")
def no_ledger():
    """no ledger"""
    (FORGED / "runs.jsonl").unlink()


@forgery("report")
def cut_log():
    """the last line of a log removed"""
    path = run("w2", 1) / "log.jsonl"
    path.write_text("".join(path.read_text().splitlines(True)[:-1]))


@forgery("report")
def no_log():
    """a log removed"""
    (run("w2", 1) / "log.jsonl").unlink()


@forgery("report")
def no_configs():
    """all configs removed, and the folders of the arms swapped"""
    swap(FORGED / "runs/dot", FORGED / "runs/w2")
    for folder in runs():
        (folder / "config.json").unlink()


@forgery("audit")
def no_checkpoint():
    """the checkpoints of a run removed"""
    for checkpoint in run("w2", 1).glob("step-*"):
        shutil.rmtree(checkpoint)


@forgery("audit")
def other_checkpoint():
    """the checkpoint of a different seed, with matching hashes"""
    a, b = (next(run("w2", seed).glob("step-*")) for seed in (1, 2))
    shutil.rmtree(a)
    shutil.copytree(b, a)
    head = json.loads((run("w2", 1) / "log.jsonl").read_text().splitlines()[-1])["chain"]
    set_metadata(a, chain=head)


@forgery("audit")
def other_initial_weights():
    """other hashes of the initial weights, the same in both arms"""
    for folder in runs(seed=1):
        path = folder / "initial.json"
        path.write_text(re.sub(r": [0-9a-f]{4}([0-9a-f]{60}\")", r": abcd\1", path.read_text()))


# ---- the plan

def edited(name, text, change, bound="unknowable", claim="the plan existed before the runs", base="study",
           alone="report"):
    """Two forgeries: the plan edited with its own hash, and with all runs bound to it."""
    def once():
        study = load()
        change(study)
        study["plan_sha256"] = plan_hash(study)
        store(study)

    def everywhere():
        study = load()
        change(study)
        rebind(study)
    once.__doc__, everywhere.__doc__ = text, text + ", and all runs bound to the new plan"
    once.__name__, everywhere.__name__ = name, name + "_bound"
    forgery(alone, base)(once)
    forgery(bound, base, claim if bound == "unknowable" else "")(everywhere)


@forgery("report")
def edited_plan():
    """the parent of the plan edited"""
    study = load()
    study["parent"] = "studies/first"
    store(study)


@forgery("report")
def no_plan_hash():
    """the hash of the plan removed"""
    study = load()
    del study["plan_sha256"]
    store(study)


def drop_arm(study):
    study["arms"] = [a for a in study["arms"] if a["name"] != "w2"]
    write_ledger([r for r in ledger() if r["arm"] != "w2"])
    shutil.rmtree(FORGED / "runs/w2")


def swap_configs(study):
    a, b = study["arms"]
    a["config"], b["config"] = b["config"], a["config"]


def rename_arm(study):
    study["arms"][1]["name"] = "best"
    (FORGED / "runs/w2").rename(FORGED / "runs/best")
    edit_ledger(lambda r: r.update(arm="best") if r["arm"] == "w2" else None)


def reorder(study):
    study["arms"].reverse()


def drop_option(study):
    for arm in study["arms"]:
        del arm["config"]["clip"]


def claim_match(study):
    study["match"] = "params"


edited("parent", "a parent that the study does not have", lambda s: s.update(parent="studies/first"))
edited("dropped_arm", "an arm removed from plan, ledger and folders", drop_arm)
edited("swapped_configs", "the configs of two arms swapped in the plan", swap_configs, "audit", alone="audit")
edited("renamed_arm", "a renamed arm", rename_arm, claim="what arms, studies and data are called")
edited("renamed_study", "a renamed study", lambda s: s.update(name="best"),
       claim="what arms, studies and data are called")
edited("reordered", "a different arm as the baseline", reorder)
edited("deleted_option", "an option deleted from the configs of the plan", drop_option, "audit", alone="audit")
edited("matched", "arms of about the same size that are recorded as matched", claim_match)
edited("unmatched", "arms of different sizes that are recorded as matched", claim_match, "report", base="failing", alone="report")
edited("fewer_rates", "a learning rate removed from the plan", lambda s: s.update(lrs=s["lrs"][:2]), base="screened", bound="audit")
edited("no_screening", "a larger number of screening seeds declared", lambda s: s.update(screen_seeds=2), "audit", base="screened")
edited("no_looks", "several looks declared as one", lambda s: s.update(looks=s["looks"][-1:]), base="looks")
edited("no_stand_in", "stand-in data not declared as such", lambda s: s.pop("stand_in_for"), base="texts",
       claim="what arms, studies and data are called")
edited("more_steps", "a number of steps that differs from the runs", lambda s: s.update(steps=40), "report")
edited("other_task", "a task that differs from the runs", lambda s: s.update(task="text"), "report")


# ---- costs, gates, program

def cost(name, value, text):
    def f():
        study = load()
        study["arms"][1][name] = value(study["arms"][1][name])
        rebind(study)
    f.__doc__, f.__name__ = text, "cost_" + name
    forgery("report")(f)


cost("flops", lambda x: x / 3, "a third of the FLOPs")
cost("params", lambda x: x - 8, "fewer parameters")
cost("peak_bytes", lambda x: x // 2, "half of the memory")
cost("tokens", lambda x: 2 * x, "twice the tokens")
cost("cache_bytes", lambda x: x // 2, "half of the cache")


def pass_gates(study):
    for arm in study["arms"]:
        for gate in arm["gates"]:
            gate["failed"], gate["message"] = 0, ""


@forgery("report", "failing")
def passing_gates():
    """an arm whose gates fail, declared as passing"""
    study = load()
    pass_gates(study)
    store(study)


@forgery("report", "failing")
def passing_record():
    """the same, with changed records of the gates"""
    passing_gates()
    for folder in runs():
        edit(folder / "gates.json", failed=0)


@forgery("audit", "failing")
def passing_bound():
    """the same, with changed logs and chains"""
    study = load()
    pass_gates(study)
    rebind(study)


@forgery("unknowable", claim="the number of checks")
def more_checks():
    """more checks of a gate than there were, with all hashes"""
    study = load()
    study["arms"][0]["gates"][0]["checks"] += 1000
    rebind(study)


@forgery("audit")
def skipped_gate():
    """a gate declared to have made no check, with all hashes"""
    study = load()
    study["arms"][0]["gates"][1]["checks"] = 0
    rebind(study)


@forgery("audit")
def other_program():
    """a different build in the plan"""
    study = load()
    study["program_sha256"] = "ab" * 32
    store(study)


@forgery("unknowable", claim="program, processor, threads and times")
def other_program_bound():
    """a different build in the plan, the ledger, the gates' records and the logs"""
    study = load()
    study["program_sha256"] = "ab" * 32
    edit_ledger(lambda r: r.update(program_sha256="ab" * 32))
    for folder in runs():
        edit(folder / "gates.json", program_sha256="ab" * 32)
        rewrite_log(folder, lambda r: r.update(program_sha256="ab" * 32) if "program_sha256" in r else None)
    rebind(study)


@forgery("unknowable", claim="program, processor, threads and times")
def other_times():
    """a machine twice as fast"""
    study = load()
    study["machine"] = "another processor"
    store(study)
    edit_ledger(lambda r: r.update(tokens_per_s=2 * r["tokens_per_s"], seconds=r["seconds"] / 2, threads=64))
    for folder in runs():
        rewrite_log(folder, lambda r: r.update(tokens_per_s=2 * r["tokens_per_s"], seconds=r["seconds"] / 2) if "seconds" in r else None)


@forgery("report")
def no_gates_record():
    """the record of the gates removed"""
    (run("w2", 1) / "gates.json").unlink()


@forgery("report")
def edited_gates_record():
    """the record of the gates edited"""
    edit(run("w2", 1) / "gates.json", checks=1)


# ---- data, other studies, files

@forgery("audit", "texts")
def other_data():
    """a different hash of the data in the logs"""
    for folder in runs():
        rewrite_log(folder, lambda r: r.update(data_sha256="ab" * 32) if "data_sha256" in r else None)
    match_ledger()


@forgery("audit")
def run_of_another_study():
    """a run of a different study, with its line"""
    take = next((ROOT / "other").glob("runs/w2/lr-*-seed-1"))
    shutil.rmtree(run("w2", 1))
    shutil.copytree(take, FORGED / "runs/w2" / take.name)
    new = [json.loads(line) for line in (ROOT / "other/runs.jsonl").read_text().splitlines()]
    lines = [r for r in ledger() if (r["arm"], r["seed"]) != ("w2", 1)]
    write_ledger(lines + [r for r in new if (r["arm"], r["seed"]) == ("w2", 1)])


@forgery("report", "screened")
def better_screening():
    """a screening loss in the ledger that chooses a different learning rate"""
    edit_ledger(lambda r: r.update(val_loss=0.1) if r["arm"] == "w2" and r["seed"] > 1000 and r["lr"] == 1e-3 else None)


@forgery("audit", "screened")
def better_screening_bound():
    """the same, with changed logs and chains"""
    better_screening()
    for folder in runs("w2", "2*"):
        if "lr-0.001-" in folder.name:
            rewrite_log(folder, lambda r: r.update(val_loss=0.1) if "val_loss" in r else None)
    match_ledger()


@forgery("audit")
def option_deleted_everywhere():
    """an option deleted from plan, configs and logs"""
    study = load()
    drop_option(study)
    for folder in runs():
        for path in [folder / "config.json", *folder.glob("step-*/config.json")]:
            path.write_text(re.sub(r'  "clip": .*\n', "", path.read_text()))
            if path.parent != folder:
                set_metadata(path.parent, config_sha256=sha(path.read_bytes()))
        new = sha((folder / "config.json").read_bytes())
        rewrite_log(folder, lambda r: r.update(config_sha256=new) if "config_sha256" in r else None)
        rehash_config(folder)
    match_ledger()
    rebind(study)


@forgery("report")
def linked_gates():
    """a record of the gates that is a link to a file of the reader"""
    path = run("w2", 1) / "gates.json"
    path.rename(ROOT / "kept-gates")
    path.symlink_to(ROOT / "kept-gates")


@forgery("report")
def linked_log():
    """a log that is a link"""
    path = run("w2", 1) / "log.jsonl"
    path.rename(ROOT / "kept-log")
    path.symlink_to(ROOT / "kept-log")


@forgery("report")
def linked_samples():
    """samples that are a link to a file of the reader"""
    (run("w2", 1) / "samples.txt").symlink_to("/etc/passwd")


@forgery("report")
def pipe():
    """a named pipe in a run's folder"""
    os.mkfifo(run("w2", 1) / "notes")


@forgery("unknowable", claim="files next to the records")
def foreign_file():
    """a file of somebody else in a run's folder (nothing reads or packs it)"""
    (run("w2", 1) / "secret.txt").write_text("secret")


# ---- asking

def notes():
    path = FORGED / "report.md"
    return {line for line in path.read_text().splitlines() if line.startswith("- **Note:**")} if path.exists() else set()


def ask(*words):
    done = subprocess.run([WEFT, *words], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def first(error):
    lines = [l for l in error.splitlines() if l.startswith(("weft: ", "FAILED", "MISSING")) and "note: " not in l]
    return lines[0][:150] if lines else ""


def arms():
    return [str(p.relative_to(ROOT)) for p in sorted(FORGED.glob("runs/*"))][:2]


def try_one(expected, base, claim, forge):
    shutil.rmtree(FORGED, ignore_errors=True)
    shutil.copytree(ROOT / base, FORGED)
    ask("report", "forged")
    before = notes()
    forge()
    reported, why = ask("report", "forged")
    warned = reported and bool(notes() - before)
    published, _ = ask("publish", "forged", "--out", "forged.tar.zst")
    compared = ask("compare", *arms())[0] if len(arms()) == 2 else None
    audited, more = ask("audit", "forged")
    found = "report" if not reported else "audit" if not audited else "unknowable"
    leaked = published and expected == "unknowable" and "secret" in subprocess.run(
        ["tar", "--zstd", "-tf", str(ROOT / "forged.tar.zst")], capture_output=True, text=True).stdout
    good = found == expected and not (found == "report" and (audited or published)) and not leaked
    word = {True: "passes", False: "refuses", None: "-"}
    print(json.dumps({"forgery": forge.__doc__, "study": base, "report": "warns" if warned else word[reported],
                      "publish": word[published], "compare": word[compared], "audit": word[audited], "expected": expected,
                      "claim": claim, "why": first(why) or first(more)}), flush=True)
    return good


number = failed = 0
only = sys.argv[3:]
for one in forgeries:
    if only and one[3].__name__ not in only:
        continue
    number += 1
    good = try_one(*one)
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} - {one[3].__name__}: {one[0]}", flush=True)
print(f"1..{number}")
sys.exit(failed > 0)
