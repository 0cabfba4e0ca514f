"""Render messages as one text with a chat template, and find each message in that text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jinja2 import TemplateError

from leakbound.errors import TargetError
from leakbound.models.chat import Chat

Turns = list[dict[str, str]]
FAILURES = (TemplateError, TypeError, ValueError, LookupError, AttributeError)  # in templates
MARK = "\ue0aa{}\ue0ab"  # characters for private use, which no template contains


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """The position of a message in the text that the model reads."""

    first: int
    end: int
    skipped: int


class ChatTemplate:
    """Renders messages as a model reads them, and refuses what its template would not show."""

    def __init__(self, render: Callable[[Turns], str]) -> None:
        self._render = render
        self._frames: dict[tuple[str, ...], str] = {}  # by roles, without message texts

    def shown(self, chat: Chat) -> str:
        """The text of a conversation."""
        self._frame(chat.roles)
        return self._rendered(chat.plain())

    def shown_text(self, text: str) -> str:
        """The text of a conversation with a single user message."""
        self._frame(("user",))
        return self._rendered([{"role": "user", "content": text}])

    def places(self, chat: Chat, shown: str) -> tuple[ShownMessage, ...]:
        """The position of each message."""
        frame, at, found = self._frame(chat.roles), 0, []
        for number, message in enumerate(chat.messages):
            before, _, frame = frame.partition(MARK.format(number))
            after = frame.partition(MARK.format(number + 1))[0]
            forms = (message.content, message.content.strip(), message.content.lstrip())
            first = at + len(before)
            fits = (form for form in forms if shown.startswith(before + form + after, at))
            form = next(fits, None)
            if form is None:
                raise TargetError(
                    f"the chat template rewrites the prompt ({_name(number, message.role)}), so "
                    "the context cannot be found in it; use a template that keeps it."
                )
            skipped = 0 if form is message.content else _blanks(message.content)
            at = first + len(form)
            found.append(ShownMessage(first, at, skipped))
        return tuple(found)

    def _frame(self, roles: tuple[str, ...]) -> str:
        """The text with a mark in the place of each message."""
        if roles not in self._frames:
            marks = [{"role": r, "content": MARK.format(n)} for n, r in enumerate(roles)]
            frame = self._rendered(marks)
            for number, role in enumerate(roles):
                if MARK.format(number) not in frame:
                    raise TargetError(
                        f"the chat template leaves out {_name(number, role)}, so the model would "
                        "never read it; put its text into the message of the user."
                    )
            self._frames[roles] = frame
        return self._frames[roles]

    def _rendered(self, turns: Turns) -> str:
        try:
            return self._render(turns)
        except FAILURES as error:
            why = error if isinstance(error, TemplateError) else type(error).__name__
            raise TargetError(
                f"the chat template of this model does not accept these messages ({why}): "
                f"{', '.join(turn['role'] for turn in turns)}. Put the text of a system message "
                "into that of the user, and let user and assistant take turns."
            ) from None


def _name(number: int, role: str) -> str:
    return f"message {number + 1}, of the {role}"


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip())
