"""Forward passes over many rows of token ids.

Rows with the same beginning are grouped, and their common part is computed once. What an earlier
pass has computed is not computed again (prefixes.py keeps its keys and values). The rest is padded
on the left and masked, so every row sees exactly its own tokens, whatever else is in the batch.
Logits are made only at the positions that are needed. If padding or keys of shorter rows would
change what a model sees (sharing.py), only rows of equal length share a pass, or rows run whole.

In low precision, the last bits of a row still depend on the shape of its batch. Rows with an owner
share a pass only with rows of the same owner, and no keys or values of any other row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from leakbound.errors import TargetError
from leakbound.models.local.engine.budget import Budget, logit_bytes, token_bytes
from leakbound.models.local.engine.prefixes import (
    SHARE,
    Ids,
    KeysMade,
    PrefixCache,
    PrefixMatch,
    PrefixStore,
    State,
    alike,
    assemble,
    reusable,
)
from leakbound.models.local.hugging_face import CausalModel, parameters_of, window_of

ANY = 1 << 30  # more tokens than any row has
# configuration entries with a number of tokens after which a layer behaves differently
SPANS = re.compile(r"(window|window_size|chunk_size|block_size|floor_scale)$")
# the only type whose frequencies change above a number of tokens that its window allows; "dynamic"
# changes beyond the window
LONG = "longrope"


@dataclass(frozen=True, slots=True)
class Sharing:
    """How rows share forward passes without changing any answer."""

    ragged: int = ANY
    cached: int = ANY
    batched: bool = True

    @property
    def outcome(self) -> str:
        """ "exact" if rows of different lengths share a pass, else "equal lengths only"."""
        return "exact" if self.ragged else "equal lengths only"

    @property
    def sentence(self) -> str:
        """What is done differently from most models; empty if nothing is."""
        said = []
        if self.ragged < ANY:
            said.append(
                f"{_longer(self.ragged)} share a pass with rows of equal length only"
                if self.batched
                else "every row is run by itself"
            )
        if self.cached < ANY:
            said.append(f"{_longer(self.cached)} are run whole, without keys and values")
        return "; ".join(said)

    @classmethod
    def of(cls, model: CausalModel) -> Sharing:
        """How rows may share passes according to the model's configuration, before any check."""
        rope = rope_boundary(model)
        return cls(min([*windows(model), rope]), rope)


def windows(model: CausalModel) -> list[int]:
    """Numbers of tokens that layers of a model look back over."""
    entries = vars(model.config.get_text_config(decoder=True)).items()
    found = (_whole(value) for name, value in entries if SPANS.search(name))
    return sorted({size for sizes in found for size in sizes})


def rope_boundary(model: CausalModel) -> int:
    """The most tokens of a row whose positions equal those of shorter rows."""
    config = model.config.get_text_config(decoder=True)
    own = _whole(vars(config).get("original_max_position_embeddings"))
    bounds = [ANY]
    given = [vars(config).get(name) for name in ("rope_parameters", "rope_scaling")]
    ropes = [one for one in given if isinstance(one, Mapping)]
    # for all layers, or for each type of layer
    ropes += [one for rope in ropes for one in rope.values() if isinstance(one, Mapping)]
    for rope in ropes:
        if LONG in (rope.get("rope_type"), rope.get("type")):
            bounds += list(_whole(rope.get("original_max_position_embeddings"))) or list(own)
    return min(bounds)


def _whole(value: object) -> Iterable[int]:
    """The whole numbers above 0 in an entry of a configuration."""
    many = value if isinstance(value, list | tuple) else [value]
    return [v for v in many if isinstance(v, int) and not isinstance(v, bool) and v > 0]


def _longer(tokens: int) -> str:
    return f"rows of more than {tokens} tokens" if tokens else "rows"


# an additional pass costs about as much as this many tokens: measured by bench/engine.py on a CPU;
# a GPU runs this many in the time that it needs to read the weights once
PASS = {"cpu": 64, "cuda": 256}


