"""Which parts of its context a response comes from:

how far each token's probability falls when a span is taken out.
"""

from leakbound.attribution.attribute import Settings, attribute, context_influence
from leakbound.attribution.bounded import BoundedLaw
from leakbound.attribution.cases import Case, read_cases
from leakbound.attribution.export import csv_text, npz_bytes
from leakbound.attribution.finished import Finished
from leakbound.attribution.measure import Law, Measured, measure, sample
from leakbound.attribution.record import (
    Attribution,
    Expected,
    Grid,
    InfluenceRecord,
    Reading,
    load_influence,
)
from leakbound.attribution.spans import Parts, Place, blocks, locate

__all__ = [
    "Attribution", "BoundedLaw", "Case", "Expected", "Finished", "Grid", "InfluenceRecord", "Law", "Measured", "Parts", "Place",
    "Reading", "Settings", "attribute", "blocks", "context_influence", "csv_text", "load_influence", "locate", "measure", "npz_bytes",
    "read_cases", "sample",
]  # fmt: skip
