"""Do outputs say more of the records that an application used than of records like them?

If nothing of the used records were disclosed, used and held-out records would be exchangeable, and
the longest passages that outputs share with them would be as long in both.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from leakbound._check import confidence_level, count, within
from leakbound.errors import DataError
from leakbound.stats.arrays import Floats, Ints
from leakbound.stats.counts.two_samples import (
    Excess,
    benjamini_hochberg,
    conformal_p_values,
    excess_test,
    smallest_excess,
)
from leakbound.systems.http.system import value_at
from leakbound.tasks.rows.sources import SourceRow, source_rows

USUAL = ("output", "answer", "response", "completion", "reply", "text")


def load_texts(file: Path, fields: Sequence[str] = ()) -> list[tuple[str, ...]]:
    rows = source_rows(str(file))
    return [tuple(_texts_of(row, fields or tuple(row.fields))) for row in rows]


def load_outputs(file: Path, field: str | None = None) -> list[str]:
    rows = source_rows(str(file))
    name = field or _output_field(str(file), next(iter(rows)))
    return ["\n".join(map(_unescape, _texts_of(row, (name,)))) for row in rows]


def _unescape(text: str) -> str:
    """The texts in an output that is JSON, such as the arguments of a tool, without its escapes."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return text
    try:
        return "\n".join(_strings(json.loads(text)))
    except (ValueError, RecursionError):
        return text


def _output_field(file: str, first: SourceRow) -> str:
    known = [name for name in USUAL if name in first.fields] or list(first.fields)
    if len(known) == 1:
        return known[0]
    raise DataError(
        f"the rows of {file!r} have the fields {', '.join(map(repr, first.fields))}, and more than "
        "one may hold the outputs; name it with --answer. It must not be the prompts: they "
        "hold the records that were used."
    )


def _texts_of(row: SourceRow, fields: Sequence[str]) -> Iterator[str]:
    for name in fields:
        value = value_at(row.fields, name)
        if value is None and name not in row.fields:
            raise DataError(
                f"{row.place} has no field {name!r}; it has {', '.join(map(repr, row.fields))}."
            )
        yield from _strings(value)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, list | tuple | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


# Scripts without blanks between words count by characters.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
END = -1  # between two texts, and in place of a word that no record has


@dataclass(frozen=True, slots=True, repr=False)
class _Passage:
    """Words of a record that stand side by side in an output, and in no other record."""

    words: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.words)


def words_of(text: str) -> list[str]:
    """The words of a text, whatever its punctuation, capitals and composition of characters."""
    return WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def longest_passages(
    records: Sequence[Sequence[str]], outputs: Iterable[str], groups: Sequence[int] | None = None
) -> list[_Passage]:
    """Find the longest passage of each record in the outputs, within one text; one that stands in
    two records says of neither that it was disclosed."""
    known: dict[str, int] = {}
    mine, owner = _number(records, known)
    group = np.arange(len(records)) if groups is None else np.asarray(groups, np.int64)
    numbers: list[int] = []
    for text in outputs:
        numbers += [*(known.get(word, END) for word in words_of(text)), END]
    theirs = np.array(numbers, np.int64)
    length, start = np.zeros(len(records), np.int64), np.zeros(len(records), np.int64)
    here, there = np.flatnonzero(mine >= 0), np.flatnonzero(theirs >= 0)
    grams, other, size = mine[here], theirs[there], 1
    while True:
        both = np.isin(grams, other)
        here, grams = here[both], grams[both]
        if not len(here):
            break
        kept = np.isin(other, grams)
        there, other = there[kept], other[kept]
        alone = _of_one_group(grams, group[owner[here]])
        length[owner[here[alone]]], start[owner[here[alone]]] = size, here[alone]
        here, there, grams, other = _longer(here, there, grams, other, size, mine, theirs)
        size += 1
    words = [*known]
    return [
        _Passage(tuple(words[word] for word in mine[at : at + many]))
        for at, many in zip(start.tolist(), length.tolist(), strict=True)
    ]


def _number(records: Sequence[Sequence[str]], known: dict[str, int]) -> tuple[Ints, Ints]:
    """Words as numbers, a mark after each text; and the record of each word."""
    numbers: list[int] = []
    owner: list[int] = []
    for at, texts in enumerate(records):
        for text in texts:
            found = [known.setdefault(word, len(known)) for word in words_of(text)]
            numbers += [*found, END]
            owner += [at] * (len(found) + 1)
    return np.array(numbers, np.int64), np.array(owner, np.int64)


