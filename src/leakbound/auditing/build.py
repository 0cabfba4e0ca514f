"""From the names in a spec to the things they name:

mechanism, models, attack. What a name does not fit is refused here.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from leakbound.attacks import CANARIES, QUERIES, SCORES, Attack, AuditQuery, Canary
from leakbound.auditing.spec import AuditSpec
from leakbound.errors import UsageError
from leakbound.mechanisms import MECHANISMS
from leakbound.models import Endpoint, Local, Model, WithEmbedder, open_embedder, open_model
from leakbound.systems import load_system
from leakbound.tasks import Mechanism
from leakbound.tasks.images import as_image

__all__ = ["build_attack", "build_mechanism", "open_models"]


def build_mechanism(spec: AuditSpec) -> Mechanism:
    """The mechanism that a spec names, with its noise calibrated to the claim; or the user's own
    system.

    Fields of the spec that the mechanism has are passed on, and so are `options`; what it does not
    have is refused.
    """
    if spec.system is not None:
        return load_system(spec.system, scored=spec.access == "white_box")
    kind = MECHANISMS[spec.mechanism]
    make = getattr(kind, "calibrated", kind)
    known = dict.fromkeys(inspect.signature(make).parameters)
    strange = sorted(set(spec.options) - set(known))
    if strange:
        free = sorted(set(known) - {"epsilon", "delta"})
        raise UsageError(
            f"{spec.mechanism} has no option {strange[0]!r}; its options are "
            f"{', '.join(free) or 'none'}."
        )
    if "partitions" in known and spec.partitions > spec.shots:
        raise UsageError(
            f"{spec.partitions} partitions need at least as many examples, and shots is "
            f"{spec.shots}; use --partitions {spec.shots} or "
            f"fewer, or --shots {spec.partitions} or more."
        )
    common: dict[str, Any] = {
        name: getattr(spec, name)
        for name in ("epsilon", "delta", "partitions", "level")
        if name in known
    }
    if "partitions" in known and "calibration" in known:
        common["calibration"] = spec.calibration
    try:
        made: Mechanism = make(**(common | dict(spec.options)))
    except TypeError:
        raise UsageError(
            f"the options {spec.options!r} of {spec.mechanism} have the wrong type; numbers must "
            "be numbers."
        ) from None
    return made


def open_models(
    spec: AuditSpec, endpoint: Endpoint | None = None, local: Local | None = None
) -> Model:
    """The base model, with its embedder beside it where one is named. endpoint: where an openai/...
    model is; local: how
    any other is loaded."""
    model = open_model(spec.model, spec.trust_remote_code, endpoint, local)
    return WithEmbedder(model, open_embedder(spec.embedder)) if spec.embedder else model


def _canary(spec: AuditSpec) -> Canary:
    if spec.canary_image and (spec.canary != "given" or spec.canary_text):
        raise UsageError(
            "--canary-image is the canary 'given' itself; add --canary given, and leave "
            "--canary-text out."
        )
    text = (
        as_image(Path(spec.canary_image), "the canary") if spec.canary_image else spec.canary_text
    )
    options: dict[str, dict[str, Any]] = {
        "hex": {"digits": spec.digits}, "given": {"text": text, "label": spec.canary_label},
    }  # fmt: skip
    return CANARIES[spec.canary](**options.get(spec.canary, {}))  # type: ignore[no-any-return]


def _query(spec: AuditSpec) -> AuditQuery:
    options: dict[str, dict[str, Any]] = {
        "given": {"text": spec.query_text, "labelled": spec.query_labelled}
    }
    return QUERIES[spec.attack](**options.get(spec.attack, {}))  # type: ignore[no-any-return]


def build_attack(spec: AuditSpec, mechanism: Mechanism) -> Attack:
    """The attack that a spec names; refused here if the system does not release what it reads."""
    canary, query = _canary(spec), _query(spec)
    access = spec.access or ("white_box" if "white_box" in mechanism.access else "black_box")
    strongest = (
        getattr(mechanism, "white_score", "label_margin")
        if access == "white_box"
        else "predicted_member"
    )
    free = query.score or "contains_canary"
    score = SCORES[spec.score or (free if query.free else strongest)]()
    attack = Attack(canary, query, score, spec.insertion)
    if spec.access is not None and score.access == "white_box" and spec.access == "black_box":
        raise UsageError(
            f"the score {score.name} needs white_box access, and access is black_box; use --score "
            "predicted_member."
        )
    attack.require(mechanism)
    return attack
