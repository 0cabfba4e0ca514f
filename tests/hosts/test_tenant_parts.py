"""Audits between tenants over a collection of chromadb, with and without a cache of answers."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rag_words import hashed
from stores import DISPOSABLE
from tenants import NOTHING

import leakbound
from leakbound.tasks import Example

pytest.importorskip("chromadb")
pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]
NUMBERS = itertools.count()


def embedded(text: str) -> Any:
    return np.array(hashed(text))


class Desk:
    """Answers word for word with the nearest record of a collection, and caches answers.

    Args:
        filtered: Whether the search has a `where` filter on the tenant.
        cached: Whether answers to like questions are kept, for `all` tenants or for `each`.
    """

    def __init__(self, filtered: bool, cached: str = "") -> None:
        import chromadb

        client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
        self.records = client.create_collection(f"records-{next(NUMBERS)}")
        self.filtered, self.cached = filtered, cached
        self.kept: list[tuple[str, Any, str]] = []

    def open_tenant(self, tenant: str) -> DeskSession:
        return DeskSession(self, tenant)


class DeskSession:
    def __init__(self, desk: Desk, tenant: str) -> None:
        self.desk, self.tenant = desk, tenant

    def plant(self, record: Example) -> str:
        text, number = str(record.input), str(next(NUMBERS))
        self.desk.records.add(
            ids=[number], documents=[text], embeddings=[embedded(text)],
            metadatas=[{"tenant": self.tenant}],
        )  # fmt: skip
        return number

    def remove(self, record_id: str) -> None:
        self.desk.records.delete(ids=[record_id])

    def ask(self, query: str) -> str:
        asked = embedded(query)
        for tenant, known, answer in self.desk.kept:
            if tenant in ("", self.tenant) and float(known @ asked) > 0.95:
                return answer
        where = {"tenant": self.tenant} if self.desk.filtered else None
        found = self.desk.records.query(query_embeddings=[asked], n_results=1, where=where)
        answer = "\n".join(found["documents"][0]) or NOTHING
        if self.desk.cached:
            self.desk.kept.append(
                (self.tenant if self.desk.cached == "each" else "", asked, answer)
            )
        return answer


SYSTEMS = (
    pytest.param({"filtered": False}, "violation", id="no where filter"),
    pytest.param({"filtered": True}, "no_violation", id="where filter"),
    pytest.param({"filtered": True, "cached": "all"}, "violation", id="one cache"),
    pytest.param({"filtered": True, "cached": "each"}, "no_violation", id="a cache each"),
)


@pytest.mark.parametrize(("options", "verdict"), SYSTEMS)
def test_a_collection_and_a_cache(options: dict[str, Any], verdict: str, tmp_path: Path) -> None:
    desk = Desk(**options)
    result = leakbound.audit(
        system=desk, design="tenants", pairs=40, calls=DISPOSABLE, out=tmp_path
    )
    assert (result.verdict, result.claim.epsilon) == (verdict, 0)
    assert desk.records.count() == 0


@pytest.mark.parametrize(("cached", "verdict"), [("", "no_violation"), ("each", "violation")])
def test_deletions_from_a_collection(cached: str, verdict: str, tmp_path: Path) -> None:
    desk = Desk(filtered=False, cached=cached)
    handbook = "The office is open from nine to five."
    desk.records.add(ids=["handbook"], documents=[handbook], embeddings=[embedded(handbook)])
    result = leakbound.audit(
        system=desk, design="deletion", pairs=40, calls=DISPOSABLE, out=tmp_path
    )
    assert (result.verdict, result.claim.epsilon) == (verdict, 0)
    assert desk.records.count() == 1
