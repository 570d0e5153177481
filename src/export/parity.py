# SPDX-License-Identifier: MIT
"""Compares the logits of an exported model, as another program computes them, with Weft's.

    parity.py FORMAT PATH FILE LENGTH VOCAB

FILE has the tokens, int32 [LENGTH], and Weft's logits of them, float32 [LENGTH, VOCAB]. Prints one JSON object. If the other
program is not installed, prints what is missing and exits with 77.
"""
import json
import sys


def hf(path, tokens):
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(path, trust_remote_code=True, dtype=torch.float32).eval()
    ids, half = torch.tensor([tokens]), len(tokens) // 2
    with torch.no_grad():  # half of them at once, the others one by one
        out = model(ids[:, :half], use_cache=True)
        logits = [out.logits]
        for t in range(half, len(tokens)):
            out = model(ids[:, t : t + 1], past_key_values=out.past_key_values, use_cache=True)
            logits.append(out.logits)
    return "transformers " + transformers.__version__, torch.cat(logits, 1)[0].numpy()


def gguf(path, tokens):
    import llama_cpp
    import numpy as np

    model = llama_cpp.Llama(path, n_ctx=len(tokens), n_batch=len(tokens), logits_all=True, type_k=0, type_v=0, verbose=False)
    half = len(tokens) // 2
    model.eval(tokens[:half])
    for token in tokens[half:]:
        model.eval([token])
    return "llama-cpp-python " + llama_cpp.__version__, np.array(model.scores[: len(tokens)])


PROGRAMS = {"hf": (hf, 1e-4), "gguf": (gguf, 1e-3)}  # and how far a logit may be off, as a part of the largest if that is above 1


def compare(program, theirs, ours, limit):
    import numpy as np

    largest = max(1.0, float(np.abs(ours).max()))
    difference = np.abs(theirs - ours).max(1) / largest
    print(json.dumps({"checked_by": program, "difference": float(difference.max()), "tokens": len(ours),
                      "tokens_agree": int((difference < limit).sum())}))


def main(kind, path, file, length, vocab):
    import numpy as np

    length, vocab = int(length), int(vocab)
    tokens = np.fromfile(file, dtype="<i4", count=length)
    ours = np.fromfile(file, dtype="<f4", offset=4 * length).reshape(length, vocab)
    run, limit = PROGRAMS[kind]
    compare(*run(path, tokens.tolist()), ours, limit)


try:
    main(*sys.argv[1:6])
except ImportError as missing:
    print(missing.name)
    sys.exit(77)
