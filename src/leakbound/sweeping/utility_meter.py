"""Utility in a sweep: collected once, released for every setting that changes noise alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leakbound.auditing.post_hoc import collection_settings
from leakbound.auditing.prepare import Prepared
from leakbound.auditing.seeds import generator
from leakbound.auditing.store import run_id
from leakbound.errors import LeakboundError
from leakbound.mechanisms import FewShot, ZeroShot
from leakbound.models import Counted, Model, require
from leakbound.sweeping.record import Utility
from leakbound.tasks import Aggregate, Mechanism
from leakbound.utility import HeldOut, held_out, rouge

__all__ = ["UtilityMeter", "check_utility", "collection_id"]

ASKED = frozenset({"mechanism", "epsilon", "delta", "shots", "seed", "task", "address"})
HELD_OUT = frozenset({"shots", "seed", "task"})
SOURCES = ("system", "data", "model", "version")
OWN = "a system of the user's asks its own model, so there is neither floor nor ceiling."


def check_utility(prepared: Prepared, queries: int) -> None:
    """Raises, before any call, what stands against measuring utility on so many held-out queries; 0
    measures none.
    """
    if not queries:
        return
    test = _held_out(prepared, queries)
    if test.kind == "rougeL":
        rouge("installed", "installed")
    test.check(prepared.mechanism, prepared.model)


def collection_id(prepared: Prepared, queries: int) -> str:
    """Names what is collected for utility; points that share it differ in noise and in statistics
    only. Empty: none is.
    """
    if not queries:
        return ""
    query = _held_out(prepared, queries).jobs[0].query
    asked = _only(prepared, ASKED)
    settings = collection_settings(asked, prepared.mechanism, prepared.task, query)
    return _named("utility", prepared, settings, queries)


def _only(prepared: Prepared, keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in prepared.spec.flat().items() if key in keys}


def _held_out(prepared: Prepared, queries: int) -> HeldOut:
    spec = prepared.spec
    return held_out(
        prepared.pairs.rows,
        prepared.task,
        spec.design.shots,
        queries,
        generator(spec.design.seed, "utility"),
    )


def _named(what: str, prepared: Prepared, settings: dict[str, Any], queries: int) -> str:
    sources = {name: prepared.identity[name] for name in SOURCES}
    return run_id(what, {"spec": settings, **sources, "queries": queries})


@dataclass(frozen=True, slots=True)
class _References:
    floor: float | None
    ceiling: float | None
    calls: int
    missing: str


@dataclass
class UtilityMeter:
    """Measures points one after the other; holds the aggregates (PRIVATE) of the last collection in
    memory, and never writes them.

    `asked` counts the model calls that were made.
    """

    queries: int
    asked: int = 0
    _last: tuple[str, list[Aggregate], int] = ("", [], 0)
    _known: dict[str, _References] = field(default_factory=dict)

    def measure(self, prepared: Prepared) -> Utility:
        """The utility of the point's mechanism, with the floor and the ceiling on the same queries."""
        test, name = _held_out(prepared, self.queries), collection_id(prepared, self.queries)
        if self._last[0] != name:
            self._last = (name, *self._collect(test, prepared.mechanism, prepared.model))
        _, aggregate, calls = self._last
        where = _named("held-out", prepared, _only(prepared, HELD_OUT), self.queries)
        if where not in self._known:
            self._known[where] = self._references(test, prepared)
        known = self._known[where]
        return Utility(
            kind=test.kind, queries=self.queries, value=_value(test, prepared.mechanism, aggregate, prepared), floor=known.floor,
            ceiling=known.ceiling, collection=name, calls=calls, held_out=where, reference_calls=known.calls, missing=known.missing,
        )  # fmt: skip

    def _collect(
        self, test: HeldOut, mechanism: Mechanism, model: Model
    ) -> tuple[list[Aggregate], int]:
        counted = Counted(model)
        aggregate = test.collect(mechanism, counted)
        calls = counted.calls if mechanism.needs else len(test.jobs)
        self.asked += calls
        return aggregate, calls

    def _references(self, test: HeldOut, prepared: Prepared) -> _References:
        if not prepared.mechanism.needs:
            return _References(None, None, 0, OWN)
        found = [
            self._reference(test, mechanism, prepared) for mechanism in (ZeroShot(), FewShot())
        ]
        (floor, less, why), (ceiling, more, reason) = found
        return _References(floor, ceiling, less + more, " ".join(filter(None, (why, reason))))

    def _reference(
        self, test: HeldOut, mechanism: Any, prepared: Prepared
    ) -> tuple[float | None, int, str]:
        """Its utility, its calls, and why there is none where the model cannot take these prompts."""
        try:
            require(prepared.model, mechanism.needs, mechanism.name)
            test.check(mechanism, prepared.model)
        except LeakboundError as error:
            return None, 0, f"{mechanism.name}: {error}"
        aggregate, calls = self._collect(test, mechanism, prepared.model)
        return _value(test, mechanism, aggregate, prepared), calls, ""


def _value(
    test: HeldOut, mechanism: Mechanism, aggregate: list[Aggregate], prepared: Prepared
) -> float:
    return test.value(
        mechanism, aggregate, prepared.model, generator(prepared.spec.design.seed, "utility", 1)
    )
