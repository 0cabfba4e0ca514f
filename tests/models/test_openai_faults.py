"""The client against real servers that fail in every known way:

no answer lost, doubled, swapped or made up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
from limits import expires

from leakbound.errors import Refused, TargetError, UsageError
from leakbound.models import Complete, Endpoint
from leakbound.models.http.hosts import join_path
from leakbound.models.openai import OpenAIModel
from leakbound.models.probe import probe_endpoint

pytest.importorskip("uvicorn")

from loopback.faults import FAULTS, Faults
from loopback.parrot import Parrot
from loopback.running import nobody, running

KEY = "sk-kept-away-from-everything-1234"
SECRET = "zanzibar-4417"


def refusing(status: int, **error: str) -> Callable[[int, Any], Any]:
    return lambda number, reply: (status, {"error": {"message": SECRET, **error}})


def requests(count: int) -> list[Complete]:
    return [Complete(f"message {i} {SECRET}") for i in range(count)]


def answers(count: int) -> list[str]:
    return [request.prompt[::-1] for request in requests(count)]  # type: ignore[misc]


def model(*urls: str, key: str | None = None, **options: Any) -> OpenAIModel:
    return OpenAIModel("parrot", Endpoint(urls, **options), key)


@pytest.mark.parametrize(
    "kinds", [FAULTS[:4], FAULTS[4:8], tuple(kind for kind in FAULTS[8:] if kind != "nan")]
)
def test_every_fault_is_outlived(kinds: tuple[str, ...]) -> None:
    """With 20 retries one of 30 requests fails for good with probability 30 * 0.4**21 < 2e-7."""
    app = Faults(Parrot(), rate=0.4, seed=1, kinds=kinds, pause=60)
    with running(app) as url:
        asked = model(url, connections=16, timeout=expires(1.5), retries=20)
        assert asked.answer(requests(30)) == answers(30)
        asked.close()
    assert set(kinds) <= set(app.log)
    assert asked.endpoint.meter.requests == len(app.log)
    assert asked.endpoint.meter.retries == len(app.log) - 30


@pytest.mark.slow
def test_answers_keep_their_order_under_all_faults_at_once() -> None:
    app = Faults(Parrot(pause=0.001), rate=0.25, seed=3, pause=0.05)
    with running(app) as url:
        asked = model(url, connections=32, timeout=60, retries=12)
        assert asked.answer(requests(150)) == answers(150)
        asked.close()


def test_an_endpoint_that_always_fails_ends_in_a_sentence_with_counts() -> None:
    parrot = Parrot(change=refusing(503))
    with (
        running(parrot) as url,
        pytest.raises(TargetError, match=r"fails too often: .* HTTP 503 \(3\)") as error,
    ):
        model(url, retries=1).answer(requests(8))
    assert error.value.exit_code == 4
    assert SECRET not in str(error.value)
    assert 6 <= len(parrot.prompts) <= 16


def test_nobody_at_the_address_ends_in_a_sentence() -> None:
    with nobody() as url, pytest.raises(TargetError, match="no connection"):
        model(url, retries=1).answer(requests(1))


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (400, {"type": "invalid_request_error"}, "HTTP 400, invalid_request_error"),
        (401, {"type": SECRET}, "environment variable"),
        (403, {"code": SECRET}, "no right"),
        (404, {"code": "model_not_found"}, "model_not_found"),
        (307, {}, "redirects"),
    ],
)
def test_a_refusal_is_not_tried_again_and_repeats_nothing(
    status: int, error: dict[str, str], said: str
) -> None:
    parrot = Parrot(change=refusing(status, **error))
    with running(parrot) as url, pytest.raises(Refused, match=said) as refusal:
        model(url, key=KEY).answer(requests(1))
    assert len(parrot.prompts) == 1
    assert refusal.value.status == status
    assert SECRET not in str(refusal.value)
    assert KEY not in str(refusal.value)


def test_a_wait_that_is_asked_for_is_kept_by_all_requests() -> None:
    times: list[float] = []

    def late(number: int, reply: Any) -> Any:
        times.append(time.monotonic())
        return (429, {}, (b"retry-after", b"1")) if number == 1 else (200, reply)

    with running(Parrot(change=late)) as url:
        asked = model(url, connections=1)
        assert asked.answer(requests(2)) == answers(2)
        asked.close()
    assert times[1] - times[0] >= 1  # a bound from below: no load can break it


def test_a_wait_beyond_patience_ends_the_run() -> None:
    wait = lambda number, reply: (429, {}, (b"retry-after", b"86400"))  # noqa: E731
    with (
        running(Parrot(change=wait)) as url,
        pytest.raises(TargetError, match="asks to wait 86400 seconds"),
    ):
        model(url).answer(requests(1))


def test_a_probe_does_not_wait_as_long_as_a_run_would() -> None:
    wait = lambda number, reply: (429, {}, (b"retry-after", b"60"))  # noqa: E731
    with (
        running(Parrot(change=wait)) as url,
        pytest.raises(TargetError, match="asks to wait 60 seconds"),
    ):
        probe_endpoint("parrot", Endpoint((url,)))


FLAGGED = {"error": {"code": "invalid_prompt", "type": "invalid_request_error", "message": SECRET}}
MODERATED = {"error": {"code": 403, "message": SECRET, "metadata": {"reasons": ["violence"]}}}
EMPTY = {"usage": {"prompt_tokens": 9, "completion_tokens": 0}}
FAILED = {"choices": [{"finish_reason": "error", "message": {"role": "assistant", "content": ""}}]}


@pytest.mark.parametrize(
    ("status", "reply", "answer"),
    [
        (400, FLAGGED, "(content filter)"),
        (403, MODERATED, "(content filter)"),
        (200, {**EMPTY, "choices": []}, "(no answer)"),
        (200, EMPTY, "(no answer)"),
        (200, {"choices": [{"index": 0, "message": None}]}, "(no answer)"),
        (200, FAILED, "(no answer)"),
        (500, {"error": {}}, "(no answer)"),
        (200, "blocked by a gateway", "(no answer)"),
        (200, {"choices": [{"message": {"content": "x"}, "score": math.nan}]}, "(no answer)"),
    ],
    ids=[
        "flagged",
        "moderated",
        "no-choice",
        "no-choices",
        "no-message",
        "failed",
        "status-500",
        "no-object",
        "no-number",
    ],
)
def test_a_prompt_that_is_never_answered_is_an_outcome(
    status: int, reply: Any, answer: str
) -> None:
    """Each of them ended the audit, and again on every resume."""
    blocked = answers(3)[1]

    def change(number: int, said: Any) -> Any:
        hit = said["choices"][0]["message"]["content"] == blocked
        return (status, reply) if hit else (200, said)

    with running(Parrot(change=change)) as url:
        asked = model(url, retries=1, connections=1)
        assert asked.answer(requests(3)) == [answers(3)[0], answer, answers(3)[2]]
        asked.close()


def test_an_answer_that_ended_in_an_error_is_asked_for_again() -> None:
    change = lambda number, said: (200, FAILED if number == 1 else said)  # noqa: E731
    with running(Parrot(change=change)) as url:
        asked = model(url, connections=1)
        assert asked.answer(requests(1)) == answers(1)
        asked.close()


def test_the_address_of_a_deployment_as_its_portal_shows_it() -> None:
    end = "openai/deployments/d/chat/completions?api-version=2024-10-21"
    bare = "https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21"
    shown = f"https://x.openai.azure.com/{end}"
    assert join_path(shown, "/chat/completions") == join_path(bare, "/chat/completions") == shown


def test_a_host_that_cannot_be_looked_up_is_refused() -> None:
    with pytest.raises(UsageError, match="is not a web address"):
        Endpoint(("http://a..b.localhost/v1",))
