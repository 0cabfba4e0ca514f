"""Messages as one text, through a chat template, and where each of them stands in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jinja2 import TemplateError

from leakbound.errors import TargetError
from leakbound.models.chat import Chat

__all__ = ["ChatTemplate", "ShownMessage"]

Turns = list[dict[str, str]]
FAILURES = (TemplateError, TypeError, ValueError, LookupError, AttributeError)  # of templates
MARK = "\ue0aa{}\ue0ab"  # of a private-use area, which no template is written in


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """Where a message stands in the text that the model reads.

    Attributes:
        first: Its first character there.
        end: The one after its last.
        skipped: How many blanks at its beginning the template leaves out.
    """

    first: int
    end: int
    skipped: int


class ChatTemplate:
    """Shows messages as a model reads them, and refuses what its template would not show.

    Args:
        render: The template of the model, with the beginning of its answer behind the messages.
    """

    def __init__(self, render: Callable[[Turns], str]) -> None:
        self._render = render
        self._frames: dict[tuple[str, ...], str] = {}  # by roles; no text of a message

    def shown(self, chat: Chat) -> str:
        """The text of a conversation.

        Args:
            chat: The messages.

        Returns:
            What the model reads.

        Raises:
            TargetError: If the template refuses the messages, or leaves one out.
        """
        self._frame(chat.roles)
        return self._rendered(chat.plain())

    def shown_text(self, text: str) -> str:
        """The text of a conversation that is one message of the user.

        Args:
            text: The message; it may be blank.

        Returns:
            What the model reads.

        Raises:
            TargetError: If the template refuses such a message, or leaves it out.
        """
        self._frame(("user",))
        return self._rendered([{"role": "user", "content": text}])

    def places(self, chat: Chat, shown: str) -> tuple[ShownMessage, ...]:
        """Where each message stands.

        Args:
            chat: The messages.
            shown: Their text, as `shown` gives it.

        Returns:
            One place for each message, in order.

        Raises:
            TargetError: If the template changes more of a message than blanks at its ends.
        """
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
        """The text with a mark in place of each message."""
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
                f"the chat template of this model takes no such messages ({why}): "
                f"{', '.join(turn['role'] for turn in turns)}. Put the text of a system message "
                "into that of the user, and let user and assistant take turns."
            ) from None


def _name(number: int, role: str) -> str:
    return f"message {number + 1}, of the {role}"


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip())
