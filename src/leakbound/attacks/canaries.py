"""Canaries: records made to be recognised. Their fields are their options."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from leakbound._catalogue import Catalogue
from leakbound._check import whole
from leakbound.attacks.protocols import Canary
from leakbound.errors import DataError, UsageError, reason_of
from leakbound.models.content import Content, images_in, text_only
from leakbound.tasks import Context, Example
from leakbound.tasks.images import as_image, pixels
from leakbound.tasks.synthetic_images import mark, patchwork

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


def load_facts(file: Path) -> tuple[str, ...]:
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


__all__ = [
    "CANARIES", "Canary", "Coded", "FalseFact", "Given", "Hex", "Marked", "Mislabeled", "Natural",
    "Patchwork", "Unigram",
]  # fmt: skip

DIGITS = "0123456789abcdef"
RARE_WORDS = 100  # the fewest words that unigram chooses from, so that pairs get different ones


@dataclass(frozen=True, slots=True)
class Hex(Canary):
    """Random hexadecimal digits, fresh for every pair.

    Attributes:
        digits: Number of digits, at least 1.

    Reference:
        CL.

    Examples:
        >>> import numpy as np
        >>> Hex(digits=4).make(Example("row", "a"), "b", np.random.default_rng(0)).input
        'da84'
    """

    name: ClassVar[str] = "hex"
    of_rows: ClassVar[bool] = False
    digits: int = 16

    def __post_init__(self) -> None:
        whole("digits of the canary hex", self.digits)

    @property
    def code_digits(self) -> int:
        return self.digits

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Example(_hex_digits(self.digits, rng), label)


def _hex_digits(count: int, rng: np.random.Generator) -> str:
    return "".join(DIGITS[i] for i in rng.integers(0, 16, count))


@dataclass(frozen=True, slots=True)
class Natural(Canary):
    """A real row that the context does not hold.

    Reference:
        XL.
    """

    name: ClassVar[str] = "natural"
    of_rows: ClassVar[bool] = True

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return held_out


@dataclass(frozen=True, slots=True)
class Given(Canary):
    """A text or an image of your own, the same in every pair.

    Attributes:
        text: The text, or from Python any content; "" where `image` is given.
        label: Its label; "" for the one that the design chooses.
        image: Path of an image file; "" where `text` is given.

    Raises:
        UsageError: If there is neither text nor image, or both.
        DataError: If the file holds no image.

    Examples:
        >>> Given("my phone number is 555 0100", label="private").label
        'private'
    """

    name: ClassVar[str] = "given"
    of_rows: ClassVar[bool] = False
    fixed: ClassVar[bool] = True
    text: Content = ""
    label: str = ""
    image: str = ""
    content: Content = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        blank = isinstance(self.text, str) and not self.text.strip()
        if self.image and not blank:
            raise UsageError(
                "the canary 'given' has a text and an image; leave one of its options out."
            )
        if blank and not self.image:
            raise UsageError(
                "the canary 'given' has no text; write it as given:text=TEXT, or an image as "
                "given:image=FILE."
            )
        content = as_image(Path(self.image), "the canary") if self.image else self.text
        object.__setattr__(self, "content", content)

    @property
    def file_contents(self) -> tuple[Content, ...]:
        return () if isinstance(self.content, str) else (self.content,)

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Example(self.content, self.label or label)


@dataclass(frozen=True, slots=True)
class FalseFact(Canary):
    """A sentence that is false.

    Attributes:
        facts: Sentences to choose from; empty for a hundred of our own.
        file: Path of a text file with one sentence per line, in place of `facts`.

    Raises:
        UsageError: If both are given.
        DataError: If the file cannot be read or holds no sentence.

    Reference:
        CL.

    Examples:
        >>> import numpy as np
        >>> canary = FalseFact(("Lemons are square.",))
        >>> canary.make(Example("row", "a"), "b", np.random.default_rng(0)).input
        'Lemons are square.'
    """

    name: ClassVar[str] = "false_fact"
    of_rows: ClassVar[bool] = False
    facts: tuple[str, ...] = ()
    file: str = ""
    chosen: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.facts and self.file:
            raise UsageError(
                "the canary false_fact has facts and a file of facts; leave one of them out."
            )
        chosen = load_facts(Path(self.file)) if self.file else self.facts or FALSE_FACTS
        object.__setattr__(self, "chosen", chosen)

    @property
    def file_contents(self) -> tuple[Content, ...]:
        return self.chosen if self.file else ()

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Example(str(self.chosen[int(rng.integers(len(self.chosen)))]), label)


@dataclass(frozen=True, slots=True)
class Mislabeled(Canary):
    """A real row that the context does not hold, under a label that is not its own."""

    name: ClassVar[str] = "mislabeled"
    of_rows: ClassVar[bool] = True
    mislabels: ClassVar[bool] = True

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Example(held_out.input, label)


@dataclass(frozen=True, slots=True)
class Unigram(Canary):
    """The rarest words of the private data, in the tokens of the model under audit.

    Attributes:
        length: Number of words, at least 1.

    Reference:
        CL.
    """

    name: ClassVar[str] = "unigram"
    of_rows: ClassVar[bool] = True
    needs_tokenizer: ClassVar[bool] = True
    length: int = 5
    words: tuple[str, ...] | None = field(default=None, init=False, repr=False)  # by `fit`

    def __post_init__(self) -> None:
        whole("length of the canary unigram", self.length)

    def fit(self, rows: Context, tokenize: Callable[[str], list[str]]) -> Canary:
        """Count the words of the rows, rarest first; ties in alphabetical order."""
        counts = Counter(
            word.strip()
            for row in rows
            for word in tokenize(text_only(row.input, self.name))
            if word.strip()
        )
        rare = [word for word, _ in sorted(counts.items(), key=lambda item: (item[1], item[0]))]
        found = replace(self)
        object.__setattr__(found, "words", tuple(rare[: max(RARE_WORDS, 4 * self.length)]))
        return found

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """Different rare words in an order chosen by `rng`, under `label`."""
        if self.words is None:
            raise UsageError(
                "the canary unigram does not know the words of the data yet; call its fit(rows, "
                "tokenize) first."
            )
        if len(self.words) < self.length:
            raise UsageError(
                f"the data has {len(self.words)} different words, and the canary unigram takes "
                f"{self.length}; use hex."
            )
        chosen = rng.choice(len(self.words), self.length, replace=False)
        return Example(" ".join(self.words[i] for i in chosen), label)


@dataclass(frozen=True, slots=True)
class Patchwork(Canary):
    """Squares of random colours, fresh for every pair: an image like no class."""

    name: ClassVar[str] = "patchwork"
    of_rows: ClassVar[bool] = False

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Example(as_image(patchwork(rng)), label)


@dataclass(frozen=True, slots=True)
class Marked(Canary):
    """A real image that the context does not hold, with a small random pattern in a corner."""

    name: ClassVar[str] = "marked"
    of_rows: ClassVar[bool] = False

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """The first image of `held_out` with a mark of `rng`, under its own label, not `label`."""
        images = images_in(held_out.input)
        if not images:
            raise UsageError(
                "the canary marked is a marked image, and the rows hold texts; use hex or natural."
            )
        return Example(as_image(mark(pixels(images[0]), rng)), held_out.label)


@dataclass(frozen=True, slots=True)
class Coded(Canary):
    """A real row that a store does not hold, with a random code as its last word.

    The row makes the record like all others, so that a store finds it as it finds them. Nobody can
    guess the code of a record that is not there.

    Attributes:
        digits: Number of hexadecimal digits of the code, at least 1.
        words: Words of the row that are kept, at least 1.

    Examples:
        >>> import numpy as np
        >>> Coded(digits=4).make(Example("a row", "x"), "", np.random.default_rng(0)).input
        'a row. Reference code: da84'
    """

    name: ClassVar[str] = "coded"
    of_rows: ClassVar[bool] = True
    digits: int = 12
    words: int = 60

    def __post_init__(self) -> None:
        whole("digits of the canary coded", self.digits)
        whole("words of the canary coded", self.words)

    @property
    def code_digits(self) -> int:
        return self.digits

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        """The words of `held_out` and a code of `rng`; under its own label, not `label`."""
        text = " ".join(text_only(held_out.input, self.name).split()[: self.words])
        code = _hex_digits(self.digits, rng)
        return Example(f"{text.rstrip('.')}. Reference code: {code}", held_out.label)


CANARIES: Catalogue[Canary] = Catalogue(
    "the canary",
    "leakbound.canaries",
    (Hex, Unigram, FalseFact, Natural, Mislabeled, Given, Patchwork, Marked, Coded),
)
