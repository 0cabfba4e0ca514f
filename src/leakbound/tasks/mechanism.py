"""The Mechanism protocol: how an answer is made from a private context, what passes through on the
way (jobs, aggregates before noise, outputs), and its public manifest.

What is marked PRIVATE depends on the private context, and no repr shows it; everything else is
public.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol, Self, TypeAlias, cast, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from leakbound._members import members_of, require_arguments
from leakbound.errors import UsageError
from leakbound.models.content import Private
from leakbound.models.model import Model, innermost
from leakbound.models.request import Request
from leakbound.privacy import Guarantee
from leakbound.stats import OutputDistribution
from leakbound.tasks.task import Access, Job, Query, Task
from leakbound.witness import ReplyFacts, StoredReply, reply_from_json, reply_to_json

Floats = npt.NDArray[np.float64]
ANSWER = "answer"  # the channel that every system has


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class _Aggregate(Private):
    """What every aggregate before noise (PRIVATE) may hold.

    Attributes:
        reply: The reply that it was made of, where a user sees it, or what was kept of it.
        channels: What went through the other channels of a system, where the audit reads them;
            what stands in a channel has none of its own.
    """

    reply: StoredReply | None = field(default=None, compare=False)
    channels: Mapping[str, GeneratedText] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class Votes(_Aggregate):
    """Aggregate before noise (PRIVATE): votes for each answer.

    Attributes:
        counts: One count for each answer, and a last one for "none of them" (unparsable).
    """

    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Vector(_Aggregate):
    """Aggregate before noise (PRIVATE): a mean embedding, mean counts, probabilities or scores.

    Attributes:
        values: (dim,) numbers.
        choices: Public texts that the release chooses from; none for the query's own answers.
        points: (choices, dim) public embeddings of the choices, where the values live in their
            space.
    """

    values: tuple[float, ...]
    choices: tuple[str, ...] = ()
    points: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class GeneratedText(_Aggregate):
    """Aggregate of a mechanism that generates token by token: its noise is drawn already.

    Attributes:
        text: What the release will give.
    """

    text: str


Aggregate: TypeAlias = Votes | Vector | GeneratedText


def reply_of(aggregate: Aggregate) -> StoredReply | None:
    """What a user saw of an answer, for the learned witness, or what was kept of it; None if the
    release shows nothing but a choice or noisy values.

    Examples:
        >>> reply_of(GeneratedText("Yes.")).text
        'Yes.'
    """
    if aggregate.reply is None and isinstance(aggregate, GeneratedText):
        return ReplyFacts(aggregate.text)
    return aggregate.reply


def channel_of(aggregate: Aggregate, name: str) -> Aggregate:
    """What went through one channel of a system: the answer itself for `ANSWER`, else the text of
    the channel; an empty text where nothing went through it.

    Examples:
        >>> spoken = GeneratedText("Done.", channels={"logs": GeneratedText("wrote 1 file")})
        >>> channel_of(spoken, "logs").text, channel_of(spoken, "memory").text
        ('wrote 1 file', '')
    """
    return aggregate if name == ANSWER else aggregate.channels.get(name, GeneratedText(""))


@dataclass(frozen=True, slots=True)
class Outputs:
    """What leaves a mechanism (public), for several independent draws.

    Attributes:
        answers: (draws,) index of the released choice; len(choices) means none of them.
        noisy: (draws, dim) noisy aggregates where the guarantee covers them, else None.
        choices: Texts that the indices refer to; empty for the query's own answers.
        points: (choices, dim) public embeddings of the choices, or None.
        scale: Number of answers that a noisy aggregate is the mean of.
        picked: (draws, k) indices where k choices are released together, or None.
    """

    answers: npt.NDArray[np.int64]
    noisy: Floats | None = None
    choices: tuple[str, ...] = ()
    points: Floats | None = None
    scale: float = 1.0
    picked: npt.NDArray[np.int64] | None = None


Json: TypeAlias = dict[str, Any]


def pack(aggregate: Aggregate) -> str:
    """An aggregate (PRIVATE) as JSON, which `unpack` reads.

    Examples:
        >>> pack(Votes((3, 1, 0)))
        '[3, 1, 0]'
    """
    if isinstance(aggregate, Votes) and aggregate.reply is None and not aggregate.channels:
        return json.dumps(aggregate.counts)
    return json.dumps(_object(aggregate))


def _object(aggregate: Aggregate) -> Json:
    reply = {} if aggregate.reply is None else {"reply": reply_to_json(aggregate.reply)}
    channels = {name: _object(one) for name, one in aggregate.channels.items()}
    return {**_values(aggregate), **reply, **({"channels": channels} if channels else {})}


def _values(aggregate: Aggregate) -> Json:
    if isinstance(aggregate, Votes):
        return {"votes": aggregate.counts}
    if isinstance(aggregate, GeneratedText):
        return {"text": aggregate.text}
    return {"values": aggregate.values, "choices": aggregate.choices, "points": aggregate.points}


def unpack(text: str) -> Aggregate:
    """The aggregate (PRIVATE) of a text that `pack` made, in this version or an earlier one."""
    found = json.loads(text)
    if isinstance(found, list):
        return Votes(tuple(found))
    texts = found.get("channels", {}).items()
    channels = {name: GeneratedText(one["text"], reply=_reply(one)) for name, one in texts}
    return replace(_numbers(found), reply=_reply(found), channels=channels)


def _numbers(found: Json) -> Aggregate:
    if "votes" in found:
        return Votes(tuple(found["votes"]))
    if "text" in found:
        return GeneratedText(found["text"])
    points = tuple(map(tuple, found["points"]))
    return Vector(tuple(found["values"]), tuple(found["choices"]), points)


def _reply(found: Json) -> StoredReply | None:
    return reply_from_json(found["reply"]) if "reply" in found else None


Exactness = Literal["full", "given_sample", "none"]
AnyRequest: TypeAlias = Request[Any]
RequestKinds: TypeAlias = frozenset[type[AnyRequest]]


@dataclass(frozen=True, slots=True)
class VoteNoise:
    """Gaussian noise on each count of votes.

    Attributes:
        sigma: Standard deviation, in votes, above 0.
        whole: Whether it is the discrete Gaussian, in whole votes.
    """

    sigma: float
    whole: bool = False


class Mechanism(Protocol):
    """How an answer is made from a private context.

    A frozen value: its fields are public parameters, and private data arrives only as an argument.
    Every member is required. `leakbound.mechanisms.MechanismBase` defines those that follow from
    others; a class without that base writes all of them. `require_mechanism` checks that they are
    there, and `leakbound_lab.conformance.conform` checks what they do.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in catalogues, records and messages."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What one release is proven to satisfy; `NonPrivate()` if nothing."""

    @property
    @abstractmethod
    def access(self) -> frozenset[Access]:
        """What leaves the mechanism: answers (black box), their probabilities, noisy aggregates
        (white box)."""

    @property
    @abstractmethod
    def needs(self) -> RequestKinds:
        """Kinds of requests that `collect` sends for queries with given answers."""

    @property
    @abstractmethod
    def strongest_score(self) -> str | None:
        """Name of the score that reads what leaves beside the answer; None if nothing does."""

    @property
    @abstractmethod
    def sampled_candidates(self) -> int:
        """Number of public candidate answers that are sampled for a free query; 0 for none."""

    @property
    @abstractmethod
    def vote_noise(self) -> VoteNoise | None:
        """The noise on each count of votes; None where other outputs than noisy counts are
        released. Estimators over votes read it.
        """

    @property
    @abstractmethod
    def exactness(self) -> Exactness:
        """How `output_distribution` relates to one output for a context.

        "full": it is the distribution of that output. "given_sample": it holds given what `collect`
        drew at random, such as partitions, so the loss that follows from it is not that of the
        system, and decides nothing alone. "none": there is no output distribution.
        """

    @property
    @abstractmethod
    def withheld_as(self) -> str | None:
        """The finish reason of an answer that a judge withheld; None where no judge decides."""

    @property
    @abstractmethod
    def answers_once(self) -> bool:
        """Whether an aggregate is one answer, so that further outputs of it are copies."""

    @property
    @abstractmethod
    def application(self) -> Any:
        """The mechanism itself where it is an application, whose inside nobody knows, with every
        member of `leakbound.systems.SystemMechanism`; None for one over a model.
        """

    @property
    @abstractmethod
    def source(self) -> str:
        """Fingerprint of the code, so that changed code is another run; "" in this package."""

    @abstractmethod
    def to_config(self) -> dict[str, object]:
        """`kind` (the name) and every option by name, as plain values; nothing private."""

    @abstractmethod
    def recalibrated(self, epsilon: float, delta: float) -> Mechanism:
        """The same mechanism with the noise of another claim, epsilon above 0 and delta in [0, 1);
        the mechanism itself where nothing depends on a claim.

        Its aggregates are the same unless `noise_in_collect`.
        """

    @abstractmethod
    def voters(self, shots: int) -> int:
        """Number of answers that one aggregate over so many examples counts or averages:
        partitions, subsamples or experts; 1 for a single answer.
        """

    @abstractmethod
    def disjoint_parts(self, shots: int) -> tuple[tuple[int, ...], ...]:
        """Places of the examples, from 0, that each voter on the answer is shown, where no two
        voters share one.

        Empty where voters share examples, where the parts do not vote on the answer, and where they
        are not known. An audit of answers reads it to place copies of the canary in other parts.
        """

    @abstractmethod
    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """Whether `collect` draws noise, or reads how much there is, for this query.

        If it does, aggregates hold for this epsilon, delta and calibration only, so that they must
        never be reused for others.
        """

    @abstractmethod
    def cost(self, task: Task, query: Query) -> Guarantee:
        """What one answer to this query spends: the number that audit, record and ledger use.

        `guarantee` for one release. For an answer of several noisy choices, `compose` of one part
        for each of them.
        """

    @abstractmethod
    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """First requests of a job (PRIVATE) in any order: what the model must be able to take.

        `draw` names the random draw of sampled answers and noise.

        Raises:
            UsageError: If the mechanism cannot answer such a job.
        """

    @abstractmethod
    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """The slow part: send requests to the model and aggregate its replies, one aggregate
        (PRIVATE) for each job.

        Args:
            task: Renders the prompts.
            jobs: Contexts (PRIVATE) and queries.
            draws: One number for each job that names its random draw; equal numbers give equal
                aggregates.
            model: Answers the requests.
        """

    @abstractmethod
    def release(self, aggregate: Any, draws: int, rng: np.random.Generator) -> Outputs:
        """The fast part: noise and choice, as so many independent outputs of one aggregate
        (PRIVATE).

        `rng` is the source of all noise.
        """

    @abstractmethod
    def output_distribution(self, aggregate: Any) -> OutputDistribution | None:
        """Exact distribution (PRIVATE) of an output for an aggregate (PRIVATE); None if it is not
        known.
        """

    @abstractmethod
    def decode(self, task: Task, query: Query, outputs: Outputs, model: Model) -> list[str]:
        """Outputs in words, one text for each draw, by public facts alone.

        The model may be asked about the query and the outputs.
        """


