"""Which keys of a spec ask only what stored aggregates already answer."""

from __future__ import annotations

from leakbound.auditing.spec.audit_spec import Settings
from leakbound.tasks import Mechanism, Query, Task

POST_HOC = frozenset(
    {
        "answers", "claim", "epsilon", "delta", "confidence", "estimator", "threshold", "score",
        "access", "detect_change", "simulations", "stop_when_rejected", "pairs", "assume_hit",
        "assume_false_alarm",
    }
)  # change no request to the model, and nothing of what is stored  # fmt: skip
ANY = (1.0, 1e-5)  # a claim that stands for all: what is collected does not depend on it
CLAIM = frozenset({"epsilon", "delta"})


def collection_settings(
    settings: Settings, mechanism: Mechanism, task: Task, query: Query
) -> Settings:
    """The keys that change what is collected."""
    early = mechanism.noise_in_collect(task, query)
    free = POST_HOC - CLAIM if early else POST_HOC
    found = {key: value for key, value in settings.items() if key not in free}
    return found | {"mechanism": (mechanism if early else mechanism.recalibrated(*ANY)).to_config()}
