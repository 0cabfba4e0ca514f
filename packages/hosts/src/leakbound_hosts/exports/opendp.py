"""An entry for the OpenDP registry of deployments, from the audit of a mechanism with a guarantee.

A result knows the guarantee, the mechanism and what a test has shown. What only the publisher knows
is an argument, or a gap that the entry shows.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import yaml

from leakbound.auditing.result.sentences import system_name
from leakbound.errors import UsageError

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

GAP = "..."  # as the template of the registry has it: to be filled in by hand
ADJACENT = {
    "replace_one": "Two contexts are adjacent if they have the same number of examples and differ "
    "in one of them.",
    "add_remove": "Two contexts are adjacent if one has one example more than the other.",
}
Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Publication:
    """What only the publisher of a service knows."""

    published: str
    curators: tuple[str, ...]
    name: str = GAP
    description: str = GAP
    intended_use: str = GAP
    region: str = GAP
    authors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", self.published) or not _is_date(self.published):
            raise UsageError(
                f"the publication date is {self.published!r}; it must be a day as YYYY-MM-DD, such "
                "as 2026-01-31."
            )
        if not self.curators or not all(one.strip() for one in self.curators):
            raise UsageError("the curators are empty; name at least one who publishes the service.")

    @property
    def gaps(self) -> tuple[str, ...]:
        """Names of what is left to be filled in."""
        fields = ("name", "description", "intended_use", "region")
        return tuple(one for one in fields if getattr(self, one) == GAP)


def registry_entry(result: AuditResult, publication: Publication) -> str:
    """A draft of tier 3 for the registry."""
    if not math.isfinite(result.guarantee.epsilon):
        raise UsageError(
            f"{system_name(result)} declares no finite guarantee at delta {result.claim.delta:g} "
            f"({result.guarantee.text}), and the registry is of differentially private "
            "deployments; export a run of a mechanism with a guarantee, at a delta above 0."
        )
    named = result.name if publication.name == GAP else publication.name
    slug = re.sub(r"[^a-z0-9]+", "_", named.lower()).strip("_") or "leakbound"
    entry: Json = {
        "url_slug": slug, "status": "Draft", "tier": 3,
        "deployment": {
            "basic": {
                "name": publication.name,
                "data_curators": [*publication.curators],
                "intended_use": publication.intended_use,
                "data_product_type": "Interactive API",
                "data_product_region": publication.region,
                "description": publication.description,
                "publication_date": publication.published,
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if result.claim.delta else "Pure DP",
                "data_domain": "Contexts of examples, each an input with its answer.",
                "unprotected_quantities": "What is fixed before a row is read: the instruction, "
                "the labels of the task, the number of examples and how they are grouped.",
            },
            "privacy_loss": _privacy_loss(result),
            "deployment_model": _model(result),
            "accounting": {
                "post_processing": "Answers are computed from what the mechanism releases and from "
                "public facts alone.",
                "composition": "Each answer spends the same; a ledger adds up what the answers of "
                "a service have spent, and refuses what would exceed its budget.",
            },
            "implementation": _implementation(result),
            "administrative": {
                "notes": f"Drafted from the audit {result.name}.",
                "registry_authors": [*(publication.authors or publication.curators)],
            },
        },
    }  # fmt: skip
    text: str = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=100)
    return text


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _privacy_loss(result: AuditResult) -> Json:
    answers = result.spec.get("answers", 1)
    of = "one answer" if answers == 1 else f"{answers} answers about one context"
    return {
        "privacy_unit": "One example of the context",
        "privacy_unit_details": f"{ADJACENT[result.claim.relation]} Examples of one person are "
        "protected one by one.",
        "privacy_parameters": {
            "epsilon": float(result.guarantee.epsilon), "delta": float(result.claim.delta),
        },
        "privacy_parameters_details": f"Guaranteed for {of}: {result.guarantee.text}.",
    }  # fmt: skip


def _model(result: AuditResult) -> Json:
    return {
        "model_name": "Central",
        "actors": "The operator holds the examples. Users, and anyone who reads their answers, are "
        f"taken for adversaries with {result.attack['access'].replace('_', ' ')} access.",
        "release_type": "Many releases",
        "release_type_details": "Each query is answered once; the budget does not reset.",
        "data_source_type": "Static",
        "access_type": "Interactive",
        "access_type_details": "The ledger charges each example for every answer that may depend "
        "on it, whoever asks.",
    }


def _implementation(result: AuditResult) -> Json:
    version = result.provenance["leakbound"]
    bound = result.bound
    tested = " ".join(one[0].upper() + one[1:] for one in result.sentences)
    return {
        "preprocessing_and_hyperparameter_tuning": GAP,
        "mechanisms": f"{system_name(result)} of leakbound {version}. Noise of answers that are "
        "served is drawn from the operating system, on discrete grids where the mechanism has one.",
        "justification": f"Audited with {result.tested_pairs} tested paired trials (query "
        f"{result.attack['query']}): {result.verdict.replace('_', ' ')}; epsilon is at least "
        f"{bound.epsilon or 0:.4g} with {bound.confidence or 0:.0%} confidence ({bound.method}). "
        f"{tested}",
    }
