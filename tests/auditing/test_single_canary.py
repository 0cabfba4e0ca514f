"""Does the attack see one canary, as it stands in a pair, or only contexts that are full of it?"""

from __future__ import annotations

import csv
import hashlib
import inspect
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import cli
from stores import DISPOSABLE, NearestStore, documents

import leakbound
from leakbound.attacks import Attack
from leakbound.auditing import AuditResult, load_result, make_spec, prepare
from leakbound.auditing.decide.obstacles import (
    Obstacle,
    Reason,
    above_zero,
    blindness,
    conclude,
    controls_lost,
    obstacles,
)
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.one_pass import Tally
from leakbound.auditing.one_run import prepare_one_run
from leakbound.auditing.one_run.run import conclude_one_run
from leakbound.auditing.plan import plan
from leakbound.auditing.prepare.build import Handed
from leakbound.estimators import Bounds, Claim, EProcess, TrialDesign
from leakbound.estimators.score_bounds import DecidingName, ScoreDesign, ScoredTrials, score_bounds
from leakbound.gating.score_files import conclude_guessing, conclude_scores, sees_leak
from leakbound.models import Scripted
from leakbound.stats import Estimate, Fixed
from leakbound.systems import SystemMechanism
from leakbound.tasks import Context, Example, as_context
from leakbound.tasks.synthetic import help_desk

pytestmark = pytest.mark.process

TOPICS = [
    "refund",
    "invoice",
    "delivery",
    "password",
    "warranty",
    "exchange",
    "account",
    "parcel",
    "voucher",
    "battery",
]
TOWNS = ["Leeds", "Turin", "Lyon", "Graz"]
CASES = tuple(
    Example(
        f"Case {i}: {TOPICS[i % 10]} of a customer from {TOWNS[i % 4]} about "
        f"{TOPICS[(7 * i + 3) % 10]}, agreed on day {i}",
        ("open", "closed")[i % 2],
    )
    for i in range(120)
)
Answer = Callable[[Context, str], str]


def audited(system: Answer, out: Path, **values: Any) -> AuditResult:
    given: dict[str, Any] = {"pairs": 60, "shots": 6, "epsilon": 1.0, "simulations": 0, **values}
    return leakbound.audit(CASES, system=system, out=out, state_check=0.0, **given)


def words(text: str) -> Counter[str]:
    return Counter(word.strip(".,:;?!\"'").casefold() for word in text.split())


def top_two(context: Context, query: str) -> list[str]:
    """The two documents that are nearest by TF-IDF, whatever their similarity is."""
    texts = [str(row.input) for row in context]
    held = Counter(word for text in texts for word in words(text))
    idf = {word: 1 + math.log((1 + len(texts)) / (1 + many)) for word, many in held.items()}
    asked = words(query)

    def similarity(text: str) -> float:
        of = {word: many * idf[word] for word, many in words(text).items()}
        size = math.sqrt(sum(weight**2 for weight in of.values()))
        return sum(weight * asked[word] * idf[word] for word, weight in of.items()) / size

    return sorted(texts, key=similarity)[:-3:-1]


def quoting(context: Context, query: str) -> str:
    return "\n".join(top_two(context, query))


def counting(context: Context, query: str) -> str:
    return f"Found {len(top_two(context, query))} documents; please ask the desk."


OLD = {"query": "repeat", "canary": "hex", "shots": 20}
FITTING = {"query": "recall", "canary": "coded", "shots": 20}


@pytest.mark.slow
def test_a_retriever_that_quotes_documents_is_not_clean_by_a_query_that_finds_none(
    tmp_path: Path,
) -> None:
    """`no_violation` and a passed gate: a control that is full of canaries cannot fail there."""
    missed = audited(quoting, tmp_path, **OLD)
    assert (missed.verdict, missed.reason) == ("inconclusive", "too_few_trials")
    assert missed.controls is not None
    assert (missed.controls.seen, missed.controls.seen_once) == (True, False)
    assert "--query recall --canary coded" in missed.sentences[0]
    assert load_result(tmp_path / missed.name) == missed
    assert audited(quoting, tmp_path, **FITTING).verdict == "violation"


RAG = """
import math
from collections import Counter

{}

def answer(context, query):
    return "\\n".join(top_two(context, query))
"""


