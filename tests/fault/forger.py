"""forger.py - changes the folder of a run and then all hashes that would show it: what only training again can find.

    forger.py records RUN CODE      runs CODE on every record r of the log that is a function of the step
    forger.py all RUN CODE          runs CODE on every record
    forger.py head RUN NAME=VALUE.. the log begins with the config that has these values
    forger.py saved RUN STEP NAME VALUE  sets an option in the config of one checkpoint
    forger.py metadata RUN STEP NAME VALUE  sets an entry in the metadata of one checkpoint
    forger.py weights RUN STEP AT   flips a bit of a checkpoint's weights, in byte AT of them; prints tensor and element
    forger.py config RUN NAME VALUE sets an option in all configs
    forger.py hash STUDY            writes the hash of the plan again, in study.json alone
    forger.py plan STUDY            the same, and in all runs
"""
import glob
import hashlib
import json
import pathlib
import re
import struct
import sys

from weights_hash import weights_hash


def sha(data):
    return hashlib.sha256(data).hexdigest()


def read_tensors(path):
    file = path.read_bytes()
    size = struct.unpack("<Q", file[:8])[0]
    return json.loads(file[8 : 8 + size]), bytearray(file[8 + size :])


def write_tensors(path, header, data):
    header["__metadata__"] = {k: v for k, v in header["__metadata__"].items() if not k.startswith("weft.")}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def set_metadata(checkpoint, **fields):
    for name in ("model", "optimizer"):
        path = checkpoint / f"{name}.safetensors"
        header, data = read_tensors(path)
        header["__metadata__"].update(fields)
        write_tensors(path, header, data)


def rewrite_log(run, change):
    """Applies a change to every record, and writes the chain again, here, in the checkpoints and in the ledger."""
    path, head, lines, was = run / "log.jsonl", "0" * 64, [], {}
    old = None
    for line in path.read_text().splitlines():
        text = line.rpartition(', "chain": "')[0]
        r = json.loads(line)
        old = r.pop("chain")
        before = dict(r)
        change(r)
        if r != before:  # with numbers as Weft writes them
            text = re.sub(r"e-0(\d)", r"e-\1", json.dumps(r)[:-1])
        head = sha((head + text).encode())
        was[old] = head
        lines.append(f'{text}, "chain": "{head}"}}\n')
    path.write_text("".join(lines))
    for checkpoint in map(pathlib.Path, glob.glob(f"{run}/step-*")):
        header, _ = read_tensors(checkpoint / "model.safetensors")
        set_metadata(checkpoint, chain=was[header["__metadata__"]["chain"]])
    ledger = run.parents[2] / "runs.jsonl"
    if ledger.exists():
        ledger.write_text(ledger.read_text().replace(old, head))


