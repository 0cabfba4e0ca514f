"""The keys and values of a batch, by the pass that makes them."""

from __future__ import annotations

from typing import cast

import torch
from transformers import DynamicCache, PreTrainedConfig

from leakbound.models.local.hugging_face import ModelConfig

__all__ = ["KeysMade", "PrefixCache"]


class KeysMade(Exception):
    """A pass that was run for its keys and values has made all of them."""


class PrefixCache(DynamicCache):
    """Keys and values of each layer, which can end a pass as soon as it has made them.

    What the last layer computes behind its keys and values matters to logits only: a pass whose
    logits nobody reads can do without.

    Args:
        config: Of the model; None for a cache that stays empty.

    Attributes:
        only: Whether a pass ends with `KeysMade` once the last layer has its keys and values.
    """

    def __init__(self, config: ModelConfig | None = None) -> None:
        super().__init__(config=cast(PreTrainedConfig | None, config))
        self.only = False
        self._last = len(self.layers) - 1  # -1 where layers are made as they come

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: object,
        **more: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """Add keys and values of one layer.

        Args:
            key_states: (rows, heads, tokens, dim) new keys.
            value_states: The same of values.
            layer_idx: Number of the layer.
            args: What else the model's code says of them.
            more: What else it says, by name.

        Returns:
            All keys and all values of the layer.

        Raises:
            KeysMade: If the pass is run for keys and values only, and these were the last.
        """
        found = super().update(key_states, value_states, layer_idx, *args, **more)
        if self.only and layer_idx == self._last:
            raise KeysMade
        return found
