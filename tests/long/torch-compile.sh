#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# torch-compile.sh - exported PyTorch modules, compiled by torch.compile, compute the same losses and gradients as without
# it: every preset, and eight models of `weft help pairs`. MODELS=N takes N of those. Takes about 20 minutes; inductor needs
# g++.
PYTHONPATH=tests/export exec tests/export/run ../long/torch_compile.py "$@"
