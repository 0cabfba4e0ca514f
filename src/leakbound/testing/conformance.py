"""What every mechanism must keep, a user's own too: `conform(mechanism)` checks each invariant.

The model is a puppet: its answers follow scripts chosen to hurt (one partition flips, scores of
+-1e9, NaN, antipodal embeddings, unreadable answers, echoes of examples). No language model is
needed. A broken invariant is found; none is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leakbound.errors import Refused, UsageError
from leakbound.models import Embed, Model, Request
from leakbound.privacy import Guarantee, Subsampled, leaves
from leakbound.stats import CategoricalLaw
from leakbound.tasks import Example, Job, Mechanism, Query, Task
from leakbound.testing import conformance_behavior as behavior
from leakbound.testing import conformance_exact as exact
from leakbound.testing import (
    conformance_neighbours,
    conformance_outputs,
    conformance_reuse,
)
from leakbound.testing.conformance_parts import (
    GIVEN,
    PATTERNS,
    TWO,
    Bench,
    Broken,
    Puppet,
    Skipped,
    Watched,
)
from leakbound.testing.conformance_reuse import NOISY
from leakbound.testing.puppet import FLIP

# ln p of answers that every voter gives: the first is likeliest, the last as good as impossible.
SURE = np.log([0.6, 0.4, 1e-9])


class Preferring(Puppet):
    """Prefers the first of three answers, with or without examples; the last is impossible."""

    def _scores(self, prompt: str, labels: Sequence[str]) -> Any:
        return np.resize(SURE, len(labels))


class Filtering(Puppet):
    """Refuses every prompt that shows FLIP, as the content filter of a provider does."""

    def answer(self, requests: Sequence[Request[Any]], /) -> list[Any]:
        """Answers in order."""
        if any(FLIP in _words(self, request) for request in requests):
            raise Refused("a content filter has stopped the prompt.")
        return super().answer(requests)


def _words(puppet: Puppet, request: Request[Any]) -> str:
    shown: Any = request.text if isinstance(request, Embed) else request.prompt  # type: ignore[attr-defined]
    return shown if isinstance(shown, str) else puppet.text(shown)


def agreement(bench: Bench) -> str:
    """What every voter prefers is likelier than what is as good as impossible for all of them."""
    mechanism, puppet = bench.mechanism, Preferring("agree", bench.seed)
    (aggregate,) = mechanism.collect(GIVEN[0], [bench.job(GIVEN[1])], [bench.seed], puppet)
    declared = mechanism.output_distribution(aggregate)
    if not isinstance(declared, CategoricalLaw):
        return "answers are counted, or their distribution is not known"
    p: npt.NDArray[np.float64] = declared.probabilities
    if len(p) == len(SURE) and p[-1] > p[0] * (1 - 1e-9) and p[-1] > p[1] * (1 + 1e-9):
        raise Broken(
            f"an answer that is impossible for every voter has probability {p[-1]:.3g}, the one "
            f"that all of them prefer {p[0]:.3g}"
        )
    return "what every voter prefers is the likelier answer"


def total(bench: Bench) -> str:
    """Under a guarantee, a call that fails over one row changes no status: there is an answer."""
    bench.guaranteed()
    mechanism, count = bench.mechanism, 0
    for task, query in bench.queries():
        job, model = bench.job(query, flip=True), Filtering("random", bench.seed)
        try:
            found = mechanism.collect(task, [job], [bench.seed], model)
            out = mechanism.release(found[0], 1, np.random.default_rng(bench.seed))
        except UsageError:
            raise
        except Exception as error:
            raise Broken(
                f"a prompt that a content filter stops ends in {type(error).__name__}: who sees "
                "the error knows of a private row. Collect over answer_total"
            ) from None
        count += len(out.answers)
    return f"{count} answers came though the calls over one row had failed"


OTHER = Example("an input that stands in no other example", "a label of its own")
SIZE = 2  # times the least context, so that parts may hold more than one example


def disjoint_parts(bench: Bench) -> str:
    """Replacing an example changes the requests of one voter, the same for all of a part."""
    job = bench.job(GIVEN[1], factor=SIZE)
    parts = bench.mechanism.disjoint_parts(len(job.context))
    if not parts:
        raise Skipped("no disjoint parts are stated")
    if sorted(place for part in parts for place in part) != list(range(len(job.context))):
        raise Broken("disjoint_parts does not state every place of a context once")
    shown = [{at for place in part for at in _changed(bench, job, place)} for part in parts]
    asked = len(bench.mechanism.requests(GIVEN[0], job, 0))
    each = asked // bench.mechanism.voters(len(job.context))  # 2 where votes are calibrated
    if any(len(requests) != each for requests in shown) or (
        len(set.union(*shown)) < each * len(parts)
    ):
        raise Broken("the examples of a part of disjoint_parts are not shown to one voter alone")
    return f"each of {len(parts)} voters is shown the examples of its part"


def _changed(bench: Bench, job: Job, place: int) -> list[int]:
    """Which requests show the example at a place."""
    context = (*job.context[:place], OTHER, *job.context[place + 1 :])
    before, after = (
        bench.mechanism.requests(GIVEN[0], one, 0) for one in (job, Job(context, job.query))
    )
    return [at for at, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]


DELTAS = (0.0, 1e-9, 1e-6, 1e-3)  # where guarantees are compared: pure DP and orders of magnitude
SLACK = 1 - 1e-9  # for rounding
DRAWS = 8  # runs over one context; a round that is the same in all of them saw no noise before it

Round = frozenset[Request[object]]


def cost(bench: Bench) -> str:
    """`cost` has one part for each release of an answer, and never spends less than a release."""
    mechanism, most = bench.mechanism, 1
    for task, query in (*bench.queries(), TWO):
        found = mechanism.cost(task, query)
        if found.relation != mechanism.guarantee.relation:
            raise Broken(
                f"cost is stated under {found.relation}, the guarantee under "
                f"{mechanism.guarantee.relation}"
            )
        releases = 1
        if mechanism.noise_in_collect(task, query):
            releases = release_count(bench, task, query)
        most = max(most, releases)
        _require_cost(found, mechanism.guarantee, releases)
    return f"every answer pays for what it releases ({most} noisy choices at most)"


def _require_cost(found: Guarantee, guarantee: Guarantee, releases: int) -> None:
    if releases > 1:
        if _is_finite(found) and part_count(found) < releases:
            raise Broken(
                f"an answer makes {releases} releases that depend on an example, and its cost is "
                f"{found.describe()}; it must be compose of one part for each release"
            )
        return
    for delta in DELTAS:
        if found.epsilon(delta) < guarantee.epsilon(delta) * SLACK:
            raise Broken(
                f"one answer costs {found.epsilon(delta):.6g} at δ={delta:g}, and the guarantee of "
                f"one release is {guarantee.epsilon(delta):.6g}"
            )


def _is_finite(guarantee: Guarantee) -> bool:
    """Neither nothing is guaranteed, nor that nothing is lost."""
    return any(0 < guarantee.epsilon(delta) < float("inf") for delta in DELTAS)


def part_count(guarantee: Guarantee) -> int:
    """Number of releases that a guarantee composes.

    Examples:
        >>> from leakbound.privacy import PureDP, compose
        >>> part_count(compose([PureDP(0.5)] * 3))
        3
    """
    return sum(part.steps if isinstance(part, Subsampled) else 1 for part in leaves(guarantee))


def release_count(bench: Bench, task: Task, query: Query) -> int:
    """Number of noisy choices in one answer that depend on one example, as far as a puppet shows.

    A round of model calls that shows the example, with prompts that noise drawn before has changed,
    leads to a release of its own; so does the first round that shows it. Rounds that are the same
    whatever noise is drawn count once, so the number is never too large.
    """
    mechanism = bench.mechanism.recalibrated(*NOISY)  # much noise: runs part soon
    counts = [1]
    for pattern in ("random", "agree"):
        for flip in (False, True):
            job = bench.job(query, flip)
            runs = [
                _rounds(mechanism, task, job, bench.seed + draw, Puppet(pattern, bench.seed))
                for draw in range(DRAWS)
            ]
            counts.append(_most(runs))
    return max(counts)


def _rounds(
    mechanism: Mechanism, task: Task, job: Job, draw: int, puppet: Puppet
) -> frozenset[Round]:
    """Different rounds of model calls of one run that show the last example."""
    watched = Watched(puppet)
    mechanism.collect(task, [job], [draw], watched)
    word = str(job.context[-1].input)
    return frozenset(
        frozenset(requests)
        for requests in watched.rounds
        if any(word in watched.words(request) for request in requests)
    )


def _most(runs: Sequence[frozenset[Round]]) -> int:
    common = frozenset.intersection(*runs)
    return max(len(run - common) for run in runs) + bool(common)


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
    Invariant("disjoint_parts", disjoint_parts),
    Invariant("loss", exact.loss),
    Invariant("tightness", exact.tightness),
    Invariant("vote_noise", exact.vote_noise),
    Invariant("agreement", agreement),
    Invariant("total", total),
    Invariant("decode", behavior.decode),
    Invariant("reuse", conformance_reuse.reuse),
    Invariant("cost", cost),
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
