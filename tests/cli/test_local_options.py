"""How a local model is loaded, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import cli

from leakbound.attribution import load_influence
from leakbound.cli.options.endpoint import size
from leakbound.errors import UsageError

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4GB", 4 << 30),
        ("512MB", 512 << 20),
        ("1.5g", 3 << 29),
        ("2 GiB", 2 << 30),
        ("1000", 1000),
        ("1tb", 1 << 40),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "4XB", "-1GB", "GB", "1e9"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="such as 4GB"):
        size(text)


@pytest.mark.slow
def test_a_reduced_format_is_another_model(tmp_path: Path) -> None:
    command = ["influence", "--text", "The code of the door is 4821.", "--question",
               "What is the code?", "--response", "4821", "--ngram", "4"]  # fmt: skip
    found = []
    for dtype in ("float32", "bfloat16"):
        out = tmp_path / dtype
        done = cli(*command, "--dtype", dtype, "--memory", "8GB", "--out", str(out))
        assert done.returncode == 0, done.stderr
        found.append(load_influence(out))
    exact, rough = found
    assert rough.provenance["fingerprint"] == f"{exact.provenance['fingerprint']}-bfloat16"
    assert (
        0
        < abs(
            sum(exact.attributions[0].readings[0].log_p)
            - sum(rough.attributions[0].readings[0].log_p)
        )
        < 1
    )


def test_a_budget_that_is_spent_before_the_first_pass(tmp_path: Path) -> None:
    done = cli("influence", "--text", "A b c.", "--memory", "10MB", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "memory budget is 0.01 GB" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "influence.html").exists()
