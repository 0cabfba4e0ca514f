"""Estimators: values that turn paired trials into bounds. `ESTIMATORS` is the catalogue by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from leakbound._catalogue import Catalogue

__all__ = ["ESTIMATORS"]


@dataclass(frozen=True, slots=True)
class _EProcess:
    name: ClassVar[str] = "e_process"


@dataclass(frozen=True, slots=True)
class _ClopperPearson:
    name: ClassVar[str] = "clopper_pearson"


@dataclass(frozen=True, slots=True)
class _VoteBand:
    name: ClassVar[str] = "vote_band"


@dataclass(frozen=True, slots=True)
class _JointVotes:
    name: ClassVar[str] = "joint_votes"


ESTIMATORS: Catalogue[Any] = Catalogue(
    "the estimator", "leakbound.estimators", (_EProcess, _ClopperPearson, _VoteBand, _JointVotes)
)
