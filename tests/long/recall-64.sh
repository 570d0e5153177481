#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# recall-64.sh - two layers learn to repeat 64 of 1024 tokens, with dot and with w2.
set -u
source tests/tap
source tests/long/learn

learn task=recall recall_length=64 vocab=1024 layers=2 width=128 heads=4 batch=64 lr=2e-3 steps=300
finish
