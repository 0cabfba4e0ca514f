"""The public face as a type checker sees it: each misuse is one error, uses none, and examples none
in strict mode.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE.parent / "examples").glob("*.py"))


def errors(*files: Path) -> list[tuple[str, int]]:
    """(file, line) of each error that the type checker reports."""
    command = [sys.executable, "-m", "basedpyright", "--level", "error", "--outputjson"]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, cwd=HERE)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in found]


@pytest.mark.slow
def test_each_misuse_is_an_error_and_no_use_is_one() -> None:
    pytest.importorskip("basedpyright")
    misuses, strict = HERE / "types" / "misuses.py", HERE / "types" / "strict.py"
    lines = misuses.read_text(encoding="utf-8").splitlines()
    first = next(at for at, line in enumerate(lines, 1) if line.startswith("leakbound."))
    assert len(lines) - first + 1 == 20
    found = errors(misuses, HERE / "types" / "uses.py", strict, *EXAMPLES)
    expected = [(misuses.name, line) for line in range(first, len(lines) + 1)]
    assert [one for one in found if one[0] != strict.name] == expected
    assert (strict.name, 4) in found


@pytest.mark.parametrize("name", ["audti", "contextleak"])
def test_a_name_that_does_not_exist_is_an_attribute_error(name: str) -> None:
    import leakbound

    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(leakbound, name)


def test_every_public_name_loads_and_stands_in_dir() -> None:
    import leakbound

    assert dir(leakbound) == sorted(leakbound.__all__)
    for name in leakbound.__all__:
        assert getattr(leakbound, name) is not None


@pytest.mark.parametrize("name", ["canaries", "queries", "scores"])
def test_a_public_module_can_be_imported_from(name: str) -> None:
    module = importlib.import_module(f"leakbound.{name}")
    home = importlib.import_module(f"leakbound.attacks.{name}")
    assert dir(module) == sorted(home.__all__)
    assert all(getattr(module, one) is getattr(home, one) for one in home.__all__)
