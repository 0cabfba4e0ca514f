"""Audits of deletions: a record is planted, used and deleted, and then asked about."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deletions import DEFECTS, Archive, Numbered, Table, Vectors
from stores import DISPOSABLE, NearestStore, documents
from tenants import NOTHING, Desk, nearest

import leakbound
from leakbound.errors import TargetError, UsageError
from leakbound.report import summary
from leakbound.tasks import Context, Example


def run(system: object, out: Path, **parameters: Any) -> leakbound.AuditResult:
    given = {"pairs": 40, "simulations": 100, "calls": DISPOSABLE, **parameters}
    return leakbound.audit(system=system, design="deletion", out=out, **given)


def rejected_at(result: leakbound.AuditResult) -> int:
    found = result.e_values.rejected_at if result.e_values and result.verdict == "violation" else 0
    return found or 10_000


def archive(defect: str) -> Callable[[bool], Archive]:
    return lambda sound: Archive(defect, sound)


REAL = {"full_text": Table, "autoincrement": Numbered, "tf_idf": Vectors}
ALL: dict[str, Callable[[bool], Any]] = {**{one: archive(one) for one in DEFECTS}, **REAL}


@pytest.mark.parametrize("defect", ALL)
def test_each_defect_is_found_and_its_sound_twin_passes(defect: str, tmp_path: Path) -> None:
    result = run(ALL[defect](False), tmp_path / "leaky")
    assert (result.verdict, result.claim.epsilon, result.claim.delta) == ("violation", 0, 0)
    assert rejected_at(result) <= 40
    passed = run(ALL[defect](True), tmp_path / "sound")
    assert (passed.verdict, passed.reason) == ("no_violation", None)
    assert passed.use is not None
    assert passed.use.change < 0.7
    assert passed.use.share < 0.5
    assert passed.sentences[0].startswith("A record is seen before it is deleted; afterwards, no")


@pytest.mark.slow
@pytest.mark.parametrize("defect", ["cache", "embedding"])
@pytest.mark.parametrize(("rate", "pairs"), [(1.0, 40), (0.5, 60), (0.2, 150)])
def test_a_defect_that_shows_seldom_is_found(
    defect: str, rate: float, pairs: int, tmp_path: Path
) -> None:
    found = [
        rejected_at(run(Archive(defect, rate=rate, seed=seed), tmp_path / str(seed), pairs=pairs,
                        seed=seed))
        for seed in range(5)
    ]  # fmt: skip
    assert statistics.median(found) <= pairs


@pytest.mark.slow
def test_sound_twins_are_seldom_accused(tmp_path: Path) -> None:
    """At most 5 of 40: at 5 %, more have probability 0.014."""
    found = Counter[str]()
    for seed in range(40):
        twin = Archive(DEFECTS[seed % len(DEFECTS)], sound=True, seed=seed)
        found[run(twin, tmp_path / str(seed), seed=seed).verdict] += 1
    assert found["violation"] <= 5
    assert found["no_violation"] >= 32


def test_the_verdict_says_what_was_shown_and_what_the_law_asks(tmp_path: Path) -> None:
    result = run(Archive(sound=True), tmp_path / "sound")
    assert result.use is not None
    told = summary(result, verbose=True)
    assert "where a record had been deleted. The test (40 pairs) would have shown" in told
    assert "claim: ε = 0 at δ = 0 (as if never stored;" in told
    assert "Controls (8 of each): records are seen before they are deleted (p = " in told
    assert "GDPR Article 17 asks for erasure without undue delay" in told
    short = " ".join(summary(result).split())
    assert "records are seen until deleted" in short
    assert "no disks, backups, or logs that no answer shows" in told
    item = next(one for one in result.references if one.item == "Article 17")
    assert item.status == "tried"
    assert "only what the answers asked reveal" in item.answer
    leaky = run(Archive(), tmp_path / "leaky")
    assert "delete what was made of it too" in " ".join(summary(leaky).split())
    again = leakbound.AuditResult.model_validate_json(result.to_json())
    assert again.use == result.use
    tenants = leakbound.audit(
        system=Desk(isolated=True), design="tenants", pairs=8, out=tmp_path, calls=DISPOSABLE
    )
    assert "Article 17" not in summary(tenants, verbose=True)


@dataclass
class Watched(Archive):
    """Writes down what is done, and in which session a question is asked."""

    sound: bool = True
    done: list[tuple[str, str]] = field(default_factory=list)
    closed: int = 0
    opened: int = 0

    def plant(self, record: Example) -> str:
        self.done.append(("plant", str(record.input)))
        return super().plant(record)

    def remove(self, record_id: str) -> None:
        self.done.append(("remove", self.rows[record_id]))
        super().remove(record_id)

    def open(self, context: Context) -> WatchedSession:
        assert not context
        self.opened += 1
        return WatchedSession(self, self.opened)


@dataclass
class WatchedSession:
    store: Watched
    number: int

    def ask(self, query: str) -> Any:
        self.store.done.append((f"ask {self.number}", query))
        return self.store.ask(query)

    def close(self) -> None:
        self.store.closed += 1


def test_a_record_is_planted_used_and_deleted_and_then_asked_about(tmp_path: Path) -> None:
    store = Watched()
    result = leakbound.audit(
        documents(200), system=store, design="deletion", pairs=20, out=tmp_path, calls=DISPOSABLE
    )
    steps, done = Counter[str](), store.done
    for at in (at for at, (what, _) in enumerate(done) if what == "plant"):
        (_, text), (first, asked), (what, gone), *later = done[at : at + 4]
        assert (what, gone) == ("remove", text)
        assert first.startswith("ask")
        deleted = any(query == asked for _, query in later)
        assert not deleted or later[0][0] not in (first, "plant")  # asked again, in a new session
        steps["deleted" if deleted else "control"] += 1  # which is asked before the deletion alone
    assert steps == {"deleted": 20, "control": 16}
    questions = Counter(query for what, query in done if what.startswith("ask"))
    assert sorted(questions.values()) == [1] * 32 + [2] * 40  # no context shares one with another
    assert store.opened == store.closed == 2 * (2 * 20 + 2 * 16)
    assert not store.rows
    assert result.counts["model_calls"] == sum(questions.values())
    plan = leakbound.plan(documents(200), system=Watched(), design="deletion", pairs=20)
    assert plan.model_calls == sum(questions.values())


def test_the_order_of_the_contexts_is_drawn(tmp_path: Path) -> None:
    store = Watched()
    leakbound.audit(
        documents(200), system=store, design="deletion", pairs=60, controls=0, out=tmp_path,
        calls=DISPOSABLE,
    )  # fmt: skip
    planted = {text.partition(" Reference")[0] for what, text in store.done if what == "plant"}
    asked = [text.partition(" Reference")[0] for what, text in store.done if what[:3] == "ask"]
    there = [text in planted for text in asked[::2]]  # each is asked twice
    assert len(there) == 120
    assert all(one != other for one, other in zip(there[::2], there[1::2], strict=True))
    assert 15 <= sum(there[::2]) <= 45


def test_a_conversation_that_only_its_own_session_remembers_is_no_leak(tmp_path: Path) -> None:
    class Chat(Watched):
        def open(self, context: Context) -> Any:
            said: list[str] = []

            def ask(query: str) -> str:
                said.append(self.own(query))
                return " ".join(said)

            return ask

    assert run(Chat(), tmp_path).verdict == "no_violation"


def test_records_that_are_not_seen_before_show_nothing_afterwards(tmp_path: Path) -> None:
    class Blind(Archive):
        def ask(self, query: str) -> str:
            return NOTHING

    result = run(Blind(), tmp_path)
    assert (result.verdict, result.reason) == ("inconclusive", "attack_blind")
    assert (
        "records are not seen before they are deleted (p = 1), so seeing nothing"
        in (result.sentences[0])
    )
    assert "records are not seen, deleted or not" in " ".join(summary(result).split())


@dataclass
class FlushedCache(Archive):
    """Empties its cache whenever a record comes or goes, and says whether it was asked before."""

    sound: bool = True
    asked: set[str] = field(default_factory=set)

    def plant(self, record: Example) -> str:
        self.asked.clear()
        return super().plant(record)

    def remove(self, record_id: str) -> None:
        self.asked.clear()
        super().remove(record_id)

    def ask(self, query: str) -> Any:
        hit = query in self.asked
        self.asked.add(query)
        return {"answer": self.own(query), "cache": "hit" if hit else "miss"}


def test_what_any_deletion_changes_is_the_same_where_another_record_is_deleted(
    tmp_path: Path,
) -> None:
    assert run(FlushedCache(), tmp_path / "add").verdict == "violation"
    kept = run(FlushedCache(), tmp_path / "replace", insertion="replace")
    assert kept.verdict == "no_violation"
    assert run(Archive(), tmp_path / "leaky", insertion="replace").verdict == "violation"


class Failing(Archive):
    """Raises an error at a removal or a question, once."""

    def __init__(self, error: BaseException, at: int, place: str) -> None:
        super().__init__(sound=True)
        self.error, self.left, self.place = error, at, place

    def _count(self, place: str) -> None:
        self.left -= place == self.place
        if not self.left and place == self.place:
            raise self.error

    def ask(self, query: str) -> Any:
        self._count("ask")
        return super().ask(query)

    def remove(self, record_id: str) -> None:
        self._count("remove")
        super().remove(record_id)


@pytest.mark.parametrize(("place", "at"), [("ask", 50), ("ask", 51), ("ask", 5), ("remove", 20)])
def test_planted_records_are_removed_after_an_interrupt(
    place: str, at: int, tmp_path: Path
) -> None:
    store = Failing(KeyboardInterrupt(), at, place)
    with pytest.raises(KeyboardInterrupt):
        run(store, tmp_path)
    assert not store.rows
    assert store.left <= 0


def test_a_removal_that_fails_ends_the_audit_with_the_ids_that_stay(tmp_path: Path) -> None:
    class Keeps(Archive):
        def remove(self, record_id: str) -> Any:
            return False

    with pytest.raises(
        TargetError,
        match="1 of 1 records that were planted in the store could not "
        r"be removed.*asked to delete records and returned False.*by hand: 1\.",
    ):
        run(Keeps(), tmp_path)
    store = Failing(RuntimeError("private"), 20, "remove")
    with pytest.raises(TargetError, match="could not be removed") as caught:
        run(store, tmp_path)
    assert len(store.rows) == 1
    assert str(caught.value).count("could not be removed") == 1


def test_what_cannot_be_audited_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="has no plant, so no canary can be planted"):
        run(lambda context, query: NOTHING, tmp_path)
    with pytest.raises(UsageError, match="adds records to the store"):
        run(Archive(), tmp_path, calls=None)
    with pytest.raises(UsageError, match="insertion is append, and in a deletion design whole"):
        run(Archive(), tmp_path, insertion="append")
    with pytest.raises(UsageError, match=r"state_check is 1\.0, and in a deletion design what"):
        run(Archive(), tmp_path, state_check=1.0)
    with pytest.raises(UsageError, match='put in place; add design="deletion"'):
        leakbound.audit(system=Archive(), out=tmp_path)


def test_tenants_and_stores_are_audited_too(tmp_path: Path) -> None:
    assert run(Desk(isolated=True), tmp_path / "desk").verdict == "no_violation"
    assert run(Desk("semantic_cache"), tmp_path / "cached").verdict == "violation"

    class Store(NearestStore):
        def said(self, rows: Any, query: str) -> str:
            return nearest([str(row.input) for row in rows], query) or NOTHING

    assert run(Store(), tmp_path / "store").verdict == "no_violation"
