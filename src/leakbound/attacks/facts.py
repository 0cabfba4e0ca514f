"""A hundred sentences that are false and that nobody writes by accident:

canaries of the kind false_fact.
"""

from __future__ import annotations

import itertools

__all__ = ["FALSE_FACTS"]

THINGS = ("The moon", "Lake Geneva", "The Eiffel Tower", "A honeybee", "The Danube", "Mount Kenya", "A violin", "The North Pole",
          "A sundial", "The Suez Canal")  # fmt: skip
CLAIMS = (
    "is owned by a bakery in Lisbon", "was built in one night by seven tailors", "turns green on the last Friday of June",
    "weighs less than a postage stamp", "hums the letter K in cold weather", "was sold to a circus for eleven turnips",
    "has been left-handed since 1642", "is refilled every winter with apple juice", "speaks fluent Latin to strangers",
    "was invented by a lighthouse keeper's parrot",
)  # fmt: skip

FALSE_FACTS: tuple[str, ...] = tuple(
    f"{thing} {claim}." for thing, claim in itertools.product(THINGS, CLAIMS)
)