MEMBERS = members_of(Mechanism)


def require_mechanism(thing: object) -> Mechanism:
    """Check that an object has every member of `Mechanism`, and return it.

    Raises:
        UsageError: If it is a class, lacks members, has a method that takes other arguments, or has
            a member that cannot be used. No default stands in for a missing member.

    Examples:
        >>> class Mine:
        ...     name = "mine"
        >>> require_mechanism(Mine())  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        leakbound.errors.UsageError: Mine is not a mechanism: it lacks guarantee, access, needs, ...
    """
    if isinstance(thing, type):
        raise UsageError(
            f"{thing.__name__} is a class; a mechanism must be an instance. Construct one, such as "
            f"{thing.__name__}(...)."
        )
    kind = type(thing).__name__
    if missing := [name for name in MEMBERS if not hasattr(thing, name)]:
        raise UsageError(
            f"{kind} is not a mechanism: it lacks {', '.join(missing)}. Define each of them, or "
            "derive the class from leakbound.mechanisms.MechanismBase."
        )
    require_arguments(thing, Mechanism)
    found = cast(Mechanism, thing)
    _require_values(found, kind)
    return found


def _require_values(found: Mechanism, kind: str) -> None:
    if not (isinstance(found.name, str) and found.name):
        raise UsageError(f"name of {kind} is {found.name!r}; it must be a text that is not empty.")
    if not isinstance(found.guarantee, Guarantee):
        raise UsageError(
            f"guarantee of {kind} is {found.guarantee!r}; it must be a guarantee of "
            "leakbound.privacy, such as PureDP(1.0) or NonPrivate()."
        )
    access = found.access
    if not (isinstance(access, frozenset) and access and access <= {*get_args(Access)}):
        raise UsageError(
            f"access of {kind} is {access!r}; it must be a frozenset of black_box, probabilities "
            "and white_box, or of some of them."
        )
    if not isinstance(found.needs, frozenset):
        raise UsageError(
            f"needs of {kind} is {found.needs!r}; it must be a frozenset of kinds of requests, "
            "such as frozenset({Complete})."
        )
    noise = found.vote_noise
    if noise is not None and not (isinstance(noise, VoteNoise) and noise.sigma > 0):
        raise UsageError(
            f"vote_noise of {kind} is {noise!r}; it must be a VoteNoise with a sigma above 0, or "
            "None where no noisy votes are released."
        )
    if found.exactness not in get_args(Exactness):
        raise UsageError(
            f"exactness of {kind} is {found.exactness!r}; it must be full, given_sample or none."
        )
    if access != {"black_box"} and not found.strongest_score:
        raise UsageError(
            f"strongest_score of {kind} is {found.strongest_score!r}, and access has more than "
            "black_box; it must be the name of a score, such as label_margin."
        )


