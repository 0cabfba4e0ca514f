"""An endpoint that does not sample is noticed:

all candidates of a mechanism that samples them are one text.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.models import Capabilities, Endpoint, open_model

pytest.importorskip("uvicorn")
pytest.importorskip("torch")

from loopback.running import running
from loopback.speaking import speaking

pytestmark = pytest.mark.torch

SPEC = {"mechanism": "embedding_mean", "query": "repeat", "canary": "natural", "pairs": 1,
        "controls": 1, "shots": 4, "mechanism.partitions": 2, "mechanism.candidates": 3,
        "simulations": 100, "insertion": "replace"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ignores", [True, False])
def test_candidates_that_are_one_text_are_told(ignores: bool, tmp_path: Path) -> None:
    can = Capabilities(completions=True, embeddings=True, seed=True)
    with running(speaking(dialect="vllm", ignore_temperature=ignores)) as url:
        model = open_model("openai/pocket", endpoint=Endpoint((url,), capabilities=can))
        record, _ = run_audit(prepare(make_spec(SPEC), model), tmp_path)
        model.close()  # type: ignore[attr-defined]
    assert any("one and the same text" in warning for warning in record.warnings) == ignores
