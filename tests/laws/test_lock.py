"""The lock that `make demo` and `make test` install from: it fits pyproject.toml on every Python
and names no machine.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
FILES = {"local": ("local",), "test": ("local", "test", "dev")}
ENTRY = re.compile(r"(\S+==[^\s=*,]+(?: ; .+)?)(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n")
PYTHONS = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"]
           if re.search(r":: 3\.\d+$", line)]  # fmt: skip


def text_of(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text()


def entries(name: str) -> list[Requirement]:
    """The packages of a file of the lock."""
    return [Requirement(found[1]) for found in ENTRY.finditer(text_of(name))]


def wanted(extras: tuple[str, ...]) -> Iterator[Requirement]:
    """What these extras of the project need, and what builds it."""
    for line in PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["build"]:
        yield Requirement(line)
    for line in (line for extra in extras for line in EXTRAS[extra]):
        need = Requirement(line)
        if need.name == "leakbound":
            yield from wanted(tuple(need.extras))
        else:
            yield need


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_one_version_of_all_that_the_project_needs(name: str, python: str) -> None:
    here = {**default_environment(), "python_version": python, "python_full_version": f"{python}.9"}
    found: dict[str, str] = {}
    for entry in entries(name):
        if entry.marker is None or entry.marker.evaluate(here):
            assert entry.name not in found
            found[entry.name] = str(entry.specifier).removeprefix("==")
    found["torch"] = text_of("torch").strip().removeprefix("torch==")
    for need in wanted(FILES[name]):
        if need.marker is None or need.marker.evaluate(here):
            assert need.specifier.contains(found[canonicalize_name(need.name)]), need


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_the_lock_has_hashes_and_names_no_place(name: str) -> None:
    assert re.sub(r"#.*\n", "", ENTRY.sub("", text_of(name))) == ""
    assert not re.search(r"://|--(index|extra|find)|@", text_of(name))
    torch = re.compile(r"torch$|nvidia-|triton$|cuda-")  # have a version alone, or that of torch
    assert not [entry.name for entry in entries(name) if torch.match(entry.name)]
