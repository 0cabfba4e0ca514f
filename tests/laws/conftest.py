"""Pages may register kinds of their own; the catalogues are as shipped again after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leakbound.attacks import CANARIES, QUERIES, SCORES
from leakbound.mechanisms import MECHANISMS


@pytest.fixture(autouse=True)
def catalogues_as_shipped() -> Iterator[None]:
    shipped = [
        (catalogue, dict(catalogue)) for catalogue in (MECHANISMS, CANARIES, QUERIES, SCORES)
    ]
    yield
    for catalogue, kinds in shipped:
        catalogue.clear()
        catalogue.update(kinds)
