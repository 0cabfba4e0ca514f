"""Text as any file can hold it."""

from __future__ import annotations

__all__ = ["whole"]


def whole(text: str) -> str:
    """A text without halves of characters.

    Args:
        text: Any text, such as a reply that was cut within an emoji.

    Returns:
        The text; two halves that follow each other become their character, and a half alone
        becomes the replacement character.

    Examples:
        >>> whole("yes \\ud83d\\ude00 and \\ud83d") == "yes \U0001f600 and \ufffd"
        True
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