@dataclass(repr=False)
class Group:
    """Rows that share a prefix."""

    prefix: Ids
    rows: list[int]
    alone: bool = False
    whole: bool = False
    handed_on: int | None = None


@dataclass(frozen=True, repr=False)
class _Wanted:
    rows: list[Ids]
    tails: list[int]
    growth: int
    found: list[int]
    reuse: bool


@dataclass(frozen=True)
class _Grouping:
    sharing: Sharing
    budget: Budget
    token_bytes: int
    logit_bytes: int
    per_pass: int

    def cut(self, wanted: _Wanted, members: list[int]) -> Iterator[Group]:
        rows = wanted.rows
        order = sorted(members, key=lambda i: (self._class(len(rows[i]) + wanted.growth), rows[i]))
        group: list[int] = []
        shared = 0
        for i in order:
            common = len(rows[i]) - wanted.tails[i]
            if group:
                joint = min(alike(rows[group[0]], rows[i]), common, shared)
                if self._joins(wanted, group, i, joint, shared):
                    common = joint
                else:
                    next_shares = alike(rows[group[-1]], rows[i])
                    yield replace(self._group(wanted, group, shared), handed_on=next_shares)
                    group = []
            group.append(i)
            shared = common
        if group:
            yield self._group(wanted, group, shared)

    def _class(self, length: int) -> int:
        """Rows of different classes share no pass: 0, or the length if lengths must be equal."""
        return length if length > self.sharing.ragged else 0

    def _group(self, wanted: _Wanted, group: list[int], shared: int) -> Group:
        longest = max(len(wanted.rows[i]) for i in group) + wanted.growth
        whole = longest > self.sharing.cached
        return Group(() if whole else wanted.rows[group[0]][:shared], group, whole=whole)

    def _joins(self, wanted: _Wanted, group: list[int], row: int, joint: int, shared: int) -> bool:
        """Whether a row joins a group and cuts its common prefix from `shared` to `joint`."""
        lengths = {len(wanted.rows[i]) for i in [*group, row]}
        longest, count = max(lengths), len(group) + 1
        if len(lengths) > 1 and longest + wanted.growth > self.sharing.ragged:
            return False
        if longest + wanted.growth > self.sharing.cached:
            most = self.budget.tokens
            return self.sharing.batched and (longest + wanted.growth) * count <= most
        if joint < 1 or self._apart(wanted, group, row, joint, shared):
            return False
        tail = max(wanted.tails[i] for i in [*group, row])
        kept = (longest + wanted.growth) * self.token_bytes + tail * self.logit_bytes
        if count * kept > self.budget.flight:
            return False
        return (longest - joint) * count <= self.budget.tokens

    def _apart(self, wanted: _Wanted, group: list[int], row: int, joint: int, shared: int) -> bool:
        """Whether a separate group costs fewer tokens, by more than a pass."""
        rows = wanted.rows
        known = alike(rows[group[-1]], rows[row]) if wanted.reuse else 0
        fresh = len(rows[row]) - max(wanted.found[row], known if known >= SHARE else 0)
        own = _tokens(wanted, group, shared) + fresh + self.per_pass
        return own < _tokens(wanted, [*group, row], joint)


def equal_rows(
    rows: Sequence[Ids], tails: Sequence[int], owners: Sequence[int | None]
) -> dict[int, list[int]]:
    found: dict[tuple[int | None, Ids, int], list[int]] = {}
    for i, row in enumerate(rows):
        found.setdefault((owners[i] if owners else None, row, tails[i]), []).append(i)
    return {equal[0]: equal for equal in found.values()}


def _tokens(wanted: _Wanted, group: list[int], shared: int) -> int:
    """Tokens that a group runs, from its common prefix or from the stored part of each row."""
    lengths, found = [len(wanted.rows[i]) for i in group], [wanted.found[i] for i in group]
    apart = len(group) * max(length - f for length, f in zip(lengths, found, strict=True))
    together = shared - min(shared, max(found)) + len(group) * (max(lengths) - shared)
    return min(apart, together) if len(group) == 1 or all(found) else together