def change_weights(run, step, at):
    checkpoint = run / f"step-{int(step):09d}"
    path = checkpoint / "model.safetensors"
    header, data = read_tensors(path)
    before = header["__metadata__"]["weights_sha256"]
    data[int(at)] ^= 1
    write_tensors(path, header, data)
    for name, tensor in header.items():
        first, last = tensor.get("data_offsets", (0, 0))
        if first <= int(at) < last:
            print(name, (int(at) - first) // 4)
    after = weights_hash(path)
    set_metadata(checkpoint, weights_sha256=after)

    def replace(r):
        if r.get("weights_sha256") == before:
            r["weights_sha256"] = after

    rewrite_log(run, replace)
    ledger = run.parents[2] / "runs.jsonl"
    if ledger.exists():
        ledger.write_text(ledger.read_text().replace(before, after))


def with_option(text, name, value):
    return re.sub(rf'("{name}": )[^,\n]*', rf"\g<1>{value}", text)


def change_head(run, *options):
    text = (run / "config.json").read_text()
    for option in options:
        text = with_option(text, *option.split("="))
    hash_of_it = sha(text.encode())
    rewrite_log(run, lambda r: r.update(config_sha256=hash_of_it) if "numbers" in r else None)


def change_saved(run, step, name, value):
    path = run / f"step-{int(step):09d}" / "config.json"
    path.write_text(with_option(path.read_text(), name, value))
    set_metadata(path.parent, config_sha256=sha(path.read_bytes()))


def change_config(run, name, value):
    old, new = None, None
    for path in [*map(pathlib.Path, glob.glob(f"{run}/step-*/config.json")), run / "config.json"]:
        text = path.read_text()
        path.write_text(with_option(text, name, value))
        old, new = sha(text.encode()), sha(path.read_bytes())
        if path.parent != run:
            set_metadata(path.parent, config_sha256=new)

    def replace(r):
        if r.get("config_sha256") == old:
            r["config_sha256"] = new

    rewrite_log(run, replace)


def real(x):
    text = next(t for t in ("%.*g" % (d, x) for d in range(6, 18)) if float(t) == x)
    return text if re.search("[.e]", text) else text + ".0"


def plan_hash(study):
    """The same as src/study/plan_hash.c."""
    h = hashlib.sha256()

    def add(kind, text):
        data = text.encode()
        h.update(f"{kind}{len(data)}:".encode() + data)

    def add_object(o, without):
        for key, value in o.items():
            if key not in without and value is not None:
                add("k", key)
                add_value(value)
        add("e", "")

    def add_value(v):
        if isinstance(v, bool):
            add("t" if v else "f", "")
        elif isinstance(v, str):
            add("s", v)
        elif isinstance(v, int):
            add("i", str(v))
        elif isinstance(v, float):
            add("r", real(v))
        elif isinstance(v, list):
            for one in v:
                add_value(one)
            add("l", "")
        else:
            add_object(v, ())

    add_object(study, ("plan_sha256", "command", "weft", "program_sha256", "machine", "arms"))
    for arm in study["arms"]:
        add_object(arm, ("gates", "gate_sizes", "params", "flops", "peak_bytes", "activation_bytes", "state_bytes", "cache_bytes", "tokens"))
    return h.hexdigest()


def edit(path, **values):
    record = json.loads(path.read_text())
    record.update(values)
    path.write_text(json.dumps(record) + "\n")


def bind_plan(folder, study):
    """Stores a plan with its hash, and binds all runs to it: gates.json, logs, checkpoints, ledger."""
    study["plan_sha256"] = plan_hash(study)
    (folder / "study.json").write_text(json.dumps(study, indent=1))
    for run in sorted(folder.glob("runs/*/lr-*")):
        arm = next((a for a in study["arms"] if a["name"] == run.parent.name), {"gates": []})
        checks, failed = (sum(g[name] for g in arm["gates"]) for name in ("checks", "failed"))
        edit(run / "gates.json", plan_sha256=study["plan_sha256"], checks=checks, failed=failed)
        new = {"plan_sha256": study["plan_sha256"], "gates_sha256": sha((run / "gates.json").read_bytes()),
               "gates_checks": checks, "gates_failed": failed}
        rewrite_log(run, lambda r: r.update((k, v) for k, v in new.items() if k in r))


if __name__ == "__main__":
    command, run, *rest = sys.argv[1:]
    run = pathlib.Path(run).resolve()
    if command == "records":
        rewrite_log(run, lambda r: "environment" in r or exec(rest[0], {}, {"r": r}))
    elif command == "all":
        rewrite_log(run, lambda r: exec(rest[0], {}, {"r": r}))
    elif command == "hash":
        study = json.loads((run / "study.json").read_text())
        (run / "study.json").write_text(json.dumps({**study, "plan_sha256": plan_hash(study)}, indent=1))
    elif command == "plan":
        bind_plan(run, json.loads((run / "study.json").read_text()))
    elif command == "head":
        change_head(run, *rest)
    elif command == "saved":
        change_saved(run, *rest)
    elif command == "metadata":
        set_metadata(run / f"step-{int(rest[0]):09d}", **{rest[1]: rest[2]})
    elif command == "weights":
        change_weights(run, *rest)
    else:
        change_config(run, *rest)
