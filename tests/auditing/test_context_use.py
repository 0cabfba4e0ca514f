"""A way to pass for who leaks nothing: several kinds of attack see no change of a rate."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from leakbound import audit, plan, queries, sweep
from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.auditing.collect.collect import Batches, CollectionPlan, run_serial
from leakbound.auditing.design.pairs import OTHERS
from leakbound.auditing.prepare.prepared import REPEATED
from leakbound.auditing.receipts import Recomputed, recompute
from leakbound.gating.gate import Gate, check_gate
from leakbound.models import Model

Settings = dict[str, Any]
APP = Path(__file__)
FREE: dict[str, Any] = {"query": "recall", "canary": "coded"}
PATIENT = "Thank you for the question. We look into it."


def constant(context: Any, query: str) -> str:
    return "no"


def patient(context: Any, query: str) -> str:
    return PATIENT


def coin(seed: int) -> Callable[[Any, str], str]:
    """Answers that depend on nothing."""
    draws = random.Random(seed)
    return lambda context, query: draws.choice(["yes", "no"])


class Randomised:
    """Randomised response: the true answer with the odds e^epsilon."""

    def __init__(self, epsilon: float, seed: int) -> None:
        self.lies, self.draws = 1 / (1 + math.exp(epsilon)), random.Random(seed)

    def __call__(self, context: Any, query: str) -> str:
        asked = query.split('"')
        there = len(asked) > 1 and any(asked[1] in row.text for row in context)
        return "yes" if there != (self.draws.random() < self.lies) else "no"


def quoting(context: Any, query: str) -> str:
    """Tells a record that shares words with the query, and denies whatever is asked."""
    words = set(query.casefold().split())
    near = max(context, key=lambda row: len(words & set(row.text.casefold().split())))
    return "no" if '"' in query else near.text


def first_two(context: Any, query: str) -> str:
    return "\n".join(row.text for row in context[:2])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "attack"), [(constant, {}), (patient, FREE), (coin(1), {})],
    ids=["constant", "patient", "coin"],
)  # fmt: skip
def test_replies_that_do_not_depend_on_the_context_pass(system: Any, attack: Any) -> None:
    """They were `attack_blind` with any number of pairs."""
    result = audit(system=system, epsilon=1.0, seed=3, **attack)
    assert (result.verdict, result.reason) == ("no_violation", "context_unused")
    use = result.use
    assert use is not None
    assert (len(use.attacks), use.left, use.seen_by) == (6, (), None)
    assert use.change <= use.wanted == pytest.approx(math.tanh(0.5))
    assert f"fewer than {math.ceil(100 * use.share)}% of the replies" in result.sentences[0]
    assert result.sentences[0].endswith("from the rows that it is given, and from no others.")
    assert "above the claim" not in " ".join(result.sentences)
    assert result.power == ()  # a change of a rate is no epsilon
    assert json.loads(result.to_json())["use"]["share"] == use.share


@pytest.mark.slow
def test_randomised_response_passes_at_and_below_the_claim() -> None:
    """It was `attack_blind` in 12 of 12 audits."""
    found = [
        audit(system=Randomised(epsilon, seed), epsilon=1.0, seed=seed, state_check=0).verdict
        for seed in range(5)
        for epsilon in (0.3, 1.0)
    ]
    assert found.count("violation") <= 1
    assert found.count("no_violation") >= 5


@pytest.mark.slow
def test_what_another_attack_sees_is_named_and_audited_there() -> None:
    blind = audit(system=quoting, epsilon=1.0, seed=3)
    assert (blind.verdict, blind.reason) == ("inconclusive", "attack_blind")
    assert "audit with --query recall --canary coded" in blind.sentences[0]
    assert audit(system=quoting, epsilon=1.0, seed=3, **FREE).verdict == "violation"


def by_case(context: Any, query: str) -> str:
    """A note for whoever gives its case, and fixed words for others."""
    if not query.startswith("case "):
        return "Write: case WORDS"
    return next((row.text for row in context if row.text.startswith(query[5:])), "No such case.")


@pytest.mark.slow
def test_a_command_of_its_own_is_named_as_not_tried_until_it_is_asked() -> None:
    asked = {"query": queries.Recall(words=3, template="case {prefix}")}
    found = audit(system=by_case, epsilon=1.0, seed=3, pairs=24, **FREE | asked)
    assert found.verdict == "violation"
    silent = audit(system=by_case, epsilon=1.0, seed=3, pairs=24, **FREE)
    assert silent.verdict != "violation"
    untried = [str(one).partition("Not tried:")[2] for one in (silent, found)]
    assert ["commands and forms of its own" in one for one in untried] == [True, False]


@pytest.mark.slow
def test_few_pairs_say_what_they_would_have_shown() -> None:
    result = audit(system=constant, epsilon=1.0, seed=3, pairs=24)
    assert (result.verdict, result.reason) == ("inconclusive", "too_few_trials")
    assert "0.46 has to be seen" in result.sentences[0]
    enough = audit(system=constant, epsilon=1.0, seed=3, pairs=24, settings={"detect_change": 0.9})
    assert enough.reason == "context_unused"


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [4.0, 8.0])
def test_pairs_that_no_attack_could_do_with_are_named_first(epsilon: float) -> None:
    """More of them let other attacks be asked, and a silent system pass."""
    result = audit(system=constant, epsilon=epsilon, seed=3, pairs=100, **FREE)
    assert (result.verdict, result.reason) == ("inconclusive", "too_few_trials")
    assert "even with a perfect attack" in result.sentences[0]


@pytest.mark.slow
def test_other_attacks_are_not_asked_where_nobody_wants_them(tmp_path: Path) -> None:
    none = audit(system=constant, epsilon=1.0, seed=3, settings={"detect_change": 0.0})
    assert (none.verdict, none.reason, none.use) == ("inconclusive", "attack_blind", None)
    grid = sweep(system=constant, grid={"pairs": [50, 100]}, epsilon=1.0, seed=3, out=tmp_path)
    assert {point.verdict for point in grid.points} == {"inconclusive"}


@pytest.mark.slow
def test_a_plan_counts_their_calls_and_a_run_that_needs_none_makes_none() -> None:
    found = plan(system=constant, epsilon=1.0, seed=3)
    assert found.others is not None
    blind = audit(system=constant, epsilon=1.0, seed=3)
    _, (pairs, times) = REPEATED  # nothing recurs that differs between neighbours
    most = found.model_calls + found.others.model_calls
    assert blind.counts["model_calls"] == most - 2 * pairs * times
    seeing = audit(system=Randomised(8.0, 1), epsilon=9.0, pairs=24, seed=3)
    assert seeing.use is None
    assert seeing.counts["model_calls"] <= found.model_calls


@pytest.mark.slow
def test_an_audit_that_stops_among_them_goes_on_to_the_same_result(tmp_path: Path) -> None:
    given: Settings = {"epsilon": 1.0, "seed": 3, "pairs": 100, "system": f"python:{APP}:constant"}
    spec = make_spec(given)

    def stopping(asked: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
        for at, batch in enumerate(run_serial(asked, model, batches)):
            yield batch
            if batch.first < -OTHERS and at == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_audit(prepare(spec), tmp_path / "parts", ask=stopping)
    whole, _ = run_audit(prepare(spec), tmp_path / "whole")
    again, folder = run_audit(prepare(spec), tmp_path / "parts")
    assert again.results() == whole.results()
    assert again.reason == "context_unused"
    assert recompute(folder) == Recomputed()


@pytest.mark.slow
def test_a_gate_below_the_claim_does_not_pass_what_the_attack_hardly_sees() -> None:
    """It passed there and not at the claim: two of 20 documents are quoted word for word,
    and few pairs were not what was missing."""
    assert audit(system=first_two, epsilon=1.0, seed=3, **FREE).verdict == "violation"  # codes
    told = FREE | {"canary": "natural"}  # and its last word may be that of another document
    result = audit(system=first_two, epsilon=1.0, seed=3, **told)
    assert result.verdict == "inconclusive"
    limits = [(result.bound.epsilon or 0.0) + 0.01, 1.0]
    assert [check_gate(result, Gate(limit)).outcome for limit in limits] == ["inconclusive"] * 2


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_run_with_an_encoding_is_computed_again(tmp_path: Path, encoding: str) -> None:
    """`verify` called it edited, because it read the rows without the encoding."""
    file = tmp_path / "rows.csv"
    lines = [f"Café note {i},{'ab'[i % 2]}" for i in range(40)]
    file.write_text("text,label\n" + "\n".join(lines), encoding=encoding)
    app = f"python:{APP}:constant"
    spec = make_spec({"data": str(file), "encoding": encoding, "system": app, "pairs": 10})
    _, folder = run_audit(prepare(spec), tmp_path / "runs")
    assert recompute(folder) == Recomputed()


REPLIES: dict[str, tuple[Any, Any]] = {
    "length": ("We look into it.", "We look into it, and will tell you more about it very soon."),
    "refusal": ("We look into it.", "I am sorry, I cannot help with that."),
    "seconds": ({"text": PATIENT, "seconds": 1.0}, {"text": PATIENT, "seconds": 2.0}),
    "spread": ("", ""),  # of seconds: on either side of the usual ones
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", REPLIES)
def test_what_shows_in_half_of_the_replies_to_another_attack_does_not_pass(kind: str) -> None:
    """Limits of a rate were taken from the wrong side, and hid changes of up to 68 %."""
    usual, telling = REPLIES[kind]
    draws = random.Random(5)

    def answer(context: Any, query: str) -> Any:
        if '"' in query:
            return "no"
        there = "Reference code" in query and any("Reference code" in r.text for r in context)
        shown = there and draws.random() < 0.5
        if kind != "spread":
            return telling if shown else usual
        seconds = draws.choice([0.1, 9.0]) if shown else 1.0 + 0.1 * draws.random()
        return {"text": PATIENT, "seconds": seconds}

    result = audit(system=answer, epsilon=1.0, seed=3)
    assert (result.verdict, result.reason) == ("inconclusive", "attack_blind")
    assert "audit with --query recall --canary coded" in result.sentences[0]


@pytest.mark.parametrize(("epsilon", "pairs", "needed"), [(2.0, 24, True), (1.0, 40, False)])
def test_a_violation_that_rests_on_independence_says_so(
    epsilon: float, pairs: int, needed: bool
) -> None:
    result = audit(system=Randomised(50.0, 1), epsilon=epsilon, pairs=pairs, seed=3)
    assert result.verdict == "violation"
    assert ("answers to two contexts independent" in result.sentences[0]) == needed
