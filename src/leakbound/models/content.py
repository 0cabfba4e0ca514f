"""The content of a prompt or an example: text, an image, or both in order.

All of it is private: no repr shows it.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from leakbound.errors import UsageError

ROLES = ("system", "developer", "user", "assistant")
FORM = 'such as {"role": "user", "content": "..."}'


@dataclass(frozen=True, slots=True, repr=False)
class ChatMessage:
    """A message of a conversation (PRIVATE).

    Attributes:
        role: `system`, `developer`, `user` or `assistant`.
        content: Its text, which must not be blank.
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
        return cls(tuple(_as_message(number, one) for number, one in enumerate(messages, 1)))

    def plain(self) -> list[dict[str, str]]:
        """The messages in the form that APIs use."""
        return [{"role": one.role, "content": one.content} for one in self.messages]

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(one.role for one in self.messages)


def _as_message(number: int, one: object) -> ChatMessage:
    fields = sorted(map(str, one)) if isinstance(one, Mapping) else []
    if not isinstance(one, Mapping) or fields != ["content", "role"]:
        got = f"fields {', '.join(fields) or 'none'}" if isinstance(one, Mapping) else "no object"
        raise UsageError(f"message {number} has {got}; it must have a role and a content, {FORM}.")
    return ChatMessage(str(one["role"]), one["content"])


class Private:
    """Base of values that are PRIVATE as a whole: no repr shows anything of them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<private>)"


@dataclass(frozen=True, slots=True, repr=False)
class Image(Private):
    sha256: str
    png: bytes = field(compare=False)

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels, as stated in the file."""
        width, height = struct.unpack(">II", self.png[16:24])
        return width, height


@dataclass(frozen=True, slots=True, repr=False)
class Parts(Private):
    """Texts and at least one image (PRIVATE)."""

    parts: tuple[str | Image, ...]


Content = str | Image | Parts


def join(contents: Iterable[Content]) -> str | Parts:
    found = list(contents)
    try:
        return "".join(found)  # type: ignore[arg-type]
    except TypeError:  # there is an image among them
        pass
    merged: list[str | Image] = []
    for part in (part for content in found for part in _parts(content)):
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part:
            merged.append(part)
    return Parts(tuple(merged))


def fill(template: str, slot: str, content: Content) -> str | Parts:
    first, *rest = template.split(slot)
    return join([first, *(part for text in rest for part in (content, text))])


def images_in(content: object) -> list[Image]:
    return (
        [p for p in _parts(content) if isinstance(p, Image)]
        if isinstance(content, Image | Parts)
        else []
    )


def text_only(content: Content, who: str) -> str:
    """Require that a content is a text."""
    if not isinstance(content, str):
        raise UsageError(f"{who} takes texts only, and an input holds an image; use rows of text.")
    return content


def content_key(content: Content) -> str | list[str | dict[str, str]]:
    """A JSON-compatible form of a content, different for any two contents."""
    if isinstance(content, str):
        return content
    return [part if isinstance(part, str) else {"sha256": part.sha256} for part in _parts(content)]


def without(content: Content, part: Content, mark: str) -> str | Parts:
    """Hide a part of a content."""
    hidden = images_in(part)
    kept = [mark if p in hidden else p for p in _parts(content)]
    return join(
        p.replace(part, mark) if isinstance(p, str) and isinstance(part, str) else p for p in kept
    )


def readable(prompt: object, whole: bool = False) -> str:
    if isinstance(prompt, Chat):
        return "\n\n".join(f"{one.role}: {one.content}" for one in prompt.messages)
    if not isinstance(prompt, Image | Parts):
        return str(prompt)
    return "".join(
        p if isinstance(p, str) else f"[{_measure(p)}{f' {data_url(p)}' * whole}]"
        for p in _parts(prompt)
    )


def data_url(image: Image) -> str:
    return f"data:image/png;base64,{base64.b64encode(image.png).decode()}"


def content_size(content: Content) -> str:
    """The size of a content, without the content itself."""
    return ", ".join(
        f"{len(p)} characters" if isinstance(p, str) else _measure(p) for p in _parts(content)
    )


def _measure(image: Image) -> str:
    width, height = image.size
    return f"an image of {width} x {height} pixels"


def _parts(content: object) -> tuple[str | Image, ...]:
    return content.parts if isinstance(content, Parts) else (content,)  # type: ignore[return-value]


def whole(text: str) -> str:
    """A text without halves of characters.

    Examples:
        >>> whole("yes \\ud83d\\ude00 and \\ud83d") == "yes 😀 and �"
        True
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
