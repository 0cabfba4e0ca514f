"""The parameters of `audit`, as a type: what `plan` and the pytest fixture take by keyword."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypedDict

from leakbound.attacks import Attack, AuditQuery, Canary, Insertion, Score
from leakbound.auditing import Claim
from leakbound.estimators import Estimator
from leakbound.models import Model
from leakbound.privacy import Guarantee
from leakbound.tasks import Example, Mechanism, Task

__all__ = ["AuditOptions", "AuditParameters", "Rows", "UserSystem"]

Rows = Iterable[Example | tuple[str, str]]
# A function (context, query) -> answer, an object with such a method, a class of one, an address.
UserSystem = Callable[..., object] | object | str


class AuditOptions(TypedDict, total=False):
    """Parameters of `leakbound.audit` but for rows, system and out; `audit` describes each."""

    mechanism: Mechanism | str | None
    model: Model | str | None
    attack: Attack | None
    query: AuditQuery | str | None
    canary: Canary | str | None
    score: Score | str | None
    insertion: Insertion
    access: Literal["black_box", "white_box"] | None
    task: Task | str | None
    data: str | None
    claim: Claim | None
    epsilon: float
    delta: float
    guarantee: Guarantee | None
    estimator: Estimator | str | None
    threshold: str | float | None
    confidence: float
    stop_when_rejected: bool
    pairs: int
    shots: int
    answers: int
    controls: int
    state_check: float | None
    seed: int
    store_text: Literal["none", "canary_only", "all"]
    simulations: int
    batch_pairs: int
    settings: Mapping[str, object] | None


class AuditParameters(AuditOptions, total=False):
    """Parameters of `leakbound.audit` but for `rows` and `out`."""

    system: UserSystem | None
