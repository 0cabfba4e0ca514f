"""What a hostile reading of the verdicts found; each test failed before it was mended."""

from __future__ import annotations

import importlib
import inspect
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import leakbound
from leakbound.attacks.words import redact
from leakbound.auditing import AuditResult
from leakbound.errors import UsageError
from leakbound.estimators import EProcess, Observations, TrialDesign
from leakbound.estimators.base import Claim
from leakbound.mechanisms import FewShot, ReportNoisyMax
from leakbound.mechanisms.parts.base import PartitionedMechanism
from leakbound.models import Model, Scripted
from leakbound.privacy import ApproxDP, PureDP
from leakbound.tasks import Context, Job, Outputs, Task, Votes
from leakbound.tasks.facts import exactness_of, vote_noise_of

COINS = np.random.default_rng(1)


@dataclass(frozen=True, slots=True)
class Coins(ReportNoisyMax):
    """Every partition flips a coin and looks at no row: true epsilon 0."""

    name: ClassVar[str] = "coins"

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Votes]:  # type: ignore[override]
        yes = [int(COINS.binomial(self.partitions, 0.5)) for _ in jobs]
        return [Votes((k, self.partitions - k, 0)) for k in yes]


def test_an_exact_loss_given_random_votes_decides_nothing(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """It was a violation, "exactly", at any claim."""
    result = leakbound.audit(
        rows, mechanism=Coins.calibrated(1.0, 1e-5, partitions=10), model=leaky, pairs=40,
        simulations=400, settings={"labels": "odd,plain"}, out=tmp_path,
    )  # fmt: skip
    assert result.verdict != "violation", str(result)
    assert result.estimate("exact").kind == "point_estimate"


@dataclass(frozen=True, slots=True)
class CountsFew(ReportNoisyMax):
    """Counts each vote with a probability of .2, in a helper of `collect`."""

    name: ClassVar[str] = "counts_few"

    def _count(self, answers: Sequence[str], replies: Sequence[Any]) -> Votes:
        some = [one for one in replies if COINS.random() < 0.2]
        return ReportNoisyMax._count(self, answers, some)


class Delegating:
    """Hands on what it does not define, and counts each vote with a probability of .2."""

    name = "delegating"

    def __init__(self, inner: ReportNoisyMax) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Votes]:
        votes = self.inner.collect(task, jobs, draws, model)
        return [Votes(tuple(COINS.binomial(one.counts, 0.2).tolist())) for one in votes]


class Shuffled(PartitionedMechanism):
    """Stands between the class that states its exactness and what that class derives from."""

    def _answer_jobs(self, *jobs: Any) -> Any:
        return super()._answer_jobs(*jobs)[::-1]


class Diamond(ReportNoisyMax, Shuffled):
    name: ClassVar[str] = "diamond"


