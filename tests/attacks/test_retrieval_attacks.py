"""Attacks about a document: each finds a store that leaks in its way, and is silent on others."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stores import DISPOSABLE, NearestStore

import leakbound
from leakbound.attacks import QUERIES, DocumentAttack
from leakbound.attacks.retrieval import DocumentQuery
from leakbound.attacks.words import words_of
from leakbound.auditing.collect.collect import hidden
from leakbound.errors import UsageError
from leakbound.models import Scripted
from leakbound.stats import one_run
from leakbound.stats.counts.one_run import Ranked
from leakbound.systems import AsyncSystem, Reply, SystemMechanism
from leakbound.tasks import Example, GeneratedText, Job, Query, Task, reply_of

NAMES = sorted(name for name, kind in QUERIES.items() if issubclass(kind, DocumentAttack))
CALLS = {"differential": 2, "extraction": 3, "interrogation": 6, "mba": 1, "prefix": 4, "s2": 1}
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in ("an", "el", "ir", "os", "ud")]


def documents(number: int, seed: int = 0) -> list[tuple[str, str]]:
    """Forty words of two or three syllables each."""
    rng = random.Random(seed)
    words = ["".join(rng.choices(SYLLABLES, k=rng.choice((2, 3)))) for _ in range(3000)]
    return [(" ".join(rng.choices(words, k=40)), "") for _ in range(number)]


ROWS = documents(80)


def nearest(rows: list[str], query: str) -> str:
    known = set(words_of(query))
    return max(rows, key=lambda row: len(known & set(words_of(row))))


class Store(NearestStore):
    """Tells of the nearest document what `tell` lets it, if it shares a third of the words of the
    question.
    """

    def said(self, rows: Any, query: str) -> str:
        asked = re.split(r" \.\.\. | Do your| Is this| Fill in", query)[0]
        best = nearest([str(row.input) for row in rows], asked)
        shared = len(set(words_of(asked)) & set(words_of(best)))
        return self.tell(best, asked, query) if 3 * shared >= len(asked.split()) else "Unknown."

    def tell(self, document: str, asked: str, query: str) -> str:
        raise NotImplementedError


class Fills(Store):
    """Fills in gaps, and does nothing else."""

    def tell(self, document: str, asked: str, query: str) -> str:
        known = words_of(asked)
        found = [word for word in words_of(document) if word not in known]
        return " ".join(found) if "[1]" in asked else "I cannot tell."


class Affirms(Store):
    """Says whether a passage is in its documents; it quotes nothing."""

    def tell(self, document: str, asked: str, query: str) -> str:
        return "Yes." if asked in document else "No."


class Quotes(Store):
    """Goes on where a quotation ends, for 20 words."""

    def tell(self, document: str, asked: str, query: str) -> str:
        return " ".join(document.partition(asked)[2].split()[:20]) if asked in document else "?"


class Codes(Store):
    """Tells the last word of a document, and no other."""

    def tell(self, document: str, asked: str, query: str) -> str:
        return f"It is {document.split()[-1]}."


class Deaf(NearestStore):
    """Repeats the question: no document shows."""

    def said(self, rows: Any, query: str) -> str:
        return query


class Willing(NearestStore):
    """Says yes to anything."""

    def said(self, rows: Any, query: str) -> str:
        return "Yes."


LEAKS = {
    "mba": Fills, "interrogation": Affirms, "s2": Quotes, "differential": Affirms,
    "prefix": Quotes, "extraction": Codes,
}  # fmt: skip


def run(store: object, query: str, out: Path, **given: Any) -> leakbound.AuditResult:
    settings = {"claim_for": "run", **given.pop("settings", {})}
    values = {"canaries": 30, "controls": 6, "epsilon": 1.0, **given}
    return leakbound.audit(ROWS, system=store, design="one_run", query=query, out=out,
                           calls=DISPOSABLE, settings=settings, **values)  # fmt: skip


def test_every_attack_has_a_store_and_a_number_of_calls() -> None:
    assert NAMES == sorted(LEAKS) == sorted(CALLS)


@pytest.mark.parametrize("query", NAMES)
def test_an_attack_finds_the_store_that_leaks_in_its_way(query: str, tmp_path: Path) -> None:
    """The first release has none of them: it knows no store, and asks each record one question."""
    store = LEAKS[query]()
    result = run(store, query, tmp_path)
    assert result.verdict == "violation"
    assert result.bound.epsilon > 1.5
    assert store.asked == result.counts["model_calls"] == 42 * CALLS[query]
    assert result.counts["answers"] == store.asked  # what a claim for an answer is composed over
    assert not store.records


SILENT = [*((query, Deaf) for query in NAMES), ("interrogation", Willing),
          ("differential", Willing)]  # fmt: skip


@pytest.mark.parametrize(("query", "store"), SILENT)
def test_an_attack_is_silent_on_a_store_that_tells_nothing(
    query: str, store: type[NearestStore], tmp_path: Path
) -> None:
    """Guesses are coins: a bound above 0 has a chance below 0.05. The seed is fixed."""
    result = run(store(), query, tmp_path, canaries=20)
    assert result.bound.epsilon == 0
    assert result.reason == "attack_blind"


def test_a_threshold_is_fixed_on_other_documents(tmp_path: Path) -> None:
    """What the tested documents answer does not move it."""

    class ControlsOnly(Fills):
        def said(self, rows: Any, query: str) -> str:
            return super().said(rows, query) if self.asked <= 6 else "I cannot tell."

    one, other = (run(store(), "mba", tmp_path / store.__name__) for store in (Fills, ControlsOnly))
    assert one.bound.threshold == other.bound.threshold
    assert "fixed on the control canaries" in str(one.bound.threshold)
    assert one.bound.epsilon > 2 > 0.1 > other.bound.epsilon


def test_a_claim_for_an_answer_is_composed_over_all_questions(tmp_path: Path) -> None:
    result = run(Affirms(), "interrogation", tmp_path, settings={"claim_for": "answer"})
    assert result.claim.epsilon == 42 * 6
    assert (result.verdict, result.reason) == ("inconclusive", "too_few_trials")


@pytest.mark.parametrize("design", ["session", "paired"])
def test_paired_trials_compose_over_the_questions_of_a_pair(design: Any, tmp_path: Path) -> None:
    store = Affirms()
    result = leakbound.audit(
        ROWS, system=store, design=design, query="interrogation", pairs=24, epsilon=0.1,
        out=tmp_path, shots=6, task="generation", controls=4, state_check=0, calls=DISPOSABLE,
    )  # fmt: skip
    assert result.verdict == "violation"
    assert result.claim.epsilon == pytest.approx(6 * 0.1)
    assert result.attack["canary"] == "natural"
    assert store.asked == result.counts["model_calls"]
    assert store.asked >= 28 * 2 * 6


def test_ranks_need_no_threshold(tmp_path: Path) -> None:
    result = run(Fills(), "mba", tmp_path, threshold="rank:0.5")
    assert result.estimates[0].counts == {"canaries": 30, "guesses": 14, "correct": 14}
    assert result.bound.threshold == "none: the 7 highest and the 7 lowest of 30 scores are guessed"
    assert result.verdict == "violation"
    for text in ("rank:2", "rank:many"):
        with pytest.raises(UsageError):
            run(Fills(), "mba", tmp_path, threshold=text)
    with pytest.raises(UsageError, match="must be a number"):
        leakbound.audit(ROWS, system=Fills(), design="session", threshold="rank", calls=DISPOSABLE)


def test_ranked_guesses_keep_the_confidence() -> None:
    """Of 200 runs without a leak, 40 bounds above 0 at 95 % have a chance below 1e-6."""
    rng, above = np.random.default_rng(0), 0
    for _ in range(200):
        coins = np.where(rng.integers(2, size=60), 1, -1)
        made = Ranked(0.5).guesses(rng.normal(size=60))
        right = int((made == coins).sum())
        above += bool(one_run(60, int(np.abs(made).sum()), right).epsilon)
    assert above < 40


@pytest.mark.parametrize("query", NAMES)
@pytest.mark.parametrize("store", [Fills, Affirms, Quotes, Codes, Deaf])
def test_what_is_kept_of_replies_has_the_same_score(query: str, store: type[NearestStore]) -> None:
    document = "The Grey Owl's keeper, (born 1931) wrote: 'no letters'. " + ROWS[0][0]
    asked = QUERIES[query]().render(Example(document, ""), Task("notes"), "", "")
    assert isinstance(asked, DocumentQuery)
    rows = [Example(text, "") for text in (document, "a secret Mallory " + ROWS[1][0])]
    texts = [str(asked.query.text), *asked.query.further]
    replies = [store().said(rows, text) + " Mallory, 7." for text in texts]
    whole = asked.query.joined(replies)
    kept = hidden(GeneratedText(whole), asked, ())
    assert isinstance(kept, GeneratedText)
    assert asked.evaluate(kept.text) == asked.evaluate(whole)
    assert "Mallory" not in kept.text


def test_questions_depend_on_the_document_alone() -> None:
    for query in NAMES:
        one, again, other = (
            QUERIES[query]().render(Example(text, ""), Task("notes"), "", "").query
            for text in (ROWS[0][0], ROWS[0][0], ROWS[1][0])
        )
        assert one == again != other
        assert one.calls == other.calls == CALLS[query]


def test_a_short_document_and_a_mechanism_are_refused(tmp_path: Path) -> None:
    for query in NAMES:
        with pytest.raises(UsageError, match=r"needs \d+ words"):
            QUERIES[query]().render(Example("one", ""), Task("notes"), "", "")
    rows = [(text, "a") for text, _ in ROWS]
    with pytest.raises(UsageError, match="6 questions"):
        leakbound.audit(
            rows,
            model=Scripted(complete=str),
            query="interrogation",
            task="generation",
            out=tmp_path,
        )


def test_questions_of_one_query_share_an_asynchronous_session() -> None:
    opened: list[list[str]] = []

    class Waiting:
        def __init__(self) -> None:
            opened.append([])

        async def ask(self, query: str) -> Reply:
            opened[-1].append(query)
            return Reply(f"to {query}", seconds=0.5, tokens=2)

        async def close(self) -> None:
            pass

    class Several(AsyncSystem):
        concurrency = 2

        async def open_async(self, context: Any) -> Waiting:
            return Waiting()

    query = Query("one", free=True, further=("two", "three"))
    jobs = [Job((), query)] * 2
    mechanism = SystemMechanism(Several())
    found = mechanism.collect(Task("notes"), jobs, [0, 1], Scripted())
    assert [query.replies(one.text) for one in found] == [("to one", "to two", "to three")] * 2  # type: ignore[union-attr]
    assert opened == [["one", "two", "three"]] * 2
    assert reply_of(found[0]).tokens == 6  # type: ignore[union-attr]


class Chatters(NearestStore):
    """Says yes, no, or words of the question, by chance alone."""

    chance = random.Random(7)

    def said(self, rows: Any, query: str) -> str:
        return self.chance.choice(["yes", "no", " ".join(self.chance.sample(query.split(), 5))])


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [None, "rank"])
def test_bounds_keep_their_confidence_whatever_the_attack(
    threshold: str | None, tmp_path: Path
) -> None:
    """Of 90 runs without a leak, 19 bounds above 0 at 95 % have a chance below 1e-6."""
    above = 0
    for query in NAMES:
        for seed in range(15):
            given = {"canaries": 24, "controls": 4, "seed": seed, "threshold": threshold}
            result = run(Chatters(), query, tmp_path / str(seed), **given)
            above += bool(result.bound.epsilon)
    assert above < 19
