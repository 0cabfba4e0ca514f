"""A cache of model answers in one file, found by request.

A finished model call is never repeated, and nothing in the file can be read without its request. A
row is found by a keyed hash (HMAC-SHA256) of the model's fingerprint and the whole request (prompt
or token ids, decoding parameters, draw). Its answer is encrypted with AES-256-GCM under a key
derived from the same data. So the file shows no prompt and no answer to anyone who does not have
the prompt, whatever a run may keep. The key of the file is stored beside it; without the key, not
even a guessed prompt can be tested. The cipher comes from the package cryptography: the extra
`cache`.
"""

from __future__ import annotations

import dataclasses
import hmac
import io
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

import numpy as np

from leakbound._install import install_hint
from leakbound.errors import StoreError, TargetError, UsageError
from leakbound.models.content import Chat, Parts
from leakbound.models.model import Model, Wrapper
from leakbound.models.request import (
    Complete,
    Embed,
    NextLogits,
    Request,
    ScoreLabels,
    ScoreTokens,
    prompt_key,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

R = TypeVar("R")
TABLE = (
    "CREATE TABLE IF NOT EXISTS calls "
    "(request BLOB PRIMARY KEY, nonce BLOB NOT NULL, answer BLOB NOT NULL) STRICT"
)
NOTHING_KEPT = 1 << 62  # beyond every position in a file
ONCE = 64  # requests sent to the model before their answers are stored: what a crash may repeat
NONCE = 12  # bytes, as NIST SP 800-38D recommends for GCM; each request also has its own key


class Answers:
    """A file of answers. Several processes may use it at once. The first answer is kept.

    Args:
        file: The file. It and its key, `FILE.key`, are created if they do not exist, readable only
            by their owner.

    Raises:
        UsageError: If the extra `cache` is not installed.
        StoreError: If the file cannot be used.
    """

    def __init__(self, file: Path) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: F401
        except ImportError:
            raise UsageError(
                "a cache of model calls needs the package cryptography; install it with: "
                f"{install_hint('cache')}."
            ) from None
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

    def find(
        self, fingerprint: str, requests: Sequence[Request[R]]
    ) -> dict[Request[R], tuple[R, int]]:
        """The stored answers of a model, with their positions in the order of storing.

        Raises:
            StoreError: If the file cannot be read or was changed.
        """
        found: dict[Request[R], tuple[R, int]] = {}
        with self._database() as db:
            for request in requests:
                content = _content(fingerprint, request)
                row_id = self._hash(b"row", content)
                row = db.execute(
                    "SELECT rowid, nonce, answer FROM calls WHERE request = ?", (row_id,)
                ).fetchone()
                if row is not None:
                    place, *hidden = row
                    found[request] = cast(R, self._read(content, row_id, *hidden)), place
        return found

    def keep(
        self, fingerprint: str, requests: Sequence[Request[R]], answers: Sequence[R],
        over: bool = False,
    ) -> None:  # fmt: skip
        """Store answers, all or none. A request keeps its older answer unless `over` is true.

        Raises:
            StoreError: If the file cannot be written.
        """
        with self._database() as db:
            for request, answer in zip(requests, answers, strict=True):
                content = _content(fingerprint, request)
                row_id, nonce = self._hash(b"row", content), secrets.token_bytes(NONCE)
                hidden = self._cipher(content).encrypt(nonce, _pack(answer), row_id)
                db.execute(
                    f"INSERT OR {'REPLACE' if over else 'IGNORE'} INTO calls VALUES (?, ?, ?)",
                    (row_id, nonce, hidden),
                )

    def _hash(self, use: bytes, content: bytes) -> bytes:
        return hmac.digest(self._key, use + content, "sha256")

    def _cipher(self, content: bytes) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._hash(b"cipher", content))

    def _read(self, content: bytes, row_id: bytes, nonce: bytes, hidden: bytes) -> object:
        from cryptography.exceptions import InvalidTag

        try:
            found = self._cipher(content).decrypt(nonce, hidden, row_id)
            if found[:1] == b"t":
                return found[1:].decode()
            return np.asarray(np.load(io.BytesIO(found[1:]), allow_pickle=False))
        except (InvalidTag, ValueError):
            raise StoreError(
                f"an answer in the cache {str(self.file)!r} cannot be read: the file was changed "
                "after it was written. Choose another file, or delete it."
            ) from None


