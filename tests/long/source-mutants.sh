#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# source-mutants.sh - lines of the source that are broken on purpose are noticed by the checks that are made for them: those
# that cannot be replaced in a running program, as `weft verify --mutants` does. See source_mutants.py.
exec python3 tests/long/source_mutants.py "$@"
