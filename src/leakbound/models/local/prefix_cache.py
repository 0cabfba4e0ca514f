"""The keys and values of a batch during a pass."""

from __future__ import annotations

from typing import cast

import torch
from transformers import DynamicCache, PreTrainedConfig

from leakbound.models.local.hugging_face import ModelConfig


class KeysMade(Exception):
    """A pass for keys and values only has computed all of them."""


class PrefixCache(DynamicCache):
    """Keys and values of each layer. It can end a pass as soon as it has all of them.

    What the last layer computes after its keys and values only affects the logits, so a pass whose
    logits are not needed can skip it.
    """

    def __init__(self, config: ModelConfig | None = None) -> None:
        super().__init__(config=cast(PreTrainedConfig | None, config))
        self.only = False
        self._last = len(self.layers) - 1  # -1 if layers are created on demand

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: object,
        **more: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """Add the keys and values of one layer."""
        found = super().update(key_states, value_states, layer_idx, *args, **more)
        if self.only and layer_idx == self._last:
            raise KeysMade
        return found
