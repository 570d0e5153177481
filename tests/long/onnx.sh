#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# onnx.sh - exported ONNX files of models at full size, one of them larger than 2 GB, compute the same results as Weft.
# Needs several times that amount of memory.
exec tests/once/onnx.sh large
