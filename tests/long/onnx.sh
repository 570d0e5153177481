#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# onnx.sh - exported ONNX files of models at their full size, one of more than 2 GB among them, compute what Weft does. It
# needs several times that much memory.
exec tests/once/onnx.sh large
