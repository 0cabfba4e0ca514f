"""Channels of a system: each place where the work on one answer leaves a text.

A system names them in its reply. The answer, its seconds and its tool calls are channels of every
system.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from leakbound.errors import UsageError
from leakbound.models.content import Private, whole
from leakbound.systems.protocol import Reply
from leakbound.tasks import ANSWER, GeneratedText
from leakbound.witness import ReplyFacts

ALL, SECONDS, TOOL_CALLS = "all", "seconds", "tool_calls"
TAKEN = frozenset({ALL, ANSWER, SECONDS, TOOL_CALLS})
MOST = 32  # channels of a reply: beyond that, names are made from data, and records show names
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
CHANNELS_MUST = (
    f"a mapping of at most {MOST} fixed names, such as 'logs' and 'memory', to texts or JSON "
    f"values; the names {', '.join(sorted(TAKEN))} are taken"
)


def channel_texts(value: object) -> dict[str, str] | None:
    """The texts of channels as a system gave them.

    Examples:
        >>> channel_texts({"logs": "read 1 file", "messages": ["plan", "done"], "memory": None})
        {'logs': 'read 1 file', 'messages': '["plan", "done"]', 'memory': ''}
        >>> channel_texts({"answer": "the answer is no other channel"}) is None
        True
    """
    if not isinstance(value, Mapping) or len(value) > MOST:
        return None
    if not all(isinstance(name, str) and is_channel(name) for name in value):
        return None
    try:
        return {name: _text(one) for name, one in value.items()}
    except (TypeError, ValueError, RecursionError):
        return None


def is_channel(name: str) -> bool:
    return name not in TAKEN and NAME.fullmatch(name) is not None


def _text(value: object) -> str:
    if value is None:
        return ""
    return whole(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def require_channels(names: Sequence[str]) -> None:
    """Refuse names that no channel has."""
    for at, name in enumerate(names):
        if name not in TAKEN and not is_channel(name):
            raise UsageError(
                f"channels has {name!r}; a name begins with a letter, and has at most 40 letters, "
                "digits, dots, hyphens and underscores."
            )
        if name in names[:at]:
            raise UsageError(f"channels has {name} twice; leave it out once.")
    if ALL in names and len(names) > 1:
        raise UsageError("channels has all beside other names; leave the others out.")


def channels_of(reply: Reply, wanted: Sequence[str]) -> dict[str, GeneratedText]:
    """What went through each channel but the answer."""
    found = {SECONDS: GeneratedText("", reply=ReplyFacts("", seconds=reply.seconds))}
    if reply.tool_calls is not None:
        calls = ReplyFacts("", tool_calls=reply.tool_calls)
        found[TOOL_CALLS] = GeneratedText(_text(list(reply.tool_calls)), reply=calls)
    texts = (reply.channels or {}).items()
    found |= {name: GeneratedText(text, reply=ReplyFacts(text)) for name, text in texts}
    return {name: one for name, one in found.items() if name in wanted or ALL in wanted}


class Trace(Private):
    """What a block of code logged and wrote; filled when `traced` ends (PRIVATE).

    Attributes:
        channels: "logs" and "files", each where it was asked for; a block may add others.
    """

    def __init__(self) -> None:
        self.channels: dict[str, str] = {}


@contextmanager
def traced(logger: str | None = None, folder: str | Path | None = None) -> Iterator[Trace]:
    """Follow the logs and files of a block of code, to return them as channels of a reply.

    Args:
        logger: Name of the logger whose records become the channel "logs", with those of the
            loggers below it; "" for all. None follows no logger.
        folder: Folder whose files become the channel "files": those that are new or have changed.
            None follows no folder.

    Yields:
        A trace, whose `channels` are there when the block has ended.

    Examples:
        >>> log = logging.getLogger("desk")
        >>> with traced("desk") as trace:
        ...     log.warning("found %s", "the invoice")
        >>> trace.channels
        {'logs': 'found the invoice'}
    """
    trace, lines = Trace(), _Lines()
    before = {} if folder is None else _files(Path(folder))
    if logger is not None:
        logging.getLogger(logger).addHandler(lines)
    try:
        yield trace
    finally:
        if logger is not None:
            logging.getLogger(logger).removeHandler(lines)
            trace.channels["logs"] = "\n".join(lines.seen)
        if folder is not None:
            after = _files(Path(folder))
            new = [text for file, text in sorted(after.items()) if before.get(file) != text]
            trace.channels["files"] = "\n".join(new)


class _Lines(logging.Handler):
    """Keeps messages, as they would stand in a log."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))


def _files(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text(encoding="utf-8", errors="replace")
        for file in folder.rglob("*")
        if file.is_file()
    }
