"""Keys and values that are kept after a call, to reuse what was computed for a row's beginning.

Three things are kept within one budget of bytes: rows with their keys and values, of which the
least recently used are dropped first; the last row of the latest pass, for the next row; and whole
batches, so rows that grow by a token continue where they stopped. All of it is computed from
private prompts and stays in memory; no repr shows any of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import torch
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import DynamicLayer

from leakbound.models.local.hugging_face import CausalModel

Ids = tuple[int, ...]
SHARE = 16  # a shorter common prefix is not worth a separate pass or look-up
LOOK = 8  # number of latest rows with the same beginning that are compared to the end
STATES = 32  # the most batches that may continue, because each look-up searches all of them
# with these types, positions change with the length of a row, so old keys cannot be reused
GROWING_ROPE = ("dynamic", "longrope")


class KeysMade(Exception):
    """A pass for keys and values only has computed all of them."""


class PrefixCache(DynamicCache):
    """Keys and values of each layer. A pass without logits ends as soon as it has all of them."""

    layers: list[Any]

    def __init__(self, config: Any | None = None) -> None:
        super().__init__(config=cast(PreTrainedConfig | None, config))
        self.only = False
        self.room: dict[int, list[torch.Tensor]] = {}  # longer keys and values that layers fill
        self._last = len(self.layers) - 1  # -1 if layers are created on demand

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: object,
        **more: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        filled = self._fill(layer_idx, key_states, value_states)
        found = filled or super().update(key_states, value_states, layer_idx, *args, **more)
        if self.only and layer_idx == self._last:
            raise KeysMade
        return found

    def _fill(self, number: int, *new: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Put new keys and values behind those of a layer without a copy, if it has room."""
        room, layer = self.room.pop(number, None), self.layers[number : number + 1]
        if not room or (end := layer[0].keys.shape[2] + new[0].shape[2]) > room[0].shape[2]:
            return None
        for whole, part in zip(room, new, strict=True):
            whole[:, :, end - part.shape[2] : end] = part
        self.room[number] = room
        layer[0].keys, layer[0].values = found = room[0][:, :, :end], room[1][:, :, :end]
        return found


@dataclass(repr=False)
class State:
    """The state after a pass (PRIVATE)."""

    rows: list[Ids]
    cache: PrefixCache
    mask: torch.Tensor
    lengths: torch.Tensor
    whole: bool = False

    @classmethod
    def uncached(cls, rows: list[Ids]) -> State:
        nothing = torch.zeros(0, dtype=torch.long)
        return cls(rows, PrefixCache(), nothing, nothing, whole=True)

    @property
    def bytes(self) -> int:
        return sum(
            t.nbytes
            for layer in self.cache.layers
            if layer.is_initialized
            for t in (layer.keys, layer.values)
        )

    def repeat(self, count: int) -> None:
        self.cache.batch_repeat_interleave(count)
        self.cache.room.clear()
        self.rows = self.rows * count
        self.mask, self.lengths = self.mask.repeat(count, 1), self.lengths.repeat(count)

    def block(self, at: int, length: int) -> torch.Tensor:
        """Keys and values of the first tokens of one row."""
        parts = self._parts(at)
        slots = self.mask[at].nonzero()[:length, 0]
        if length and int(slots[-1] - slots[0]) == length - 1:  # no padding in between
            begin = int(slots[0])
            return torch.stack([part[:, begin : begin + length] for part in parts])
        heads, _, dim = parts[0].shape
        block = parts[0].new_empty(len(parts), heads, length, dim)
        for to, part in zip(block, parts, strict=True):
            torch.index_select(part, 1, slots, out=to)
        return block

    @property
    def token_bytes(self) -> int:
        """Bytes of one token of one row; 0 if the layers do not have one plain shape."""
        layers = self.cache.layers
        if not all(_is_plain(layer) and layer.is_initialized for layer in layers):
            return 0
        parts = self._parts(0)
        if len({(part.shape, part.device) for part in parts}) != 1:
            return 0
        heads, _, dim = parts[0].shape
        return len(parts) * heads * dim * parts[0].element_size()

    def _parts(self, at: int) -> list[torch.Tensor]:
        return [t[at] for layer in self.cache.layers for t in (layer.keys, layer.values)]


