#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# onnx.sh [large] - exported ONNX files compute what Weft does.
# run-tests: 13 s
exec tests/export/run onnx_parity.py "$@"
