#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# onnx.sh - exported ONNX files of models at their full size, one of more than 2 GB among them, compute what Weft does
# (tests/export/onnx_parity.py). Takes about 12 GB of memory.
set -u
WEFT_ONNX=large exec tests/once/onnx.sh
