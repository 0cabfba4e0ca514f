"""The keys and values of a batch during a pass."""

from __future__ import annotations

from typing import cast

import torch
from transformers import DynamicCache, PreTrainedConfig

from leakbound.models.local.hugging_face import ModelConfig

__all__ = ["KeysMade", "PrefixCache"]


class KeysMade(Exception):
    """A pass for keys and values only has computed all of them."""


class PrefixCache(DynamicCache):
    """Keys and values of each layer. It can end a pass as soon as it has all of them.

    What the last layer computes after its keys and values only affects the logits, so a pass whose
    logits are not needed can skip it.

    Args:
        config: Configuration of the model; None for a cache that stays empty.

    Attributes:
        only: Whether to end a pass with `KeysMade` after the last layer's keys and values.
    """

    def __init__(self, config: ModelConfig | None = None) -> None:
        super().__init__(config=cast(PreTrainedConfig | None, config))
        self.only = False
        self._last = len(self.layers) - 1  # -1 if layers are created on demand

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: object,
        **more: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """Add the keys and values of one layer.

        Args:
            key_states: (rows, heads, tokens, dim) new keys.
            value_states: The new values, in the same shape.
            layer_idx: Number of the layer.
            args: Further arguments from the model's code.
            more: Further named arguments from the model's code.

        Returns:
            All keys and all values of the layer.

        Raises:
            KeysMade: If the pass is for keys and values only, and these were the last.
        """
        found = super().update(key_states, value_states, layer_idx, *args, **more)
        if self.only and layer_idx == self._last:
            raise KeysMade
        return found
