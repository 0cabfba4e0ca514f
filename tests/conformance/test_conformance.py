"""Every mechanism keeps the invariants, each of them can be broken, and what is broken is named."""

import importlib.util
import itertools
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from leakbound_lab.conformance import INVARIANTS, Check, assert_conforms, conform
from leakbound_lab.conformance.parts import Bench, part_count, release_count
from leakbound_lab.conformance.puppets import FREE
from leakbound_lab.planted.planted_answers import PLANTED

import leakbound.mechanisms as cm
from leakbound.errors import UsageError
from leakbound.mechanisms import MECHANISMS, FewShot, KeywordMean, ReportNoisyMax
from leakbound.models import Complete, Embed, Model, open_model
from leakbound.privacy import Gaussian, Guarantee, PureDP, compose, leaves
from leakbound.systems import SystemMechanism
from leakbound.tasks import (
    Aggregate,
    GaussianLaw,
    Job,
    Outputs,
    Query,
    Task,
    Vector,
    VoteNoise,
    Votes,
)

PAIRS = 10_000  # of the loss; the others take fewer
KW = {"epsilon": 2, "delta": 1e-5, "candidates": 3}

CATALOGUE: dict[str, Any] = {
    "zero_shot": cm.ZeroShot(),
    "few_shot": FewShot(),
    "answer_probabilities": cm.AnswerProbabilities(),
    "prompt_defense": cm.PromptDefense(2),
    "judge_defense": cm.JudgeDefense(),
    "report_noisy_max": ReportNoisyMax.calibrated(2, 1e-5),
    "report_noisy_max/discrete": ReportNoisyMax.calibrated(2, 1e-5, noise="discrete_gaussian"),
    "report_noisy_max/calibrated": ReportNoisyMax.calibrated(2, 1e-5, prior="content_free"),
    "report_noisy_max/poisson": ReportNoisyMax.calibrated(2, 1e-5, sampling="poisson"),
    "embedding_mean": cm.EmbeddingMean.calibrated(2, 1e-5, candidates=3),
    "embedding_mean/poisson": cm.EmbeddingMean.calibrated(
        2, 1e-5, candidates=3, sampling="poisson"
    ),
    "keyword_mean": KeywordMean.calibrated(**KW),
    "keyword_mean/2": KeywordMean.calibrated(**KW, per_answer=2, top=2),
    "keyword_mean/discrete": KeywordMean.calibrated(
        **KW, per_answer=2, top=2, selection="discrete_gaussian"
    ),
    "keyword_mean/joint": KeywordMean.calibrated(**KW, selection="joint_exponential"),
    "keyword_mean/joint/2": KeywordMean.calibrated(**KW, top=2, selection="joint_exponential"),
    "product_of_experts": cm.ProductOfExperts(2.0, tokens=3),
    "product_of_experts/calibrated": cm.ProductOfExperts.calibrated(2, 1e-5, tokens=3),
    "product_of_experts/groups": cm.ProductOfExperts(2.0, group_size=3, tokens=3),
    "product_of_experts/prior": cm.ProductOfExperts(2.0, 2, tokens=3, prior="content_free"),
    "product_of_experts/add_remove": cm.ProductOfExperts(2.0, calibration="add_remove", tokens=3),
    "product_of_experts/paper": cm.ProductOfExperts(2.0, calibration="paper", tokens=3),
    "subsample_average": cm.SubsampleAverage(4.0, 10, 0.5),
    "synthetic_shots": cm.SyntheticShots.calibrated(2, 1e-5, tokens=2, candidates=20),
    "context_influence_decoding": cm.ContextInfluenceDecoding(tokens=3),
    "context_influence_decoding/0": cm.ContextInfluenceDecoding(lam=0.0, tokens=3),
    "bounded_cid": cm.BoundedCID(epsilon=2.0, tokens=3),
    "invisible_ink": cm.InvisibleInk.calibrated(2, 1e-5, tokens=3),
    "invisible_ink/add_remove": cm.InvisibleInk.calibrated(2, 1e-5, 12, 1.0, 3, 20, "add_remove"),
    "dp_fusion": cm.DPFusion.calibrated(2, 1e-5, tokens=3),
}
NO_GUARANTEE = (
    "answer_probabilities", "few_shot", "prompt_defense", "judge_defense",
    "context_influence_decoding",
)  # fmt: skip
PARTITIONED = (
    "report_noisy_max", "embedding_mean", "keyword_mean", "product_of_experts", "invisible_ink",
)  # fmt: skip
VOTING = ("report_noisy_max", "report_noisy_max/calibrated", "report_noisy_max/poisson",
          "report_noisy_max/discrete")  # fmt: skip
