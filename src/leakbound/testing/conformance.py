"""What every mechanism must keep, a user's own too: `conform(mechanism)` checks each law and says
what it found.

The model is a puppet: its answers follow scripts chosen to hurt (one partition flips, scores of
+-1e9, NaN, antipodal
embeddings, unreadable answers, echoes of examples). No language model is needed, and no law is
proved: one that is broken is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakbound.models import Model
from leakbound.testing import conformance_exact as exact
from leakbound.testing import conformance_laws as laws
from leakbound.testing.conformance_parts import PATTERNS, Bench, Broken, Skipped

__all__ = ["LAWS", "Check", "Law", "assert_conforms", "conform"]


@dataclass(frozen=True, slots=True)
class Check:
    """One law over one mechanism.

    A law that says nothing about it passes, and says that it was skipped and why.
    """

    name: str
    passed: bool
    detail: str

    @property
    def skipped(self) -> bool:
        """Was there nothing to check?"""
        return self.detail.startswith("skipped: ")


@dataclass(frozen=True, slots=True)
class Law:
    """Something that must hold for a mechanism. Called with one, it returns a Check."""

    name: str
    body: Callable[[Bench], str]

    def __call__(
        self, mechanism: Any, *, seed: int = 0, pairs: int = 200, model: Model | None = None,
        patterns: Sequence[str] = PATTERNS,
    ) -> Check:  # fmt: skip
        """`pairs` neighbouring contexts; `model` answers free queries (default:

        a puppet whose tokens are bytes).
        """
        try:
            with np.errstate(all="ignore"):
                return Check(
                    self.name, True, self.body(Bench(mechanism, seed, pairs, model, patterns))
                )
        except Skipped as nothing:
            return Check(self.name, True, f"skipped: {nothing}")
        except Broken as found:
            return Check(self.name, False, str(found))
        except Exception as error:
            return Check(self.name, False, f"raised {type(error).__name__}: {error}")


LAWS: tuple[Law, ...] = (
    Law("sensitivity", exact.sensitivity),
    Law("many_draws", laws.many_draws),
    Law("seeds", laws.seeds),
    Law("nothing_kept", laws.nothing_kept),
    Law("asking", laws.asking),
    Law("asking_alike", laws.asking_alike),
    Law("loss", exact.loss),
    Law("tightness", exact.tightness),
    Law("speaking", laws.speaking),
    Law("price", laws.price),
)


def conform(
    mechanism: Any, *, seed: int = 0, pairs: int = 200, model: Model | None = None
) -> list[Check]:
    """Every law over one mechanism."""
    return [law(mechanism, seed=seed, pairs=pairs, model=model) for law in LAWS]


def assert_conforms(
    mechanism: Any, *, seed: int = 0, pairs: int = 200, model: Model | None = None
) -> None:
    """Raises AssertionError that names every broken law."""
    broken = [
        check
        for check in conform(mechanism, seed=seed, pairs=pairs, model=model)
        if not check.passed
    ]
    if broken:
        said = "; ".join(f"{check.name}: {check.detail}" for check in broken)
        raise AssertionError(f"{mechanism.name} breaks {len(broken)} of {len(LAWS)} laws. {said}.")
