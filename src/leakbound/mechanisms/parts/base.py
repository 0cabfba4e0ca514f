"""Base classes of mechanisms, and the public facts by which a service groups its examples.

The grouping must not depend on any row. Its result becomes part of the mechanism's options, and
hence of the manifest.
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from leakbound._catalogue import construct, option_types
from leakbound._sources import class_source
from leakbound.errors import TargetError, UsageError
from leakbound.mechanisms.parts.total_calls import answer_total
from leakbound.models import Model, Request, ScoreLabels
from leakbound.privacy import Guarantee, NonPrivate, calibrate_gaussian
from leakbound.tasks import Job, Mechanism, Outputs, Query, Task
from leakbound.tasks.mechanism import Exactness, VoteNoise
from leakbound.tasks.partition import Sampling, places_by_position

R = TypeVar("R")
GaussianCalibration = Literal["analytic", "classical"]
NO_ANSWER = "(no answer)"
CLAIM = ("epsilon", "delta")
PACKAGE = __name__.partition(".")[0]


# smallest number in a partition, as in DP-ICL; with fewer, the model repeats the label it was shown
LEAST_EXAMPLES = 4
NOISE_WIDTHS = 6  # a lead of half of 6 sigma is two standard deviations of two noisy counts


@dataclasses.dataclass(frozen=True, slots=True)
class PublicFacts:
    """Public facts that may decide how the examples of a service are grouped.

    Attributes:
        shots: J, the number of examples in the context; public under replace_one.
        labels: Number of labels of the task; 0 if answers are free.
        epsilon: epsilon of the claim for one answer, above 0.
        delta: delta of the claim; in (0, 1) for votes with Gaussian noise.
    """

    shots: int
    labels: int
    epsilon: float
    delta: float

    @property
    def least(self) -> int:
        """Number of examples that a vote should see: one for each label, and at least 4."""
        return max(LEAST_EXAMPLES, self.labels)

    @property
    def per_expert(self) -> int:
        """Number of examples behind one score vector. With labels it is two, to distinguish a label
        that fits from one that is merely shown. It is one if answers are free.
        """
        return 2 if self.labels else 1

    def partitions(self, examples: int) -> int:
        """As many partitions as the noise requires, as long as each sees enough examples.

        Args:
            examples: Smallest number of examples in a partition, if there are enough.

        Returns:
            J/examples, rounded down. At most 6 sigma, rounded up, where sigma is the noise of votes
            at the claim: beyond that, larger partitions help more than additional votes. This limit
            does not apply at delta = 0, where no noise is Gaussian. At least 1.

        Examples:
            >>> PublicFacts(20, 4, 4.0, 1e-5).partitions(4)
            5
            >>> [PublicFacts(400, 4, epsilon, 1e-5).partitions(4) for epsilon in (1.0, 4.0)]
            [32, 10]
        """
        most = self.shots // examples
        if self.delta > 0:
            noise = calibrate_gaussian(self.epsilon, self.delta, math.sqrt(2))
            most = min(most, math.ceil(NOISE_WIDTHS * noise))
        return max(1, most)


class MechanismBase(Mechanism):
    """Base of mechanisms. A subclass is a frozen dataclass whose fields are its options.

    It must define `name`, `guarantee`, `access`, `needs`, `exactness`, `noise_in_collect`,
    `voters`, `requests`, `collect`, `release` and `output_distribution`. These have no default,
    because no value suits most mechanisms and a wrong value gives wrong numbers. By default, an
    answer costs one output (`cost`), and it is one of the query's answers (`decode`).
    """

    __slots__ = ()
    if TYPE_CHECKING:  # a subclass writes these as class variables, fields or properties
        name: ClassVar[Any]
        access: ClassVar[Any]
        needs: ClassVar[Any]
        exactness: ClassVar[Any]
    strongest_score: ClassVar[str | None] = None
    withheld_as: ClassVar[str | None] = None
    application: ClassVar[Any] = None
    answers_once: ClassVar[bool] = False
    unwritten: ClassVar[tuple[str, ...]] = ()  # fields that older records do not have

    @property
    def sampled_candidates(self) -> int:
        """0: no public candidates are sampled."""
        return 0

    @property
    def vote_noise(self) -> VoteNoise | None:
        """None: the output contains no noisy votes."""
        return None

    def disjoint_parts(self, shots: int) -> tuple[tuple[int, ...], ...]:
        """Empty: no voters are known to have disjoint examples."""
        return ()

    @property
    def source(self) -> str:
        """Fingerprint of the files of the class and its bases, and of what they import."""
        return class_source(type(self))

    @classmethod
    def option_types(cls) -> dict[str, Any]:
        """Types of the options that a specification may set in addition to a claim, by name."""
        known = option_types(cls._constructor())
        return {name: kind for name, kind in known.items() if name not in CLAIM}

    @classmethod
    def group_options(cls, facts: PublicFacts, given: Mapping[str, Any]) -> dict[str, Any]:
        """Default options for how a service groups its examples; none if it does not group them.

        Args:
            facts: Public facts.
            given: Options that the operator set. They override the returned options.
        """
        return {}

    @classmethod
    def for_claim(cls, epsilon: float, delta: float, **options: Any) -> Self:
        """The mechanism that should satisfy a claim.

        Args:
            epsilon: epsilon of the claim, above 0; ignored if there is no noise.
            delta: delta of the claim in [0, 1); ignored if there is no noise.
            **options: Values of `option_types`.

        Raises:
            UsageError: If an option is unknown or has the wrong type.
        """
        name, make = vars(cls).get("name", cls.name), cls._constructor()
        claim = cls._claim(epsilon, delta)
        shown = name if isinstance(name, str) else cls.__name__
        return construct(make, {**options, **claim}, shown)

    @classmethod
    def _constructor(cls) -> Callable[..., Self]:
        """The callable that `for_claim` uses; here the class itself."""
        return cls

    @classmethod
    def _claim(cls, epsilon: float, delta: float) -> dict[str, float]:
        """Of a claim, what the constructor takes."""
        known = option_types(cls._constructor())
        return {k: v for k, v in zip(CLAIM, (epsilon, delta), strict=True) if k in known}

    def to_config(self) -> dict[str, object]:
        """Kind and fields as plain values; none of `unwritten` with its default.

        Examples:
            >>> from leakbound.mechanisms import ReportNoisyMax
            >>> ReportNoisyMax(2.5).to_config()
            {'kind': 'report_noisy_max', 'sigma': 2.5, 'partitions': 10}
        """
        shown = {field.name: field.default for field in _fields(self) if field.repr}
        found = {name: _plain(self, name) for name in shown}
        later = {name for name in self.unwritten if found[name] == shown[name]}
        return {"kind": self.name, **{k: v for k, v in found.items() if k not in later}}

    def recalibrated(self, epsilon: float, delta: float) -> Self:
        """The mechanism with the same options and the noise for another claim."""
        known = option_types(self._constructor())
        names = [field.name for field in _fields(self) if field.name in known]
        options = {name: getattr(self, name) for name in names if name not in CLAIM}
        return self._constructor()(**options, **self._claim(epsilon, delta))

    def cost(self, task: Task, query: Query) -> Guarantee:
        return self.guarantee

    def decode(self, task: Task, query: Query, outputs: Outputs, model: Model) -> list[str]:
        """The chosen text of each draw."""
        choices = (*(outputs.choices or task.answers(query)), NO_ANSWER)
        return [choices[i] for i in outputs.answers]

    def _answer_jobs(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[list[Any]]:
        """Replies to the requests of each job, all in one batch. With a guarantee, a failed call
        gives a value, because an error could tell of a row."""
        each = [self.requests(task, job, draw) for job, draw in zip(jobs, draws, strict=True)]
        if isinstance(self.guarantee, NonPrivate):
            return answer_each(model, each)
        return answer_total(model, task, jobs, each)


class CalibratedMechanism(MechanismBase):
    """Base of mechanisms whose noise is a field, which `calibrated` computes from a claim."""

    __slots__ = ()

    @classmethod
    @abstractmethod
    def calibrated(cls, epsilon: float, delta: float, *args: Any, **options: Any) -> Self:
        """The mechanism with the noise that a claim requires.

        Args:
            epsilon: epsilon of the claim, above 0.
            delta: delta of the claim in [0, 1); above 0 where the noise is Gaussian.
            *args: Options in order: attributes other than the noise.
            **options: The same by name.
        """

    @classmethod
    def _constructor(cls) -> Callable[..., Self]:
        return cls.calibrated


class PartitionedMechanism(CalibratedMechanism):
    """Base of mechanisms in which each of T disjoint parts of the context gives one answer."""

    __slots__ = ()
    partitions: int
    sampling: Sampling = "position"

    @classmethod
    def group_options(cls, facts: PublicFacts, given: Mapping[str, Any]) -> dict[str, Any]:
        """Partitions of at least four examples, and at least one example for each label."""
        if given.get("relation") == "add_remove":
            return {}
        return {"partitions": facts.partitions(facts.least)}

    def voters(self, shots: int) -> int:
        """One answer for each partition."""
        return self.partitions

    def disjoint_parts(self, shots: int) -> tuple[tuple[int, ...], ...]:
        """The partitions, unless they are sampled."""
        return places_by_position(shots, self.partitions) if self.sampling == "position" else ()

    @property
    def exactness(self) -> Exactness:
        """Full, unless partitions are drawn at random. A class that collects states it anew."""
        return "full" if self.sampling == "position" else "given_sample"

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """False: noise is drawn in `release` only."""
        return False


def _fields(mechanism: object) -> tuple[dataclasses.Field[Any], ...]:
    if not dataclasses.is_dataclass(mechanism):
        raise UsageError(
            f"{type(mechanism).__name__} is not a dataclass, so its options are not known; make it "
            "a frozen dataclass, or define to_config and recalibrated."
        )
    return dataclasses.fields(mechanism)


def _plain(mechanism: object, name: str) -> object:
    """A field as a JSON value; a nested dataclass becomes its kind and fields."""
    value = getattr(mechanism, name)
    if value is None or isinstance(value, str | int | float):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = {field.name: _plain(value, field.name) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **inner}
    if isinstance(value, tuple) and all(isinstance(one, str | int | float) for one in value):
        return list(value)
    raise UsageError(
        f"the field {name} of {type(mechanism).__name__} is {type(value).__name__}; it must be a "
        "plain value. Give it repr=False, and no audit of it is resumed, or define to_config."
    )


def answer_each(model: Model, groups: Sequence[Sequence[Request[R]]]) -> list[list[R]]:
    """Replies to groups of requests, sent as one batch; errors raise, unlike in `answer_total`."""
    flat = [request for group in groups for request in group]
    answers = model.answer(flat)
    for request, scores in zip(flat, answers, strict=True):
        if not isinstance(request, ScoreLabels):
            continue
        hidden = np.isnan(np.asarray(scores, float))
        if hidden.any():
            raise TargetError(
                f"label number {int(hidden.argmax()) + 1} of {hidden.size} is not one of the next "
                "tokens that the model shows, so it has no score; rename it to a word of one "
                "token, state a higher top_logprobs if the endpoint allows it, or use a mechanism "
                "that reads answers."
            )
    replies = iter(answers)
    return [[next(replies) for _ in group] for group in groups]
