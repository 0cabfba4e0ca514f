"""A prompt that is a conversation: messages with roles, as instruct models expect them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakbound.errors import UsageError

ROLES = ("system", "developer", "user", "assistant")
FORM = 'such as {"role": "user", "content": "..."}'


@dataclass(frozen=True, slots=True, repr=False)
class ChatMessage:
    """A message of a conversation (PRIVATE).

    Attributes:
        role: `system`, `developer`, `user` or `assistant`.
        content: Its text, which must not be blank.

    Raises:
        UsageError: If the role is unknown or the content is not a text.
    """

    role: str
    content: str

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise UsageError(
                f"the role of a message is {self.role!r}; it must be {', '.join(ROLES[:-1])} or "
                f"{ROLES[-1]}."
            )
        if not isinstance(self.content, str) or not self.content.strip():
            raise UsageError(
                f"the content of a message of the {self.role} is blank or not a text; it must be a "
                "text. Leave empty messages out."
            )

    def __repr__(self) -> str:
        return f"ChatMessage({self.role}, <private>)"


@dataclass(frozen=True, slots=True, repr=False)
class Chat:
    """A prompt of messages (PRIVATE).

    An endpoint receives the messages as they are. A local model reads them through its chat
    template. A model without a template is refused, as is one whose template does not accept a
    role.

    Attributes:
        messages: At least one message, in order.

    Raises:
        UsageError: If there is no message.

    Examples:
        >>> chat = Chat.of([{"role": "system", "content": "Be brief."},
        ...                 {"role": "user", "content": "Where is the kite?"}])
        >>> [message.role for message in chat.messages]
        ['system', 'user']
    """

    messages: tuple[ChatMessage, ...]

    def __post_init__(self) -> None:
        if not self.messages:
            raise UsageError(f"there is no message; give at least one, {FORM}.")

    def __repr__(self) -> str:
        return f"Chat({len(self.messages)} messages, <private>)"

    @classmethod
    def of(cls, messages: Sequence[Mapping[str, object]]) -> Chat:
        """Read messages in the form that APIs use: objects with `role` and `content`.

        Raises:
            UsageError: If an item is not a message.
        """
        return cls(tuple(_message(number, one) for number, one in enumerate(messages, 1)))

    def plain(self) -> list[dict[str, str]]:
        """The messages in the form that APIs use."""
        return [{"role": one.role, "content": one.content} for one in self.messages]

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(one.role for one in self.messages)


def _message(number: int, one: object) -> ChatMessage:
    fields = sorted(map(str, one)) if isinstance(one, Mapping) else []
    if not isinstance(one, Mapping) or fields != ["content", "role"]:
        got = f"fields {', '.join(fields) or 'none'}" if isinstance(one, Mapping) else "no object"
        raise UsageError(f"message {number} has {got}; it must have a role and a content, {FORM}.")
    return ChatMessage(str(one["role"]), one["content"])
