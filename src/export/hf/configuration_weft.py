# SPDX-License-Identifier: MIT
"""The config of a model trained with Weft.

config.json has its sizes under the usual names. It does not choose the model's parts, because modeling_weft.py was
generated for exactly this model. The key "weft" has all of Weft's own options, so that `weft import` restores the same model.
"""

from transformers import PretrainedConfig


class WeftConfig(PretrainedConfig):
    model_type = "weft"
    keys_to_ignore_at_inference = ["past_key_values"]
