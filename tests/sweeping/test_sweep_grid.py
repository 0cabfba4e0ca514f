"""The grid: what it takes, what it refuses, and the settings it makes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbound.errors import UsageError
from leakbound.sweeping.grid import (
    Grid,
    describe,
    merge_grids,
    parse_grid,
    settings_of,
)
from leakbound.sweeping.plan import SweepObjects


@given(
    st.dictionaries(
        st.sampled_from(["epsilon", "delta", "pairs"]),
        st.sets(st.integers(1, 9), min_size=1),
        max_size=3,
    )
)
def test_settings_are_every_combination_once(found: dict[str, set[int]]) -> None:
    grid: Grid = {key: tuple(values) for key, values in found.items()}
    made = settings_of(grid)
    assert len(made) == math.prod(len(values) for values in grid.values())
    assert len({describe(changes) for changes in made}) == len(made)
    assert all(set(changes) == set(grid) for changes in made)


def test_values_are_read_as_in_a_configuration_file() -> None:
    grid = parse_grid(
        [
            "epsilon=1,2.5",
            "mechanism=few_shot,zero_shot",
            "score=null,predicted_member",
            "mechanism.lam=0.5,1",
        ]
    )
    assert grid == {
        "epsilon": (1, 2.5), "mechanism": ("few_shot", "zero_shot"),
        "score": (None, "predicted_member"), "mechanism.lam": (0.5, 1)
    }  # fmt: skip


def test_the_command_line_wins_over_the_file() -> None:
    assert merge_grids({"epsilon": [1, 2], "delta": [1e-5]}, parse_grid(["epsilon=4"])) == {
        "epsilon": (4,),
        "delta": (1e-5,),
    }


def test_options_of_a_mechanism_are_joined_to_those_of_the_base() -> None:
    base = {"mechanism": {"kind": "context_influence_decoding", "temperature": 0.8, "lam": 9}}
    spec, _ = SweepObjects().point(base, {"mechanism.lam": 0.5, "epsilon": 3}, seed=7)
    assert spec.system.mechanism.options == {"temperature": 0.8, "lam": 0.5}
    assert (spec.decision.epsilon, spec.design.seed) == (3, 7)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["epsilon"], "KEY=VALUE,VALUE"),
        (["epsilon="], "KEY=VALUE,VALUE"),
        (["epsilon=1,1"], "one value twice"),
        (["epsilon=1", "epsilon=2"], "names 'epsilon' twice"),
        (["rows=1"], "with --data"),
        (["options=1"], "mechanism.lam"),
        (["option.lam=1"], "it is 'mechanism.lam' now"),
        (["epsilon={a: 1}"], "numbers or names"),
    ],
)
def test_a_grid_that_cannot_be_is_refused_with_a_sentence(texts: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_grid(texts)


@pytest.mark.parametrize("grid", [3, {"epsilon": []}, {"epsilon": [[1]]}, {"epsilon": {"a": 1}}])
def test_a_grid_of_a_file_is_refused_with_a_sentence(grid: Any) -> None:
    with pytest.raises(UsageError, match="grid"):
        merge_grids(grid)