LONGEST = 4096  # room is reserved for rows of this length, whatever their actual length


class OwnStates:
    """The states that the latest calls left for each of their rows (PRIVATE)."""

    def __init__(self, budget: int, token: int, window: int) -> None:
        self.longest = min(window, LONGEST)
        self.most = budget // (self.longest * token)
        self._calls: list[tuple[list[Ids], list[State | None]]] = []

    def __repr__(self) -> str:
        return f"OwnStates(<private>, {self._count()} of {self.most})"

    def clear(self) -> None:
        self._calls.clear()

    def take(self, rows: Sequence[Ids]) -> list[State | None]:
        """Take the states of the call whose rows lack only the last token of these rows."""
        for at, (old, states) in enumerate(self._calls):
            if old == [row[:-1] for row in rows]:
                del self._calls[at]
                return states
        return [None] * len(rows)

    def fits(self, rows: int) -> bool:
        return 0 < rows <= self.most

    def hold(self, rows: Sequence[Ids], states: Sequence[State | None]) -> None:
        """Keep the states of a call, and drop those of earlier calls to make room."""
        if not self.fits(len(rows)):
            return
        short = [
            s if len(row) <= self.longest else None for row, s in zip(rows, states, strict=True)
        ]
        self._calls.append((list(rows), short))
        while self._count() > self.most:
            del self._calls[0]

    def _count(self) -> int:
        return sum(len(rows) for rows, _ in self._calls)


class NotNumbers(TargetError):
    """The model's logits are not numbers."""


@contextmanager
def spare_others(group: Group) -> Iterator[None]:
    """Let a row that runs alone fail by itself: it must not decide whether others are answered."""
    try:
        yield
    except NotNumbers:
        if not group.alone:
            raise


