"""Which parts of its context a response comes from: how far each token's probability falls when a span is taken out."""

from contextleak.influence.attribute import Settings, attribute, context_influence
from contextleak.influence.bounded import BoundedLaw
from contextleak.influence.cases import Case, read_cases
from contextleak.influence.export import csv_text, npz_bytes
from contextleak.influence.finished import Finished
from contextleak.influence.measure import Law, Measured, measure, sample
from contextleak.influence.record import Attribution, Expected, Grid, InfluenceRecord, Reading, load_influence
from contextleak.influence.spans import Parts, Place, blocks, locate

__all__ = [
    "Attribution", "BoundedLaw", "Case", "Expected", "Finished", "Grid", "InfluenceRecord", "Law", "Measured", "Parts", "Place",
    "Reading", "Settings", "attribute", "blocks", "context_influence", "csv_text", "load_influence", "locate", "measure", "npz_bytes",
    "read_cases", "sample",
]  # fmt: skip
