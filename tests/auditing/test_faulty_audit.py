"""An audit of 600 trials behind a server that spoils a fifth of its replies:

the record of the same audit without a fault.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from limits import PATIENCE

from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.models import Capabilities, Complete, Endpoint, Scripted, open_model
from leakbound.tasks import Context

pytest.importorskip("uvicorn")
pytest.importorskip("torch")

from loopback.faults import FAULTS, Faults
from loopback.running import running
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

pytestmark = pytest.mark.torch

SPEC = make_spec(
    {
        "mechanism": "few_shot",
        "pairs": 300,
        "shots": 4,
        "batch_pairs": 50,
        "simulations": 1000,
        "model": "openai/leaky",
    }
)


KINDS = tuple(
    kind for kind in FAULTS if kind != "too_many_until_date"
)  # makes everybody wait for a whole second


def answering(model: Scripted) -> Starlette:
    """A completions server over a scripted model: no tokens, and so no log-probabilities."""

    async def completions(request: Request) -> JSONResponse:
        asked: dict[str, Any] = await request.json()
        (text,) = model.answer([Complete(asked["prompt"])])
        usage = {"prompt_tokens": len(asked["prompt"].split()), "completion_tokens": 1}
        choice = {"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}
        return JSONResponse(
            {"object": "text_completion", "model": "leaky", "choices": [choice], "usage": usage}
        )

    return Starlette(routes=[Route("/v1/completions", completions, methods=["POST"])])


@pytest.mark.slow
def test_hundreds_of_trials(
    rows: Context, leaky: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKBOUND_API_KEY", "sk-1")
    alone, _ = run_audit(prepare(SPEC, leaky, rows=rows), tmp_path / "alone")
    faulty = Faults(answering(leaky), rate=0.2, seed=11, kinds=KINDS, pause=0.05)
    with running(faulty) as url:
        endpoint = Endpoint(
            (url,),
            capabilities=Capabilities.parse("completions"),
            connections=32,
            timeout=PATIENCE,
        )
        there, _ = run_audit(
            prepare(SPEC, open_model("openai/leaky", endpoint=endpoint), rows=rows),
            tmp_path / "there",
        )
    seen = Counter(kind for kind in faulty.log if kind)
    assert set(seen) == set(KINDS)
    assert 0.15 < seen.total() / len(faulty.log) < 0.25
    assert alone.controls is not None
    late = alone.controls.p_value
    assert there.controls == replace(alone.controls, late=late, changed=1.0)
    calls = alone.counts["model_calls"] + 2 * alone.controls.pairs
    same = {"controls": None, "counts": {**alone.counts, "model_calls": calls}}
    assert there.counts == same["counts"]
    assert json.loads(there.results()) | same == json.loads(alone.results()) | same