class Passes:
    def __init__(self, model: CausalModel, budget: Budget, sharing: Sharing | None = None) -> None:
        self.model, self.budget = model, budget
        self.sharing = sharing or Sharing.of(model)
        self._token_bytes, self._logit_bytes = token_bytes(model), logit_bytes(model)
        self._takes = parameters_of(model)
        # transformers 5.24 renamed it; code that comes with a model may have the older name
        self._cache = "cache" if "cache" in self._takes else "past_key_values"
        self.embed: Callable[[torch.Tensor], torch.Tensor] | None = None
        reuses = self.sharing.ragged == ANY and "position_ids" in self._takes and reusable(model)
        kept = budget.kept if reuses else 0
        self.store = PrefixStore(kept)
        per_pass = PASS.get(model.device.type, PASS["cpu"])
        self._grouping = _Grouping(
            self.sharing, budget, self._token_bytes, self._logit_bytes, per_pass
        )
        self.own = OwnStates(kept // 2, self._token_bytes, window_of(model))

    def fits(self, tokens: float) -> bool:
        """Whether keys and values of a row fit the budget of a batch."""
        return tokens * self._token_bytes <= self.budget.flight

    def require(self, tokens: int) -> None:
        """Refuse a row whose keys and values alone exceed the budget of a batch."""
        if not self.fits(tokens):
            need = tokens * self._token_bytes
            raise TargetError(
                f"a prompt of {tokens} tokens needs {need / 2**30:.2f} GB for keys and values, "
                f"and the memory budget leaves {self.budget.flight / 2**30:.2f} GB; nothing was "
                "run. Give more with --memory, or a shorter prompt."
            )

    def groups(
        self,
        rows: list[Ids],
        tails: list[int] | None = None,
        growth: int = 0,
        owners: Sequence[int | None] = (),
        members: Sequence[int] | None = None,
    ) -> Iterator[Group]:
        """Groups with a common prefix within the token budget, old rows apart from new ones."""
        tails = tails or [1] * len(rows)
        found = [self.store.find(r, len(r) - n).length for r, n in zip(rows, tails, strict=True)]
        wanted = _Wanted(rows, tails, growth, found, self.store.budget > 0)
        parts: dict[int | None, list[int]] = {}
        for i in range(len(rows)) if members is None else members:
            parts.setdefault(owners[i] if owners else None, []).append(i)
        for owner, members in parts.items():
            if owner is not None:
                own = replace(wanted, found=[0] * len(rows), reuse=False)
                yield from (replace(g, alone=True) for g in self._grouping.cut(own, members))
                continue
            for group in self._grouping.cut(wanted, members):
                yield from self._split(group, rows, max(tails[i] for i in group.rows))

    def _split(self, group: Group, rows: list[Ids], keep: int) -> list[Group]:
        """Separate old rows from new ones if that saves more than the cost of a pass."""
        own = [rows[i] for i in group.rows]
        found = [self.store.find(row, len(row) - keep) for row in own]
        old = [2 * f.length > len(row) for row, f in zip(own, found, strict=True)]
        if all(old) or not any(old) or self.store.held(own, keep):
            return [group]
        parts = [[at for at, is_old in enumerate(old) if is_old == side] for side in (True, False)]
        cost = [
            min(self._cost(group.prefix, [own[a] for a in part], [found[a] for a in part]))
            for part in parts
        ]
        if sum(cost) + self._grouping.per_pass > min(self._cost(group.prefix, own, found)):
            return [group]
        return [Group(group.prefix, [group.rows[a] for a in part]) for part in parts]

    def _cost(self, prefix: Ids, own: list[Ids], found: list[PrefixMatch]) -> tuple[int, int]:
        """Tokens to run from each row's own stored beginning, and from the common prefix."""
        alone = len(own) * max(len(row) - f.length for row, f in zip(own, found, strict=True))
        if len(own) == 1:
            return alone, alone
        lead = self.store.find(prefix, len(prefix)).length
        together = len(prefix) - lead + len(own) * (max(map(len, own)) - len(prefix))
        return (alone if all(f.length for f in found) else together + 1), together

    def run(
        self, group: Group, rows: list[Ids], keep: int, own: State | None = None
    ) -> tuple[State, torch.Tensor]:
        """Run what no earlier pass has computed for a group."""
        mine = [rows[i] for i in group.rows]
        if group.whole:
            state = State.uncached(mine)
            return state, self._run_whole(state, mine, keep)
        if group.alone:
            state = own or self._alone(group, len(mine))
            return state, self._extend(state, mine, keep)
        found = self.store.resume(mine, keep)
        if found is not None:
            return found, self._extend(found, mine, keep)
        state = self._begin(group, mine, keep)
        logits = self._extend(state, mine, keep)
        self.store.put(state)
        self.store.hand_on(state, group.handed_on)
        return state, logits

    def _alone(self, group: Group, count: int) -> State:
        """An empty row, or the common prefix of several rows of one owner."""
        state = assemble(self.model.config, [PrefixMatch()], self.model.device)
        if count > 1:
            self._extend(state, [group.prefix], 0)
            state.repeat(count)
        return state

    def masked(
        self, begin: Ids, holes: Sequence[tuple[int, int]], rest: Ids, keep: int
    ) -> Iterator[torch.Tensor]:
        """(keep, vocabulary) logits after `begin` and `rest`, for each range of tokens of `begin`
        that the rest does not see. What later tokens of `begin` have read of the range stays.
        """
        lead = assemble(self.model.config, [PrefixMatch()], self.model.device)
        self._extend(lead, [begin], 0)
        kept = PrefixMatch.whole(begin, lead.block(0, len(begin)))
        each = (len(begin) + len(rest)) * self._token_bytes + keep * self._logit_bytes
        most = max(1, min(self.budget.flight // each, self.budget.tokens // len(rest)))
        for at in range(0, len(holes), most):
            some = holes[at : at + most]
            rows = [begin + rest] * len(some)
            state = assemble(self.model.config, [kept] * len(some), self.model.device, rows)
            for mask, (first, end) in zip(state.mask, some, strict=True):
                mask[first:end] = False
            yield from self._extend(state, rows, keep)

    @property
    def masks(self) -> bool:
        """Whether tokens can be hidden from later ones."""
        return self.sharing.ragged == ANY and self.store.budget > 0

    def forget(self) -> None:
        self.store.clear()
        self.own.clear()

    def _begin(self, group: Group, own: list[Ids], keep: int) -> State:
        """The cheaper beginning: what is stored of each row, or the common prefix."""
        found = [self.store.find(row, len(row) - keep) for row in own]
        alone, together = self._cost(group.prefix, own, found)
        if len(own) == 1 or alone < together:
            return assemble(self.model.config, found, self.model.device, own)
        lead = self.store.find(group.prefix, len(group.prefix))
        state = assemble(self.model.config, [lead], self.model.device)
        if lead.length < len(group.prefix):
            self._extend(state, [group.prefix], 0)
        state.repeat(len(own))
        return state

    def _extend(self, state: State, rows: list[Ids], keep: int) -> torch.Tensor:
        """Run the tokens that rows lack, padded left; the last pass has all kept positions."""
        device = self.model.device
        rest = [row[len(done) :] for row, done in zip(rows, state.rows, strict=True)]
        width = max(map(len, rest))
        ids = torch.tensor([[0] * (width - len(r)) + list(r) for r in rest], device=device)
        lengths = torch.tensor([len(r) for r in rest], device=device)
        place = torch.arange(width, device=device)[None] - (width - lengths[:, None])
        past, keep = state.mask.shape[1], min(keep, width)
        state.mask = torch.cat([state.mask, place >= 0], 1)
        position = place.clamp(min=0) + state.lengths[:, None]
        for a, b in _pieces(width, self.budget.step(len(rows), past + width), max(keep, 1)):
            logits = self._forward(
                ids[:, a:b],
                state.mask[:, : past + b],
                position[:, a:b],
                state.cache,
                keep if b == width else 0,
            )
        state.rows, state.lengths = rows, state.lengths + lengths
        return logits

    def step(self, state: State, tokens: list[int]) -> torch.Tensor:
        grown = [(*row, token) for row, token in zip(state.rows, tokens, strict=True)]
        if state.whole:
            return self._run_whole(state, grown, 1)[:, -1]
        return self._extend(state, grown, 1)[:, -1]

    def _run_whole(self, state: State, rows: list[Ids], keep: int) -> torch.Tensor:
        """Run rows of one length from their first token, as the model's own code does."""
        ids = torch.tensor(rows, device=self.model.device)
        state.rows = rows
        return self._logits(ids, keep, {"use_cache": False})

    def _forward(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor,
        position: torch.Tensor,
        cache: PrefixCache,
        keep: int,
    ) -> torch.Tensor:
        """Logits at the last positions. If none are kept, only keys and values are computed."""
        extra: dict[str, object] = {self._cache: cache, "use_cache": True}
        if "position_ids" in self._takes:
            extra["position_ids"] = position
        if not bool(mask.all()):
            extra["attention_mask"] = mask.long()
        cache.only = keep == 0
        try:
            return self._logits(ids, max(keep, 1), extra)
        except KeysMade:
            return ids.new_empty(0)

    def _logits(self, ids: torch.Tensor, keep: int, extra: dict[str, object]) -> torch.Tensor:
        """(rows, keep, vocabulary) logits at the last positions."""
        inputs = {"input_ids": ids} if self.embed is None else {"inputs_embeds": self.embed(ids)}
        if "logits_to_keep" in self._takes:
            extra["logits_to_keep"] = keep
        logits: torch.Tensor = self.model(**inputs, **extra).logits[:, -keep:]
        if bool(logits.isnan().any()):
            kind = str(self.model.dtype).removeprefix("torch.")
            raise NotNumbers(
                f"the model's logits are not numbers (NaN) in {kind}, so no answer was made; load "
                "it with --dtype float32, or check its weights."
            )
        return logits


def _pieces(width: int, step: int, keep: int) -> list[tuple[int, int]]:
    """Columns that run together: pieces of one size, then a piece with everything that is kept."""
    ends = [*range(step, width - keep + 1, step), width]
    return list(zip([0, *ends], ends, strict=False))
