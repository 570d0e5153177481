#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# torch.sh - exported PyTorch models compute the same losses and gradients as Weft.
# run-tests: 13 s
exec tests/export/run torch_parity.py "$@"
