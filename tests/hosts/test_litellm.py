"""LiteLLM with its defaults against a real server on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from services import TOKEN, private, running

from leakbound.mechanisms import ReportNoisyMax
from leakbound.serving import PrivateICL, application

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one when it is imported

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
litellm = pytest.importorskip("litellm")
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.filterwarnings("ignore"),  # LiteLLM's own, of the libraries that it uses
]

TURN: list[Any] = [{"role": "user", "content": "what is this"}]
SYSTEM: list[Any] = [{"role": "system", "content": "Be brief."}, *TURN]
ANSWERS = {"odd", "plain", "(no answer)"}


class Lost(ReportNoisyMax):
    """Fails after the spend."""

    __slots__ = ()

    def collect(self, *args: Any) -> Any:
        raise KeyError("private text")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[tuple[PrivateICL, dict[str, Any]]]:
    """A service, and where LiteLLM finds it."""
    served = private(tmp_path, 99.0)
    with running(application(served, TOKEN)) as url:
        yield served, {"api_base": f"{url}/v1", "api_key": TOKEN}


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm", "litellm_proxy"])
def test_chat(desk: tuple[PrivateICL, dict[str, Any]], provider: str) -> None:
    served, where = desk
    for messages in (TURN, SYSTEM):
        reply = litellm.completion(f"{provider}/support-desk", messages, **where)
        assert reply.choices[0].message.content in ANSWERS
    assert served.state.answers == 2


def test_a_stream_with_usage(desk: tuple[PrivateICL, dict[str, Any]]) -> None:
    _, where = desk
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(litellm.completion("openai/support-desk", TURN, **options, **where))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text in ANSWERS
    assert any(getattr(chunk, "usage", None) is not None for chunk in chunks)


def test_completions_and_responses(desk: tuple[PrivateICL, dict[str, Any]]) -> None:
    served, where = desk
    text = litellm.text_completion(model="text-completion-openai/x", prompt="what is this", **where)
    assert text.choices[0].text in ANSWERS
    pytest.importorskip("mcp")  # litellm.responses imports it
    reply = litellm.responses(model="openai/support-desk", input="what is this", **where)
    assert reply.output[0].content[0].text in ANSWERS
    assert served.state.answers == 2


def test_what_is_refused_is_an_error_with_the_sentence(
    desk: tuple[PrivateICL, dict[str, Any]],
) -> None:
    served, where = desk
    with pytest.raises(litellm.BadRequestError, match="can subtract it"):
        litellm.completion("openai/support-desk", TURN, seed=1, **where)
    with pytest.raises(litellm.BadRequestError, match="max_tokens is 2"):
        litellm.completion("openai/support-desk", TURN, max_tokens=2, **where)
    assert served.state.answers == 0


def test_an_answer_that_fails_is_paid_once(tmp_path: Path) -> None:
    """LiteLLM retries through the official client, which obeys x-should-retry."""
    served = private(tmp_path, 99.0, Lost(ReportNoisyMax.calibrated(1.0, 1e-5).sigma, 10))
    with (
        running(application(served, TOKEN)) as url,
        pytest.raises(litellm.InternalServerError, match="stays spent"),
    ):
        litellm.completion("openai/x", TURN, api_base=f"{url}/v1", api_key=TOKEN)
    assert served.state.answers == 1
