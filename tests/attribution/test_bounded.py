"""Bounded CID, token by token:

the bound holds for every token and span, lambda is the largest that keeps it, and it is shown.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from leakbound.attribution import (
    BoundedTokenDistribution,
    Case,
    InfluenceSettings,
    PromptParts,
    attribute,
    blocks,
    load_influence,
    measure,
)
from leakbound.cli.verbs.attribute.influence import command
from leakbound.errors import UsageError
from leakbound.mechanisms.influence_decoding import BoundedCID
from leakbound.mechanisms.parts.exponential import mix_logits
from leakbound.models import Model, Scripted

NOTE = Path(__file__).parents[2] / "examples" / "note.txt"
QUERY = "What is the door code of Marta?"
seeds = st.integers(0, 2**32 - 1)


def two(seed: int, scale: float) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return scale * rng.normal(size=(3, 7)), scale * rng.normal(size=(3, 7))


@given(
    seeds,
    st.floats(0.1, 30),
    st.floats(0.01, 5),
    st.floats(0.3, 2),
    st.sets(st.integers(0, 6), max_size=4),
)
def test_no_token_leaves_the_prior_by_more_than_the_bound(
    seed: int, scale: float, bound: float, temperature: float, banned: set[int]
) -> None:
    context, prior = two(seed, scale)
    distribution = BoundedTokenDistribution(1.5, temperature, tuple(banned), bound=bound)
    kept = [i for i in range(7) if i not in banned]
    moved = (
        distribution.log_probs(context, prior)[:, kept]
        - distribution.log_probs(prior, prior)[:, kept]
    )
    assert np.abs(moved).max() <= bound + 1e-9
    np.testing.assert_allclose(np.exp(distribution.log_probs(context, prior)).sum(1), 1)


@given(seeds, st.floats(0.05, 3))
def test_lambda_is_the_largest_that_keeps_the_bound(seed: int, bound: float) -> None:
    context, prior = two(seed, 4.0)
    distribution = BoundedTokenDistribution(1.5, 0.8, bound=bound)
    for row, lam in enumerate(distribution.lambdas(context, prior)):
        more = mix_logits(context[row], prior[row], lam + 1e-4, 0.8) - mix_logits(
            context[row], prior[row], 0.0, 0.8
        )
        assert lam == 1.5 or np.abs(more).max() > bound


@given(seeds, st.floats(0.05, 8))
def test_it_is_the_law_of_the_mechanism(seed: int, epsilon: float) -> None:
    context, prior = two(seed, 3.0)
    mechanism = BoundedCID(temperature=0.7, tokens=4, epsilon=epsilon)
    distribution = BoundedTokenDistribution(mechanism.largest, 0.7, bound=epsilon / 4 / 2)
    table = distribution.log_probs(context, prior)
    for row in range(3):
        np.testing.assert_allclose(
            table[row], mechanism.log_p(context[row], prior[row], 4), atol=1e-9
        )


@pytest.mark.slow
@given(seeds, st.floats(0.05, 3))
def test_every_span_stays_within_twice_the_bound(seed: int, bound: float) -> None:
    def logits(prompt: Any, response: Any) -> Any:
        return np.random.default_rng([seed, *prompt]).normal(size=(len(response) + 1, 5)) * 5

    distribution = BoundedTokenDistribution(1.0, bound=bound)
    found = measure(
        Scripted(next_logits=logits),
        PromptParts((1,), (5, 6, 7), (2,)),
        (0, 3),
        [*blocks(3, 1), (0, 3)],
        [distribution],
    )
    assert np.abs(found.signed).max() <= 2 * bound + 1e-9
    assert np.abs(found.signed[0, -1]).max() <= bound + 1e-9


def test_the_loss_of_a_response_stays_within_epsilon(pocket: Model) -> None:
    case = Case(NOTE.read_text().strip(), QUERY)
    for reading in (
        attribute([case], pocket, InfluenceSettings(ngrams=(8,), bounded=6.0, max_tokens=6))
        .attributions[0]
        .readings
    ):
        assert len(reading.lams) == len(reading.tokens)
        assert all(0 <= lam <= 1 for lam in reading.lams)
        assert reading.grids[0].totals.max() <= 6.0
        assert reading.grids[-1].totals[0] <= 3.0


@pytest.mark.slow
def test_the_command_shows_the_lambda_of_every_token(tmp_path: Path) -> None:
    args = ["--context", str(NOTE), "--question", QUERY, "--ngram", "8", "--bounded", "60",
            "--max-tokens", "6", "--out", str(tmp_path), "-v"]  # fmt: skip
    done = CliRunner().invoke(command, args, standalone_mode=False)
    assert done.exit_code == 0, done.output
    reading = load_influence(tmp_path).attributions[0].readings[0]
    shown = ", ".join(
        f"{piece.strip()!r} {lam:.3g}"
        for piece, lam in zip(reading.tokens, reading.lams, strict=True)
    )
    assert f"λ of each token: {shown}" in done.output
    page = (tmp_path / "influence.html").read_text()
    assert all(f"<small>λ {lam:.3g}</small>" in page for lam in reading.lams)
    assert "ε-differentially private for any change of the context" in page
    with (tmp_path / "influence.csv").open() as file:
        shown = {row["token_lambda"] for row in csv.DictReader(file)}
    assert shown == {str(lam) for lam in reading.lams}
    arrays = np.load(io.BytesIO((tmp_path / "influence.npz").read_bytes()))
    np.testing.assert_array_equal(arrays["0/0/lams"], reading.lams)


def test_a_bound_that_cannot_hold_is_refused(pocket: Model) -> None:
    with pytest.raises(UsageError, match="bounded is 0"):
        InfluenceSettings(bounded=0.0)
    with pytest.raises(UsageError, match="Raise --max-tokens to"):
        attribute(
            [Case("a dog", "q", "a long response")],
            pocket,
            InfluenceSettings(bounded=1.0, max_tokens=2),
        )
