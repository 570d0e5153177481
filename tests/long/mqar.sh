#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# mqar.sh - two layers learn to answer 4 queries in 64 tokens of 8192, with dot and with w2.
set -u
source tests/tap
source tests/long/learn

learn task=mqar mqar_length=64 mqar_pairs=4 vocab=8192 layers=2 width=128 heads=4 context=64 tie=yes batch=64 lr=2e-3 steps=600
finish
