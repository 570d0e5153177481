#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# data.sh - preparing 2 GB takes no more memory than preparing 64 MB. Needs 5 GB in $TMPDIR for a few minutes.
MEGABYTES=2048 exec tests/cli/data-memory.sh
