"""An example and a context: the private data that an in-context system shows to its model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leakbound.errors import DataError
from leakbound.models.content import Content, Private, text_only


@dataclass(frozen=True, slots=True, repr=False)
class Example(Private):
    """One private example (x, y); its repr shows nothing of it.

    Attributes:
        input: A text, an image, or both.
        label: The label or answer.
    """

    input: Content
    label: str

    @property
    def text(self) -> str:
        """The input of a row that holds no image.

        Raises:
            UsageError: If the input holds an image.
        """
        return text_only(self.input, "a system that reads texts")


Context = tuple[Example, ...]


class TextRow(str):
    """A row as a function of a user gets it: its text (PRIVATE), which also has the fields of an
    `Example`. Unlike there, its repr is that of a text: a prompt may be made of a whole list.

    Examples:
        >>> row = TextRow.of(Example("a fee", "work"))
        >>> f"- {row} ({row.label}) {[row]}", row.text == row.input == row
        ("- a fee (work) ['a fee']", True)
    """

    label: str

    @classmethod
    def of(cls, row: Example) -> TextRow:
        """The row of an example whose input is a text."""
        made = cls(row.text)
        made.label = row.label
        return made

    @property
    def text(self) -> str:
        return str.__str__(self)

    input = text


# What stands in place of a record that takes no part any more, because its budget is spent.
EMPTY_SLOT = Example("", "")


def present(context: Context) -> Context:
    """The examples of a context (PRIVATE) without its empty slots, as a prompt shows them.

    Only what renders prompts leaves slots out. Partitions, divisors and thresholds count them, so
    that nobody's part depends on whose budget is spent.

    Examples:
        >>> len(present((Example("a fee", "work"), EMPTY_SLOT)))
        1
    """
    return tuple(example for example in context if example != EMPTY_SLOT)


def as_context(rows: Iterable[Example | TextRow | tuple[Content, str]]) -> Context:
    """Make a context of examples or (input, label) pairs (PRIVATE); `as_image` makes an input of an
    image file.

    Raises:
        DataError: If they are something else.

    Examples:
        >>> as_context([("a fee", "work")])[0].label
        'work'
    """
    if isinstance(rows, str | Mapping) or not isinstance(rows, Iterable):
        raise DataError(
            f"rows is {type(rows).__name__}; it must be a data frame, or a list of (input, label) "
            "pairs, mappings or Examples. A file of rows is named with data=..."
        )
    return tuple(map(_example, rows))


def _example(row: Example | TextRow | tuple[Content, str]) -> Example:
    if isinstance(row, TextRow):
        return Example(row.text, row.label)
    if isinstance(row, Example):
        return row
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != 2:
        many = f" of {len(row)} values" if isinstance(row, tuple | list) else ""
        raise DataError(
            f"a row is {type(row).__name__}{many}; it must be a pair (input, label), a mapping "
            "or an Example."
        )
    if not isinstance(row[0], Content):
        raise DataError(
            f"the input of a row is {type(row[0]).__name__}; it must be text, or an image that "
            "as_image made."
        )
    if not isinstance(row[1], str):
        raise DataError(
            f"the label of a row is {type(row[1]).__name__}; it must be text, such as 'work'; "
            "numbers may be written as str(label)."
        )
    return Example(*row)