GENERATING = ("product_of_experts", "synthetic_shots", "context_influence_decoding/0",
              "bounded_cid", "invisible_ink", "dp_fusion")  # fmt: skip
NO_DISTRIBUTION = ("keyword_mean/joint/2", "subsample_average", "synthetic_shots")


def invariant(name: str) -> Any:
    return next(one for one in INVARIANTS if one.name == name)


FEW = 24  # pairs, and answers of a context that is generated: a cross-section of seconds
SLOW = {("subsample_average", "reuse")}  # it calibrates twice, by privacy loss distributions


@pytest.fixture(scope="module")
def battery() -> dict[tuple[str, str], Check]:
    """Every invariant over every mechanism, once."""
    return {
        (name, check.name): check(mechanism, pairs=FEW)
        for (name, mechanism), check in itertools.product(CATALOGUE.items(), INVARIANTS)
        if (name, check.name) not in SLOW
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_conforms(name: str, battery: dict[tuple[str, str], Check]) -> None:
    assert not [one for (of, _), one in battery.items() if of == name and not one.passed]


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_conforms_over_many_pairs(name: str) -> None:
    """Ten thousand pairs of neighbours lose at most the guarantee, the worst one 95 % of it."""
    found = [check(CATALOGUE[name], pairs=PAIRS) for check in INVARIANTS]
    assert not [one for one in found if not one.passed]


def test_the_whole_catalogue_is_tried() -> None:
    assert {mechanism.name for mechanism in CATALOGUE.values()} == set(MECHANISMS)


@pytest.mark.slow
def test_what_is_skipped_is_said(battery: dict[tuple[str, str], Check]) -> None:
    """Nothing passes silently: these and no others have nothing to say."""
    exact = ("sensitivity", "loss", "tightness")
    over = ("tokens", "request_count", "returned", "public_facts", "total")
    want = {(name, check) for name in NO_GUARANTEE for check in (*exact, *over)}
    want |= {(name, check) for name in NO_DISTRIBUTION for check in exact}
    want |= {(name, "outputs") for name in (*NO_DISTRIBUTION, "answer_probabilities")}
    want |= {(name, "disjoint_parts") for name in CATALOGUE if not name.startswith(PARTITIONED)}
    want.add(("invisible_ink/add_remove", "disjoint_parts"))  # one example for each part at most
    want |= {(name, "disjoint_parts") for name in CATALOGUE if name.endswith("/poisson")}
    want |= {(name, "vote_noise") for name in CATALOGUE if name not in VOTING}
    want |= {(name, "tokens") for name in CATALOGUE if not name.startswith(GENERATING)}
    assert {key for key, one in battery.items() if one.skipped} == want
    unknown = {battery[name, check].detail for name in NO_DISTRIBUTION for check in exact}
    assert unknown == {"skipped: no output distribution"}


def test_removing_examples_from_larger_groups_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a group_size of 1"):
        cm.ProductOfExperts(2.0, 2, calibration="add_remove")


def test_the_papers_calibration_loses_more_than_it_says() -> None:
    """Its lambda, read as epsilon-DP under replace_one:

    the worst pair loses between epsilon and 2 epsilon.
    """
    found = invariant("tightness")(CATALOGUE["product_of_experts/paper"]).detail
    lost = float(found.split("loses ")[1].split(" ")[0])
    assert 2.0 < lost <= 4.0 * (1 + 1e-9)


@pytest.mark.parametrize("votes", [(8, 2), (11, 1)])
def test_the_exponential_choice_can_draw_every_word(votes: tuple[int, int]) -> None:
    shares = [sum([1 / sum(votes)] * count) for count in votes]  # summed as KeywordMean sums them
    mechanism = KeywordMean(0.5, sum(votes), selection="joint_exponential")
    drawn = mechanism.release(Vector(tuple(shares), ("x", "y")), 2000, np.random.default_rng(0))
    assert drawn.picked is not None
    assert set(drawn.picked[:, 0]) == {0, 1}


@pytest.fixture(scope="module")
def pocket() -> Model:
    return open_model("pocket")


@pytest.mark.slow
@pytest.mark.parametrize("check", ["nothing_kept", "requests", "decode"])
@pytest.mark.parametrize(
    "name", [n for n in CATALOGUE if "/" not in n and n != "subsample_average"]
)
def test_free_answers_of_a_real_model(name: str, check: str, pocket: Model) -> None:
    found = invariant(check)(CATALOGUE[name], model=pocket)
    assert found.passed, found.detail


@pytest.mark.slow
def test_a_users_mechanism_and_a_users_callable_conform(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location(
        "user_mechanism", Path("examples/user_mechanism.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "user_mechanism", module)
    spec.loader.exec_module(module)
    assert_conforms(module.RandomBallot())
    skipped = {found.name for found in conform(module.RandomBallot(1.0, 6)) if found.skipped}
    assert skipped <= {"vote_noise", "disjoint_parts", "tokens"}, "it states neither"
    assert len(module.RandomBallot(1.0, 6).source) == 16, "changed code is another run"
    assert_conforms(SystemMechanism(lambda context, query: context[0].label))


# At least one broken mechanism for each invariant: each differs from a correct reference by the
# defect alone.

SIGMA = ReportNoisyMax.calibrated(2, 1e-5).sigma


class HalfSensitivity(ReportNoisyMax):
    @property
    def guarantee(self) -> Gaussian:
        return Gaussian(2**0.5 / 2, self.sigma)


class SharedNoise(ReportNoisyMax):
    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        one = ReportNoisyMax.release(self, aggregate, 1, rng)
        assert one.noisy is not None
        return Outputs(np.repeat(one.answers, draws), np.repeat(one.noisy, draws, 0))


class QuietRelease(ReportNoisyMax):
    """The output distribution is as declared, the release code adds half of the noise."""

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        return ReportNoisyMax.release(
            ReportNoisyMax(self.sigma / 2, self.partitions), aggregate, draws, rng
        )


class SeededNoise(ReportNoisyMax):
    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        return ReportNoisyMax.release(self, aggregate, draws, np.random.default_rng(7))


class Unseeded(ReportNoisyMax):
    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        return ReportNoisyMax.release(self, aggregate, draws, np.random.default_rng())


@dataclass(frozen=True, slots=True)
class Remembering(ReportNoisyMax):
    last: list[str] = field(default_factory=list)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        self.last.append(task.prompt(jobs[-1].context, jobs[-1].query))
        return ReportNoisyMax.collect(self, task, jobs, draws, model)


class Logging(ReportNoisyMax):
    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        logging.getLogger("mine").debug("first: %s", jobs[0].context[0].input)
        return ReportNoisyMax.collect(self, task, jobs, draws, model)


class Undeclared(ReportNoisyMax):
    needs: ClassVar[frozenset[Any]] = frozenset()


class Overdeclared(ReportNoisyMax):
    needs: ClassVar[frozenset[Any]] = frozenset({Complete, Embed})


class SecondThoughts(ReportNoisyMax):
    """Asks again where an answer cannot be read."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        cleans = ReportNoisyMax.collect(self, task, jobs, draws, model)
        for aggregate in cleans:
            assert isinstance(aggregate, Votes)
            model.answer([Complete("Again:")] * aggregate.counts[-1])
        return cleans


class LessNoise(ReportNoisyMax):
    """Half of the declared noise, in the release and in the output distribution."""

    @property
    def guarantee(self) -> Gaussian:
        return Gaussian(2**0.5, 2 * self.sigma)


class Loose(ReportNoisyMax):
    @property
    def guarantee(self) -> Gaussian:
        return Gaussian(2**0.5 * 2, self.sigma)


class Polishing(FewShot):
    """Asks the model to polish what it released: here the text of an example."""

    def decode(self, task: Task, query: Query, outputs: Outputs, model: Model) -> list[str]:
        return model.answer(
            [Complete(f"Polish: {(*outputs.choices, '')[0]}")] * len(outputs.answers)
        )


class Silent(ReportNoisyMax):
    def decode(self, task: Task, query: Query, outputs: Outputs, model: Model) -> list[str]:
        return ReportNoisyMax.decode(self, task, query, outputs, model)[:1]


class Cheap(ReportNoisyMax):
    def cost(self, task: Task, query: Query) -> PureDP:
        return PureDP(0.01)


class Crashing(ReportNoisyMax):
    def output_distribution(self, aggregate: Votes) -> GaussianLaw:
        raise ValueError("no distribution today")


class EarlyNoise(ReportNoisyMax):
    """Draws its noise while collecting and says that it does not."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        votes = ReportNoisyMax.collect(self, task, jobs, draws, model)
        return [self._chosen(v, draw) for v, draw in zip(votes, draws, strict=True)]

    def _chosen(self, votes: Aggregate, draw: int) -> Votes:
        assert isinstance(votes, Votes)
        rng = np.random.default_rng(draw)
        best = int(ReportNoisyMax.release(self, votes, 1, rng).answers[0])
        return Votes(tuple(int(i == best) for i in range(len(votes.counts))))

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        return Outputs(np.full(draws, int(np.argmax(aggregate.counts))))


class StaleNoise(EarlyNoise):
    """Says that it draws while collecting, and draws the same noise every time."""

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        return True

    def _chosen(self, votes: Aggregate, draw: int) -> Votes:
        return EarlyNoise._chosen(self, votes, 7)


class FixedClaim(ReportNoisyMax):
    def recalibrated(self, epsilon: float, delta: float) -> "FixedClaim":
        return self


class CallableFlag(ReportNoisyMax):
    def noise_in_collect(self, task: Task, query: Query) -> bool:
        return None  # type: ignore[return-value]


class OverstatedNoise(ReportNoisyMax):
    """Estimators over votes would be told of more noise than there is."""

    @property
    def vote_noise(self) -> VoteNoise:
        return VoteNoise(2 * self.sigma)


class Blocks(ReportNoisyMax):
    """An audit would put a copy of the canary into its own partition."""

    def disjoint_parts(self, shots: int) -> tuple[tuple[int, ...], ...]:
        size = -(-shots // self.partitions)
        return tuple(tuple(range(at, min(at + size, shots))) for at in range(0, shots, size))


class OneTokenCost(cm.ProductOfExperts):
    """A free answer is said to cost what one choice costs."""

    def cost(self, task: Task, query: Query) -> Guarantee:
        return self.guarantee


class LastTokenFree(cm.ProductOfExperts):
    """The last token of a free answer is not counted."""

    def cost(self, task: Task, query: Query) -> Guarantee:
        parts = leaves(cm.ProductOfExperts.cost(self, task, query))
        return compose(parts[1:] or parts)


VOTES, EXPERTS = ReportNoisyMax(SIGMA), cm.ProductOfExperts.calibrated(2.0, 1e-5, tokens=3)
BROKEN: list[tuple[str, Any, Any]] = [
    ("members", CallableFlag(SIGMA), VOTES),
    ("sensitivity", HalfSensitivity(SIGMA), VOTES),
    ("many_draws", SharedNoise(SIGMA), VOTES),
    ("outputs", QuietRelease(SIGMA), VOTES),
    ("seeds", SeededNoise(SIGMA), VOTES),
    ("seeds", Unseeded(SIGMA), VOTES),
    ("nothing_kept", Remembering(SIGMA), VOTES),
    ("nothing_kept", Logging(SIGMA), VOTES),
    ("requests", Undeclared(SIGMA), VOTES),
    ("requests", Overdeclared(SIGMA), VOTES),
    ("request_count", SecondThoughts(SIGMA), VOTES),
    ("loss", LessNoise(SIGMA), VOTES),
    ("loss", Crashing(SIGMA), VOTES),
    ("tightness", Loose(SIGMA), VOTES),
    ("disjoint_parts", Blocks(SIGMA, 4), VOTES),
    ("vote_noise", OverstatedNoise(SIGMA), VOTES),
    ("decode", Silent(SIGMA), VOTES),
    ("decode", Polishing(), FewShot()),
    ("reuse", EarlyNoise(SIGMA), VOTES),
    ("reuse", StaleNoise(SIGMA), VOTES),
    ("reuse", FixedClaim(SIGMA), VOTES),
    ("cost", Cheap(SIGMA), VOTES),
    ("cost", OneTokenCost.calibrated(2.0, 1e-5, tokens=3), EXPERTS),
    ("cost", LastTokenFree.calibrated(2.0, 1e-5, tokens=3), EXPERTS),
]


@pytest.mark.parametrize(
    ("check", "broken", "reference"), BROKEN, ids=lambda value: type(value).__name__
)
def test_every_invariant_can_be_broken(check: str, broken: Any, reference: Any) -> None:
    assert not invariant(check)(broken).passed
    assert reference_conforms(check, reference)


@lru_cache
def reference_conforms(check: str, reference: Any) -> bool:
    return bool(invariant(check)(reference).passed)


def test_a_decoder_that_shows_examples_is_found() -> None:
    assert invariant("decode")(Polishing()).detail == "decode shows an example to the model"


def test_noise_that_is_hidden_in_collect_is_named() -> None:
    """Outputs collected at epsilon 8 were reused for epsilon 0.1, and nothing noticed."""
    found = invariant("reuse")(EarlyNoise(SIGMA)).detail
    assert found.startswith("noise_in_collect is False, and ")
    assert "differ between epsilon 0.1 and 8: outputs of one claim would be reused" in found


def test_a_cost_without_composition_is_named() -> None:
    found = invariant("cost")(OneTokenCost.calibrated(2.0, 1e-5, tokens=8)).detail
    assert found == (
        "an answer makes 8 releases that depend on an example, and its cost is 2-DP (exponential "
        "mechanism, 2-bounded range, replace_one); it must be compose of one part for each release"
    )


@pytest.mark.parametrize("tokens", [1, 2, 5, 8])
def test_releases_are_counted(tokens: int) -> None:
    made = (
        cm.ProductOfExperts.calibrated(2.0, 1e-5, tokens=tokens),
        cm.BoundedCID(tokens=tokens),
        cm.SyntheticShots.calibrated(2.0, 1e-5, tokens=tokens),
    )
    for mechanism in made:
        assert release_count(Bench(mechanism), *FREE) == tokens
        assert part_count(mechanism.cost(*FREE)) >= tokens


def test_every_invariant_has_a_broken_mechanism() -> None:
    found_by = {check for check, _, _ in BROKEN} | {one.found_by for one in PLANTED}
    assert found_by == {one.name for one in INVARIANTS}


def test_a_broken_mechanism_is_named_in_a_sentence() -> None:
    with pytest.raises(
        AssertionError,
        match=r"report_noisy_max breaks 2 of 22 invariants. .*cost: one answer costs 0.01 at",
    ):
        assert_conforms(Cheap(SIGMA))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 16.0, 50.0])
def test_calibrated_experts_conform_at_every_epsilon(epsilon: float) -> None:
    """The battery compared a free answer with a choice of labels, and accused a correct one."""
    mechanism = cm.ProductOfExperts.calibrated(epsilon, 1e-5, tokens=3)
    found = [check for check in conform(mechanism, pairs=FEW) if not check.passed]
    assert not found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report_noisy_max", "product_of_experts", "keyword_mean/joint"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sound_mechanisms_conform_under_other_seeds(name: str, seed: int) -> None:
    assert_conforms(CATALOGUE[name], seed=seed)


def test_more_partitions_than_usual() -> None:
    assert_conforms(replace(CATALOGUE["report_noisy_max"], partitions=31), pairs=FEW)
