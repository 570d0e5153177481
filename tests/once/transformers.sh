#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# transformers.sh - models that cross between Hugging Face's transformers and Weft under names that both know.
exec tests/export/run "torch==2.13.0 transformers==5.23.0 numpy==2.2.6" parity.py
