"""The parameters of `audit`, as a type: what every function over audits takes by keyword."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Literal, Protocol, TypedDict

from leakbound.attacks import Attack, AuditQuery, Canary, Insertion, Score
from leakbound.auditing import Claim
from leakbound.estimators import Estimator
from leakbound.models import Model
from leakbound.privacy import Guarantee
from leakbound.systems import AsyncSystem
from leakbound.tasks import Access, Example, Mechanism, Task

# Names of this package, so that a type checker knows a misspelt one; those of other packages go
# into settings, as {"mechanism.kind": name}.
MechanismName = Literal[
    "answer_probabilities", "bounded_cid", "context_influence_decoding", "dp_fusion",
    "embedding_mean", "few_shot", "invisible_ink", "judge_defense", "keyword_mean",
    "product_of_experts", "prompt_defense", "report_noisy_max", "subsample_average",
    "synthetic_shots", "zero_shot",
]  # fmt: skip
CanaryName = Literal[
    "coded", "false_fact", "given", "hex", "marked", "mislabeled", "natural", "patchwork",
    "unigram",
]  # fmt: skip
QueryName = Literal[
    "brainwash", "differential", "either_text", "extraction", "gap", "given",
    "if_then_explicit", "if_then_implicit", "injection", "input_output", "interrogation",
    "lookup", "mba", "membership", "prefix", "recall", "repeat", "s2", "signal_pair",
    "zero_shot_signals",
]  # fmt: skip
ScoreName = Literal[
    "contains_canary", "distance_gap", "document", "label_margin", "overlap",
    "predicted_member", "probability_margin", "reference_direction", "score_margin", "unanswered",
]  # fmt: skip
EstimatorName = Literal[
    "clopper_pearson", "e_process", "fixed_pairs", "unconditional",
]  # fmt: skip


# Examples, (input, label) pairs or mappings; a data frame of pandas or polars, or a table of arrow.
Rows = Iterable[Example | tuple[str, str] | Mapping[str, object]] | Sized


class HasAnswer(Protocol):
    """An object with a method `answer(context, query)`, asynchronous or not."""

    @property
    def answer(self) -> Callable[..., object]:
        """The method."""


class HasOpen(Protocol):
    """An object with a method `open(context)`, as `leakbound.systems.System` describes."""

    @property
    def open(self) -> Callable[..., object]:
        """The method."""


# A function (context, query) -> answer, an object with such a method, a class of one, an address.
UserSystem = Callable[..., object] | HasAnswer | HasOpen | AsyncSystem | str


class AuditParameters(TypedDict, total=False):
    """Parameters of every function over audits, by keyword; `leakbound.audit` describes each."""

    mechanism: Mechanism | MechanismName | None
    model: Model | str | None
    attack: Attack | None
    query: AuditQuery | QueryName | None
    canary: Canary | CanaryName | None
    score: Score | ScoreName | None
    insertion: Insertion | None
    access: Access | None
    channels: Sequence[str]
    task: Task | str | None
    data: str | None
    claim: Claim | Literal["random-guessing"] | None
    epsilon: float | None
    delta: float | None
    guarantee: Guarantee | None
    estimator: Estimator | EstimatorName | None
    threshold: str | float | None
    confidence: float
    stop_when_rejected: bool
    design: Literal["paired", "session", "one_run", "tenants", "deletion"]
    pairs: int
    canaries: int
    shots: int
    answers: int
    controls: int
    state_check: float | None
    seed: int
    store_text: Literal["none", "canary_only", "all"]
    simulations: int
    assume_hit: float
    assume_false_alarm: float
    batch_pairs: int
