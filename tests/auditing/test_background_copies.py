"""Copies of the canary in other partitions, in both contexts, so that one vote decides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.special import ndtr

import leakbound
from leakbound.attacks import Attack, EitherText, Hex, Membership
from leakbound.attacks.background_copies import VoteContexts, edge_copies
from leakbound.auditing import AuditResult, make_spec, prepare
from leakbound.auditing.design.pairs import Copies, Pair, design
from leakbound.auditing.plan import plan
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.cli.verbs.audit.plan import command
from leakbound.errors import UsageError
from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import Scripted
from leakbound.models.content import readable
from leakbound.privacy import NonPrivate, calibrate_gaussian
from leakbound.report.audit import page, summary
from leakbound.tasks import Context, Example, Outputs, Task, Votes
from leakbound.tasks.partition import places_by_position

DELTA = 1e-5
CLAIMS = (1.0, 2.0, 4.0, 8.0)
TASK = Task("note", ("plain", "odd"))
ATTACK = Attack(Hex(), Membership())


def contexts(partitions: int, claim: float, classes: int = 2) -> VoteContexts:
    return VoteContexts(partitions, calibrate_gaussian(claim, DELTA, math.sqrt(2)), classes)


@dataclass(frozen=True, slots=True)
class CleanMajority(ReportNoisyMax):
    """Declares noise, and releases the majority without any."""

    name: ClassVar[str] = "clean_majority"
    vote_noise = ReportNoisyMax.vote_noise

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        counts = np.tile(np.asarray(aggregate.counts, float), (draws, 1))
        return Outputs(counts.argmax(1), counts)

    def output_distribution(self, aggregate: Votes) -> Any:
        return None


@dataclass(frozen=True, slots=True)
class UndeclaredMajority(CleanMajority):
    """The same without a guarantee."""

    name: ClassVar[str] = "undeclared_majority"

    @property
    def guarantee(self) -> Any:
        return NonPrivate()


# The arithmetic.


@pytest.mark.parametrize("partitions", [9, 11, 21, 41])
def test_the_edge_of_odd_votes_has_a_closed_form(partitions: int) -> None:
    edge = edge_copies(partitions)
    assert edge == (partitions - 1) / 2
    for claim, want in zip(CLAIMS, (0.214, 0.401, 0.745, 1.371), strict=True):
        found = contexts(partitions, claim)
        mu = math.sqrt(2) / found.sigma
        assert found.epsilons(DELTA)[edge] == pytest.approx(want, abs=5e-4)
        assert found.epsilons(0.0)[edge] == pytest.approx(math.log(ndtr(mu / 2) / ndtr(-mu / 2)))


@pytest.mark.parametrize("partitions", [10, 20, 40])
def test_the_edge_of_even_votes_has_a_tie_on_one_side(partitions: int) -> None:
    for claim, tie, two_fewer in ((4.0, 1.036, 1.708), (8.0, 2.346, 4.710)):
        found = contexts(partitions, claim).epsilons(DELTA)
        half = partitions // 2
        assert found[half] == pytest.approx(tie, abs=5e-4)
        assert found[half - 1] == pytest.approx(tie, abs=5e-4)
        assert found[half - 2] == pytest.approx(two_fewer, abs=5e-4)


def test_fewer_copies_of_odd_votes_lose_more_in_rarer_events() -> None:
    for claim, one, two in ((4.0, 1.359, 2.075), (8.0, 3.481, 5.990)):
        found = contexts(11, claim).epsilons(DELTA)
        assert found[4] == pytest.approx(one, abs=5e-4)
        assert found[3] == pytest.approx(two, abs=5e-4)


def test_a_third_class_adds_a_little_where_there_are_few_votes() -> None:
    small = [contexts(5, 1.0, classes).epsilons(DELTA)[2] for classes in (2, 3)]
    large = [contexts(41, 1.0, classes).epsilons(DELTA)[20] for classes in (2, 3)]
    assert small[1] > small[0] + 0.01
    assert large[1] == pytest.approx(large[0], abs=1e-3)


def test_a_silent_crowd_hides_the_vote_in_a_rare_event() -> None:
    """With no copies at T = 10, no number of pairs below 10,000 certifies anything at claim 8."""
    assert contexts(10, 8.0, 3).certified(DELTA, 10_000, 0.95, exact=True)[0] == 0


def test_the_choice_depends_on_pairs_and_on_what_decides() -> None:
    found = contexts(10, 8.0, 3)
    single = found.certified(DELTA, 200, 0.95, exact=False)
    assert single[[4, 3]] == pytest.approx([1.64, 0.86], abs=0.01)
    assert found.best_copies(DELTA, 200, 0.95, exact=False) == 4
    assert found.best_copies(DELTA, 2000, 0.95, exact=False) == 3
    assert contexts(10, 4.0, 3).best_copies(DELTA, 2000, 0.95, exact=True) == 2


# Where copies stand.


def places(pair: Pair, context: Context) -> set[int]:
    return {
        at for at, row in enumerate(context) if readable(pair.canary.input) in readable(row.input)
    }


@pytest.mark.parametrize("insertion", ["replace", "append"])
def test_copies_stand_in_distinct_other_partitions_of_both_contexts(
    rows: Context, insertion: Any
) -> None:
    parts = places_by_position(20, 10)
    attack = Attack(Hex(), Membership(), insertion=insertion)
    for pair in design(rows, TASK, attack, 30, 20, 0, copies=Copies(4, parts)):
        copies = places(pair, pair.nonmember.context)
        assert len({at % 10 for at in copies} | {pair.position % 10}) == 5
        assert places(pair, pair.member.context) == copies | {pair.position}
        differ = zip(pair.member.context, pair.nonmember.context, strict=True)
        assert [one != other for one, other in differ].count(True) == 1


def test_an_added_canary_is_an_expert_more_beside_its_copies(rows: Context) -> None:
    attack = Attack(Hex(), Membership(), insertion="add")
    copies = Copies(6, places_by_position(13, 13))
    for pair in design(rows, TASK, attack, 10, 12, 0, copies=copies):
        assert len(pair.nonmember.context) == 12
        assert len(places(pair, pair.nonmember.context)) == 6
        assert pair.member.context == (*pair.nonmember.context, pair.canary)


def test_without_copies_contexts_are_what_they_were(rows: Context) -> None:
    plain = design(rows, TASK, ATTACK, 10, 20, 3)
    copied = design(rows, TASK, ATTACK, 10, 20, 3, copies=Copies(4, places_by_position(20, 10)))
    for one, other in zip(plain, copied, strict=True):
        assert (one.canary, one.position, one.draw) == (other.canary, other.position, other.draw)
        assert not places(one, one.nonmember.context)


def test_controls_have_the_canary_everywhere_and_nowhere(rows: Context) -> None:
    pairs = design(rows, TASK, ATTACK, 4, 20, 0, copies=Copies(4, places_by_position(20, 10)))
    controls = pairs.controls(3)
    for pair in controls[:3]:  # as pairs are
        assert len(places(pair, pair.member.context)) == 5
        assert len(places(pair, pair.nonmember.context)) == 4
    for pair in controls[3:]:
        assert not places(pair, pair.nonmember.context)
        assert len(places(pair, pair.member.context)) == 20


# The choice of an audit.


def said_no(*prompt: Any) -> Any:
    """Never called: an audit is prepared without a model call."""
    raise AssertionError


def prepared(rows: Context, model: Scripted, **options: Any) -> Prepared:
    given = {"mechanism": "report_noisy_max", "access": "black_box", "epsilon": 4, **options}
    spec = make_spec({"simulations": 0, "pairs": 20, **given})
    return prepare(spec, model, rows=rows, handed=Handed(task=TASK))


@pytest.mark.parametrize(
    ("options", "copies"),
    [
        ({}, 4),
        ({"mechanism.partitions": 11}, 5),
        ({"access": "white_box"}, 0),
        ({"access": "white_box", "background_copies": "auto"}, 4),
        ({"background_copies": 0}, 0),
        ({"background_copies": 9}, 9),
        ({"mechanism": "keyword_mean"}, 4),
        ({"mechanism": "product_of_experts"}, 9),  # one expert for each of 20 examples
        ({"mechanism": "product_of_experts", "mechanism.calibration": "add_remove",
          "insertion": "add"}, 10),
        ({"mechanism": "synthetic_shots"}, 0),
        ({"mechanism": "few_shot"}, 0),
        ({"mechanism": "few_shot", "background_copies": "auto"}, 0),
        # noise that cannot keep the claim: epsilon is tested, and 200 pairs certify most below
        # the edge
        ({"mechanism.sigma": 1.4, "mechanism.partitions": 11, "pairs": 200}, 4),
    ],
)  # fmt: skip
def test_auto_where_answers_are_all_that_is_seen(
    rows: Context, options: dict[str, Any], copies: int
) -> None:
    found = prepared(rows, Scripted(said_no, next_logits=said_no, label_scores=said_no), **options)
    assert found.pairs.copies.count == copies
    assert plan(found).background_copies == copies


@pytest.mark.parametrize(("labels", "copies"), [(("odd", "plain"), 4), (("plain", "odd"), 5)])
def test_a_tie_without_noise_falls_to_the_label_that_stands_first(
    rows: Context, leaky: Scripted, labels: tuple[str, str], copies: int
) -> None:
    """The rarest label speaks for a member; a tie has to be in the context where it decides."""
    spec = make_spec({"mechanism": "report_noisy_max", "access": "black_box",
                      "query": "if_then_explicit", "simulations": 0})  # fmt: skip
    found = prepare(spec, leaky, rows=rows, handed=Handed(task=Task("note", labels)))
    assert found.pairs[0].asked.member == "odd"
    assert found.pairs.copies.count == copies


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"background_copies": 10}, "9 partitions beside that of the canary; use at most 9"),
        ({"background_copies": 1, "mechanism": "few_shot"}, "few_shot has no partitions that vote"),
        ({"background_copies": "some"}, "is 'some'; it must be a whole number from 0 on, or auto"),
        ({"background_copies": -1}, "is -1; it must be a whole number from 0 on, or auto"),
        ({"background_copies": True}, "is True; it must be a whole number from 0 on, or auto"),
    ],
)
def test_what_cannot_be_placed_is_refused(
    rows: Context, leaky: Scripted, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        prepared(rows, leaky, **options)


def test_the_flag_takes_a_number_or_auto() -> None:
    flag = next(option for option in command.params if option.name == "background_copies")
    assert [flag.type.convert(text, None, None) for text in ("3", "auto")] == [3, "auto"]


def test_other_copies_are_other_evidence(rows: Context, leaky: Scripted) -> None:
    names = {k: prepared(rows, leaky, background_copies=k).evidence for k in (0, 4, "auto")}
    assert names[4] == names["auto"] != names[0]
    assert prepared(rows, leaky, background_copies=4, epsilon=8).evidence == names[4]


# What audits find.


def audited(
    rows: Context, model: Scripted, out: Path, mechanism: ReportNoisyMax, **options: Any
) -> AuditResult:
    return leakbound.audit(
        rows, mechanism=mechanism, model=model, task=TASK, access="black_box", out=out,
        simulations=1000, **options,
    )  # fmt: skip


@pytest.mark.parametrize(("partitions", "claim"), [(10, 1.0), (10, 8.0), (11, 8.0), (20, 8.0)])
def test_a_vote_without_noise_is_rejected_where_noise_is_declared(
    rows: Context, leaky: Scripted, tmp_path: Path, partitions: int, claim: float
) -> None:
    sigma = ReportNoisyMax.calibrated(claim, DELTA).sigma
    result = audited(
        rows, leaky, tmp_path, CleanMajority(sigma, partitions), epsilon=claim, pairs=24
    )
    assert result.verdict == "violation"


@pytest.mark.parametrize("partitions", [10, 11])
def test_a_vote_without_noise_is_rejected_within_12_pairs(
    rows: Context, leaky: Scripted, tmp_path: Path, partitions: int
) -> None:
    """Without a declared guarantee, at claim 1. In a silent crowd it showed nothing at T = 10."""
    mechanism = UndeclaredMajority(5.0, partitions)
    assert audited(rows, leaky, tmp_path, mechanism, pairs=12).verdict == "violation"
    silent = audited(rows, leaky, tmp_path, mechanism, pairs=12, settings={"background_copies": 0})
    assert silent.verdict != "violation"
    assert silent.bound.epsilon == 0


@pytest.mark.parametrize(("claim", "least"), [(4.0, 0.9), (8.0, 1.9)])
def test_honest_noise_is_audited_tightly_and_kept(
    rows: Context, leaky: Scripted, tmp_path: Path, claim: float, least: float
) -> None:
    """Exact chances decide, so the bounds do not depend on a seed; 0.00 in a silent crowd."""
    mechanism = ReportNoisyMax.calibrated(claim, DELTA, 10)
    result = audited(rows, leaky, tmp_path, mechanism, epsilon=claim, pairs=200)
    ideal = contexts(10, claim, 3).epsilons(DELTA)[4]
    assert result.verdict == "no_violation"
    assert least < (result.bound.epsilon or 0) < ideal


def test_the_result_says_that_contexts_are_worst_case(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    mechanism = ReportNoisyMax.calibrated(1.0, DELTA, 10)
    worst = audited(rows, leaky, tmp_path, mechanism, pairs=16)
    assert worst.counts["background_copies"] == 4
    assert [finding.code for finding in worst.findings] == ["worst_case_context"]
    for text in (summary(worst, verbose=True), page([worst])):
        assert "worst-case contexts, not typical ones" in text
        assert "4 of the 9 other partitions of both contexts" in text
    typical = audited(rows, leaky, tmp_path, mechanism, pairs=16, settings={"background_copies": 0})
    assert typical.counts["background_copies"] == 0
    assert not typical.findings
    assert "worst-case" not in summary(typical, verbose=True)


# A second text in place of copies.


SECOND = "the ferry sails at nine"
HALF = tuple(
    Example(f"note {i}{f', {SECOND}' if i % 2 else ''}", "plain" if i % 3 else "odd")
    for i in range(60)
)


def either(prompt: str) -> str:
    canary, other = prompt.split('"')[-4], prompt.split('"')[-2]
    return "yes" if prompt.count(canary) > 1 or prompt.count(other) > 1 else "no"


def first_alone(prompt: str) -> str:
    return "yes" if prompt.count(prompt.split('"')[-4]) > 1 else "no"


@pytest.mark.parametrize(("model", "answered"), [(either, True), (first_alone, False)])
def test_a_model_that_ignores_the_second_text_is_named(
    tmp_path: Path, model: Any, answered: bool
) -> None:
    result = leakbound.audit(
        HALF, mechanism=ReportNoisyMax.calibrated(4.0, DELTA, 10), query=EitherText(SECOND),
        model=Scripted(model, name=model.__name__), access="black_box", epsilon=4.0, pairs=60,
        shots=10, simulations=1000, task=TASK, out=tmp_path, settings={"detect_change": 0},
    )  # fmt: skip
    assert result.counts["background_copies"] == 0
    assert ((result.bound.epsilon or 0) > 0.05) == answered
    codes = [finding.code for finding in result.findings]
    assert codes == ([] if answered else ["second_text_unanswered"])
    assert (
        "does not answer a question about two texts" in summary(result, verbose=True)
    ) != answered
