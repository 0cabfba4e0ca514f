"""What a mechanism leaves of a sure model's answers, known before anything is spent."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from leakbound.auditing.prepare.build import build_served
from leakbound.auditing.spec.audit_spec import make_spec
from leakbound.cli.verbs.protect.answer import say_at_best
from leakbound.errors import TargetError
from leakbound.mechanisms import ProductOfExperts, ReportNoisyMax
from leakbound.models import Model, Scripted
from leakbound.serving import PrivateICL
from leakbound.serving.ledger import Ledger
from leakbound.tasks import Example, Mechanism, Task
from leakbound.utility import at_best

SIX = Task("six", ("a1", "b1", "c1", "d1", "e1", "f1"))
FREE = Task("notes")
ERROR = 5 * 0.5 / math.sqrt(4000)  # of a share of 4,000 releases: 5 standard errors


def served(mechanism: str, epsilon: float, task: Task) -> Mechanism:
    spec = {"mechanism": mechanism, "epsilon": epsilon, "shots": 20}
    labels = {"labels": list(task.labels)} if task.labels else {}
    return build_served(make_spec(spec | labels), task)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_noisy_votes_are_right_as_often_as_the_integral_says(epsilon: float) -> None:
    mechanism = served("report_noisy_max", epsilon, SIX)
    noise, votes = mechanism.vote_noise, mechanism.voters(20)
    assert noise is not None

    def wins(z: float) -> float:  # the voted answer with noise z stays above five others
        return float(norm.pdf(z) * norm.cdf((votes + noise.sigma * z) / noise.sigma) ** 5)

    exact, _ = quad(wins, -12, 12)
    found = at_best(mechanism, SIX, 20, 1e-5)
    assert found is not None
    assert found == pytest.approx(exact, abs=ERROR)


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_experts_that_agree_are_right_as_often_as_the_formula_says(epsilon: float) -> None:
    mechanism = ProductOfExperts(epsilon, group_size=2)
    weight = math.exp(epsilon / 2 * 10)  # 10 experts, each worth the clip C at lambda = epsilon/2C
    found = at_best(mechanism, SIX, 20, 1e-5)
    assert found is not None
    assert found == pytest.approx(weight / (weight + 5), abs=ERROR)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    ["report_noisy_max", "embedding_mean", "invisible_ink", "dp_fusion", "keyword_mean",
     "subsample_average", "bounded_cid", "product_of_experts"],
)  # fmt: skip
def test_more_epsilon_is_worth_more_and_none_is_guessing(mechanism: str) -> None:
    shares = [
        found
        for epsilon in (0.01, 2.0, 30.0)
        if (found := at_best(served(mechanism, epsilon, SIX), SIX, 20, 1e-5)) is not None
    ]
    assert shares[0] == pytest.approx(1 / 6, abs=0.07)
    assert shares[0] < shares[1] < shares[2] + ERROR
    assert shares[2] > 0.9


@pytest.mark.slow
def test_a_free_answer_at_a_small_epsilon_is_that_without_rows() -> None:
    found = at_best(served("dp_fusion", 8.0, FREE), FREE, 20, 1e-5)
    better = at_best(served("product_of_experts", 8.0, FREE), FREE, 20, 1e-5)
    assert found is not None
    assert better is not None
    assert found < 0.06 < 0.9 < better


def test_nothing_is_said_of_what_does_not_answer_as_its_model() -> None:
    mechanism = served("synthetic_shots", 4.0, SIX)  # answers from examples that it makes up
    assert at_best(mechanism, SIX, 20, 1e-5) is None


def gone(*_: object) -> str:
    raise TargetError("nobody is there.")


def last_label(prompt: str) -> str:
    return prompt.split("Label: ")[-1].split()[0]


READS = Scripted(
    last_label, lambda prompt, labels: [prompt.count(f"Label: {one}\n") for one in labels]
)
DEAF = Scripted(lambda prompt: "b1", lambda prompt, labels: range(6))
GONE = Scripted(gone, gone)  # type: ignore[arg-type]
ROWS = [Example(f"row {at}", SIX.labels[at % 6]) for at in range(12)]


@pytest.mark.parametrize("mechanism", [ProductOfExperts(1.0), ReportNoisyMax(2.0, 2)])
@pytest.mark.parametrize(("model", "named"), [(READS, False), (DEAF, True), (GONE, False)])
def test_a_model_that_ignores_examples_is_named_before_anything_is_spent(
    mechanism: Mechanism, model: Model, named: bool, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    ledger = Ledger(tmp_path / "ledger", 100.0, 1e-5)
    served = PrivateICL(mechanism, ROWS, SIX, model, ledger)
    say_at_best(served)
    shown = capsys.readouterr().err
    assert ("whichever of two labels" in shown) == named
    assert "Expect at most" in shown
    assert served.state.answers == 0