@pytest.mark.slow
def test_the_command_line_says_so_and_its_gate_does_not_pass(tmp_path: Path) -> None:
    """The ordinary command of a first audit, over private rows in a CSV file."""
    code = "\n\n".join(inspect.getsource(one) for one in (words, top_two))
    (tmp_path / "rag.py").write_text("from __future__ import annotations\n" + RAG.format(code))
    with (tmp_path / "mine.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((c.input, c.label) for c in CASES)])
    command = ("audit", "mine.csv", "rag.py:answer", "--task", "generation", "--pairs", "60")
    bulk = cli(*command, "--query", "repeat", "--canary", "hex", "--out", "bulk", cwd=tmp_path)
    fits = "… --query recall --canary coded" in " ".join(bulk.stdout.split())
    assert (bulk.returncode, fits) == (3, True), bulk
    gate = cli("gate", "bulk", "--max-epsilon", "1", cwd=tmp_path)
    assert (gate.returncode, "1 inconclusive" in gate.stdout) == (3, True), gate
    found = cli(*command, "--query", "recall", "--canary", "coded", "--out", "one", cwd=tmp_path)
    assert (found.returncode, "VIOLATION" in found.stdout) == (1, True), found


@pytest.mark.slow
@pytest.mark.parametrize("attack", [OLD, FITTING])
def test_a_retriever_that_quotes_nothing_is_accused_by_neither_query(
    tmp_path: Path, attack: dict[str, Any]
) -> None:
    found = audited(counting, tmp_path, **attack)
    assert (found.verdict, found.reason) == ("no_violation", "context_unused")


def test_controls_with_one_canary_are_planned_counted_and_laid_out_as_pairs(tmp_path: Path) -> None:
    handed = Handed(mechanism=SystemMechanism(quoting))
    settings = {"pairs": 8, "shots": 6, "controls": 5}
    spec = make_spec({**settings, "state_check": 0.0})
    prepared = prepare(spec, rows=CASES, handed=handed)
    copies = [sum(row == pair.canary for row in pair.member.context) for pair in prepared.controls]
    assert copies == [1] * 5 + [6] * 5
    assert len({pair.position for pair in prepared.controls[:5]}) > 1
    result = audited(quoting, tmp_path, **settings)
    assert plan(prepared).model_calls == result.counts["model_calls"] == 2 * (2 * 5 + 8 + 5)


def silent(context: Context, query: str) -> str:
    """Finds the document, works on it for a while, and refuses."""
    for row in context:
        if str(row.input)[:9] in query:
            hashlib.pbkdf2_hmac("sha256", str(row.input).encode(), b"", 2000)
    return "I cannot help with that."


@pytest.mark.slow
def test_functions_that_say_nothing_are_not_accused_by_the_clock(tmp_path: Path) -> None:
    """Ten of ten were. Their replies are equal, so no e-value can move."""
    for seed in range(2):
        result = audited(
            silent, tmp_path, pairs=40, epsilon=0.25, seed=seed, query="recall", canary="coded"
        )
        assert result.verdict != "violation"
        assert result.bound.epsilon == 0


class Weak:
    """Notices a canary in 6 of 16 contexts, as a small instruct model, however often it stands
    there; says so of 2 of 16 without one."""

    stateful = True

    def __init__(self) -> None:
        self._left: dict[bool, list[str]] = {True: [], False: []}
        self._rng = random.Random(0)

    def __call__(self, context: Context, query: str) -> str:
        there = any(str(row.input) in query for row in context)
        if not self._left[there]:
            yes = 6 if there else 2
            self._left[there] = ["yes"] * yes + ["no"] * (16 - yes)
            self._rng.shuffle(self._left[there])
        return self._left[there].pop()


@pytest.mark.slow
def test_an_attack_with_a_bound_above_0_is_not_called_blind(tmp_path: Path) -> None:
    """It was `attack_blind`, "nothing shows that this attack sees the canary", beside a bound."""
    result = audited(Weak(), tmp_path, pairs=160)
    assert result.controls is not None
    assert not result.controls.seen
    assert result.bound.epsilon is not None
    assert result.bound.epsilon > 0
    assert (result.verdict, result.reason) == ("no_violation", None)
    assert "nothing shows" not in " ".join(result.sentences)


BLIND = (
    ControlCheck(0, None),
    ControlCheck(8, 1.0),
    ControlCheck(8, 0.5, witness=0.5),
    ControlCheck(8, 0.001, late=0.9),
    ControlCheck(8, 0.001, late=0.9, changed=0.01, single=0.001),
)


@pytest.mark.parametrize("gaps", [(0.0,) * 8, (0.0,) * 7 + (1.0,)])
def test_it_is_said_where_examples_change_no_score(gaps: tuple[float, ...]) -> None:
    attack = prepare(make_spec({"mechanism": "few_shot"}), Scripted(lambda prompt: "no")).attack
    ((code, why),) = blindness(attack, ControlCheck(8, 1.0, gaps=gaps), None)
    assert code == "attack_blind"
    assert ("No score changed at all" in why) == (not any(gaps))


SURE = Estimate("e_process", "lower_bound", 0.2, 1e-5, 0.95, {"pairs": 100}, ())
SURE_MU = replace(SURE, epsilon=None, mu=0.2)
NOTHING = replace(SURE, epsilon=0.0, mu=0.0)


@pytest.mark.parametrize("controls", BLIND)
@pytest.mark.parametrize("code", ["attack_blind", "too_few_trials"])
def test_no_audit_is_blind_beside_a_bound(controls: ControlCheck, code: Reason) -> None:
    design = TrialDesign(Claim(1.0, 1e-5), pairs=100)
    for bounds in ([SURE], [NOTHING, SURE], [NOTHING, SURE_MU]):
        for largest in Bounds(3.0, 3.0), Bounds(0.5, 0.5):
            above = above_zero(bounds)
            against = (*blind_or_lost(controls, above), (code, "other"))
            said = conclude(design, EProcess(), bounds, None, 100, largest, against)
            reason = "stateful_system" if controls.shows_change else "too_few_trials"
            assert (said.verdict, said.reason) == ("inconclusive", reason)
    said = conclude(
        design, EProcess(), [NOTHING], None, 100, Bounds(3.0, 3.0), blind_or_lost(controls)
    )
    assert said.reason == ("stateful_system" if controls.shows_change else "attack_blind")


def test_answers_that_nobody_reads_beside_a_bound_do_not_hide_a_leak() -> None:
    """Whole replies had a bound of 0.74, and "this attack could not see a leak" stood beside it."""
    attack, tally = prepare_attack(), Tally()
    tally.answers = tally.unreadable = [20, 20]
    for bound, hidden in ((SURE, False), (None, True)):
        (code, why), *_ = obstacles(attack, tally, ControlCheck(8, 0.001), None, bound)
        assert code == "unreadable_answers"
        assert ("could not see a leak" in why) is hidden


def prepare_attack() -> Attack:
    handed = Handed(mechanism=SystemMechanism(quoting))
    return prepare(make_spec({"pairs": 8, "shots": 6}), rows=CASES, handed=handed).attack


def blind_or_lost(controls: ControlCheck, above: Estimate | None = None) -> tuple[Obstacle, ...]:
    return (*controls_lost(controls), *blindness(prepare_attack(), controls, above, True))


@pytest.mark.parametrize("controls", BLIND)
@pytest.mark.parametrize("number", [1, 8])
def test_no_run_with_many_canaries_is_blind_beside_a_bound(
    controls: ControlCheck, number: int
) -> None:
    """With few controls there are none at the end of the run, which was `attack_blind`, too."""
    asked = {"design": "one_run", "canaries": 40, "claim_for": "run", "epsilon": 2}
    system = SystemMechanism(NearestStore(), "store", source="test", calls=DISPOSABLE)
    handed, spec = Handed(mechanism=system), make_spec({**asked, "controls": number})
    prepared = prepare_one_run(spec, rows=as_context(documents(200)), handed=handed)
    claim = prepared.claim(1)
    for largest in 3.0, 0.5:
        most = replace(SURE, epsilon=largest)
        said = conclude_one_run(prepared, claim, SURE, most, controls, 0)
        changed = controls.shows_change
        reason = "stateful_system" if changed else "too_few_trials"
        assert (said.verdict, said.reason) == ("inconclusive", reason)
        blind = conclude_one_run(prepared, claim, NOTHING, replace(SURE, epsilon=3.0), controls, 0)
        assert blind.reason == ("stateful_system" if changed else "attack_blind")


@pytest.mark.parametrize("method", ["e_process", "clopper_pearson", "unconditional"])
def test_no_scores_are_of_a_blind_attack_beside_a_bound(method: DecidingName) -> None:
    right = (np.arange(40) % 8 > 0).astype(np.float64)
    design: ScoreDesign = "unpaired" if method == "unconditional" else "paired"
    trials = ScoredTrials(right, 1 - right, design, in_order=True)
    alike = ScoredTrials(np.arange(8) % 2.0, np.arange(8) % 2.0)
    found = score_bounds(trials, 1e-5, rule=Fixed(0.5))
    bound = found.estimate(method).epsilon or 0.0
    assert bound > 0
    for claim in Claim(bound + 0.1, 1e-5), Claim(9.0, 1e-5):
        said = conclude_scores(found, method, claim, sees_leak(trials, alike))
        assert (said.verdict, said.reason) == ("inconclusive", "too_few_trials")
    said = conclude_guessing((found, found), method, sees_leak(trials, alike))
    assert said.verdict == "violation"
    none = score_bounds(replace(alike, design=design), 1e-5, rule=Fixed(0.5))
    assert (
        conclude_scores(none, method, Claim(0.0, 1e-5), sees_leak(alike)).reason == "attack_blind"
    )


def duplicates(context: list[str], query: str) -> str:
    """Says whether a ticket is there already: no question of an attack was the text of a record."""
    known = query.strip().lower() in {text.lower() for text in context}
    return "Duplicate of an open ticket." if known else f"New ticket: {query[:12]}"


def of_sentences(context: list[str], query: str) -> str:
    """Answers whether a text is there, if it is one of words."""
    text = (query.split('"') + [""] * 2)[1]
    known = any(text.lower() in one.lower() for one in context)
    return "yes" if known and len(text.split()) > 3 else "no"


@pytest.mark.parametrize(
    ("system", "options"),
    [(duplicates, "given:text={canary}' --canary natural"), (of_sentences, "--canary natural")],
)
def test_the_whole_text_of_a_record_is_asked_too(system: Any, options: str, tmp_path: Path) -> None:
    rows = [(row.input, "") for row in help_desk(120, np.random.default_rng(2))]
    found = leakbound.audit(
        rows, system=system, task="generation", pairs=60, epsilon=1.0, query="recall",
        canary="coded", out=tmp_path,
    )  # fmt: skip
    assert (found.verdict, found.reason) == ("inconclusive", "attack_blind")
    assert options in found.sentences[0]
