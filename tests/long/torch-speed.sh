#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# torch-speed.sh - a training step of exported PyTorch modules takes at most 1.1 times as long as one of a GPT-2 written by
# hand, and one with attention by distance at most 1.25 times as long as one with dot products. ROUNDS=N measures N rounds, by
# default 21, in about 15 minutes. The ratios need an otherwise idle machine: threads that wait for each other make them larger.
# Inductor needs g++.
PYTHONPATH=tests/export exec tests/export/run ../long/torch_speed.py "$@"
