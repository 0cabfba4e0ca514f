"""What tables of utility are made of: cells, a model that remembers, mechanisms without noise."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np

from leakbound.mechanisms import (
    BoundedCID,
    DPFusion,
    InvisibleInk,
    KeywordMean,
    ProductOfExperts,
    PublicFacts,
    ReportNoisyMax,
    SubsampleAverage,
    build_mechanism,
    service_options,
)
from leakbound.models import NextLogits, Request
from leakbound.models.model import Wrapper
from leakbound.stats import CategoricalLaw
from leakbound.stats.noise.best_votes import best_chance

DELTA, EPSILONS = 1e-5, (1.0, 2.0, 4.0, 8.0)
NO_NOISE = float("inf")
QUIET, BOUNDLESS = 1e-9, 1e6  # noise that breaks ties only; a bound that nothing reaches
DRAWS = 400  # outputs of a query where their distribution is not known
ERRORS = 2.0  # standard errors by which a mechanism must beat the zero-shot baseline
R = TypeVar("R")
Key = tuple[str, float]


@dataclass
class Cell:
    """Values of the repeats, in [0, 1]."""

    values: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    def beats(self, baseline: Cell) -> bool:
        """Repeat by repeat, by more than two standard errors of the mean difference."""
        difference = np.array(self.values) - np.array(baseline.values)
        return bool(difference.mean() > ERRORS * _error(difference))

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * _error(np.array(self.values)):.1f}"


def _error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


@dataclass
class Table:
    """Cells by mechanism and epsilon, over contexts of J examples."""

    shots: int
    cells: dict[Key, Cell] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        cells = [(name, epsilon, cell.values) for (name, epsilon), cell in self.cells.items()]
        return {"shots": self.shots, "cells": cells}

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> Self:
        cells = {(name, epsilon): Cell(values) for name, epsilon, values in found["cells"]}
        return cls(found["shots"], cells)

    def note(self, name: str, epsilon: float, value: float) -> None:
        self.cells.setdefault((name, epsilon), Cell()).values.append(value)

    def get(self, name: str, epsilon: float) -> Cell | None:
        return self.cells.get((name, epsilon))

    @property
    def zero_shot(self) -> Cell:
        return self.cells["zero_shot", NO_NOISE]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.cells))

    def _shown(self, name: str, epsilon: float) -> str:
        cell = self.get(name, epsilon)
        if cell is None:
            return ""
        return f"{cell}{'' if name == 'zero_shot' or cell.beats(self.zero_shot) else ' °'}"

    def __str__(self) -> str:
        columns = (*EPSILONS, NO_NOISE)
        heads = ["no noise" if e == NO_NOISE else f"ε = {e:g}" for e in columns]
        lines = [_row(f"J = {self.shots}", *heads), _row(*["---"] * (len(columns) + 1))]
        lines += [_row(name, *(self._shown(name, e) for e in columns)) for name in self.names]
        return "\n".join(lines)

    def no_better(self, kind: str) -> list[str]:
        """Sentences on the mechanisms that do not beat the zero-shot baseline somewhere."""
        found = [text for name in self.names if (text := self._no_better(name))]
        return [f"- {kind}, J = {self.shots}, {text}" for text in found]

    def _no_better(self, name: str) -> str:
        cells = {e: cell for (one, e), cell in self.cells.items() if one == name}
        failed = [e for e, cell in cells.items() if not cell.beats(self.zero_shot)]
        noisy = ", ".join(f"{e:g}" for e in failed if e != NO_NOISE)
        if name == "zero_shot" or not failed:
            return ""
        if NO_NOISE in failed:
            why = "nor without noise, so the noise is not the reason"
        else:
            why = f"without noise it has {cells[NO_NOISE]}, so the noise is the reason"
        at = f"at ε = {noisy}; " if noisy else ""
        return f"`{name}`: {at}{why}."


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


@dataclass
class Checkpoint:
    """Tables that were computed, in a JSON file; none is kept without a file."""

    file: Path | None

    def table(self, name: str, make: Callable[[], Table]) -> Table:
        """A table that is in the file, else a new one, which is added to it."""
        known = json.loads(self.file.read_text()) if self.file and self.file.exists() else {}
        if name in known:
            return Table.of_json(known[name])
        made = make()
        if self.file:
            known[name] = made.to_json()
            self.file.write_text(json.dumps(known), encoding="utf-8")
        return made


class Remembering(Wrapper):
    """Asks each request once; logits of tokens are forgotten by `forget`."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._known: dict[Request[Any], Any] = {}

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        new = list(dict.fromkeys(one for one in requests if one not in self._known))
        if new:
            self._known.update(zip(new, self.model.answer(new), strict=True))
        return [cast(R, self._known[one]) for one in requests]

    def forget(self, everything: bool = False) -> None:
        kept = () if everything else self._known.items()
        self._known = {one: reply for one, reply in kept if not isinstance(one, NextLogits)}


def grouped(name: str, epsilon: float, shots: int, labels: int, **options: Any) -> Any:
    """A mechanism as `answer` makes it: calibrated to epsilon, grouped by the public rule."""
    facts = PublicFacts(shots, labels, epsilon, DELTA)
    return build_mechanism(name, service_options(name, options, facts), epsilon, DELTA)


def without_noise(mechanism: Any) -> Any:
    """The same with its noise off, or with a privacy bound that binds nothing."""
    if isinstance(mechanism, ProductOfExperts):
        return replace(mechanism, epsilon=BOUNDLESS, token_epsilon=BOUNDLESS)
    if isinstance(mechanism, BoundedCID):
        return replace(mechanism, epsilon=BOUNDLESS * mechanism.tokens)
    if isinstance(mechanism, InvisibleInk):
        return replace(mechanism, clip=BOUNDLESS, token_clip=BOUNDLESS)
    if isinstance(mechanism, DPFusion):
        return replace(mechanism, beta=BOUNDLESS, token_beta=BOUNDLESS)
    noise = "noise" if isinstance(mechanism, KeywordMean) else "sigma"
    return replace(mechanism, **{noise: QUIET})


def chance(mechanism: Any, aggregate: Any, answer: int, rng: np.random.Generator) -> float:
    """P(the output is an answer): exact where the distribution of outputs is known."""
    law = mechanism.output_distribution(aggregate)
    if isinstance(law, CategoricalLaw):
        return float(law.probabilities[answer])
    if isinstance(mechanism, ReportNoisyMax):
        return _wins(np.asarray(aggregate.counts, float), answer, mechanism.sigma)
    if isinstance(mechanism, SubsampleAverage):
        sigma = mechanism.sigma / np.sqrt(mechanism.subsamples)
        return _wins(np.asarray(aggregate.values), answer, sigma)
    outputs = mechanism.release(aggregate, DRAWS, rng).answers
    return float((np.asarray(outputs) == answer).mean())


def _wins(values: Any, answer: int, sigma: float) -> float:
    own, others = values[[answer]], np.delete(values, answer)[None]
    return float(best_chance(own, others, sigma, np.zeros(1))[0, 0])


def columns(make: Callable[[float], Any]) -> list[tuple[float, Any]]:
    """The mechanism at each epsilon, and the last of them without noise."""
    made = [(epsilon, make(epsilon)) for epsilon in EPSILONS]
    return [*made, (NO_NOISE, without_noise(made[-1][1]))]