def quiet(aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
    return Outputs(np.tile(np.argmax(aggregate.counts), draws))


@dataclass(frozen=True, slots=True)
class Held(ReportNoisyMax):
    """A method of its base is one of its fields."""

    name: ClassVar[str] = "held"
    release: Any = quiet


class Looking(ReportNoisyMax):
    name: ClassVar[str] = "looking"

    def __getattribute__(self, name: str) -> Any:
        return quiet if name == "release" else object.__getattribute__(self, name)


@dataclass(frozen=True)
class Noted(ReportNoisyMax):
    name: ClassVar[str] = "noted"
    note: Any = print


def patched() -> Noted:
    made = Noted(2.0, 10)
    object.__setattr__(made, "release", partial(quiet))
    return made


def test_nothing_is_exact_that_another_class_says() -> None:
    """An honest sampling of votes was accused by the laws of votes that were not sampled."""
    votes = ReportNoisyMax.calibrated(1.0, 1e-5, partitions=10)
    few = CountsFew.calibrated(1.0, 1e-5, partitions=10)
    others = Diamond(2.0, 10), Held(2.0, 10), Looking(2.0, 10), patched()
    for mechanism in (few, Delegating(votes), *others):
        assert exactness_of(mechanism) == "none"  # type: ignore[arg-type]
        assert vote_noise_of(mechanism) is None  # type: ignore[arg-type]
    assert exactness_of(Noted(2.0, 10)) == "full"
    assert exactness_of(votes) == "full"
    assert exactness_of(Coins.calibrated(1.0, 1e-5, partitions=10)) == "given_sample"


@dataclass(frozen=True, slots=True)
class MoreNoise(ReportNoisyMax):
    """Adds ten times the noise that its base declares, and shows answers alone."""

    name: ClassVar[str] = "more_noise"
    access: ClassVar[frozenset[Any]] = frozenset({"black_box"})

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        counts = np.asarray(aggregate.counts, float)
        noisy = counts + rng.normal(0.0, 10 * self.sigma, (draws, counts.size))
        return Outputs(noisy.argmax(1))


@dataclass(frozen=True, slots=True)
class MostlyCoins(FewShot):
    """Nine answers of ten are drawn; its base answers for certain."""

    name: ClassVar[str] = "mostly_coins"

    def release(self, aggregate: Any, draws: int, rng: np.random.Generator) -> Outputs:
        certain = FewShot.release(self, aggregate, draws, rng)
        coins = rng.random(draws) < 0.9
        return replace(certain, answers=np.where(coins, rng.integers(0, 2, draws), certain.answers))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "claim"),
    [(MoreNoise(0.5, 4), 2.0), (MostlyCoins(), 1.0)],
    ids=lambda one: str(one)[:9],
)
def test_what_a_base_declares_of_its_release_is_not_said_of_another(
    mechanism: Any, claim: float, rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """It was a violation, "exactly" or by known chances, of a claim that holds."""
    result = leakbound.audit(
        rows, mechanism=mechanism, model=leaky, pairs=60, epsilon=claim, score="predicted_member",
        simulations=600, settings={"labels": "odd,plain"}, out=tmp_path,
    )  # fmt: skip
    assert result.verdict != "violation", str(result)
    assert "exactly" not in str(result)
    assert result.bound.epsilon <= claim


def exact_of(mechanism: Any, rows: Context, leaky: Scripted, out: Path) -> AuditResult:
    return leakbound.audit(
        rows, mechanism=mechanism, model=leaky, pairs=12, shots=8, epsilon=4.0, simulations=200,
        settings={"labels": "odd,plain"}, out=out,
    )  # fmt: skip


def test_the_loss_of_partitions_that_were_drawn_is_not_that_of_the_system(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """It was a violation, "exactly", of a claim that the average over the coins satisfies."""
    for sampling, kind in (("position", "lower_bound"), ("poisson", "point_estimate")):
        made = ReportNoisyMax.calibrated(8.0, 1e-5, partitions=4, sampling=sampling)
        assert exact_of(made, rows, leaky, tmp_path).estimate("exact").kind == kind


def test_a_class_gets_the_same_bounds_in_a_file_of_a_user(
    rows: Context, leaky: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may decide was found by the name of the module, and by the class."""
    shutil.copy(str(inspect.getsourcefile(ReportNoisyMax)), tmp_path / "moved_votes.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    moved = importlib.import_module("moved_votes").ReportNoisyMax
    for noise in ("gaussian", "discrete_gaussian"):
        made = [
            kind.calibrated(8.0, 1e-5, partitions=4, noise=noise)
            for kind in (ReportNoisyMax, moved)
        ]
        own, other = (exact_of(one, rows, leaky, tmp_path / noise) for one in made)
        assert (other.verdict, other.estimates) == (own.verdict, own.estimates)


def test_an_early_end_is_a_number_of_pairs_that_a_result_chose(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"model": leaky, "shots": 4, "out": tmp_path, "simulations": 200}
    early = leakbound.audit(rows, pairs=100, stop_when_rejected=True, **given)
    assert early.counts["pairs"] < 100
    with pytest.raises(UsageError, match="fixed before any result is seen"):
        leakbound.audit(rows, pairs=early.counts["pairs"], estimator="unconditional", **given)


@pytest.mark.slow
def test_declaring_0_dp_spares_no_system_the_control(rows: Context, tmp_path: Path) -> None:
    """120 of 120 answers unreadable: it was no violation, and every gate passed."""
    result = leakbound.audit(
        rows, system=lambda context, query: context[0].label, guarantee=PureDP(0.0), pairs=60,
        shots=6, out=tmp_path, simulations=0,
    )  # fmt: skip
    assert result.reason == "unreadable_answers"


class Slow:
    """Says nothing, and takes the longer the longer its context is, as every model does."""

    def answer(self, context: Context, query: str) -> dict[str, object]:
        return {"text": "I cannot help.", "seconds": sum(len(row.text) for row in context) / 1000}


@pytest.mark.slow
def test_time_that_follows_the_length_of_a_context_is_no_sight(
    rows: Context, tmp_path: Path
) -> None:
    result = leakbound.audit(
        rows, system=Slow(), query="repeat", pairs=20, shots=6, out=tmp_path, simulations=0
    )
    assert result.verdict != "no_violation"
    assert result.controls is not None
    assert not result.controls.seen


def test_a_design_with_replies_weighs_the_score_as_its_audit_does() -> None:
    plain = TrialDesign(Claim(1.0, 1e-5), pairs=40)
    replies = TrialDesign(Claim(1.0, 1e-5), pairs=40, replies=True)
    estimator = EProcess()
    alone, half = (estimator.pairs_needed(design) or 0 for design in (plain, replies))
    assert alone < half
    smaller, larger = (estimator.largest_certifiable(d, 40).epsilon for d in (replies, plain))
    assert 0 < smaller < larger
    half, whole = (estimator.power(design, 40, 2.0) for design in (replies, plain))
    assert half.chance <= whole.chance


def test_observations_and_queries_show_no_text() -> None:
    shown = Observations(0, 1, text_pairs=(("HIV positive", "no"),))
    assert "HIV" not in repr(shown)


@pytest.mark.parametrize(("word", "kept"), [("7", "█"), ("e", "█"), ("4e71", "4e71")])
def test_short_words_of_other_rows_are_no_part_of_a_canary(word: str, kept: str) -> None:
    assert redact(word, "94e71b3c7d") == kept


def copies(context: Context, query: str) -> int:
    return sum(row.text == query.split('"')[1] for row in context)


def test_answers_that_only_one_context_leaves_unreadable_are_no_pass(
    rows: Context, tmp_path: Path
) -> None:
    """Whoever sees the answers tells the contexts apart for certain: it was no violation."""

    def answer(context: Context, query: str) -> str:
        return ("no", "???")[copies(context, query)] if copies(context, query) < 2 else "yes"

    result = leakbound.audit(
        rows, system=answer, pairs=60, shots=6, out=tmp_path, simulations=0, state_check=0.0
    )
    assert (result.verdict, result.reason) == ("inconclusive", "unreadable_answers")
    assert "60 answers could not be read where the canary was in the context, and 0 where" in str(
        result.sentences
    )


@pytest.mark.parametrize(
    "guarantee", [PureDP(0.5), pytest.param(ApproxDP(0.5, 1e-5), marks=pytest.mark.slow)]
)
def test_a_guarantee_below_the_claim_is_compared_with_the_bound(
    rows: Context, tmp_path: Path, guarantee: Any
) -> None:
    """Only Gaussian guarantees were: it was no violation, beside a bound of 1.49."""
    rng = np.random.default_rng(1)

    def answer(context: Context, query: str) -> str:
        there = copies(context, query)
        right = there > 1 or rng.random() >= 1 / (1 + np.exp(2))
        return "yes" if (there > 0) == right else "no"

    result = leakbound.audit(
        rows, system=answer, guarantee=guarantee, epsilon=3.0, pairs=150, shots=6, out=tmp_path,
        simulations=0, state_check=0.0,
    )  # fmt: skip
    assert 0.5 < (result.bound.epsilon or 0.0) < 3.0
    assert result.verdict == "violation"
    assert "does not satisfy its own guarantee" in str(result.sentences)
