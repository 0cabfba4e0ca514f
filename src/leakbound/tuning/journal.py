"""What a tuning has found out, one JSON line each, readable by its owner only.

An interruption loses the line in flight.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakbound.errors import StoreError, reason_of

NAME = "candidates.jsonl"


class Journal:
    """Lines of three kinds:

    `scores` of a candidate on some pairs, a finished `candidate`, a `proposal` of the reflection.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise self._broken(error) from None

    def lines(self) -> Iterator[dict[str, Any]]:
        """All whole lines; one that was cut off by an interruption is passed over, and its question
        asked again.
        """
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise self._broken(error) from None
        for line in text.splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and {"kind", "calls"} <= found.keys():
                yield found

    def add(self, kind: str, **values: object) -> None:
        """Append a line durably, on a line of its own even where the last one was cut off."""
        try:
            with self.path.open("a+b") as file:
                file.write((self._gap() + json.dumps({"kind": kind, **values}) + "\n").encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._broken(error) from None

    def _gap(self) -> str:
        with self.path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                return ""
            file.seek(-1, os.SEEK_END)
            return "" if file.read(1) == b"\n" else "\n"

    def _broken(self, error: OSError) -> StoreError:
        where = str(self.path.parent)
        return StoreError(
            f"the tuning folder {where!r} cannot be used ({reason_of(error)}); choose another with "
            "--out."
        )
