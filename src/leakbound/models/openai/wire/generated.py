"""Read what a model generated from a reply: its answer, and separately its reasoning.

A refusal, a content filter and an empty answer are outcomes like any other text. They can reveal
the context too, so they are answers, not errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from leakbound._text import whole
from leakbound.models.http.post_json import Fault

if TYPE_CHECKING:
    from pydantic import JsonValue

AnswerKind = Literal[
    "text", "refusal", "content_filter", "tool_call", "empty", "reasoning_only", "no_answer",
]  # fmt: skip
NAMES = "think|thinking|thought|thoughts|reasoning"
# how models mark reasoning in their text: opening and closing marks
MARKS = tuple(
    (re.compile(opens, re.IGNORECASE), re.compile(closes, re.IGNORECASE))
    for opens, closes in (
        (f"<(?:{NAMES})>", f"</(?:{NAMES})>"),
        (rf"\[(?:{NAMES})\]", rf"\[/(?:{NAMES})\]"),
        (r"<\|channel\|>analysis<\|message\|>", r"<\|channel\|>final<\|message\|>"),
    )
)
REASONING = ("reasoning_content", "reasoning")  # names of the field, by server and release


@dataclass(frozen=True, slots=True, repr=False)
class Generated:
    """What a model generated (PRIVATE)."""

    text: str
    reasoning: str = ""
    outcome: AnswerKind = "text"
    cut: bool = False

    @property
    def answer(self) -> str:
        """The answer as attacks read it: a text, after the outcome in brackets if it is unusual."""
        if self.outcome in ("refusal", "content_filter", "tool_call", "no_answer"):
            return f"({self.outcome.replace('_', ' ')}) {self.text}".rstrip()
        return self.text


FILTERED = Generated("", outcome="content_filter")  # for a prompt that the endpoint refuses
LOST = Generated("", outcome="no_answer")  # for a prompt at which the endpoint always fails


def choice_of(reply: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    choices = reply.get("choices")
    if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict):
        return choices[0]
    raise Fault("a reply without exactly one choice", of_prompt=True)


def read_generated(reply: Mapping[str, JsonValue]) -> Generated:
    choice = choice_of(reply)
    ended = choice.get("finish_reason")
    if ended == "error":
        raise Fault("a reply that ended in an error", of_prompt=True)
    message = choice.get("message")
    found = _of_message(message) if isinstance(message, dict) else _of_text(choice)
    outcome: AnswerKind = "content_filter" if ended == "content_filter" else found.outcome
    return Generated(whole(found.text), whole(found.reasoning), outcome, ended == "length")


def _of_text(choice: Mapping[str, JsonValue]) -> Generated:
    text = choice.get("text")
    if isinstance(text, str):
        return _sort(*without_reasoning(text))
    if choice.get("finish_reason") == "content_filter":
        return FILTERED
    raise Fault("a reply without text", of_prompt=True)


def _of_message(message: Mapping[str, JsonValue]) -> Generated:
    parts = _parts(message.get("content"))
    refusal = message.get("refusal") or "".join(parts["refusal"])
    before = [str(message[name]) for name in REASONING if message.get(name)][:1]
    text, inside = without_reasoning("".join(parts["text"]))
    reasoning = "".join([*before, *parts["reasoning"], inside])
    text = text.lstrip() if reasoning else text  # models end their reasoning with empty lines
    if refusal:
        return Generated(f"{text}{refusal}", reasoning, "refusal")
    if not text and (message.get("tool_calls") or message.get("function_call")):
        return Generated("", reasoning, "tool_call")
    return _sort(text, reasoning)


def _sort(text: str, reasoning: str) -> Generated:
    if text:
        return Generated(text, reasoning)
    return Generated("", reasoning, "reasoning_only" if reasoning else "empty")


def _parts(content: JsonValue) -> dict[str, list[str]]:
    """The texts of a content by kind. Some endpoints write it as a list of parts."""
    found: dict[str, list[str]] = {"text": [], "refusal": [], "reasoning": []}
    for part in content if isinstance(content, list) else [content]:
        kind, text = _part(part)
        found[kind].append(text)
    return found


def _part(part: JsonValue) -> tuple[str, str]:
    if isinstance(part, str):
        return "text", part
    if not isinstance(part, dict):
        return "text", ""
    if part.get("type") in ("thinking", "reasoning"):
        held = part.get("thinking") or part.get("reasoning") or part.get("text")
        return "reasoning", "".join(_parts(held)["text"])
    refusal, text = part.get("refusal"), part.get("text")
    if isinstance(refusal, str):
        return "refusal", refusal
    return "text", text if isinstance(text, str) else ""


def without_reasoning(text: str) -> tuple[str, str]:
    """Separate the reasoning from a text.

    Reasoning ends at its closing mark, whether its opening mark is in the text or ended the prompt.
    Text after an opening mark that is never closed is also reasoning; any answer is before it.

    Examples:
        >>> without_reasoning("<think>They ask for 12.</think> yes")
        ('yes', 'They ask for 12.')
        >>> without_reasoning("They ask for 12.</think>yes")
        ('yes', 'They ask for 12.')
        >>> without_reasoning("<think>They ask")
        ('', 'They ask')
        >>> without_reasoning("yes <THOUGHT>Or was it")
        ('yes', 'Or was it')
    """
    for opens, closes in MARKS:
        if opens.search(text) or closes.search(text):
            return _divide(text, opens, closes)
    return text, ""


def _divide(text: str, opens: re.Pattern[str], closes: re.Pattern[str]) -> tuple[str, str]:
    """(answer, reasoning): the answer follows the last closing mark, or precedes the first mark."""
    ends = [*closes.finditer(text)]
    if not ends:
        answer, reasoning = _parted(text, opens)
        return answer.rstrip(), reasoning
    head, (answer, more) = text[: ends[-1].start()], _parted(text[ends[-1].end() :], opens)
    if answer.strip():
        inside = opens.sub("", head, count=1).strip()
        return answer.lstrip(), f"{inside} {more}".strip()
    before, inside = _parted(head, opens) if opens.search(head) else ("", head.strip())
    return before.rstrip(), f"{inside} {more}".strip()


def _parted(text: str, mark: re.Pattern[str]) -> tuple[str, str]:
    """The text before a mark and the text after it."""
    found = mark.search(text)
    return (text[: found.start()], text[found.end() :].strip()) if found else (text, "")
