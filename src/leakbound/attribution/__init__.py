"""Which parts of its context a response comes from, by ablation of spans."""

from leakbound.attribution.attribute import InfluenceSettings, attribute, context_influence
from leakbound.attribution.bounded import BoundedTokenDistribution
from leakbound.attribution.cases import Case, read_cases
from leakbound.attribution.export import csv_text, npz_bytes
from leakbound.attribution.finished import Finished
from leakbound.attribution.measure import ResponseLogProbs, TokenDistribution, measure, sample
from leakbound.attribution.record import (
    Attribution,
    Expected,
    InfluenceRecord,
    Reading,
    SpanGrid,
    load_influence,
)
from leakbound.attribution.spans import LocatedContext, PromptParts, blocks, locate

__all__ = [
    "Attribution",
    "BoundedTokenDistribution",
    "Case",
    "Expected",
    "Finished",
    "SpanGrid",
    "InfluenceRecord",
    "LocatedContext",
    "PromptParts",
    "Reading",
    "ResponseLogProbs",
    "InfluenceSettings",
    "TokenDistribution",
    "attribute",
    "blocks",
    "context_influence",
    "csv_text",
    "load_influence",
    "locate",
    "measure",
    "npz_bytes",
    "read_cases",
    "sample",
]
