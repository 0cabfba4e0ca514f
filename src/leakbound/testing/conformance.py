"""What every mechanism must keep, a user's own too: `conform(mechanism)` checks each invariant.

The model is a puppet: its answers follow scripts chosen to hurt (one partition flips, scores of
+-1e9, NaN, antipodal embeddings, unreadable answers, echoes of examples). No language model is
needed. A broken invariant is found; none is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from leakbound.models import Model
from leakbound.tasks import Mechanism
from leakbound.testing import conformance_behavior as behavior
from leakbound.testing import (
    conformance_cost,
    conformance_neighbours,
    conformance_outputs,
    conformance_places,
    conformance_reuse,
    conformance_utility,
)
from leakbound.testing import conformance_exact as exact
from leakbound.testing.conformance_parts import PATTERNS, Bench, Broken, Skipped


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant over one mechanism.

    Attributes:
        name: Name of the invariant.
        passed: Whether it holds; also True where it says nothing about the mechanism.
        detail: What was found, or why it was skipped.
    """

    name: str
    passed: bool
    detail: str

    @property
    def skipped(self) -> bool:
        """Was there nothing to check?"""
        return self.detail.startswith("skipped: ")


@dataclass(frozen=True, slots=True)
class Invariant:
    """Something that must hold for a mechanism.

    Attributes:
        name: Its name.
        body: Returns what was found, or raises `Broken` or `Skipped`.
    """

    name: str
    body: Callable[[Bench], str]

    def __call__(
        self,
        mechanism: Mechanism,
        *,
        seed: int = 0,
        pairs: int = 200,
        model: Model | None = None,
        patterns: Sequence[str] = PATTERNS,
    ) -> Check:
        """Check it for one mechanism."""
        try:
            with np.errstate(all="ignore"):
                found = self.body(Bench(mechanism, seed, pairs, model, patterns))
            return Check(self.name, True, found)
        except Skipped as nothing:
            return Check(self.name, True, f"skipped: {nothing}")
        except Broken as broken:
            return Check(self.name, False, str(broken))
        except Exception as error:
            return Check(self.name, False, f"raised {type(error).__name__}: {error}")


INVARIANTS: tuple[Invariant, ...] = (
    Invariant("members", behavior.members),
    Invariant("sensitivity", exact.sensitivity),
    Invariant("many_draws", conformance_outputs.many_draws),
    Invariant("fresh_noise", conformance_outputs.fresh_noise),
    Invariant("outputs", conformance_outputs.outputs),
    Invariant("returned", conformance_neighbours.returned),
    Invariant("public_facts", conformance_neighbours.public_facts),
    Invariant("state", conformance_neighbours.state),
    Invariant("seeds", behavior.seeds),
    Invariant("nothing_kept", behavior.nothing_kept),
    Invariant("requests", behavior.requests),
    Invariant("request_count", behavior.request_count),
    Invariant("disjoint_parts", conformance_places.disjoint_parts),
    Invariant("loss", exact.loss),
    Invariant("tightness", exact.tightness),
    Invariant("vote_noise", exact.vote_noise),
    Invariant("agreement", conformance_utility.agreement),
    Invariant("total", conformance_utility.total),
    Invariant("decode", behavior.decode),
    Invariant("reuse", conformance_reuse.reuse),
    Invariant("cost", conformance_cost.cost),
)


def conform(
    mechanism: Mechanism, *, seed: int = 0, pairs: int = 200, model: Model | None = None
) -> list[Check]:
    """Check every invariant for one mechanism.

    Args:
        mechanism: What is checked.
        seed: Root of all randomness.
        pairs: Number of neighbouring contexts.
        model: Answers free queries; None for a puppet whose tokens are bytes.

    Returns:
        One finding for each invariant.
    """
    return [check(mechanism, seed=seed, pairs=pairs, model=model) for check in INVARIANTS]


def assert_conforms(
    mechanism: Mechanism, *, seed: int = 0, pairs: int = 200, model: Model | None = None
) -> None:
    """Check every invariant for one mechanism, in a test.

    Args:
        mechanism: What is checked.
        seed: Root of all randomness.
        pairs: Number of neighbouring contexts.
        model: Answers free queries; None for a puppet whose tokens are bytes.

    Raises:
        AssertionError: With the name and finding of every broken invariant.
    """
    checks = conform(mechanism, seed=seed, pairs=pairs, model=model)
    broken = [check for check in checks if not check.passed]
    if broken:
        found = "; ".join(f"{check.name}: {check.detail}" for check in broken)
        name = getattr(mechanism, "name", type(mechanism).__name__)  # it may lack one
        raise AssertionError(f"{name} breaks {len(broken)} of {len(checks)} invariants. {found}.")