@dataclass(repr=False, eq=False)
class _KeptRow:
    ids: Ids
    block: torch.Tensor


@dataclass(repr=False)
class PrefixMatch:
    """A stored match for the beginning of a row."""

    row: _KeptRow | None = None
    length: int = 0

    @classmethod
    def whole(cls, ids: Ids, block: torch.Tensor) -> PrefixMatch:
        return cls(_KeptRow(ids, block), len(ids))


class PrefixStore:
    """Rows and growing batches (PRIVATE)."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.clear()

    def __repr__(self) -> str:
        return (
            f"PrefixStore(<private>, {len(self._rows)} rows, {self.bytes} of {self.budget} bytes)"
        )

    def clear(self) -> None:
        self._rows: OrderedDict[_KeptRow, None] = OrderedDict()
        self._marked: dict[int, dict[_KeptRow, None]] = {}
        self._states: list[tuple[State, int]] = []  # with the bytes of each
        self._row_bytes = self._state_bytes = 0
        self._handed_on: _KeptRow | None = None  # may also be one of the rows

    @property
    def bytes(self) -> int:
        last = self._handed_on
        own = last.block.nbytes if last is not None and last not in self._rows else 0
        return self._row_bytes + self._state_bytes + own

    # --- rows

    def find(self, ids: Ids, limit: int) -> PrefixMatch:
        """Find the row with the longest common beginning, exact to within one block."""
        ids = ids[: max(limit, 0)]
        stored, last = self._find(ids), self._handed_on
        length = alike(ids, last.ids) if last is not None else 0
        return PrefixMatch(last, length) if length >= max(SHARE, stored.length + 1) else stored

    def _find(self, ids: Ids) -> PrefixMatch:
        for mark in reversed(list(_marks(ids)) if self._rows else []):
            rows = islice(reversed(self._marked.get(mark, {})), LOOK)
            best = max(
                (PrefixMatch(row, alike(ids, row.ids)) for row in rows),
                key=lambda f: f.length,
                default=PrefixMatch(),
            )
            if best.row is not None and best.length >= SHARE:
                self._rows.move_to_end(best.row)
                return best
        return PrefixMatch()

    def put(self, state: State) -> None:
        """Keep rows that are mostly new or extend a stored row, in place of what was handed on."""
        self._handed_on = None
        each = state.token_bytes if self.budget else 0
        fits = (self.budget - self._state_bytes) // each if each else 0
        for at, ids in enumerate(state.rows if fits else []):
            length = min(len(ids), fits)
            if self._wanted(ids[:length]):
                self._shrink(length * each)
                self._add(_KeptRow(ids[:length], state.block(at, length)))

    def hand_on(self, state: State, wanted: int | None) -> None:
        """Keep the last row as far as it fits until the next `put`, of a row that is like it."""
        self._handed_on = None
        each = state.token_bytes if self.budget else 0
        ids = state.rows[-1][:wanted] if each else ()
        if len(ids) < SHARE:
            return
        found = self._find(ids)
        if found.length == len(ids):
            self._handed_on = found.row
            return
        beside = self._state_bytes + (found.row.block.nbytes if found.row else 0)
        length = min(len(ids), (self.budget - beside) // each)
        if length >= max(SHARE, found.length + 1):
            self._shrink(length * each)
            self._handed_on = _KeptRow(ids[:length], state.block(len(state.rows) - 1, length))

    def _wanted(self, ids: Ids) -> bool:
        """Whether a row is mostly new, or extends a stored row, which is then dropped."""
        found = self.find(ids, len(ids))
        grown = found.row is not None and found.length == len(found.row.ids)
        fresh = len(ids) - found.length
        if fresh < SHARE or (fresh < found.length and not grown):
            return False
        if found.row is not None and grown:
            self._drop(found.row)
        return True

    def _add(self, row: _KeptRow) -> None:
        self._rows[row] = None
        self._row_bytes += row.block.nbytes
        for mark in _marks(row.ids):
            self._marked.setdefault(mark, {})[row] = None

    def _drop(self, row: _KeptRow) -> None:
        del self._rows[row]
        self._row_bytes -= row.block.nbytes
        for mark in _marks(row.ids):
            self._marked[mark].pop(row, None)
            if not self._marked[mark]:
                del self._marked[mark]

    def _shrink(self, room: int = 0) -> None:
        """Drop the least recently used rows, at last the handed-on one, until more bytes fit."""
        while self._rows and self.bytes + room > self.budget:
            self._drop(next(iter(self._rows)))
        if self.bytes + room > self.budget:
            self._handed_on = None

    # --- growing batches

    def hold(self, state: State) -> None:
        """Keep a whole batch, so that the same rows can grow."""
        half = self.budget // 2
        if state.whole or state.bytes > half:
            return
        self._states.append((state, state.bytes))
        self._state_bytes += state.bytes
        while self._state_bytes > half or len(self._states) > STATES:
            self._state_bytes -= self._states.pop(0)[1]
        self._shrink()

    def held(self, rows: list[Ids], keep: int) -> State | None:
        """Find the batch whose rows have grown into these rows."""
        for state, _ in reversed(self._states):
            if len(state.rows) == len(rows) and all(
                len(new) >= len(old) + keep and new[: len(old)] == old
                for old, new in zip(state.rows, rows, strict=True)
            ):
                return state
        return None

    def resume(self, rows: list[Ids], keep: int) -> State | None:
        """Remove and return the batch whose rows have grown into these rows: it will change."""
        state = self.held(rows, keep)
        if state is not None:
            self._states = [(s, size) for s, size in self._states if s is not state]
            self._state_bytes = sum(size for _, size in self._states)
        return state


def assemble(
    config: Any, found: list[PrefixMatch], device: torch.device, rows: Sequence[Ids] = ()
) -> State:
    """Build a left-padded batch of stored beginnings, with room for `rows`; each sees its own."""
    cache, width = PrefixCache(config), max(f.length for f in found)
    lengths = torch.tensor([f.length for f in found], device=device)
    mask = torch.arange(width, device=device)[None] >= width - lengths[:, None]
    kept = [f.row.ids[: f.length] if f.row else () for f in found]
    like = next((f.row.block for f in found if f.row), None)
    more = max((len(row) - f.length for row, f in zip(rows, found, strict=False)), default=0)
    if like is not None:
        for number, layer in enumerate(cache.layers):
            room = [_join(found, 2 * number + side, width, more, like) for side in (0, 1)]
            layer.lazy_initialization(*room)
            layer.keys, layer.values = (whole[:, :, :width] for whole in room)
            cache.room[number] = room
    return State(kept, cache, mask, lengths)


def _join(
    found: list[PrefixMatch], part: int, width: int, more: int, like: torch.Tensor
) -> torch.Tensor:
    """(rows, heads, width and more, dim): the keys, or the values, of one layer."""
    _, heads, _, dim = like.shape
    out = like.new_empty(len(found), heads, width + more, dim)
    for at, f in enumerate(found):
        out[at, :, : width - f.length] = 0  # padding
        if f.row is not None:
            out[at, :, width - f.length : width] = f.row.block[part, :, : f.length]
    return out


def reusable(model: CausalModel) -> bool:
    """Whether keys and values of a prefix can be reused for every row that starts with it."""
    config = model.config.get_text_config(decoder=True)
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    growing = rope.get("rope_type") in GROWING_ROPE
    plain = all(map(_is_plain, PrefixCache(model.config).layers))
    return plain and not growing and not getattr(config, "sliding_window", None)


def alike(a: Ids, b: Ids) -> int:
    """Length of the common prefix."""
    limit = min(len(a), len(b))
    if a[:limit] == b[:limit]:
        return limit
    return next(i for i in range(limit) if a[i] != b[i])


def _is_plain(layer: object) -> bool:
    """Whether a layer stores the keys and values of every token, and nothing else."""
    return type(layer) is DynamicLayer


def _marks(ids: Ids) -> Iterator[int]:
    """A number for each prefix of whole blocks. Equal numbers are candidates for an equal start."""
    mark = 0
    for end in range(SHARE, len(ids) + 1, SHARE):
        mark = hash((mark, ids[end - SHARE : end]))
        yield mark
