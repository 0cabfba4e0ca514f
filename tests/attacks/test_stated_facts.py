"""What a class states of its code is not taken for the code of another, wherever it is stated."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import leakbound
from leakbound._members import holds_for
from leakbound.attacks import Canary, Coded, ContainsCanary, Hex, PredictedMember, RenderedQuery
from leakbound.attacks.scores import Unanswered, output_texts
from leakbound.errors import UsageError
from leakbound.estimators import ClopperPearson, Estimator, Exact, TrialDesign
from leakbound.estimators.base import Reads
from leakbound.stats.arrays import Floats
from leakbound.tasks import Example, Outputs

ROWS = [(f"message {at} is about rain in town {at * 7}", "ab"[at % 2]) for at in range(400)]
FREE: dict[str, Any] = {"query": "recall", "pairs": 30, "shots": 10, "epsilon": 4.0}


@dataclass(frozen=True, slots=True)
class Nearly(ContainsCanary):
    """It was taken for the score that is 1 where a reply holds the random code."""

    name: ClassVar[str] = "nearly"

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        return np.array([float("no record" in text) for text in output_texts(outputs)])


@dataclass(frozen=True, slots=True)
class NearlyStated(Nearly):
    quotes: ClassVar[bool] = False

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        return Nearly.score(self, outputs, rendered, answers)


@dataclass(frozen=True, slots=True)
class Numbered(Coded):
    """The number of a row in a public register was taken for a random code."""

    name: ClassVar[str] = "numbered"

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        code = hashlib.sha256(str(held_out.input).encode()).hexdigest()[:12]
        return Example(f"{held_out.input}. Reference code: {code}", held_out.label)


@dataclass(frozen=True, slots=True)
class NumberedStated(Numbered):
    of_rows: ClassVar[bool] = True
    code_digits: ClassVar[int] = 0  # type: ignore[assignment, misc]

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Numbered.make(self, held_out, label, rng)


def register(context: list[str], query: str) -> str:
    return next(
        (hashlib.sha256(text.encode()).hexdigest()[:12] for text, _ in ROWS if text in query),
        "I have no record of this.",
    )


def test_a_score_of_other_code_does_not_inherit_that_it_quotes(tmp_path: Path) -> None:
    """An honest application was a violation, epsilon at least 19."""
    with pytest.raises(UsageError, match="score is Nearly, which inherits quotes and overrides"):
        leakbound.audit(ROWS, system=register, canary="coded", score=Nearly(), out=tmp_path, **FREE)
    found = leakbound.audit(
        ROWS, system=register, canary="coded", score=NearlyStated(), out=tmp_path, **FREE
    )
    assert found.verdict != "violation"
    assert (found.bound.epsilon or 0.0) < 1


@pytest.mark.slow
def test_a_canary_of_other_code_does_not_inherit_its_random_digits(tmp_path: Path) -> None:
    """An honest application that answers from a public register was a violation."""
    with pytest.raises(UsageError, match="canary is Numbered, which inherits code_digits and over"):
        leakbound.audit(ROWS, system=register, canary=Numbered(), out=tmp_path, **FREE)
    for seed in range(3):
        out = tmp_path / str(seed)
        found = leakbound.audit(
            ROWS, system=register, canary=NumberedStated(), out=out, seed=seed, **FREE
        )
        assert found.verdict != "violation"


@dataclass(frozen=True)
class OfARow(Canary):
    """It says nothing of the rows that its text is made of."""

    name: ClassVar[str] = "of_a_row"

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Example(f"{held_out.input} again", label)


@dataclass(frozen=True, slots=True)
class HexOfARow(Hex):
    name: ClassVar[str] = "hex_of_a_row"

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Example(f"{held_out.input} again", label)


@pytest.mark.slow
def test_a_canary_may_be_made_of_rows_unless_it_says_otherwise(tmp_path: Path) -> None:
    """Private rows stood in record.json."""
    leakbound.audit(ROWS, canary=OfARow(), pairs=6, shots=4, out=tmp_path)
    (record,) = tmp_path.rglob("record.json")
    assert json.loads(record.read_text())["verdict"]
    assert not [text for text, _ in ROWS if text in record.read_text()]
    with pytest.raises(UsageError, match=r"set (code_digits|of_rows) in HexOfARow itself"):
        leakbound.audit(ROWS, canary=HexOfARow(), pairs=6, shots=4, out=tmp_path)


@dataclass(frozen=True, slots=True)
class Silent(PredictedMember):
    """As `unanswered`, under another name."""

    name: ClassVar[str] = "silent"
    of_votes: ClassVar[Any] = "none"
    counts_unreadable: ClassVar[bool] = True

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        return np.asarray(outputs.answers >= len(answers), float)

    chances = Unanswered.chances


@pytest.mark.slow
def test_what_a_score_reads_is_not_found_by_its_name(tmp_path: Path) -> None:
    found = []
    for score in (Unanswered(), Silent()):
        rng = random.Random(9)

        def filtered(
            context: list[Any], query: str, draw: Callable[[], float] = rng.random
        ) -> dict[str, str]:
            seen = any(row.input in query for row in context)
            return {"text": "(filtered)" if draw() < (0.7 if seen else 0.3) else "no"}

        result = leakbound.audit(
            ROWS, system=filtered, pairs=60, shots=10, epsilon=2.0, score=score, controls=30,
            query="membership", canary="hex", out=tmp_path / score.name,
        )  # fmt: skip
        found.append((result.verdict, result.reason, result.bound.epsilon))
    assert found[0] == found[1]


class _OfTrials(Exact):
    def begin(self, design: TrialDesign) -> Any:
        return ClopperPearson().begin(design)


class _NamedExact(_OfTrials):
    name: ClassVar[str] = "exact"
    anytime: ClassVar[bool] = False
    simultaneous: ClassVar[bool] = True
    reads: ClassVar[frozenset[Reads]] = frozenset({"trials"})

    def begin(self, design: TrialDesign) -> Any:
        return ClopperPearson().begin(design)


@pytest.mark.parametrize(
    ("estimator", "sentence"),
    [
        (_OfTrials(), "estimator is _OfTrials, which inherits name and overrides"),
        (_NamedExact(), "is called exact, as one of leakbound that reads something else"),
    ],
)
def test_a_bound_from_trials_is_not_called_exact(
    estimator: Estimator, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=sentence):
        leakbound.audit(ROWS, estimator=estimator, pairs=10, shots=4, out=tmp_path)


class _Made:
    def __init__(self) -> None:
        self.exactness = "full"

    def collect(self) -> None: ...


class _Changed(_Made):
    def collect(self) -> None: ...


@dataclass(frozen=True)
class _WithField:
    exactness: str

    def collect(self) -> None: ...


class _ChangedField(_WithField):
    def collect(self) -> None: ...


def test_a_member_of_the_object_is_stated_by_the_class_that_makes_it() -> None:
    """A violation was none where the same was set in `__init__`."""
    assert holds_for(_Made(), "exactness", ())
    assert holds_for(_WithField("full"), "exactness", ())
    assert not holds_for(_Changed(), "exactness", ())
    assert not holds_for(_ChangedField("full"), "exactness", ())
    assert not holds_for(_WithField("full"), "vote_noise", ())
