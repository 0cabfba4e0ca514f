"""One name, one meaning: a class or a type has a name of its own in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import get_args

import pytest
from sources import SOURCES

from leakbound._catalogue import Catalogue
from leakbound.api import parameters
from leakbound.attacks import CANARIES, QUERIES, SCORES
from leakbound.estimators import ESTIMATORS
from leakbound.mechanisms import MECHANISMS

# Names with more than one definition, and why each is one name for one meaning.
SHARED = {
    "EProcess": "the estimator, a value, and the process that it begins over paired trials",
    "Floats": "arrays of floats; models answer in single precision",
    "Json": "an object of a JSON file, of which an old record says nothing more",
}


def defined(path: Path) -> dict[str, str]:
    """Public classes and type aliases of a file by name; an alias by what it stands for."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = f"class of {path}"
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for one in targets if isinstance(one, ast.Name)]
            found.update(dict.fromkeys(filter(looks_like_a_type, names), ast.unparse(node.value)))
    return {name: what for name, what in found.items() if not name.startswith("_")}


def looks_like_a_type(name: str) -> bool:
    """`Floats`, and not `LIMIT` or `limit`; type variables are local to their file."""
    return name[0].isupper() and not name.isupper()


def test_a_name_of_a_type_has_one_meaning() -> None:
    meanings: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES:
        for name, what in defined(path).items():
            meanings[name].add(what)
    shared = {name for name, found in meanings.items() if len(found) > 1}
    assert shared == SHARED.keys(), {name: meanings[name] for name in shared ^ SHARED.keys()}


@pytest.mark.parametrize(
    ("names", "catalogue"),
    [
        (parameters.MechanismName, MECHANISMS), (parameters.CanaryName, CANARIES),
        (parameters.QueryName, QUERIES), (parameters.ScoreName, SCORES),
        (parameters.EstimatorName, ESTIMATORS),
    ],
)  # fmt: skip
def test_types_name_every_component_of_this_package(
    names: object, catalogue: Catalogue[object]
) -> None:
    own = {name for name in catalogue if catalogue[name].__module__.startswith("leakbound.")}
    assert {*get_args(names)} == own
