#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# mqar.sh - two layers learn to answer 4 queries in 64 tokens, with a vocabulary of 256, with dot and with w2. Only 4
# tokens of a sample are scored, and until a model learns to look up a key it guesses one of the four values. Large
# batches are needed to get beyond that.
set -u
source tests/tap
source tests/long/learn

learn task=mqar mqar_length=64 mqar_pairs=4 vocab=256 layers=2 width=128 heads=2 context=64 batch=1024 lr=2e-3 \
    schedule=constant decay=0.01 steps=600
finish
