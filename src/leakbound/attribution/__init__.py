"""Which parts of its context a response comes from, by ablation of spans."""

from leakbound.attribution.attribute import Finished, attribute, context_influence
from leakbound.attribution.cases import Case, case_of_documents, case_of_messages, load_cases
from leakbound.attribution.compare import (
    InfluenceComparison,
    InfluenceDifference,
    compare_influences,
    limit_shares,
)
from leakbound.attribution.measure import (
    BoundedTokenDistribution,
    InfluenceSettings,
    ResponseLogProbs,
    TokenDistribution,
    measure,
    sample,
)
from leakbound.attribution.record import (
    Attribution,
    Expected,
    InfluenceRecord,
    Reading,
    ShareLimit,
    SpanGrid,
    UnopenedUnits,
    csv_text,
    load_influence,
    npz_bytes,
)
from leakbound.attribution.spans import LocatedContext, PromptParts, UnitKind, blocks, locate

__all__ = [
    "Attribution", "BoundedTokenDistribution", "Case", "Expected", "Finished",
    "InfluenceComparison", "InfluenceDifference", "SpanGrid", "InfluenceRecord", "LocatedContext",
    "PromptParts", "Reading", "ResponseLogProbs", "ShareLimit", "InfluenceSettings",
    "TokenDistribution", "UnopenedUnits", "UnitKind", "attribute", "blocks", "case_of_documents",
    "case_of_messages", "compare_influences", "context_influence", "csv_text", "limit_shares",
    "load_influence", "locate", "measure", "npz_bytes", "load_cases", "sample",
]  # fmt: skip
