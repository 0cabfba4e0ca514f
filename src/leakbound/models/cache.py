"""Answers of models, kept in one file and found by what was asked: calls that finished are never
made again.

Nothing in the file can be read without the ask. A row is found by a keyed hash of the model's
fingerprint and the whole ask (prompt or
token ids, decoding parameters, draw), and its answer is covered by a key stream that is made from
the same: so the file tells no
prompt and no answer to who does not have the prompt, whatever a run may keep. The key lies in a
file beside it; without it not even a
guessed prompt can be tried.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import io
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from leakbound.errors import StoreError, TargetError
from leakbound.models.content import Parts, content_key
from leakbound.models.model import Model
from leakbound.models.request import Complete, Embed, NextLogits, Request, ScoreLabels, ScoreTokens
from leakbound.models.wrappers import Wrapper

__all__ = ["Answers", "Cached", "Unopened"]

R = TypeVar("R")
TABLE = "CREATE TABLE IF NOT EXISTS answers (ask BLOB PRIMARY KEY, nonce BLOB NOT NULL, answer BLOB NOT NULL) STRICT"
ONCE = 64  # asks that reach the model before their answers are written down


class Answers:
    """A file of answers. Several processes may use it at once; the first answer to an ask stays."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._key = _key(file.with_name(f"{file.name}.key"))
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise StoreError(
                f"the cache {str(file)!r} cannot be used ({error}); choose another file."
            ) from None
        with self._database() as db:
            db.execute(TABLE)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.file, timeout=30)) as db, db:
                db.execute("PRAGMA journal_mode=WAL")
                yield db
        except sqlite3.Error as error:
            raise StoreError(
                f"the cache {str(self.file)!r} cannot be read or written ({error}); free disk "
                "space, or choose another file."
            ) from None

    def find(self, fingerprint: str, requests: Sequence[Request[R]]) -> dict[Request[R], R]:
        """The answers of a model that are kept, by their asks."""
        found: dict[Request[R], R] = {}
        with self._database() as db:
            for ask in requests:
                words = _words(fingerprint, ask)
                row = db.execute(
                    "SELECT nonce, answer FROM answers WHERE ask = ?", (self._hash(b"row", words),)
                ).fetchone()
                if row is not None:
                    found[ask] = cast(R, _unpacked(self._covered(words, *row), self.file))
        return found

    def keep(
        self, fingerprint: str, requests: Sequence[Request[Any]], replies: Sequence[Any]
    ) -> None:
        """Write answers down, all or none; an ask that has an answer keeps it."""
        with self._database() as db:
            for ask, reply in zip(requests, replies, strict=True):
                words, nonce = _words(fingerprint, ask), secrets.token_bytes(16)
                row = (
                    self._hash(b"row", words),
                    nonce,
                    self._covered(words, nonce, _packed(reply)),
                )
                db.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", row)

    def _hash(self, use: bytes, words: bytes) -> bytes:
        return hmac.digest(self._key, use + words, "sha256")

    def _covered(self, words: bytes, nonce: bytes, content: bytes) -> bytes:
        """Content under its key stream; covering twice uncovers."""
        stream = hashlib.shake_256(self._hash(b"stream", words) + nonce).digest(len(content))
        return (np.frombuffer(content, np.uint8) ^ np.frombuffer(stream, np.uint8)).tobytes()


class Cached(Wrapper):
    """Asks the model only what `answers` do not hold, and writes down its answers as they come, a
    few dozen at a time.

    An ask holds its draw, so a repeated trial is never answered from another trial's draw.
    """

    def __init__(self, model: Model, answers: Answers) -> None:
        super().__init__(model)
        self.answers = answers

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        found = self.answers.find(self.fingerprint, requests)
        missing = [ask for ask in dict.fromkeys(requests) if ask not in found]
        for first in range(0, len(missing), ONCE):
            part = missing[first : first + ONCE]
            replies = self.model.answer(part)
            self.answers.keep(self.fingerprint, part, replies)
            found.update(zip(part, replies, strict=True))
        return [found[ask] for ask in requests]


class Unopened:
    """Stands for a model that is not opened: known by name and fingerprint, it answers nothing."""

    supports: frozenset[type[Request[Any]]] = frozenset(
        {Complete, Embed, NextLogits, ScoreLabels, ScoreTokens}
    )

    def __init__(self, name: str, fingerprint: str) -> None:
        self.name, self.fingerprint = name, fingerprint

    def check(self, requests: Sequence[Request[Any]], /) -> None:
        """Nothing can be known to be wrong."""

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Raises TargetError."""
        raise TargetError(
            f"{len(requests)} answers of {self.name} are not kept, and --replay opens no model; "
            "run once without it to get them."
        )


def _key(file: Path) -> bytes:
    """The key of a cache; made at the first use, whole or not at all."""
    if not file.exists():
        partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(secrets.token_bytes(32))
        try:
            os.link(partial, file)  # fails where another process was first
        except FileExistsError:
            pass
        finally:
            partial.unlink()
    return file.read_bytes()


def _words(fingerprint: str, ask: Request[Any]) -> bytes:
    """Everything that decides an answer."""
    fields = [getattr(ask, field.name) for field in dataclasses.fields(cast(Any, ask))]
    told = [content_key(field) if isinstance(field, Parts) else field for field in fields]
    return json.dumps([fingerprint, type(ask).__name__, *told]).encode()


def _packed(reply: Any) -> bytes:
    """A text, or an array in numpy's own format; the first letter tells which."""
    if isinstance(reply, str):
        return b"t" + reply.encode()
    file = io.BytesIO()
    np.save(file, np.asarray(reply), allow_pickle=False)
    return b"a" + file.getvalue()


def _unpacked(content: bytes, file: Path) -> Any:
    try:
        if content[:1] == b"t":
            return content[1:].decode()
        if content[:1] == b"a":
            return np.load(io.BytesIO(content[1:]), allow_pickle=False)
    except ValueError:
        pass
    raise StoreError(
        f"an answer in the cache {str(file)!r} cannot be read: its key file is not the one it was "
        "written with."
    )