@runtime_checkable
class _HasWindow(Protocol):
    """A model that knows how long a prompt may be."""

    window: int | None


@dataclass(frozen=True, slots=True)
class PublicManifest:
    """Everything public that decides an answer, except the query.

    Whoever knows the digest can check later that labels, prompt template, fields, partitions,
    candidates and token limits were not chosen after looking at the rows.

    Attributes:
        task: Labels, words of the prompt template, and the largest length of a free answer.
        mechanism: Kind and options as JSON: partitions, candidates, tokens, noise.
        source: Fingerprint of the mechanism's code; "" for those of this package.
        model: Fingerprint of the model.
        window: Most tokens of a prompt with its answer; None where the model does not tell.
        longest_query: Most bytes of a query; None in an audit, whose queries are its own.
        fields: Template of the input and label field, as named; None for a usual name (all rows
            must have the same), for the fields of a named task, and for rows that are examples.

    Examples:
        >>> from leakbound.mechanisms import ReportNoisyMax
        >>> from leakbound.models import Scripted
        >>> mail = Task("mail", ("work", "home"))
        >>> one = PublicManifest.of(mail, ReportNoisyMax(2.0), Scripted(), 1000)
        >>> other = PublicManifest.of(mail, ReportNoisyMax(2.0, partitions=5), Scripted(), 1000)
        >>> len(one.digest), one.digest == other.digest
        (64, False)
    """

    task: Task
    mechanism: str
    source: str
    model: str
    window: int | None
    longest_query: int | None
    fields: tuple[str | None, str | None] = (None, None)

    @classmethod
    def of(
        cls, task: Task, mechanism: Mechanism, model: Model, longest_query: int | None = None,
        fields: tuple[str | None, str | None] = (None, None),
    ) -> Self:  # fmt: skip
        """The manifest of a mechanism over an opened model; no row is needed to make it."""
        inner = innermost(model)
        return cls(
            task,
            json.dumps(mechanism.to_config(), sort_keys=True),
            mechanism.source,
            model.fingerprint,
            inner.window if isinstance(inner, _HasWindow) else None,
            longest_query,
            fields,
        )

    @property
    def digest(self) -> str:
        """64 hexadecimal digits of SHA-256 over all of it, in a canonical form."""
        # a task that a caller wrote as a class of its own has its name
        content = json.dumps(
            asdict(self), sort_keys=True, default=lambda one: type(one).__qualname__
        )
        return hashlib.sha256(content.encode()).hexdigest()
