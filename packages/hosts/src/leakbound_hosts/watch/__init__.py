"""A standing test over audits that are run on a schedule, and the file that remembers it.

Each run brings an e-value of the audited claim from fresh pairs. On every day d a test starts that
multiplies the e-values from d on; the mean of all of them with weights w_d that come to at most 1 a
year is

    M_t = (M_{t-1} + w_t) E_t,   M_0 = 0,

whose expectation is at most 1 while the claim holds (Ville's inequality, as in the e-detectors of
Shin, Ramdas and Rinaldo, arXiv:2203.03532, with a sum of weights in place of their sum of ones). So
it reaches 1/alpha in a year with a probability of at most alpha, however often it is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from leakbound.errors import DataError, StoreError, reason_of

YEAR = timedelta(days=365)
NOTHING = -math.inf


@dataclass(frozen=True, slots=True)
class WatchEntry:
    """One run of a watch; its logarithms are natural ones."""

    number: int
    at: str  # when it ended, in UTC
    year: str  # when the year of its alarm budget began
    verdict: str  # of its audit alone, which is no alarm
    reason: str | None
    tested: str
    log_e: float
    log_standing: float  # of the standing test after it; -inf has no evidence
    weight: float  # of the test that starts with it
    level: float  # from which `log_standing` is an alarm
    alarm: bool  # whether that was reached since the last acknowledgement
    epsilon: float
    facts: Mapping[str, str]
    run: str

    @property
    def blind(self) -> bool:
        """Whether the run could see nothing; too few pairs for a verdict of their own are no
        such reason, as the standing test adds them up."""
        return self.reason not in (None, "too_few_trials")


def standing(before: float, weight: float, log_e: float) -> float:
    """The logarithm of the standing test after a run.

    Examples:
        >>> after = standing(NOTHING, 1 / 365, 2.0)  # the first run
        >>> round(after, 3)
        -3.9
        >>> round(standing(after, 1 / 365, 6.0), 3)
        2.227
    """
    start = math.log(weight) if weight > 0 else NOTHING
    high, low = max(before, start), min(before, start)
    if high == NOTHING:
        return NOTHING
    return high + math.log1p(math.exp(low - high)) + log_e


def next_entry(
    entries: Sequence[WatchEntry],
    log_e: float,
    tested: str,
    now: datetime,
    runs: int,
    alarms: float,
    **told: Any,
) -> WatchEntry:
    """What a run makes of the state; with another claim, the tests that stand are given up."""
    last = entries[-1] if entries else None
    year = now if last is None else datetime.fromisoformat(last.year)
    while now - year >= YEAR:
        year += YEAR
    this_year = [one for one in entries if datetime.fromisoformat(one.year) == year]
    goes_on = last is not None and bool(this_year) and last.tested == tested
    left = 1 - math.fsum(one.weight for one in this_year)
    weight = min(1 / runs, max(0.0, left))
    after = standing(last.log_standing if last and goes_on else NOTHING, weight, log_e)
    level = -math.log(alarms)
    return WatchEntry(
        number=len(entries) + 1, at=now.isoformat(timespec="seconds"), year=year.isoformat(),
        tested=tested, log_e=log_e, log_standing=after, weight=weight, level=level,
        alarm=after >= level or (last is not None and last.alarm), **told,
    )  # fmt: skip


def changes_since(entry: WatchEntry, accepted: WatchEntry | None) -> tuple[str, ...]:
    """Names of what changed since the accepted run."""
    before = accepted.facts if accepted else {}
    return tuple(name for name, value in entry.facts.items() if before.get(name, value) != value)


class WatchState:
    """The file of a watch: a line for each run and each acknowledgement, chained by hashes.

    An edited line is refused. Whoever may write the file can cut off its end, or make all of it
    anew: keep its last hash elsewhere against that.
    """

    def __init__(self, file: Path) -> None:
        self.file, self.entries = file, list[WatchEntry]()
        self.accepted: WatchEntry | None = None
        self.digest, self._torn = "", 0
        try:
            text = file.read_text(encoding="utf-8") if file.exists() else ""
        except (OSError, ValueError) as error:
            raise StoreError(
                f"the state {str(file)!r} cannot be read ({reason_of(error)}); name another file "
                "with --state, or mend this one."
            ) from None
        whole, _, torn = text.rpartition("\n")  # a run that was killed while it wrote counts not
        self._torn = len(torn.encode())
        for number, line in enumerate(whole.splitlines(), 1):
            self._read(number, line)

    def _read(self, number: int, line: str) -> None:
        try:
            found = json.loads(line)
            digest = found.pop("digest")
            if digest != _digest(found) or found.pop("before") != self.digest:
                raise ValueError
            self._know(found)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StoreError(
                f"line {number} of the state {str(self.file)!r} is not as a run wrote it; take it "
                "from a backup, or begin another state with --state."
            ) from None
        self.digest = digest

    def _know(self, found: dict[str, Any]) -> None:
        if found.get("acknowledged"):
            self.accepted = self.entries[-1]
            self.entries[-1] = WatchEntry(
                **{**asdict(self.accepted), "alarm": False, "log_standing": NOTHING}
            )
        else:
            standing_at = float(found["log_standing"])
            self.entries.append(WatchEntry(**{**found, "log_standing": standing_at}))

    def add(self, entry: WatchEntry) -> None:
        self._append({**asdict(entry), "log_standing": repr(entry.log_standing)})

    def acknowledge(self) -> None:
        """Accept the last run as what the next ones are compared with; an alarm of it ends."""
        if not self.entries:
            raise DataError(f"the state {str(self.file)!r} has no run to accept; watch first.")
        self._append({"acknowledged": self.entries[-1].number})

    def _append(self, found: Mapping[str, object]) -> None:
        line = {**found, "before": self.digest}
        digest = _digest(line)
        descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            file.seek(-self._torn, os.SEEK_END)
            file.truncate()
            file.write((json.dumps({**line, "digest": digest}) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        self._torn, self.digest = 0, digest
        self._know(dict(found))


def _digest(found: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
