# SPDX-License-Identifier: MIT
"""The config of a model that was made with Weft.

config.json has its sizes under the usual names. The parts of the model are not chosen here: modeling_weft.py was written
for exactly this model. The key "weft" has all of Weft's own options, so that `weft import` gives the same model back.
"""
from transformers import PretrainedConfig


class WeftConfig(PretrainedConfig):
    model_type = "weft"
    keys_to_ignore_at_inference = ["past_key_values"]
