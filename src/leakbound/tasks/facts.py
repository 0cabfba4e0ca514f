"""What a mechanism states, as far as it holds of the code of its own class."""

from __future__ import annotations

from leakbound._members import holds_for
from leakbound.tasks.mechanism import MEMBERS, Exactness, Mechanism, VoteNoise
from leakbound.tasks.task import Query, Task

COLLECTING, RELEASING = ("requests", "collect"), ("release", "output_distribution")
FACTS = frozenset(MEMBERS) - {*COLLECTING, *RELEASING}  # who changes these, changes no output


def _of_collecting(mechanism: Mechanism, fact: str) -> bool:
    return holds_for(mechanism, fact, {*FACTS, *RELEASING})


def _of_releasing(mechanism: Mechanism, fact: str) -> bool:
    return holds_for(mechanism, fact, {*FACTS, *COLLECTING})


def exactness_of(mechanism: Mechanism) -> Exactness:
    """What a mechanism states for the way in which its own class collects and releases."""
    if not any(_of_releasing(mechanism, one) for one in ("exactness", "output_distribution")):
        return "none"
    return mechanism.exactness if _of_collecting(mechanism, "exactness") else "given_sample"


def draws_early(mechanism: Mechanism, task: Task, query: Query) -> bool:
    """Whether noise is drawn in `collect`, as far as what a class says is known of that code."""
    exact = mechanism.exactness == "full" and _of_collecting(mechanism, "exactness")
    stated = exact or _of_collecting(mechanism, "noise_in_collect")
    return not stated or mechanism.noise_in_collect(task, query)


def parts_of(mechanism: Mechanism, shots: int) -> tuple[tuple[int, ...], ...]:
    """The parts that a mechanism states for the requests of its own class."""
    stated = _of_collecting(mechanism, "disjoint_parts")
    return mechanism.disjoint_parts(shots) if stated else ()


def facts_in_vain(mechanism: Mechanism) -> tuple[str, ...]:
    """Names of what is stated of other code than the mechanism's own, and so is not used."""
    unused = {
        "exactness": mechanism.exactness != exactness_of(mechanism),
        "vote_noise": mechanism.vote_noise != vote_noise_of(mechanism),
    }
    return tuple(name for name, other in unused.items() if other)


def vote_noise_of(mechanism: Mechanism) -> VoteNoise | None:
    """The noise that a mechanism states for the release of its own class."""
    return mechanism.vote_noise if _of_releasing(mechanism, "vote_noise") else None
