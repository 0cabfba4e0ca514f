"""Text as any file can hold it."""

from __future__ import annotations


def whole(text: str) -> str:
    """A text without halves of characters.

    Examples:
        >>> whole("yes \\ud83d\\ude00 and \\ud83d") == "yes 😀 and �"
        True
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
