"""Which parameters an endpoint accepts, and whether its model reasons, found by asking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from leakbound.models.openai.dialect import LENGTHS, Dialect
from leakbound.models.openai.endpoint import Capabilities
from leakbound.models.openai.faults import Fault
from leakbound.models.openai.generated import Generated, read_generated
from leakbound.models.openai.wire import http_request_for
from leakbound.models.probe.endpoint_probe import ONE, TOKENS, EndpointProbe
from leakbound.models.request import Complete

if TYPE_CHECKING:
    from pydantic import JsonValue

ROOM = 4096  # tokens for reasoning and answer; reasoning on a short question takes hundreds
LENGTH = Dialect(rename={"max_tokens": "max_completion_tokens"})
# tried in turn if an endpoint refuses a request without naming the parameter
GUESSES = (
    LENGTH,
    Dialect(omit=("temperature",)),
    Dialect(omit=("top_p",)),
    Dialect(omit=("stop",)),
    replace(LENGTH, omit=("temperature",)),
    replace(LENGTH, omit=("temperature", "top_p", "stop")),
    Dialect(omit=("temperature", "top_p", "stop")),
)
REFUSED = ("HTTP 400", "HTTP 422")


def ask_dialect(probe: EndpointProbe, chats: bool) -> Generated | None:
    """Ask as an audit does, and change refused parameters until there is an answer."""
    can = Capabilities(chat=chats, completions=not chats)
    kept, body, guesses = probe.dialect, _ask(probe, can), iter(GUESSES)
    while not body and probe.failed in REFUSED:
        named = probe.parameter
        changed = _changed(probe.dialect, named) if named else next(guesses, None)
        if changed is None:
            break
        probe.dialect = changed if named else changed.over(kept)
        body = _ask(probe, can)
    try:
        return _with_room(probe, can, body)
    except Fault:
        probe.dialect = kept
        return None


def _changed(dialect: Dialect, name: str) -> Dialect | None:
    """The dialect without a parameter. A length is first renamed."""
    if name == "max_tokens" and name not in dialect.rename:
        return replace(dialect, rename={**dialect.rename, name: "max_completion_tokens"})
    if name in dialect.omit:
        return None
    renamed = {old: new for old, new in dialect.rename.items() if old != name}
    return replace(dialect, rename=renamed).without(name)


def _ask(probe: EndpointProbe, can: Capabilities) -> dict[str, JsonValue]:
    sent = http_request_for(Complete(ONE, TOKENS), probe.model, can, probe.dialect)
    return probe.ask(sent.path, sent.body, Dialect())


def _with_room(probe: EndpointProbe, can: Capabilities, body: dict[str, JsonValue]) -> Generated:
    """Make room for reasoning, which ends at the first stop text and uses the answer's tokens.

    Raises Fault if no answer can be read.
    """
    found = read_generated(body)
    _note_parameters(probe)
    if not (found.reasoning or _reasoned(body)):
        probe.note("reasoning", False, "the model shows no reasoning")
        return found
    kept, length = probe.dialect, _length_name(probe.dialect)
    probe.dialect = Dialect({length: ROOM}, ("stop",)).over(kept)
    again = _ask(probe, can)
    answered = read_generated(again) if again else found
    room = f"{length} is {ROOM} and stop is left out, so that an answer follows it"
    probe.note("reasoning", True, f"the model reasons before it answers: {room}")
    return answered


def _length_name(dialect: Dialect) -> str:
    given = next((name for name in dialect.params if name in LENGTHS), None)
    return given or dialect.rename.get("max_tokens", "max_tokens")


def _reasoned(body: Mapping[str, JsonValue]) -> bool:
    """Whether reasoning tokens are counted, as OpenAI does without showing them."""
    usage = body.get("usage")
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    tokens = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return isinstance(tokens, int) and tokens > 0


def _note_parameters(probe: EndpointProbe) -> None:
    usual = not probe.dialect
    detail = "takes the usual parameters" if usual else str(probe.dialect)
    probe.note("parameters", usual, detail)
