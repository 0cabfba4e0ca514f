"""A cell of the coverage tables: one bound in one setting, over many simulated audits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.special import bdtr, betaincinv

Rng = np.random.Generator
Found = Mapping[str, float]
CONFIDENCE, DOUBT = 0.95, 0.01  # a cell fails if a binomial test at DOUBT rejects the confidence
ROUNDING = 1e-9  # of a truth that is computed in another way than the bound


@dataclass(frozen=True)
class Truth:
    """The largest epsilon and mu that an event which the bounds look at shows."""

    epsilon: float
    mu: float


@dataclass(frozen=True)
class Setting:
    """Where bounds are tried: `audit(rng, index)` gives them by name; names of mu end in "mu"."""

    family: str
    name: str
    pairs: int
    delta: float
    truth: Truth
    audits: int
    audit: Callable[[Rng, int], Found]


@dataclass(frozen=True)
class Cell:
    """What one bound did in one setting; shares are exact where there are 0 audits."""

    family: str
    setting: str
    estimator: str
    pairs: int
    delta: float
    truth: float
    audits: int
    missed: float
    positive: float
    mean: float
    error: float

    @property
    def valid(self) -> bool:
        if not self.audits:
            return self.missed <= 1 - CONFIDENCE + ROUNDING
        covered = self.audits - round(self.missed * self.audits)
        return float(bdtr(covered, self.audits, CONFIDENCE)) >= DOUBT


def interval(count: int, of: int) -> tuple[float, float]:
    """Clopper-Pearson limits at 95 % of a share."""
    low = float(betaincinv(count, of - count + 1, 0.025)) if count else 0.0
    high = float(betaincinv(count + 1, of - count, 0.975)) if count < of else 1.0
    return low, high


def measured(setting: Setting, seed: tuple[int, ...]) -> list[Cell]:
    """All bounds of a setting."""
    rng = np.random.default_rng(seed)
    runs = [setting.audit(rng, index) for index in range(setting.audits)]
    return [_cell(setting, name, np.array([run[name] for run in runs])) for name in runs[0]]


def _cell(setting: Setting, name: str, found: np.ndarray) -> Cell:
    truth = setting.truth.mu if name.endswith(" mu") else setting.truth.epsilon
    return Cell(
        setting.family, setting.name, name, setting.pairs, setting.delta, truth, found.size,
        float(above(found, truth).mean()), float((found > 0).mean()),
        float(found.mean()), float(found.std(ddof=1) / np.sqrt(found.size)),
    )  # fmt: skip


def above(found: np.ndarray, truth: float) -> np.ndarray:
    """Which bounds exceed the truth."""
    return np.asarray(found > truth * (1 + ROUNDING) + ROUNDING)


class Kept:
    """Finished cells in a file, so that a run may be cut and goes on where it was.

    Args:
        path: A file of JSON lines; None keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._lines = path, {}
        for line in path.read_text().splitlines() if path and path.exists() else ():
            key, value = json.loads(line)
            self._lines[key] = value

    def of(self, key: str, make: Callable[[], list[dict[str, object]]]) -> list[dict[str, object]]:
        """What was kept under a key, else made and kept now."""
        if key not in self._lines:
            self._lines[key] = make()
            if self._path:
                with self._path.open("a") as file:
                    file.write(json.dumps([key, self._lines[key]]) + "\n")
        return self._lines[key]

    def cells(self, settings: Iterator[Setting], seed: int) -> Iterator[Cell]:
        """All cells of some settings, each setting with a generator of its own."""
        for at, setting in enumerate(settings):
            key = f"{seed} {at} {setting.family} {setting.name} {setting.audits}"
            rows = self.of(
                key, lambda at=at, setting=setting: [
                    asdict(cell) for cell in measured(setting, (seed, *setting.family.encode(), at))
                ],
            )  # fmt: skip
            yield from (Cell(**row) for row in rows)  # type: ignore[arg-type]
