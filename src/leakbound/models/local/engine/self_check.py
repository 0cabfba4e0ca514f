"""Check that the engine gives the same answers as the model.

Whether rows may share passes, padding and keys depends on how an architecture computes masks and
positions. So it is tested when a model is loaded: a ragged batch, rows that continue from stored
keys, rows that grow by a token, and rows longer than any window are compared with one plain forward
pass per row. The engine uses the first way of sharing passes that changes no answer.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import torch
import transformers

from leakbound._files import cache_folder
from leakbound.errors import TargetError
from leakbound.models.local.engine.budget import MASK, Budget, token_bytes
from leakbound.models.local.engine.passes import ANY, NotNumbers, Passes, Sharing, windows
from leakbound.models.local.engine.prefixes import Ids
from leakbound.models.local.hugging_face import CausalModel, window_of

LENGTH = 48  # tokens of the longest row of a ragged batch: several blocks of stored rows
KEPT = 2  # number of last positions whose logits are compared
GROWN = 1  # number of tokens that each row grows by
LEAST = 12  # a ragged batch of shorter rows shows nothing
# difference of logits that rounding may cause, as a share of their spread: a hundred times that of
# the pocket models, and far below the effect of padding where it matters (0.3 and more)
CLOSE = {torch.float32: 2e-4, torch.float64: 2e-4}
COARSE = 0.1  # the same in 16 bits, where deep models lose more; the pocket models show 0.015
# in 16 bits, padding may cause this many times the difference without padding, at most COARSE, or
# this many roundings. 24 and 32 layers of seven architectures show 1.8 times as much, experts 3.6
# times, one layer 1.6 roundings; a model that padding changes shows 9 and more
NOISE, ROUNDINGS = 6, 4
# roundings that later tokens may cause; there are none unless tokens share something, as experts do
SAME = 0.25
# floating point operations that a check of rows longer than a window may take: about a minute on a
# few cores, a few seconds on a GPU
WORK = {"cpu": 1e13, "cuda": 1e15}
SLOW = 2.0  # seconds of CPU time; slower checks are stored on disk
# exceptions that a model's code may raise if it is used in an unexpected way
FOREIGN = (
    RuntimeError, ValueError, TypeError, LookupError, AttributeError, ImportError, AssertionError,
    NotNumbers,
)  # fmt: skip

_known: dict[str, Sharing] = {}


def recall(model: CausalModel, name: str, fingerprint: str) -> Sharing:
    """The outcome for a model that may have been checked before."""
    key = f"{fingerprint}-{model.device.type}-{transformers.__version__}-2"
    if key not in _known:
        begin = time.process_time()
        _known[key] = _load(key) or check_sharing(model, name)
        if time.process_time() - begin > SLOW:
            _store(key, _known[key])
    return _known[key]


def check_sharing(model: CausalModel, name: str) -> Sharing:
    """The fastest way of sharing passes that changes no answer."""
    with torch.inference_mode():
        _require_causal(model, name)
        padded = _pad_limit(model)
        return next(
            s for s in _candidates(model) if changes_nothing(model, s, padded if s.ragged else None)
        )


def _candidates(model: CausalModel) -> Iterator[Sharing]:
    """Candidates from the fastest to plain passes of single rows, which need no check."""
    first = Sharing.of(model)
    weights = sum(p.numel() for p in model.parameters())
    passes = 4  # two rows longer than every window, each by itself and in the batch
    work = passes * 2 * weights * _beyond(model)
    affordable = work <= WORK.get(model.device.type, WORK["cpu"])
    if first.ragged < min(first.cached, ANY) and not affordable:
        first = replace(first, cached=first.ragged)
    if first.ragged - GROWN >= LEAST:
        yield first
    yield replace(first, ragged=0)
    yield Sharing(0, 0)
    yield Sharing(0, 0, batched=False)


def _beyond(model: CausalModel) -> int:
    """Length of rows longer than every window, as far as the model supports it."""
    return min(max(windows(model), default=0) + LENGTH // 2, window_of(model)) - GROWN


# --- what is compared


def changes_nothing(model: CausalModel, sharing: Sharing, limit: float | None = None) -> bool:
    """Whether all rows get the logits of a plain pass."""
    limit = CLOSE.get(model.dtype, COARSE) if limit is None else limit
    return sharing == Sharing(0, 0, batched=False) or _difference(model, sharing) <= limit


def _pad_limit(model: CausalModel) -> float | None:
    """How much padding may change logits: in 16 bits, measured by the change without it."""
    # else the effects of ALiBi and of windows on a small model could pass as rounding
    if model.dtype in CLOSE:
        return None
    rounding = ROUNDINGS * torch.finfo(model.dtype).eps
    return min(COARSE, max(rounding, NOISE * _difference(model, Sharing(0))))


def _difference(model: CausalModel, sharing: Sharing) -> float:
    try:
        probes = _probes(model, sharing)
        return max((_off(model, sharing, batches) for batches in probes), default=math.inf)
    except FOREIGN:
        return math.inf


def _probes(model: CausalModel, sharing: Sharing) -> Iterator[list[list[Ids]]]:
    draw, most = _Rows(model), window_of(model) - GROWN
    longest = min(LENGTH, sharing.ragged - GROWN, most)
    if longest >= LEAST:
        yield draw.ragged(longest)
    if sharing.ragged < ANY:
        length = LENGTH if sharing.cached <= sharing.ragged else _beyond(model)
        yield draw.equal(max(KEPT, min(length, most)))


class _Rows:
    def __init__(self, model: CausalModel) -> None:
        self._high = min(model.config.get_text_config(decoder=True).vocab_size, 1 << 15)
        self._rng = torch.Generator().manual_seed(0)

    def ids(self, length: int) -> Ids:
        """Random token ids, without the first ids of a vocabulary, which are usually special."""
        low = min(3, self._high - 1)
        return tuple(torch.randint(low, self._high, (length,), generator=self._rng).tolist())

    def ragged(self, longest: int) -> list[list[Ids]]:
        """A batch of rows with a common beginning, then a batch of rows that continue them."""
        head = self.ids(longest // 2)
        rest = longest - len(head)
        rows = [head + self.ids(n) for n in (rest, rest // 2, 2)]
        return [rows, [rows[1] + self.ids(KEPT), head + self.ids(rest - 1)]]

    def equal(self, length: int) -> list[list[Ids]]:
        """Rows of one length with a common beginning."""
        head = self.ids(length // 2)
        rest = length - len(head)
        return [[head + self.ids(rest), head + self.ids(rest)]]


def _off(model: CausalModel, sharing: Sharing, batches: list[list[Ids]]) -> float:
    """Largest difference of logits from plain passes, of rows that grow and run in pieces."""
    rows = max(map(len, batches))
    longest = max(len(row) for batch in batches for row in batch) + GROWN
    kept = 4 * rows * longest * token_bytes(model)
    budget = Budget(kept, ANY, rows * longest, masks=MASK * longest * rows * longest // 3)
    passes, worst = Passes(model, budget, sharing), 0.0
    for batch in batches:
        more = [row[1 : 1 + GROWN] for row in batch]
        for group in passes.groups(batch, [KEPT] * len(batch), growth=GROWN):
            state, logits = passes.run(group, batch, keep=KEPT)
            grown = [passes.step(state, [more[i][n] for i in group.rows]) for n in range(GROWN)]
            got = torch.cat([logits, torch.stack(grown, 1)], 1)
            for at, i in enumerate(group.rows):
                want = _plain(model, batch[i] + more[i])[-KEPT - GROWN :]
                worst = max(worst, _distance(got[at], want))
    return worst


def _plain(model: CausalModel, row: Ids) -> torch.Tensor:
    """(tokens, vocabulary) logits of one row, from one pass of the model itself."""
    ids = torch.tensor([row], device=model.device)
    logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits
    return logits[0]


def _distance(got: torch.Tensor, want: torch.Tensor) -> float:
    """Difference as a share of the spread of logits; infinite if anything is not a number."""
    got, want = got.double(), want.double()
    spread = (want - want.mean(-1, keepdim=True)).square().mean().sqrt()
    off = (got - want).square().mean(-1).sqrt().max()
    if not bool(off.isfinite() & spread.isfinite()):
        return math.inf
    return float(off / spread) if off else 0.0


# --- what no sharing can mend


def _require_causal(model: CausalModel, name: str) -> None:
    """Refuse a model whose logits depend on later tokens, or that needs more than token ids."""
    draw, kind = _Rows(model), model.config.model_type
    length = max(4, min(LENGTH // 2, window_of(model)))
    row, end = draw.ids(length), draw.ids(2)
    try:
        one, other = (_plain(model, r)[:-2] for r in (row, row[:-2] + end))
        again = _plain(model, row)[:-2]
    except FOREIGN as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        raise TargetError(
            f"{name} (model type {kind!r}) cannot be run over token ids alone "
            f"({type(error).__name__}: {reason}); use a decoder-only language model."
        ) from None
    if not bool(one.isfinite().all()):
        return  # sharing cannot be tested; requests are refused because of their logits
    limit = CLOSE.get(model.dtype, COARSE)
    if _distance(again, one) > limit:
        raise TargetError(
            f"{name} (model type {kind!r}) gives different logits for the same tokens in each "
            "pass, so its answers cannot be repeated; use another model."
        )
    if _distance(other, one) > (_later_limit(model) or limit):
        raise TargetError(
            f"{name} (model type {kind!r}) is no causal language model: its logits depend on later "
            "tokens, so its next-token probabilities mean nothing. Use a decoder-only model."
        )


def _later_limit(model: CausalModel) -> float | None:
    """How much later tokens may change logits in 16 bits; None if they share experts or scales."""
    config = vars(model.config.get_text_config(decoder=True))
    shares = "quantization_config" in vars(model.config) or any(
        "expert" in n for n in config if n[0] != "_"
    )
    return None if model.dtype in CLOSE or shares else SAME * torch.finfo(model.dtype).eps


# --- outcomes on disk


def _path(key: str) -> Path:
    return cache_folder("self-checks") / f"{key}.json"


def _load(key: str) -> Sharing | None:
    try:
        found = json.loads(_path(key).read_text())
        return Sharing(int(found["ragged"]), int(found["cached"]), bool(found["batched"]))
    except (OSError, ValueError, LookupError, TypeError, RuntimeError):
        return None


def _store(key: str, found: Sharing) -> None:
    path = _path(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_text(json.dumps(asdict(found)))
        part.replace(path)  # atomic, even if another process writes it now
    except (OSError, RuntimeError):  # the home folder is read-only or missing
        return