class Cached(Wrapper):
    """Calls the model only for requests without a stored answer, and stores its answers.

    A request includes its draw, so a repeated trial never gets the answer of another trial's draw.
    """

    def __init__(self, model: Model, answers: Answers) -> None:
        super().__init__(model)
        self.answers = answers
        self._lock, self._embedded = threading.Lock(), set[Request[object]]()
        self._asked = False  # whether any request has reached the model
        self._newest, self._after = 0, 0  # file positions: newest read; answers count after this

    def later(self, may_read: bool) -> Cached:
        """The same model, for questions about its current state.

        It reads only answers stored after every answer read so far, and none if the model was
        called. It replaces the answers in the file by its own.

        Args:
            may_read: Whether every answer so far came through this object.
        """
        found = Cached(self.model, self.answers)
        found._after = self._newest if may_read and not self._asked else NOTHING_KEPT
        found._embedded = self._embedded
        return found

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        found = self._kept(requests)
        if not self._after:
            self._embedded |= {one for one in requests if isinstance(one, Embed)}
        missing = [request for request in dict.fromkeys(requests) if request not in found]
        self._asked |= bool(missing)
        for first in range(0, len(missing), ONCE):
            part = missing[first : first + ONCE]
            answers = self.model.answer(part)
            self.answers.keep(self.fingerprint, part, answers, over=bool(self._after))
            found.update(zip(part, answers, strict=True))
        return [found[request] for request in requests]

    def _kept(self, requests: Sequence[Request[R]]) -> dict[Request[R], R]:
        kept = self.answers.find(self.fingerprint, requests)
        new = {
            one: answer
            for one, (answer, place) in kept.items()
            if place > self._after or one in self._embedded
        }
        places = [kept[one][1] for one in new if not isinstance(one, Embed)]
        with self._lock:
            self._newest = max([self._newest, *places])
        return new


class Unopened:
    """Stands in for a model that is not opened. It has a name and a fingerprint, but no answers."""

    limits: ClassVar[tuple[str, ...]] = ()
    supports: frozenset[type[Request[object]]] = frozenset(
        {Complete, Embed, NextLogits, ScoreLabels, ScoreTokens}
    )

    def __init__(self, name: str, fingerprint: str, may_change: bool = False) -> None:
        self.name, self.fingerprint, self.may_change = name, fingerprint, may_change

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Refuse nothing: it is not known here what the model could not answer."""

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        raise TargetError(
            f"{len(requests)} answers of {self.name} are not kept, and --replay opens no model; "
            "run once without it to get them."
        )


def _key(file: Path) -> bytes:
    """The key of a cache, created on first use: whole or not at all."""
    if not file.exists():
        partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(secrets.token_bytes(32))
        try:
            os.link(partial, file)  # fails if another process was first
        except FileExistsError:
            pass
        finally:
            partial.unlink()
    return file.read_bytes()


def _content(fingerprint: str, request: Request[object]) -> bytes:
    if not dataclasses.is_dataclass(request):
        raise TypeError(f"{type(request).__name__} is not a dataclass, so its answers have no key")
    deciding = (field.name for field in dataclasses.fields(request) if field.compare)
    values = [getattr(request, name) for name in deciding if name != "judge"]
    parts = [prompt_key(value) if isinstance(value, Parts | Chat) else value for value in values]
    kind = type(request).__name__
    kind += "/judge" if isinstance(request, Complete) and request.judge else ""
    return json.dumps([fingerprint, kind, *parts]).encode()


def _pack(answer: object) -> bytes:
    """A text, or an array in numpy's own format. The first byte says which."""
    if isinstance(answer, str):
        return b"t" + answer.encode()
    file = io.BytesIO()
    np.save(file, np.asarray(answer), allow_pickle=False)
    return b"a" + file.getvalue()
