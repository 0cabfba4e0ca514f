"""Do outputs say more of the records that an application used than of records like them?

If nothing of the used records were disclosed, used and held-out records would be exchangeable, and
the longest passages that outputs share with them would be as long in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
import numpy.typing as npt

from leakbound._check import confidence_level, count, within
from leakbound.auditing.logs.passages import Passage, longest_passages, words_of
from leakbound.errors import DataError
from leakbound.stats.exchangeability import (
    Excess,
    benjamini_hochberg,
    conformal_p_values,
    excess_test,
    smallest_excess,
)

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
Floats = npt.NDArray[np.float64]


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

    Guarantee:
        If used and held-out records are exchangeable given the outputs, the verdict is "disclosure"
        with probability at most 1 - confidence. The expected share of wrongly listed records is at
        most `rate` if the records that were not disclosed are exchangeable with the
        held-out ones.

    Reference:
        Phipson and Smyth 2010; Bates, Candes, Lei, Romano and Sesia 2023.
    """
    confidence_level(confidence)
    within("fdr", rate, 0, 1)
    count("seed", seed)
    _require_texts(used, held_out, outputs)
    _require_held_out(_counts(used, held_out, outputs))
    level, passages = 1 - confidence, longest_passages([*used, *held_out], outputs)
    lengths = [float(len(one)) for one in passages]
    mine, others = lengths[: len(used)], lengths[len(used) :]
    found = excess_test(mine, others, seed)
    smallest = _shown(smallest_excess(mine, others, level, seed), used, held_out)
    together = _together(lengths, used, held_out, outputs)
    p_values = conformal_p_values(mine, others)
    chosen = np.flatnonzero(benjamini_hochberg(p_values, rate) & (np.array(mine) > 0)).tolist()
    return LogAudit(
        _verdict(found, smallest, level, together), found.p_value, confidence, int(found.threshold),
        smallest, _rates(mine, others), _disclosed(passages, p_values, chosen, outputs, show),
        rate, _counts(used, held_out, outputs), "permutation test of the largest excess",
        found.draws, seed, together,
    )  # fmt: skip


def _require_texts(
    used: Sequence[Sequence[str]], held_out: Sequence[Sequence[str]], outputs: Sequence[str]
) -> None:
    named = {
        "used records": (text for one in used for text in one),
        "held-out records": (text for one in held_out for text in one),
        "outputs": outputs,
    }
    for name, texts in named.items():
        if not any(map(words_of, texts)):
            raise DataError(f"the {name} hold no words; there must be at least one text with some.")


def _require_held_out(counts: dict[str, int]) -> None:
    if counts["in_both"] == counts["held_out"]:
        raise DataError(
            "every held-out record is a used record, too, so nothing can be compared; hold out "
            "records that the application was never shown."
        )


def _shown(
    smallest: int | None, used: Sequence[Sequence[str]], held_out: Sequence[Sequence[str]]
) -> int | None:
    """The smallest excess, if so many used records differ from all others: only they can show."""
    words = [tuple(tuple(words_of(text)) for text in one) for one in (*used, *held_out)]
    times = Counter(words)
    able = sum(times[one] == 1 and any(one) for one in words[: len(used)])
    return None if smallest is None or able < smallest else smallest


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
    """Shares of records with a passage of at least so many words."""
    longest = max(*mine, *others)
    one, other = np.array(mine), np.array(others)
    return {
        words: (float(np.mean(one >= words)), float(np.mean(other >= words)))
        for words in STEPS
        if words <= longest
    }


def _disclosed(
    passages: Sequence[Passage], p_values: Floats, chosen: Sequence[int],
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


def _counts(
    used: Sequence[Sequence[str]], held_out: Sequence[Sequence[str]], outputs: Sequence[str]
) -> dict[str, int]:
    known = {tuple(map(str.strip, one)) for one in used}
    both = sum(tuple(map(str.strip, one)) in known for one in held_out)
    return {
        "used": len(used), "held_out": len(held_out), "outputs": len(outputs), "in_both": both,
    }  # fmt: skip
