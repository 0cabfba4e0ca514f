"""Which rows of a batch run together: those whose common prefix saves tokens.

Rows are sorted, so rows with the same beginning form a tree. A row joins the previous group unless
a separate group would run fewer tokens, by more than the cost of a pass. A row that differs late
from its neighbours would shorten their common prefix, and each of them would run the rest again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from leakbound.models.local.engine.budget import Budget
from leakbound.models.local.engine.prefixes import SHARE, Ids, alike
from leakbound.models.local.engine.sharing import Sharing

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
class Wanted:
    rows: list[Ids]
    tails: list[int]
    growth: int
    found: list[int]
    reuse: bool


@dataclass(frozen=True)
class Grouping:
    sharing: Sharing
    budget: Budget
    token_bytes: int
    logit_bytes: int
    per_pass: int

    def cut(self, wanted: Wanted, members: list[int]) -> Iterator[Group]:
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

    def _group(self, wanted: Wanted, group: list[int], shared: int) -> Group:
        longest = max(len(wanted.rows[i]) for i in group) + wanted.growth
        whole = longest > self.sharing.cached
        return Group(() if whole else wanted.rows[group[0]][:shared], group, whole=whole)

    def _joins(self, wanted: Wanted, group: list[int], row: int, joint: int, shared: int) -> bool:
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

    def _apart(self, wanted: Wanted, group: list[int], row: int, joint: int, shared: int) -> bool:
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


def _tokens(wanted: Wanted, group: list[int], shared: int) -> int:
    """Tokens that a group runs, from its common prefix or from the stored part of each row."""
    lengths, found = [len(wanted.rows[i]) for i in group], [wanted.found[i] for i in group]
    apart = len(group) * max(length - f for length, f in zip(lengths, found, strict=True))
    together = shared - min(shared, max(found)) + len(group) * (max(lengths) - shared)
    return min(apart, together) if len(group) == 1 or all(found) else together
