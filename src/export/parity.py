# SPDX-License-Identifier: MIT
"""Compares the logits that a different program computes from an exported model with Weft's.

    parity.py FORMAT PATH FILE LENGTH VOCAB

FILE has the tokens, int32 [LENGTH], their logits by Weft, float32 [LENGTH, VOCAB], and the change of each token's logits,
relative to the largest logit, when the weights are rounded differently, float32 [LENGTH]. Tokens that change by more than
half the limit are not compared. Prints one JSON object. If the other program is not installed, prints what is missing and
exits with 77.
"""
import sys

sys.path = [folder for folder in sys.path if folder]  # do not import from the current folder
import json


def hf(path, tokens):
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(path, trust_remote_code=True, dtype=torch.float32).eval()
    ids, half = torch.tensor([tokens]), len(tokens) // 2
    with torch.no_grad():  # the first half in one pass, the others one by one
        out = model(ids[:, :half], use_cache=True)
        logits = [out.logits]
        for t in range(half, len(tokens)):
            out = model(ids[:, t : t + 1], past_key_values=out.past_key_values, use_cache=True)
            logits.append(out.logits)
    return "transformers " + transformers.__version__, torch.cat(logits, 1)[0].numpy()


def module(path, tokens):
    import importlib.util

    import torch

    spec = importlib.util.spec_from_file_location("exported", path + "/model.py")
    exported = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(exported)
    with torch.no_grad():  # it has no cache
        return "torch " + torch.__version__, exported.load(path + "/model.safetensors")(torch.tensor([tokens]))[0].numpy()


def onnx(path, tokens):
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(path + "/model.onnx", providers=["CPUExecutionProvider"])
    state = {}
    for value in session.get_inputs():  # empty state: dimensions chosen by the caller are 0, except the batch
        if value.name.startswith("past_key_values."):
            shape = [1] + [d if isinstance(d, int) else 0 for d in value.shape[1:]]
            state[value.name] = np.zeros(shape, np.float32)
    logits, half = [], len(tokens) // 2
    for first, end in [(0, half)] + [(t, t + 1) for t in range(half, len(tokens))]:
        given = {"input_ids": np.array([tokens[first:end]], np.int64), "attention_mask": np.ones((1, end), np.int64),
                 "position_ids": np.arange(first, end, dtype=np.int64)[None]}
        out = dict(zip([o.name for o in session.get_outputs()], session.run(None, {**given, **state})))
        logits.append(out.pop("logits")[0])
        state = {name.replace("present.", "past_key_values."): value for name, value in out.items()}
    return "onnxruntime " + onnxruntime.__version__, np.concatenate(logits)


def gguf(path, tokens):
    import llama_cpp
    import numpy as np

    model = llama_cpp.Llama(path, n_ctx=len(tokens), n_batch=len(tokens), logits_all=True, type_k=0, type_v=0, verbose=False)
    half = len(tokens) // 2
    model.eval(tokens[:half])
    for token in tokens[half:]:
        model.eval([token])
    return "llama-cpp-python " + llama_cpp.__version__, np.array(model.scores[: len(tokens)])


# with the limit of a logit's difference, relative to the largest logit if that is above 1
PROGRAMS = {"hf": (hf, 1e-4), "onnx": (onnx, 1e-4), "gguf": (gguf, 1e-3), "torch": (module, 1e-4)}


def compare(program, theirs, ours, change, limit):
    import numpy as np

    largest = max(1.0, float(np.abs(ours).max()))
    clear = change < limit / 2
    difference = (np.abs(theirs - ours).max(1) / largest)[clear]
    print(json.dumps({"checked_by": program, "difference": float(difference.max(initial=0)), "tokens": len(ours),
                      "tokens_agree": int((difference < limit).sum()), "tokens_unclear": int((~clear).sum())}))


def main(kind, path, file, length, vocab):
    import numpy as np

    length, vocab = int(length), int(vocab)
    tokens = np.fromfile(file, dtype="<i4", count=length)
    ours = np.fromfile(file, dtype="<f4", count=length * vocab, offset=4 * length).reshape(length, vocab)
    change = np.fromfile(file, dtype="<f4", count=length, offset=4 * length * (1 + vocab))
    run, limit = PROGRAMS[kind]
    compare(*run(path, tokens.tolist()), ours, change, limit)


try:
    main(*sys.argv[1:6])
except ImportError as missing:
    print(missing.name)
    sys.exit(77)
