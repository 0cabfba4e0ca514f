"""Contexts that are done, on disk as they finish, so that an interrupted attribution resumes."""

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
from leakbound.errors import StoreError
from leakbound.models import Model

__all__ = ["Finished"]


class Finished:
    """A file with a line for every finished context, after one that names the inputs.

    It is PRIVATE and readable by its owner only. What another model, other settings, contexts or
    another version left there is not used. Each line is on disk before the next context begins,
    and a line that was cut off is measured again.

    Args:
        path: The file.
        model: The model.
        settings: What is measured.
        cases: The contexts (PRIVATE).
        redact: Keep no letter of the contexts, as the record will.

    Attributes:
        found: Attributions that the file holds, by number.
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
        self._name = json.dumps({"inputs": _digest(model, settings, cases, redact)})
        self.found = self._read()
        self._whole = False  # does the file hold whole lines of these inputs, and nothing else?

    def _read(self) -> dict[int, Attribution]:
        try:
            text = self.path.read_text(encoding="utf-8")
            lines = text.split("\n")[:-1]  # what no line break ends was cut off
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
        """Keep a finished context.

        The first one rewrites the file, so that nothing cut off or foreign stays in it.

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
                self._rewrite()
        except OSError as error:
            raise StoreError(
                f"{str(self.path)!r} cannot be written ({error}); choose another folder."
            ) from None

    def _rewrite(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = self.path.with_name(f".{self.path.name}")
        new.unlink(missing_ok=True)
        self._append(new, [self._name, *(_line(*item) for item in self.found.items())])
        new.replace(self.path)
        self._whole = True

    def _append(self, path: Path, lines: Sequence[str]) -> None:
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())

    def drop(self) -> None:
        """Delete the file, once its contexts stand in a record."""
        self.path.unlink(missing_ok=True)


def _line(number: int, one: Attribution) -> str:
    return f"{number} {one.model_dump_json()}"


def _digest(model: Model, settings: InfluenceSettings, cases: Sequence[Case], redact: bool) -> str:
    """Of everything that the attributions depend on."""
    known = [
        __version__,
        model.name,
        model.fingerprint,
        astuple(settings),
        [astuple(case) for case in cases],
        redact,
    ]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()
