#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""onnx_difference.py A B - the largest difference between the logits of two models that Weft exported to ONNX, relative to
the largest logit of A if that is above 1."""
import sys

import numpy as np
import onnxruntime


def logits(folder):
    session = onnxruntime.InferenceSession(folder + "/model.onnx", providers=["CPUExecutionProvider"])
    count = 48
    given = {"input_ids": np.arange(count)[None] % 31, "attention_mask": np.ones((1, count), np.int64),
             "position_ids": np.arange(count)[None]}
    for value in session.get_inputs():  # an empty cache
        if value.name not in given:
            given[value.name] = np.zeros([1] + [d if isinstance(d, int) else 0 for d in value.shape[1:]], np.float32)
    return session.run(["logits"], given)[0]


a, b = map(logits, sys.argv[1:])
print(float(np.abs(a - b).max() / max(1.0, np.abs(a).max())))
