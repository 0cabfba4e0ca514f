"""The prompt of a case, as a text or as messages, and which part of it is the context."""

from __future__ import annotations

from dataclasses import dataclass

from leakbound.attribution.cases import Case
from leakbound.errors import UsageError
from leakbound.models import Chat, ChatMessage

TEMPLATE = "Document: {context}\n\nQuestion: {query}\nAnswer:"


@dataclass(frozen=True, slots=True)
class ContextPiece:
    """A piece of a context."""

    message: int
    begin: int
    first: int
    length: int


@dataclass(frozen=True, slots=True, repr=False)
class ContextPrompt:
    """A prompt, and the pieces of the context in it (PRIVATE)."""

    prompt: Chat
    pieces: tuple[ContextPiece, ...]
    messages: bool


def prompt_of(case: Case, template: str = TEMPLATE, system: str = "") -> ContextPrompt:
    """The prompt of a case."""
    if case.roles:
        return _of_messages(case, template, system)
    template = user_template(template, system)
    if (system + template).count("{context}") != 1:
        where = "they" if system else "it"
        raise UsageError(
            f"the template is {template!r}{f' and the system message {system!r}' * bool(system)}; "
            f"{where} must hold {{context}} once, and {{query}} where the query stands."
        )
    forms = [("system", system)] * bool(system) + [("user", template)]
    messages = tuple(ChatMessage(role, _fill(text, case)) for role, text in forms)
    at = next(n for n, (_, text) in enumerate(forms) if "{context}" in text)
    begin = len(forms[at][1].partition("{context}")[0].replace("{query}", case.query))
    piece = ContextPiece(at, begin, 0, len(case.context))
    return ContextPrompt(Chat(messages), (piece,), bool(system))


def user_template(template: str, system: str) -> str:
    """The template of the user message."""
    return "{query}" if template == TEMPLATE and "{context}" in system else template


def _fill(template: str, case: Case) -> str:
    before, slot, after = template.partition("{context}")
    parts = (part.replace("{query}", case.query) for part in (before, after))
    return (case.context if slot else "").join(parts)


def _of_messages(case: Case, template: str, system: str) -> ContextPrompt:
    if system or template != TEMPLATE:
        raise UsageError(
            "the context is chat messages, which are shown as they are; leave out the template "
            "and the system message."
        )
    spans = [(first, end) for _, first, end in case.sources]
    messages = [
        ChatMessage(role, case.context[first:end])
        for role, (first, end) in zip(case.roles, spans, strict=True)
    ]
    asked = [ChatMessage("user", case.query)] * bool(case.query)
    pieces = (ContextPiece(n, 0, a, b - a) for n, (a, b) in enumerate(spans))
    return ContextPrompt(Chat((*messages, *asked)), tuple(pieces), True)
