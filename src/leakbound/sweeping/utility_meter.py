"""Utility in a sweep: collected once, released for every setting that changes noise alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import JsonValue

from leakbound.auditing.design.pairs import generator
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.spec.audit_spec import collection_settings
from leakbound.auditing.store.folder import run_id
from leakbound.errors import LeakboundError
from leakbound.mechanisms import FewShot, ZeroShot
from leakbound.models import Counted, Model, require
from leakbound.sweeping.record import SweepUtility
from leakbound.tasks import Aggregate, Mechanism
from leakbound.utility import HeldOut, draw_held_out, rouge

COLLECTION_KEYS = frozenset({"mechanism", "epsilon", "delta", "shots", "seed", "task", "address"})
REFERENCE_KEYS = frozenset({"shots", "seed", "task"})
SOURCES = ("system", "data", "model", "version")
OWN_MODEL = "an application asks its own model, so there are no references."


def check_utility(prepared: Prepared, queries: int) -> None:
    """Refuse, before any model call, what cannot be measured."""
    if not queries:
        return
    test = _test_queries(prepared, queries)
    if test.kind == "rougeL":
        rouge("installed", "installed")
    test.check(prepared.mechanism, prepared.model)


def collection_id(prepared: Prepared, queries: int) -> str:
    if not queries:
        return ""
    query = _test_queries(prepared, queries).jobs[0].query
    settings = _only(prepared, COLLECTION_KEYS)
    collected = collection_settings(settings, prepared.mechanism, prepared.task, query)
    return _name_of("utility", prepared, collected, queries)


def _only(prepared: Prepared, keys: frozenset[str]) -> dict[str, JsonValue]:
    return {key: value for key, value in prepared.spec.flat().items() if key in keys}


def _test_queries(prepared: Prepared, queries: int) -> HeldOut:
    design = prepared.spec.design
    rng = generator(design.seed, "utility")
    return draw_held_out(prepared.pairs.rows, prepared.task, design.shots, queries, rng)


def _name_of(what: str, prepared: Prepared, settings: dict[str, JsonValue], queries: int) -> str:
    sources = {name: prepared.identity[name] for name in SOURCES}
    return run_id(what, {"spec": settings, **sources, "queries": queries})


@dataclass(frozen=True, slots=True)
class _Reference:
    """One reference: its value, its calls, and why there is none."""

    value: float | None
    model_calls: int
    note: str = ""


@dataclass
class UtilityMeter:
    """Measures points one after the other."""

    queries: int
    model_calls: int = 0
    _last: tuple[str, list[Aggregate], int] = ("", [], 0)
    _references: dict[str, tuple[_Reference, _Reference]] = field(default_factory=dict)

    def measure(self, prepared: Prepared) -> SweepUtility:
        """The utility of a point's mechanism, beside the references on the same queries."""
        test, name = _test_queries(prepared, self.queries), collection_id(prepared, self.queries)
        if self._last[0] != name:
            self._last = (name, *self._collect(test, prepared.mechanism, prepared.model))
        _, aggregates, calls = self._last
        references = _name_of("references", prepared, _only(prepared, REFERENCE_KEYS), self.queries)
        if references not in self._references:
            # zero-shot baseline and non-private upper bound
            lower, upper = (
                self._reference(test, mechanism, prepared) for mechanism in (ZeroShot(), FewShot())
            )
            self._references[references] = lower, upper
        zero_shot, non_private = self._references[references]
        return SweepUtility(
            kind=test.kind, queries=self.queries,
            value=_value(test, prepared.mechanism, aggregates, prepared),
            zero_shot=zero_shot.value, non_private=non_private.value, collection=name,
            model_calls=calls, references=references,
            reference_model_calls=zero_shot.model_calls + non_private.model_calls,
            note=" ".join(filter(None, dict.fromkeys((zero_shot.note, non_private.note)))),
        )  # fmt: skip

    def _collect(
        self, test: HeldOut, mechanism: Mechanism, model: Model
    ) -> tuple[list[Aggregate], int]:
        counted = Counted(model)
        aggregates = test.collect(mechanism, counted)
        calls = counted.calls if mechanism.needs else len(test.jobs)
        self.model_calls += calls
        return aggregates, calls

    def _reference(self, test: HeldOut, mechanism: Mechanism, prepared: Prepared) -> _Reference:
        """None where an application asks its own model, or the model cannot take these prompts."""
        if not prepared.mechanism.needs:
            return _Reference(None, 0, OWN_MODEL)
        try:
            require(prepared.model, mechanism.needs, mechanism.name)
            test.check(mechanism, prepared.model)
        except LeakboundError as error:
            return _Reference(None, 0, f"{mechanism.name}: {error}")
        aggregates, calls = self._collect(test, mechanism, prepared.model)
        return _Reference(_value(test, mechanism, aggregates, prepared), calls)


def _value(
    test: HeldOut, mechanism: Mechanism, aggregates: list[Aggregate], prepared: Prepared
) -> float:
    rng = generator(prepared.spec.design.seed, "utility", 1)
    return test.value(mechanism, aggregates, prepared.model, rng)
