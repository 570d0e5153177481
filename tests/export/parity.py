#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""parity.py WEFT LIBRARY FOLDER - models that cross between transformers and Weft, both ways.

Makes small random models of every family with transformers, imports them, and compares all logits (within 1e-5, or 1e-5 of the
largest if that is above 1) and 256 greedy tokens; exports models that Weft trained, loads them with transformers, and compares
again; imports the exported models, and compares hashes of weights.
Prints TAP. Needs torch, transformers and safetensors.
"""
import json
import os
import subprocess
import sys

import torch
import transformers
from common import FOLDER, WEFT, everything, finish, result, sample, sets, skip, weft, weft_logits, weft_model
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config

LIMIT = 1e-5


def compare(name, theirs, folder):
    """Largest difference of all logits of random tokens, and greedy decoding."""
    vocab, length = theirs.config.vocab_size, theirs.config.max_position_embeddings
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, vocab, (length,), generator=generator)
    with torch.no_grad():
        wanted = theirs(tokens[None]).logits[0]
    got = weft_logits(folder, tokens.tolist(), vocab)
    difference = (wanted - got).abs().max().item()
    result(difference < LIMIT * max(1, wanted.abs().max().item()), "%s: %d logits differ by at most %.2g (they reach to %.2g)"
           % (name, wanted.numel(), difference, wanted.abs().max()))
    count = min(256, length - 4)
    prompt = tokens[:4]
    with torch.no_grad():
        answer = theirs.generate(prompt[None], max_new_tokens=count, do_sample=False, pad_token_id=0, eos_token_id=None)[0, 4:].tolist()
    ours = weft("generate", folder, "--ids", "--prompt", " ".join(map(str, prompt.tolist())), "-n", str(count),
                "--temperature", "0", "--json")
    ids = [int(i) for i in ours["ids"].split()] if isinstance(ours, dict) else ours
    result(ids == answer, "%s: %d greedy tokens are the same" % (name, count))
    if ids != answer:
        print("#", str(ids)[:300], "\n#", str(answer)[:300])


def save(config, folder, large, dtype=torch.float32, **how):
    """A model as transformers draws it, or with weights so large that every part of it counts."""
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, w in model.named_parameters():
            gain = w.ndim == 1 and name.endswith("weight")
            if large:
                w.copy_(torch.randn_like(w) * (0.2 if w.ndim > 1 else 0.1) + (1 if gain else 0))
    model.to(dtype).save_pretrained(folder, **how)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def imports():
    small = dict(vocab_size=300, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4,
                 max_position_embeddings=270)
    rope = lambda theta: dict(rope_parameters={"rope_type": "default", "rope_theta": theta})
    rows = [
        ("gpt2", GPT2Config(vocab_size=300, n_embd=48, n_layer=3, n_head=4, n_positions=270), {}),
        ("gpt2 with different sizes, f16", GPT2Config(vocab_size=200, n_embd=64, n_layer=2, n_head=8, n_positions=270, n_inner=100,
                                                   layer_norm_epsilon=1e-3, tie_word_embeddings=False), dict(dtype=torch.float16)),
        ("llama, grouped heads, sharded", LlamaConfig(**small, num_key_value_heads=2, rms_norm_eps=1e-5, **rope(5e5)),
         dict(max_shard_size="40KB")),
        ("llama, tied, wide heads, biases", LlamaConfig(**small, head_dim=20, tie_word_embeddings=True, attention_bias=True, mlp_bias=True), {}),
        ("llama, linear rope", LlamaConfig(**small, rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}), {}),
        ("llama, llama3 rope", LlamaConfig(**small, head_dim=32, rope_parameters={
            "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64}), {}),
        ("qwen2", Qwen2Config(**small, num_key_value_heads=1, **rope(1e6)), {}),
        ("qwen3", Qwen3Config(**small, num_key_value_heads=2, head_dim=24, tie_word_embeddings=True), dict(dtype=torch.bfloat16)),
    ]
    rows = [(name + (", large weights" if large else ""), config, large, how) for name, config, how in rows for large in (False, True)]
    for i, (name, config, large, how) in sample(list(enumerate(rows)), 3):  # plain and large weights by turns
        theirs, ours, back = ("%s/%s-%d" % (FOLDER, kind, i) for kind in ("theirs", "ours", "back"))
        model = save(config, theirs, large, **how)
        answer = weft("import", theirs, "--out", ours, "--set", "dtype=f32", "--json")
        result(isinstance(answer, dict), "%s: imported%s" % (name, "" if isinstance(answer, dict) else ": " + answer))
        if not isinstance(answer, dict):
            continue
        compare(name, model, ours)
        exported = weft("export", ours, "--format", "hf", "--out", back, "--json")
        result(isinstance(exported, dict), "%s: exported%s" % (name, "" if isinstance(exported, dict) else ": " + exported))
        again = weft("import", back, "--out", ours + "-again", "--set", "dtype=f32", "--json")
        result(isinstance(again, dict) and again["weights_sha256"] == answer["weights_sha256"], "%s: import(export(model)) = model" % name)
        loaded = AutoModelForCausalLM.from_pretrained(back).eval()
        same = all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), loaded.state_dict().values()))
        result(same and type(loaded) is type(model), "%s: transformers loads the same weights as %s" % (name, type(loaded).__name__))


def damage():
    """Folders that are not quite what their config.json describes."""
    def change(**keys):
        def edit(folder):
            config = json.load(open(folder + "/config.json"))
            config.update(keys)
            json.dump({k: v for k, v in config.items() if v != "gone"}, open(folder + "/config.json", "w"))
        return edit

    def pickle(folder):
        os.rename(folder + "/model.safetensors", folder + "/pytorch_model.bin")

    def add_weight(folder):
        from safetensors.torch import load_file, save_file
        weights = load_file(folder + "/model.safetensors")
        weights["model.layers.0.self_attn.sinks"] = torch.ones(4)
        save_file(weights, folder + "/model.safetensors", metadata={"format": "pt"})

    def cut(folder):
        os.truncate(folder + "/model.safetensors", os.path.getsize(folder + "/model.safetensors") - 4)

    config = LlamaConfig(vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=32)
    for i, (name, edit, text) in enumerate((
            ("more layers than there are weights for", change(num_hidden_layers=3), "model.layers.2."),
            ("fewer layers", change(num_hidden_layers=1), "model.layers.1."),
            ("a million layers", change(num_hidden_layers=1000000), "layers"),
            ("a different width", change(hidden_size=32), "shape"),
            ("no number of heads", change(num_attention_heads="gone"), "num_attention_heads"),
            ("an unknown key", change(attention_sinks=True), "attention_sinks"),
            ("biases that are not there", change(attention_bias=True, mlp_bias=True), "bias"),
            ("a different norm", change(rms_norm_eps="small"), "norm_eps"),
            ("scaled rotation, as it was once written", change(rope_scaling={"type": "linear", "factor": 2.0}), "rope_scaling"),
            ("a rotation without its factor", change(rope_parameters={"rope_type": "linear", "rope_theta": 1e4}), "rope_factor"),
            ("a rotation with an unknown number", change(rope_parameters={"rope_type": "linear", "factor": 2.0, "mscale": 2.0}), "mscale"),
            ("a context that shrinks", change(rope_parameters={"rope_type": "linear", "factor": 0.5}), "rope_factor"),
            ("a weight that has no place", add_weight, "sinks"),
            ("pickle", pickle, "pickle"),
            ("a file that was cut off", cut, "safetensors"))):
        folder = "%s/damaged-%d" % (FOLDER, i)
        save(config, folder, False)
        edit(folder)
        answer = weft("import", folder, "--out", folder + "-out")
        result(isinstance(answer, str) and text in answer and not os.path.exists(folder + "-out"), "%s: rejected: %s" % (name, answer))


def kept():
    """Nothing is written over."""
    folder = FOLDER + "/kept"
    save(LlamaConfig(vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
                     max_position_embeddings=32), folder, False)
    weft("import", folder, "--out", folder + "-ours", "--json")
    before = open(folder + "-ours/config.json").read()
    for words in (("import", folder, "--out", folder + "-ours"), ("export", folder + "-ours", "--format", "hf", "--out", folder + "-ours")):
        answer = weft(*words)
        result(isinstance(answer, str) and "already has a config.json" in answer and open(folder + "-ours/config.json").read() == before,
               "%s over a model is rejected: %s" % (words[0], answer))


def patches():
    """A model that is changed while it is imported: what fits is copied, and what does not is reported."""
    from safetensors.torch import load_file
    folder = FOLDER + "/patched"
    save(LlamaConfig(vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
                     max_position_embeddings=32), folder, True)
    weft("import", folder, "--out", folder + "-plain", "--json")
    plain = load_file(folder + "-plain/model.safetensors")
    for i, (settings, new, left) in enumerate(((["geom=w2", "spread=full"], 6, 0), (["geom=w2"], 10, 4), (["m1=yes"], 3, 0),
                                               (["attn=latent", "latent_width=8"], 12, 4), (["layers=3"], 9, 0))):
        out = "%s-%d" % (folder, i)
        answer = weft("import", folder, "--out", out, *sets(settings), "--json")
        weights = load_file(out + "/model.safetensors")
        kept = [n for n in plain if n in weights and weights[n].shape == plain[n].shape]
        good = isinstance(answer, dict) and (answer["new"], answer["left"]) == (new, left) and answer["copied"] == len(kept) and all(
            torch.equal(plain[n], weights[n]) for n in kept)
        result(good, "import with %s: %s" % (" ".join(settings), answer))
        answer = weft("eval", out, "--set", "task=recall", "--set", "recall_length=16", "--json")
        result(isinstance(answer, dict) and answer["eval_loss"] < 100, "and it computes%s" % ("" if isinstance(answer, dict) else ": " + answer))
    answer = weft("import", folder, "--out", folder + "-none", "--set", "width=32")
    result(isinstance(answer, str) and "no weight that matches" in answer and not os.path.exists(folder + "-none"), "nothing fits: %s" % answer)


def tokenizers():
    """The tokenizer is exported with the model: transformers encodes like Weft, and generate() ends where a text does."""
    folder, out, text = FOLDER + "/text", FOLDER + "/text-out", "It was the best of times, it was the worst of times: naïve 12345 café!\n"
    with open(FOLDER + "/text.txt", "w") as file:
        file.write(text * 20)
    weft_model("gpt2", ["vocab=320", "context=64"], folder)
    subprocess.run([WEFT, "tokenizer", "train", "--vocab", "300", "--special", "<|endoftext|>", "--out", folder + "/tokenizer.json",
                    FOLDER + "/text.txt"], check=True, capture_output=True)
    for form in ("hf", "onnx"):
        answer = weft("export", folder, "--format", form, "--out", out + "-" + form, "--json")
        result(isinstance(answer, dict), "%s: a model with a tokenizer is exported%s" % (form, "" if isinstance(answer, dict) else ": " + answer))
        theirs = transformers.AutoTokenizer.from_pretrained(out + "-" + form)
        ours = subprocess.run([WEFT, "tokenizer", "encode", "--tokenizer", folder + "/tokenizer.json"], input=text, capture_output=True, text=True)
        ids = theirs(text).input_ids
        result(ids == [int(i) for i in ours.stdout.split()] and theirs.decode(ids) == text, "%s: transformers encodes and decodes as Weft" % form)
        result(theirs.eos_token == "<|endoftext|>" and theirs.model_max_length == 64, "%s: its end of text and length" % form)
    model = AutoModelForCausalLM.from_pretrained(out + "-hf")
    result(model.generation_config.eos_token_id == theirs.eos_token_id, "generate() ends at the end of text")


DAMAGE = """#!/bin/sh
%s - "$4" <<'END'
import sys
%s
END
exec %s "$@"
"""
SWAP_VALUES = """with open(sys.argv[1] + "/model.safetensors", "r+b") as file:
    data = file.read()
    file.seek(-8192, 2)
    file.write(data[-4096:] + data[-8192:-4096])"""
# The error of tokens decoded one by one, half of all tokens, exceeds rounding.
CHANGE_STEPS = """with open(sys.argv[1] + "/modeling_weft.py", "a") as file:
    file.write("forward = WeftForCausalLM.forward\\n"
               "def changed(self, input_ids=None, **more):\\n"
               "    out = forward(self, input_ids=input_ids, **more)\\n"
               "    out.logits = out.logits * (1.01 if input_ids.shape[1] == 1 else 1)\\n"
               "    return out\\n"
               "WeftForCausalLM.forward = changed\\n")"""


def python_that(name, code):
    """A Python that changes what was exported before it runs the check."""
    path = FOLDER + "/" + name
    with open(path, "w") as file:
        file.write(DAMAGE % (sys.executable, code, sys.executable))
    os.chmod(path, 0o755)
    return path


def export_with(python, run, out, *words):
    os.environ["WEFT_PYTHON"] = python
    answer = weft("export", run, "--format", "hf", "--out", out, *words, "--json")
    del os.environ["WEFT_PYTHON"]
    return answer


def is_set_aside(out):
    return not os.path.exists(out) and os.path.exists(out + ".failed")


def checks():
    """weft export: checked by default if there is transformers, and refused if the other program computes different logits."""
    for preset, words in (("llama", ["--check"]), *([("w2", [])] if everything() else [])):
        run = "%s/check-%s" % (FOLDER, preset)
        weft_model(preset, ["context=64", "vocab=50", "dtype=bf16"], run)
        answer = export_with(sys.executable, run, run + "-good", *words)
        result(isinstance(answer, dict) and answer["checked_by"].startswith("transformers") and answer["difference"] < 1e-5 and
               answer["tokens_agree"] == answer["tokens"] and answer["tokens_unclear"] == 0, "%s: %s" % (preset, answer))
        answer = export_with(python_that("swapping", SWAP_VALUES), run, run + "-bad")
        result(isinstance(answer, str) and "computes different logits" in answer and is_set_aside(run + "-bad"),
               "%s: a damaged model is rejected: %s" % (preset, answer))
    answer = export_with("/nowhere/python", run, run + "-unchecked")
    result(isinstance(answer, dict) and answer["checked_by"] == "none", "without a program nothing is checked, and the result states this")
    answer = export_with("/nowhere/python", run, run + "-missing", "--check")
    result(isinstance(answer, str) and "/nowhere/python cannot be started" in answer and is_set_aside(run + "-missing"),
           "--check fails without a program: %s" % answer)
    answer = export_with(python_that("never", "sys.exit(1)"), run, run + "-no", "--no-check")
    result(isinstance(answer, dict) and answer["checked_by"] == "none", "--no-check runs no program")


def chosen_tokens():
    """A model with M2, whose choice of tokens can differ in a different program; clear tokens must still agree. Its check
    runs in a folder with modules of the names that it imports, and runs none of these."""
    run, here, cwd = FOLDER + "/check-m2", FOLDER + "/here", os.getcwd()
    os.makedirs(here)
    for name in ("json", "numpy", "torch", "transformers"):
        with open("%s/%s.py" % (here, name), "w") as file:
            file.write("open('%s/imported-%s', 'w')\n" % (here, name))
    weft_model("gpt2", ["context=64", "vocab=50", "m2=yes", "m2_topk=4", "layers=3"], run)
    os.chdir(here)
    answer = export_with(sys.executable, run, run + "-good")
    os.chdir(cwd)
    result(isinstance(answer, dict) and answer["tokens_agree"] == answer["tokens"] - answer["tokens_unclear"], "m2: %s" % answer)
    result(not [f for f in os.listdir(here) if f.startswith("imported")], "modules of the current folder are not run")
    answer = export_with(python_that("stepping", CHANGE_STEPS), run, run + "-bad")
    result(isinstance(answer, str) and "computes different logits: only 32 of" in answer and is_set_aside(run + "-bad"),
           "m2: refused if half of the tokens differ: %s" % answer)


def tiny_gpt2(data):
    """A model of somebody else with logits that torch gave for it; its config.json is missing."""
    from safetensors.torch import load_file, save_file
    weights = load_file(data + "/tiny-gpt2-hf/model.safetensors")
    golden = json.load(open(data + "/tiny-gpt2-hf/gpt2_tiny_golden.json"))
    config = GPT2Config(**golden["config"])
    folder, ours = FOLDER + "/tiny", FOLDER + "/tiny-ours"
    config.save_pretrained(folder)
    save_file(weights, folder + "/model.safetensors", metadata={"format": "pt"})
    answer = weft("import", folder, "--out", ours, "--set", "dtype=f32", "--json")
    result(isinstance(answer, dict), "tiny-gpt2: imported%s" % ("" if isinstance(answer, dict) else ": " + answer))
    if isinstance(answer, dict):
        compare("tiny-gpt2", AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(), ours)
        ids = torch.tensor(golden["input_ids"]).flatten()
        wanted = torch.tensor(golden["logits"]).reshape(len(ids), -1)
        difference = (weft_logits(ours, ids.tolist(), config.vocab_size) - wanted).abs().max().item()
        result(difference < LIMIT, "tiny-gpt2: logits that were recorded elsewhere differ by at most %.2g" % difference)


def stories(data):
    """The trained Llama of llama2.c as a Hugging Face folder; its greedy tokens are known."""
    import struct
    raw = open(data + "/stories260k/stories260K.bin", "rb").read()
    width, ffn, layers, heads, kv, vocab, length = struct.unpack("<7i", raw[:28])
    flat = torch.frombuffer(bytearray(raw[28:]), dtype=torch.float32)
    at, head = 0, width // heads
    untied, vocab = vocab < 0, abs(vocab)

    def take(*shape):
        nonlocal at
        n = torch.Size(shape).numel()
        at += n
        return flat[at - n:at].reshape(shape).clone()

    def halves(w, count):  # pairs that rotate together: side by side there, half a head apart here
        return w.reshape(count, head // 2, 2, width).transpose(1, 2).reshape(count * head, width).clone()

    weights = {"model.embed_tokens.weight": take(vocab, width)}
    stacked = {name: take(layers, *shape) for name, shape in (
        ("input_layernorm", (width,)), ("self_attn.q_proj", (width, width)), ("self_attn.k_proj", (kv * head, width)),
        ("self_attn.v_proj", (kv * head, width)), ("self_attn.o_proj", (width, width)), ("post_attention_layernorm", (width,)),
        ("mlp.gate_proj", (ffn, width)), ("mlp.down_proj", (width, ffn)), ("mlp.up_proj", (ffn, width)))}
    for name, all_layers in stacked.items():
        for i in range(layers):
            w = all_layers[i]
            weights["model.layers.%d.%s.weight" % (i, name)] = (
                halves(w, heads) if "q_proj" in name else halves(w, kv) if "k_proj" in name else w.clone())
    weights["model.norm.weight"] = take(width)
    take(length * head)  # tables of sines and cosines
    if untied:
        weights["lm_head.weight"] = take(vocab, width)
    config = LlamaConfig(vocab_size=vocab, hidden_size=width, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads,
                         num_key_value_heads=kv, max_position_embeddings=length, rms_norm_eps=1e-5, tie_word_embeddings=not untied)
    folder, ours = FOLDER + "/stories", FOLDER + "/stories-ours"
    from safetensors.torch import save_file
    config.save_pretrained(folder)
    save_file(weights, folder + "/model.safetensors", metadata={"format": "pt"})
    answer = weft("import", folder, "--out", ours, "--set", "dtype=f32", "--json")
    result(isinstance(answer, dict), "stories260K: imported%s" % ("" if isinstance(answer, dict) else ": " + answer))
    wanted = [int(i) for i in open(data + "/stories260k/greedy_256_ids.txt").read().replace(",", " ").split()]
    answer = weft("generate", ours, "--ids", "--prompt", "1", "-n", str(len(wanted)), "--temperature", "0", "--json")
    result(isinstance(answer, dict) and answer["ids"].split() == [str(i) for i in wanted], "stories260K: its %d greedy tokens" % len(wanted))


def exports():
    common = ["--set", "context=64", "--set", "task=recall", "--set", "recall_length=32", "--set", "steps=60", "--set", "dtype=f32",
              "--set", "eval_samples=8", "--set", "batch=8"]
    rows = [("gpt2", []), ("llama", ["kv_heads=2", "head_width=24"]), ("llama", ["qkv_bias=yes", "tie=yes"]),
            ("llama", ["qk_norm=yes", "norm_eps=1e-5", "rope_base=5e4"])]
    for i, (preset, settings) in sample(list(enumerate(rows)), 2):
        run, out = "%s/run-%d" % (FOLDER, i), "%s/trained-%d" % (FOLDER, i)
        name = " ".join([preset, *settings]) + ", trained"
        weft("train", preset, *common, *sets(settings), "--out", run, "--json")
        exported = weft("export", run, "--format", "hf", "--out", out, "--json")
        result(isinstance(exported, dict), "%s: exported%s" % (name, "" if isinstance(exported, dict) else ": " + exported))
        if isinstance(exported, dict):
            compare(name, AutoModelForCausalLM.from_pretrained(out).eval(), run)


def refusals():
    for name, config, text in (
            ("a different kind of rotation", LlamaConfig(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}), "rope_type"),
            ("a different activation", LlamaConfig(hidden_act="relu"), "hidden_act"),
            ("a different model", transformers.OPTConfig(), "opt")):
        folder = "%s/refused" % FOLDER
        config.save_pretrained(folder)
        answer = weft("import", folder, "--out", folder + "-out")
        result(isinstance(answer, str) and text in answer and not os.path.exists(folder + "-out"), "%s is rejected: %s" % (name, answer))


transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()
print("# torch %s, transformers %s" % (torch.__version__, transformers.__version__))
torch.set_num_threads(1)
imports()
exports()
refusals()
damage()
kept()
patches()
tokenizers()
checks()
chosen_tokens()
if os.environ.get("WEFT_DATA"):
    tiny_gpt2(os.environ["WEFT_DATA"])
    stories(os.environ["WEFT_DATA"])
else:
    skip("tiny-gpt2 and stories260K: no WEFT_DATA")
finish()
