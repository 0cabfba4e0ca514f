"""The content of a prompt or an example: text, an image, or both in order.

All of it is private: no repr shows it.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from leakbound.errors import UsageError
from leakbound.models.chat import Chat


@dataclass(frozen=True, slots=True, repr=False)
class Image:
    """An image (PRIVATE). Images are equal if their hashes are."""

    sha256: str
    png: bytes = field(compare=False)

    def __repr__(self) -> str:
        return "Image(<private>)"

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels, as stated in the file."""
        width, height = struct.unpack(">II", self.png[16:24])
        return width, height


@dataclass(frozen=True, slots=True, repr=False)
class Parts:
    """Texts and at least one image (PRIVATE)."""

    parts: tuple[str | Image, ...]

    def __repr__(self) -> str:
        return "Parts(<private>)"


Content = str | Image | Parts


def join(contents: Iterable[Content]) -> str | Parts:
    """Join contents in order.

    Examples:
        >>> join(["a ", "kite"])
        'a kite'
    """
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
    """Fill a template.

    Examples:
        >>> fill("say {x}", "{x}", "hello")
        'say hello'
    """
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
    """Hide a part of a content.

    Examples:
        >>> without("call 555", "555", "[hidden]")
        'call [hidden]'
    """
    hidden = images_in(part)
    kept = [mark if p in hidden else p for p in _parts(content)]
    return join(
        p.replace(part, mark) if isinstance(p, str) and isinstance(part, str) else p for p in kept
    )


def readable(prompt: object, whole: bool = False) -> str:
    """A prompt in readable form."""
    if isinstance(prompt, Chat):
        return "\n\n".join(f"{one.role}: {one.content}" for one in prompt.messages)
    if not isinstance(prompt, Image | Parts):
        return str(prompt)
    return "".join(
        p if isinstance(p, str) else f"[{_measure(p)}{f' {data_url(p)}' * whole}]"
        for p in _parts(prompt)
    )


def data_url(image: Image) -> str:
    """A URL that contains the bytes of an image."""
    return f"data:image/png;base64,{base64.b64encode(image.png).decode()}"


def measured(content: Content) -> str:
    """The size of a content, without the content itself.

    Examples:
        >>> measured("secret")
        '6 characters'
    """
    return ", ".join(
        f"{len(p)} characters" if isinstance(p, str) else _measure(p) for p in _parts(content)
    )


def _measure(image: Image) -> str:
    width, height = image.size
    return f"an image of {width} x {height} pixels"


def _parts(content: object) -> tuple[str | Image, ...]:
    return content.parts if isinstance(content, Parts) else (content,)  # type: ignore[return-value]
