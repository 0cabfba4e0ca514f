"""Sentences that are false: a hundred of our own, or those of a file."""

from __future__ import annotations

import itertools
from pathlib import Path

from leakbound.errors import DataError, reason_of

THINGS = (
    "The moon", "Lake Geneva", "The Eiffel Tower", "A honeybee", "The Danube", "Mount Kenya",
    "A violin", "The North Pole", "A sundial", "The Suez Canal",
)  # fmt: skip
CLAIMS = (
    "is owned by a bakery in Lisbon",
    "was built in one night by seven tailors",
    "turns green on the last Friday of June",
    "weighs less than a postage stamp",
    "hums the letter K in cold weather",
    "was sold to a circus for eleven turnips",
    "has been left-handed since 1642",
    "is refilled every winter with apple juice",
    "speaks fluent Latin to strangers",
    "was invented by a lighthouse keeper's parrot",
)

FALSE_FACTS: tuple[str, ...] = tuple(
    f"{thing} {claim}." for thing, claim in itertools.product(THINGS, CLAIMS)
)


def read_facts(file: Path) -> tuple[str, ...]:
    """The sentences of a text file, one per line; blank lines are left out."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"the file of false facts {str(file)!r} cannot be read ({reason_of(error)}); give a "
            "UTF-8 text file with one sentence per line."
        ) from None
    facts = tuple(line.strip() for line in lines if line.strip())
    if not facts:
        raise DataError(
            f"the file of false facts {str(file)!r} holds no sentence; write one per line."
        )
    return facts
