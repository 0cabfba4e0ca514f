"""The example of a retrieval pipeline:

it retrieves what is asked for, and its audit refutes epsilon = 1.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.tasks import Example

pytest.importorskip("torch")
pytest.importorskip("sklearn")

pytestmark = pytest.mark.torch

FILE = Path(__file__).parents[2] / "examples" / "rag_system.py"


@pytest.fixture(scope="module")
def rag() -> Any:
    spec = importlib.util.spec_from_file_location("rag_example", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RagSystem()


def test_the_document_most_like_the_question_stands_last(rag: Any) -> None:
    words = ("kite", "oar", "lamp", "harbour", "theatre", "soup")
    documents = tuple(Example(f"the {word} of number {i}", "red") for i, word in enumerate(words))
    found = rag.retrieve(documents, "where is the harbour")
    assert len(found) == 4
    assert found[-1] == documents[3]


@pytest.mark.slow  # CI runs it
def test_its_audit_refutes_a_claim_of_one(tmp_path: Path) -> None:
    spec = make_spec(
        {"system": f"python:{FILE}:RagSystem", "shots": 12, "pairs": 40, "epsilon": 1.0}
    )
    record, _ = run_audit(prepare(spec), tmp_path)
    assert record.verdict == "violation"
    assert record.bound.epsilon > 1