def _of_one_group(grams: Ints, owner: Ints) -> npt.NDArray[np.bool_]:
    """Which passages stand in records of one group only."""
    pairs = np.unique(grams * (owner.max() + 1) + owner)
    found, times = np.unique(pairs // (owner.max() + 1), return_counts=True)
    alone: npt.NDArray[np.bool_] = np.isin(grams, found[times == 1])
    return alone


def _longer(
    here: Ints, there: Ints, grams: Ints, other: Ints, size: int, mine: Ints, theirs: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Passages with one word more; equal ones have one number, exactly."""
    after, following = mine[here + size], theirs[there + size]
    own, others = after >= 0, following >= 0
    base = int(mine.max()) + 1
    keys = np.concatenate([(grams * base + after)[own], (other * base + following)[others]])
    numbers = np.unique(keys, return_inverse=True)[1]
    cut = int(own.sum())
    return here[own], there[others], numbers[:cut], numbers[cut:]


LogVerdict = Literal["disclosure", "no_disclosure_shown", "inconclusive"]
PLACES = 20  # outputs that are named for a record
LONG = 8  # words: a passage as long is quoted, and not written by chance
STEPS = (1, 2, 3, 5, 8, 13, 21, 34)  # lengths that the table shows, in words
ASSUMPTIONS = (
    "Which records were used and which were held out was decided at random, or as if at random: "
    "both are from one source and one time.",
    "Whoever wrote the outputs, and whoever asked for them, knew the held-out records as well or "
    "as little as the used ones, but for what the application was shown.",
    "The files were fixed before this test; repeated tests of growing logs have a larger error.",
)


@dataclass(frozen=True, slots=True, repr=False)
class DisclosedRecord:
    """A used record of which outputs say more than of nearly all held-out ones."""

    record: int
    words: int
    p_value: float
    outputs: tuple[int, ...]
    passage: str = ""


@dataclass(frozen=True, slots=True)
class LogAudit:
    """What outputs disclose of the records that an application used."""

    verdict: LogVerdict
    p_value: float
    confidence: float
    threshold: int
    smallest: int | None
    rates: dict[int, tuple[float, float]]
    disclosed: tuple[DisclosedRecord, ...]
    rate: float
    counts: dict[str, int]
    method: str
    draws: int
    seed: int
    together: int = 0
    assumptions: tuple[str, ...] = ASSUMPTIONS


def audit_logs(
    used: Sequence[Sequence[str]], held_out: Sequence[Sequence[str]], outputs: Sequence[str],
    confidence: float = 0.95, rate: float = 0.1, seed: int = 0, show: bool = False,
) -> LogAudit:  # fmt: skip
    """Test whether outputs disclose the records that an application used.

    Guarantee: If used and held-out records are exchangeable given the outputs, the verdict is
    "disclosure" with probability at most 1 - confidence. The expected share of wrongly listed
    records is at most `rate` if the records that were not disclosed are exchangeable with the
    held-out ones.
    Reference: Phipson and Smyth 2010; Bates, Candes, Lei, Romano and Sesia 2023.
    """
    confidence_level(confidence)
    within("fdr", rate, 0, 1)
    count("seed", seed)
    named = {
        "used records": (text for one in used for text in one),
        "held-out records": (text for one in held_out for text in one),
        "outputs": outputs,
    }
    for name, texts in named.items():
        if not any(map(words_of, texts)):
            raise DataError(f"the {name} hold no words; there must be at least one text with some.")
    known = {tuple(map(str.strip, one)) for one in used}
    both = sum(tuple(map(str.strip, one)) in known for one in held_out)
    if both == len(held_out):
        raise DataError(
            "every held-out record is a used record, too, so nothing can be compared; hold out "
            "records that the application was never shown."
        )
    level, passages = 1 - confidence, longest_passages([*used, *held_out], outputs)
    lengths = [float(len(one)) for one in passages]
    mine, others = lengths[: len(used)], lengths[len(used) :]
    found = excess_test(mine, others, seed)
    smallest = smallest_excess(mine, others, level, seed)
    words = [tuple(tuple(words_of(text)) for text in one) for one in (*used, *held_out)]
    times = Counter(words)
    able = sum(times[one] == 1 and any(one) for one in words[: len(used)])
    smallest = None if smallest is None or able < smallest else smallest
    together = _together(lengths, used, held_out, outputs)
    p_values = conformal_p_values(mine, others)
    chosen = np.flatnonzero(benjamini_hochberg(p_values, rate) & (np.array(mine) > 0)).tolist()
    return LogAudit(
        _verdict(found, smallest, level, together), found.p_value, confidence, int(found.threshold),
        smallest, _rates(mine, others), _disclose(passages, p_values, chosen, outputs, show),
        rate,
        {"used": len(used), "held_out": len(held_out), "outputs": len(outputs), "in_both": both},
        "permutation test of the largest excess", found.draws, seed, together,
    )  # fmt: skip


def _together(
    lengths: Sequence[float], used: Sequence[Sequence[str]], held_out: Sequence[Sequence[str]],
    outputs: Sequence[str],
) -> int:  # fmt: skip
    """Used records quoted by words that other used records share, less as many held-out ones."""
    groups = [0] * len(used) + [1] * len(held_out)
    shared = longest_passages([*used, *held_out], outputs, groups)
    more = [len(one) >= LONG > own for one, own in zip(shared, lengths, strict=True)]
    return max(0, sum(more[: len(used)]) - sum(more[len(used) :]))


def _verdict(found: Excess, smallest: int | None, level: float, together: int) -> LogVerdict:
    if found.p_value <= level:
        return "disclosure"
    shows = smallest is not None and together < smallest
    return "no_disclosure_shown" if shows else "inconclusive"


def _rates(mine: Sequence[float], others: Sequence[float]) -> dict[int, tuple[float, float]]:
    longest = max(*mine, *others)
    one, other = np.array(mine), np.array(others)
    return {
        words: (float(np.mean(one >= words)), float(np.mean(other >= words)))
        for words in STEPS
        if words <= longest
    }


def _disclose(
    passages: Sequence[_Passage], p_values: Floats, chosen: Sequence[int],
    outputs: Sequence[str], show: bool,
) -> tuple[DisclosedRecord, ...]:  # fmt: skip
    """Longest first."""
    order = sorted(chosen, key=lambda at: (-len(passages[at]), at))
    said = [f" {' '.join(words_of(text))} " for text in outputs] if order else []
    found = []
    for at in order:
        passage = " ".join(passages[at].words)
        places = (number for number, text in enumerate(said, 1) if f" {passage} " in text)
        found.append(
            DisclosedRecord(
                at + 1, len(passages[at]), float(p_values[at]), tuple(islice(places, PLACES)),
                passage if show else "",
            )
        )  # fmt: skip
    return tuple(found)
