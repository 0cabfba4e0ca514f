"""Store contexts on disk as they finish, so that an interrupted attribution can resume."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from pydantic import ValidationError

from leakbound._version import __version__
from leakbound.attribution.cases import Case
from leakbound.attribution.record import Attribution
from leakbound.attribution.settings import InfluenceSettings
from leakbound.errors import StoreError, reason_of
from leakbound.models import Model


class Finished:
    """A file with one line for each finished context, after a line that identifies the inputs.

    The file is PRIVATE and readable only by its owner. Lines from another model, version, settings
    or contexts are not used. Each line is on disk before the next context begins, and a context
    whose line was cut off is measured again.

    Args:
        path: The file.
        model: The model.
        settings: What to measure.
        cases: The contexts (PRIVATE).
        redact: Store no letter of the contexts, like the record.

    Attributes:
        found: Attributions in the file, by number.
    """

    def __init__(
        self,
        path: Path,
        model: Model,
        settings: InfluenceSettings,
        cases: Sequence[Case],
        redact: bool,
    ) -> None:
        self.path, self.redact = path, redact
        known = [
            __version__,
            model.name,
            model.fingerprint,
            astuple(settings),
            [astuple(case) for case in cases],
            redact,
        ]
        self._name = json.dumps({"inputs": hashlib.sha256(json.dumps(known).encode()).hexdigest()})
        self.found = self._read()
        self._whole = False  # whether the file holds complete lines of these inputs and no others

    def _read(self) -> dict[int, Attribution]:
        try:
            text = self.path.read_text(encoding="utf-8")
            lines = text.split("\n")[:-1]  # text after the last line break was cut off
        except (OSError, UnicodeDecodeError):
            lines = []
        found: dict[int, Attribution] = {}
        for line in lines[1:] if lines[:1] == [self._name] else []:
            try:
                number, _, one = line.partition(" ")
                found[int(number)] = Attribution.model_validate_json(one)
            except (ValueError, ValidationError):
                break
        return found

    def add(self, number: int, one: Attribution) -> None:
        """Store a finished context.

        The first call rewrites the file, which drops incomplete and foreign lines.

        Args:
            number: Index of the case.
            one: Its attribution (PRIVATE).

        Raises:
            StoreError: If the file cannot be written.
        """
        self.found[number] = one.redacted() if self.redact else one
        try:
            if self._whole:
                self._append(self.path, [_line(number, self.found[number])])
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                new = self.path.with_name(f".{self.path.name}")
                new.unlink(missing_ok=True)
                self._append(new, [self._name, *(_line(*item) for item in self.found.items())])
                new.replace(self.path)
                self._whole = True
        except OSError as error:
            raise StoreError(
                f"{str(self.path)!r} cannot be written ({reason_of(error)}); choose another folder."
            ) from None

    def _append(self, path: Path, lines: Sequence[str]) -> None:
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())

    def drop(self) -> None:
        """Delete the file once its contexts are in a record."""
        self.path.unlink(missing_ok=True)


def _line(number: int, one: Attribution) -> str:
    return f"{number} {one.model_dump_json()}"
