"""The proof pages: every guarantee has one, with every parameter, and tests that there are.

Also what the pages say of bounds that are not attained, or only nearly.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from dataclasses import MISSING, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

from leakbound._catalogue import option_types
from leakbound.mechanisms import MECHANISMS, BoundedCID, option_names
from leakbound.mechanisms.keyword_mean import joint_range
from leakbound.privacy import NonPrivate, Subsampled
from leakbound.tasks import Query, Task

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "mechanisms"
NAMED = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
ROW = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.M)
CHOICE, FREE = Task("t", ("a", "b")), Task("free")


def with_ones(kind: Any) -> Any:
    """A mechanism whose noise, and all else that has no default, is 1."""
    return kind(*(1.0 for field in fields(kind) if field.default is MISSING))


GUARANTEED = [
    name for name, kind in MECHANISMS.items()
    if not isinstance(with_ones(kind).guarantee, NonPrivate)
]  # fmt: skip


def parameters(kind: Any) -> set[str]:
    """Fields of the class, and options with which its noise is calibrated."""
    return {field.name for field in fields(kind)} | set(option_names(kind))


def others(value: Any, declared: Any) -> list[Any]:
    """Further values of a parameter."""
    choices = [one for one in get_args(declared) if isinstance(one, str)]
    if choices:
        return [one for one in choices if one != value]
    if isinstance(value, int):
        return [value + 1]
    return [value / 2] if value else [0.5]


def charges(mechanism: Any) -> list[Any]:
    costs = [mechanism.cost(task, Query("q")) for task in (CHOICE, FREE)]
    return [mechanism.guarantee, *costs]


def changes_cost(kind: Any, name: str) -> bool:
    """Whether another value of a parameter changes a guarantee or a charge."""
    if name in {field.name for field in fields(kind)}:
        made, declared = with_ones(kind), option_types(kind)[name]
        changed = [replace(made, **{name: one}) for one in others(getattr(made, name), declared)]
    else:
        declared = kind.option_types()[name]
        made = kind.for_claim(1.0, 1e-5)
        values = [one for one in get_args(declared) if isinstance(one, str)]
        changed = [kind.for_claim(1.0, 1e-5, **{name: one}) for one in values]
    return any(charges(one) != charges(made) for one in changed)


def faults(name: str, text: str) -> list[str]:
    """What a page lacks, or says wrongly, of the parameters of a mechanism."""
    kind, rows = MECHANISMS[name], dict(ROW.findall(text))
    missing = [f"no row for {one}" for one in sorted(parameters(kind) - set(rows))]
    unknown = [f"{one} is no parameter" for one in sorted(set(rows) - parameters(kind))]
    wrong = [
        f"{one} changes the charge"
        for one, said in rows.items()
        if one in parameters(kind) and said.startswith("no") and changes_cost(kind, one)
    ]
    return missing + unknown + wrong


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", GUARANTEED)
def test_a_page_names_every_parameter_and_those_that_change_the_charge(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text()
    assert faults(name, page) == []
    assert page.startswith(f"# Proof: {name}\n")
    assert "∎" in page
    assert NAMED.search(page)


def test_a_page_that_lacks_a_parameter_is_found() -> None:
    page = (PAGES / "invisible_ink.md").read_text()
    gone = page.replace("| `temperature` | τ |\n", "")
    assert faults("invisible_ink", gone) == ["no row for temperature"]
    wrong = page.replace("| `temperature` | τ |", "| `temperature` | no: public |")
    assert faults("invisible_ink", wrong) == ["temperature changes the charge"]
    added = page.replace("| `temperature` | τ |", "| `temperature` | τ |\n| `heat` | τ |")
    assert faults("invisible_ink", added) == ["heat is no parameter"]


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_every_named_test_is_there(page: Path) -> None:
    for file, test in NAMED.findall(page.read_text()):
        assert test in functions(file), (file, test)
    assert page.stem in {*GUARANTEED, "index"}


def test_the_index_has_every_mechanism_with_its_relation() -> None:
    text = (PAGES / "index.md").read_text()
    rows = dict(re.findall(r"^\| \[(\w+)\]\(\1\.md\) \| (.+) \|$", text, re.M))
    assert set(rows) == set(GUARANTEED)
    for name, row in rows.items():
        assert f"`{with_ones(MECHANISMS[name]).guarantee.relation}`" in row
        assert f"docs/mechanisms/{name}.md" in (MECHANISMS[name].__doc__ or "")


# --- what is attained


@pytest.mark.parametrize(
    ("words", "most", "top", "moved", "span"),
    [(4, 3, 1, 1, 2), (5, 2, 1, 2, 2), (4, 4, 2, 1, 3), (5, 3, 3, 1, 3), (4, 3, 4, 1, 3),
     (5, 2, 2, 2, 4)],
)  # fmt: skip
def test_joint_choices_lose_exactly_their_range(
    words: int, most: int, top: int, moved: int, span: float
) -> None:
    """The exact loss over all counts up to `most` of the words, `top` of which are chosen, in
    order, and all neighbours: up to `moved` counts rise, and as many fall."""
    sequences = np.array(list(itertools.permutations(range(words), top)))

    def log_law(counts: np.ndarray) -> np.ndarray:
        utility = -(np.sort(counts)[::-1][:top] - counts[sequences]).max(1)
        return utility - np.log(np.exp(utility).sum())  # type: ignore[no-any-return]

    changes = [
        np.bincount(up, minlength=words) - np.bincount(down, minlength=words)
        for risen, fallen in itertools.product(range(moved + 1), repeat=2)
        for up in itertools.combinations(range(words), risen)
        for down in itertools.combinations(sorted(set(range(words)) - set(up)), fallen)
    ]
    lost = 0.0
    for counts in map(np.array, itertools.product(range(most + 1), repeat=words)):
        law = log_law(counts)
        for change in changes:
            if (counts + change).min() >= 0:
                lost = max(lost, float(np.ptp(log_law(counts + change) - law)))
    assert lost == pytest.approx(span, abs=1e-9)
    assert joint_range(top, moved) == span


def test_a_rare_answer_uses_the_whole_epsilon() -> None:
    made, push = BoundedCID(epsilon=2.0), np.array([0.0, 60.0])
    lost = []
    for gap in (0.0, 5.0):
        public = np.array([0.0, -gap])
        one, other = (made.log_p(public + sign * push, public) for sign in (1, -1))
        lost.append(float(np.abs(one - other).max()))
    assert lost[0] == pytest.approx(1.490, abs=1e-3)
    assert lost[1] == pytest.approx(2.0, abs=1e-9)


def mean_epsilon(count: int, rate: float, sigma: float, delta: float) -> float:
    """epsilon of the mean of noisy vectors, if the example moves all probability of each."""
    step = math.sqrt(2 / count) / sigma
    x = np.linspace(-12, 12 + count * step, 100_001)
    weights = stats.binom.pmf(np.arange(count + 1), count, rate)
    moved = sum(w * stats.norm.pdf(x - k * step) for k, w in enumerate(weights))
    still, width = stats.norm.pdf(x), x[1] - x[0]

    def lost(p: Any, q: Any) -> float:
        low, high = 0.0, 20.0
        while high - low > 1e-6:
            middle = (low + high) / 2
            left = np.maximum(p - math.exp(middle) * q, 0).sum() * width
            low, high = (middle, high) if left > delta else (low, middle)
        return high

    return max(lost(moved, still), lost(still, moved))


@pytest.mark.parametrize(
    ("count", "sigma", "mean", "stated"), [(10, 4.0, 2.525, 2.541), (20, 6.0, 2.231, 2.239)]
)
def test_a_mean_of_subsamples_loses_almost_what_is_stated(
    count: int, sigma: float, mean: float, stated: float
) -> None:
    pytest.importorskip("dp_accounting")
    assert mean_epsilon(count, 0.5, sigma, 1e-5) == pytest.approx(mean, abs=1e-3)
    found = Subsampled(sigma / math.sqrt(2), 0.5, count).epsilon(1e-5)
    assert found == pytest.approx(stated, abs=1e-3)
