"""Forward passes over many rows of token ids.

Rows that start alike are grouped and their common part is computed once (its keys and values are reused); the rest is
padded on the left behind it and masked, so every row sees exactly its own tokens, whatever else is in the batch; logits
are made only at the positions that are asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import DynamicCache

__all__ = ["Group", "Ids", "Passes", "State"]

Ids = tuple[int, ...]
SHARE = 16  # a common prefix shorter than this is not worth a pass of its own


@dataclass
class Group:
    """Rows that share a prefix of token ids."""

    prefix: Ids
    rows: list[int]


@dataclass
class State:
    """What a pass leaves behind: the cache, which of its slots each row may see, and each row's length."""

    cache: DynamicCache
    mask: torch.Tensor
    lengths: torch.Tensor


class Passes:
    """Runs groups of rows through one model, each group within `batch_tokens` padded tokens."""

    def __init__(self, model: Any, batch_tokens: int) -> None:
        self.model, self.batch_tokens = model, batch_tokens
        self._sliding = int(getattr(model.config, "sliding_window", 0) or 0)
        self._positions = "position_ids" in inspect.signature(model.forward).parameters

    def groups(self, rows: list[Ids], tails: list[int] | None = None) -> Iterator[Group]:
        """Cut a batch into groups with a common prefix, each within the token budget.

        A prefix is never the whole of a row: at least its last `tail` tokens are left to be run.
        """
        tails = tails or [1] * len(rows)
        order = sorted(range(len(rows)), key=lambda i: rows[i])
        group: list[int] = []
        shared = 0
        for i in order:
            common = (
                min(_common(rows[group[0]], rows[i]), len(rows[i]) - tails[i], shared)
                if group
                else len(rows[i]) - tails[i]
            )
            if group and not self._fits(rows, [*group, i], common, shared):
                yield Group(rows[group[0]][:shared], group)
                group, common = [], len(rows[i]) - tails[i]
            group.append(i)
            shared = common
        if group:
            yield Group(rows[group[0]][:shared], group)

    def _fits(self, rows: list[Ids], group: list[int], common: int, before: int) -> bool:
        """May the last row join? Not if it breaks up a long shared prefix, breaks the budget, or widens a sliding window."""
        lengths = {len(rows[i]) for i in group}
        if self._sliding and len(lengths) > 1 and max(lengths) > self._sliding:
            return False
        if common < 1 or (len(group) > 2 and before - common > SHARE and common < before // 2):
            return False
        return (max(lengths) - common) * len(group) <= self.batch_tokens

    def run(self, group: Group, rows: list[Ids], keep: int) -> tuple[State, torch.Tensor, int]:
        """One pass over the prefix, one over all the rest: state after it, logits at its last `keep` positions."""
        count, device = len(group.rows), self.model.device
        prefix = group.prefix if len(group.prefix) >= SHARE or count > 1 else group.prefix[:0]
        cache = DynamicCache(config=self.model.config)
        if prefix:
            self._forward(
                torch.tensor([prefix], device=device), None, torch.arange(len(prefix), device=device)[None], cache, 1
            )
            if count > 1:
                cache.batch_repeat_interleave(count)
        rest = [rows[i][len(prefix) :] for i in group.rows]
        width = max(map(len, rest))
        ids = torch.tensor([[0] * (width - len(r)) + list(r) for r in rest], device=device)
        lengths = torch.tensor([len(r) for r in rest], device=device)
        real = torch.arange(width, device=device)[None] >= width - lengths[:, None]
        mask = torch.cat([torch.ones(count, len(prefix), dtype=torch.bool, device=device), real], 1)
        position = (torch.arange(width, device=device)[None] - (width - lengths[:, None])).clamp(min=0) + len(prefix)
        logits = self._forward(ids, mask, position, cache, min(keep, width))
        return State(cache, mask, lengths + len(prefix)), logits, len(prefix)

    def step(self, state: State, tokens: list[int]) -> torch.Tensor:
        """Append one token to every row; (rows, vocabulary) logits after it."""
        device = self.model.device
        state.mask = torch.cat([state.mask, torch.ones(len(tokens), 1, dtype=torch.bool, device=device)], 1)
        ids = torch.tensor(tokens, device=device)[:, None]
        logits = self._forward(ids, state.mask, state.lengths[:, None], state.cache, 1)
        state.lengths = state.lengths + 1
        return logits[:, -1]

    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor | None, position: torch.Tensor, cache: DynamicCache, keep: int
    ) -> torch.Tensor:
        extra = {"position_ids": position} if self._positions else {}
        if mask is not None and not bool(mask.all()):
            extra["attention_mask"] = mask.long()
        out = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=keep, **extra)
        return cast(torch.Tensor, out.logits)


def _common(a: Ids, b: Ids) -> int:
    """Length of the common prefix."""
    limit = min(len(a), len(b))
    for i in range(limit):
        if a[i] != b[i]:
            return i
    return limit
