#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# source-mutants.sh - breaks lines of the source that `weft verify --mutants` cannot replace in a running program; the
# checks made for them must notice it. See source_mutants.py.
exec python3 tests/long/source_mutants.py "$@"
