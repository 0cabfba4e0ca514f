"""Mechanisms by name, and how to build one from a specification."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from leakbound._catalogue import Catalogue, construct, option_types
from leakbound.errors import UsageError
from leakbound.mechanisms.baselines import (
    AnswerProbabilities,
    FewShot,
    JudgeDefense,
    PromptDefense,
    ZeroShot,
)
from leakbound.mechanisms.dp_fusion import DPFusion
from leakbound.mechanisms.embedding_mean import EmbeddingMean
from leakbound.mechanisms.influence_decoding import BoundedCID, ContextInfluenceDecoding
from leakbound.mechanisms.invisible_ink import InvisibleInk
from leakbound.mechanisms.keyword_mean import KeywordMean
from leakbound.mechanisms.parts.base import CLAIM, MechanismBase, PublicFacts
from leakbound.mechanisms.product_of_experts import ProductOfExperts
from leakbound.mechanisms.report_noisy_max import ReportNoisyMax
from leakbound.mechanisms.subsample_average import SubsampleAverage
from leakbound.mechanisms.synthetic_shots import SyntheticShots
from leakbound.tasks import Mechanism, require_mechanism

MECHANISMS: Catalogue[Any] = Catalogue(
    "the mechanism",
    "leakbound.mechanisms",
    (
        ZeroShot, FewShot, AnswerProbabilities, PromptDefense, JudgeDefense, ReportNoisyMax,
        EmbeddingMean, KeywordMean, ProductOfExperts, SubsampleAverage, SyntheticShots,
        ContextInfluenceDecoding, BoundedCID, InvisibleInk, DPFusion,
    ),
)  # fmt: skip


def option_names(kind: type[Any]) -> tuple[str, ...]:
    """Options that a specification may set in addition to epsilon and delta, in order.

    The parameters of `calibrated` if the noise is calibrated to the claim, else the fields.

    Examples:
        >>> option_names(ReportNoisyMax)
        ('partitions', 'calibration', 'noise', 'prior', 'sampling')
    """
    if issubclass(kind, MechanismBase):
        return tuple(kind.option_types())
    return tuple(name for name in option_types(kind) if name not in CLAIM)


def build_mechanism(
    name: str, options: Mapping[str, Any], epsilon: float, delta: float
) -> Mechanism:
    """The mechanism that a specification describes.

    Args:
        name: Name in `MECHANISMS`.
        options: Values of `option_names`, with which the noise is calibrated to the claim. Or the
            fields of the class, including the noise, as `to_config` returns them.
        epsilon: epsilon of the claim, above 0.
        delta: delta of the claim in [0, 1).

    Raises:
        UsageError: If the name or an option is unknown, a value has the wrong type, or the noise is
            both given and calibrated.

    Examples:
        >>> build_mechanism("report_noisy_max", {"sigma": 2.0, "partitions": 4}, 1.0, 1e-5)
        ReportNoisyMax(sigma=2.0, partitions=4, noise='gaussian', prior='none', sampling='position')
        >>> build_mechanism("report_noisy_max", {"partition": 4}, 1.0, 1e-5)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        leakbound.errors.UsageError: report_noisy_max has no option 'partition'; its options are ...
    """
    kind = MECHANISMS[name]
    fields = option_types(kind)
    known = option_names(kind)
    own = [field for field in fields if field not in known]  # the noise, in place of a claim
    for option in options:
        if option not in (*known, *own):
            raise _unknown(name, option, known, own)
    if not any(option in own for option in options):
        if issubclass(kind, MechanismBase):
            return require_mechanism(kind.for_claim(epsilon, delta, **options))
        # a class without our base gets the claim in its fields epsilon and delta, if present
        claim = {k: v for k, v in zip(CLAIM, (epsilon, delta), strict=True) if k in fields}
        return require_mechanism(construct(kind, {**options, **claim}, name))
    if calibrating := [option for option in options if option not in fields]:
        raise UsageError(
            f"{name} got {' and '.join(o for o in options if o in own)}, and {calibrating[0]}, "
            "which is for noise calibrated to the claim; leave one of them out."
        )
    return require_mechanism(construct(kind, options, name))


def service_options(name: str, options: Mapping[str, Any], facts: PublicFacts) -> dict[str, Any]:
    """Options of a service for `build_mechanism`: those that its operator set, else those of the
    public grouping rule.

    Args:
        name: Name in `MECHANISMS`.
        options: Options that the operator set.
        facts: Public facts; never rows.

    Examples:
        >>> service_options("report_noisy_max", {}, PublicFacts(20, 4, 4.0, 1e-5))
        {'partitions': 5}
        >>> service_options("report_noisy_max", {"partitions": 10}, PublicFacts(20, 4, 4.0, 1e-5))
        {'partitions': 10}
    """
    kind = MECHANISMS[name]
    rule = kind.group_options(facts, options) if issubclass(kind, MechanismBase) else {}
    known = option_names(kind)
    return {name: value for name, value in rule.items() if name in known} | dict(options)


def _unknown(name: str, option: str, known: tuple[str, ...], own: list[str]) -> UsageError:
    near = difflib.get_close_matches(option, (*known, *own), n=1)
    noise = f", or {' and '.join(own)} for noise of your own" if own else ""
    listed = f"its options are {', '.join(known)}{noise}" if known else "it has none"
    hint = f" Did you mean {near[0]!r}?" if near else ""
    kinds = {} if near else MECHANISMS.usable
    owners = [
        one for one, kind in kinds.items() if option in (*option_names(kind), *option_types(kind))
    ]
    if owners:
        hint = f" It is an option of {', '.join(owners)} (--mechanism)."
    return UsageError(f"{name} has no option {option!r}; {listed}.{hint}")
