"""The secret of a run folder: what a shared result says of private data confirms no guess.

A plain hash of the rows tells whoever guesses them that the guess is right. So a result holds keyed
hashes; the key stays in the run folder, which only its owner can read. Runs in one folder share a
key, so that their results show whether they are of the same data.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from leakbound.auditing.folder import write_private
from leakbound.errors import StoreError, reason_of

KEY = "key"  # name of the file
DIGITS = 16  # of a data fingerprint in a result: enough to tell data sets apart


def make_key(folder: Path) -> None:
    """Give a run folder its key, unless it has one: that of a run beside it, else a random one."""
    if (folder / KEY).is_file():
        return
    known = sorted(folder.parent.glob(f"*/{KEY}"))
    try:
        text = known[0].read_text(encoding="ascii") if known else secrets.token_hex(32)
        write_private(folder / KEY, text)
    except OSError as error:
        raise StoreError(
            f"the key of the run folder {str(folder)!r} cannot be written ({reason_of(error)}); "
            "choose another folder."
        ) from None


def keyed(folder: Path, text: str) -> str:
    """A hash that only the owner of a run folder can compute."""
    if not (folder / KEY).is_file():
        return text
    return hmac.new((folder / KEY).read_bytes(), text.encode(), hashlib.sha256).hexdigest()


def is_keyed(folder: Path, text: str, shown: str) -> bool:
    """Whether a result shows the hash of a text."""
    return shown in (text, keyed(folder, text))


def key_id(folder: Path) -> str:
    """Names the key of a run folder, and tells nothing of it."""
    return keyed(folder, "key")[:DIGITS]
