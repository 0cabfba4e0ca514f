"""Attacks on stores: retrieval indexes, memories of agents, and whatever finds records by a query.

A store answers from the records that it finds, so what it finds has to depend on the canary: the
canary stands first in the query, and few words stand behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakbound._check import whole
from leakbound.attacks import templates
from leakbound.attacks.protocols import AuditQuery, Canary, RenderedQuery
from leakbound.attacks.templates import check_template, fill_template
from leakbound.errors import UsageError
from leakbound.models.content import text_only
from leakbound.tasks import Access, Example, Query, Task

DIGITS = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Coded(Canary):
    """A real row that the store does not hold, with a random code as its last word.

    The row makes the record like all others, so that a store finds it as it finds them. Nobody can
    guess the code of a record that is not there.

    Attributes:
        digits: Number of hexadecimal digits of the code, at least 1.
        words: Words of the row that are kept, at least 1.

    Raises:
        UsageError: If there is no digit or no word.

    Examples:
        >>> import numpy as np
        >>> Coded(digits=4).make(Example("a row", "x"), "", np.random.default_rng(0)).input
        'a row. Reference code: da84'
    """

    name: ClassVar[str] = "coded"
    digits: int = 12
    words: int = 60

    def __post_init__(self) -> None:
        whole("digits of the canary coded", self.digits)
        whole("words of the canary coded", self.words)

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """The words of `held_out` and a code of `rng`; under its own label, not `label`."""
        text = " ".join(text_only(held_out.input, self.name).split()[: self.words])
        code = "".join(DIGITS[i] for i in rng.integers(0, 16, self.digits))
        return Example(f"{text.rstrip('.')}. Reference code: {code}", held_out.label)


@dataclass(frozen=True, slots=True)
class Recall(AuditQuery):
    """Gives the first words of the canary and asks for its end; its last word is the target.

    Attributes:
        words: Words of the canary that are given, at least 1; never the last one.
        template: Wording; must hold {prefix}.

    Raises:
        UsageError: If no word is given, or the template lacks {prefix} or holds another place.

    Examples:
        >>> task = Task("notes")
        >>> found = Recall(2, "{prefix} ...?").render(Example("a b c d", ""), task, "", "")
        >>> found.query.text, found.target
        ('a b ...?', 'd')
    """

    name: ClassVar[str] = "recall"
    free: ClassVar[bool] = True
    score: ClassVar[str] = "contains_canary"
    tasks: ClassVar[str] = "stores, memories"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    words: int = 20
    template: str = templates.RECALL

    def __post_init__(self) -> None:
        check_template(self.name, self.template, ("prefix",))
        whole("words of the query recall", self.words)

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        """Shows the first words of `canary`; its last word is the target.

        `task`, `rare` and `common` are not used.
        """
        *first, last = _words(canary, self.name, 2)
        text = fill_template(self.template, {"prefix": " ".join(first[: self.words])})
        return RenderedQuery(Query(text, free=True), "", None, last)


@dataclass(frozen=True, slots=True)
class Lookup(AuditQuery):
    """Shows the canary first, and asks whether it is among the documents, yes or no.

    Attributes:
        template: Wording; must hold {canary}.

    Raises:
        UsageError: If the template lacks {canary} or holds another place.

    Examples:
        >>> query = Lookup("{canary} - known?")
        >>> query.render(Example("Ann", ""), Task("notes"), "", "").query.text
        'Ann - known?'
    """

    name: ClassVar[str] = "lookup"
    tasks: ClassVar[str] = "stores, memories"
    template: str = templates.LOOKUP

    def __post_init__(self) -> None:
        check_template(self.name, self.template, ("canary",))

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        """Shows the input of `canary`; yes speaks for a member, no against.

        `task`, `rare` and `common` are not used.
        """
        text = fill_template(self.template, {"canary": text_only(canary.input, self.name)})
        return RenderedQuery(Query(text, ("yes", "no")), "yes", "no")


def _words(canary: Example, who: str, least: int) -> list[str]:
    words = text_only(canary.input, who).split()
    if len(words) < least:
        raise UsageError(
            f"the query {who} gives the first words of a canary and asks for its last one, and a "
            f"canary has {len(words)} word; use --canary coded, or --query lookup."
        )
    return words
