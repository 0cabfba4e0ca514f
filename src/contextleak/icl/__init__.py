"""Exemplars, contexts, tasks, and the protocols of what can be audited."""

from contextleak.icl.exemplar import Context, Exemplar, as_context
from contextleak.icl.parse import parse_answer
from contextleak.icl.system import (
    Access,
    CategoricalLaw,
    Clean,
    GaussianLaw,
    Job,
    Mechanism,
    Releases,
    Spoken,
    System,
    Vector,
    Votes,
)
from contextleak.icl.task import Query, Task

__all__ = [
    "Access", "CategoricalLaw", "Clean", "Context", "Exemplar", "GaussianLaw", "Job", "Mechanism", "Query", "Releases", "Spoken", "System",
    "Task", "Vector", "Votes", "as_context", "parse_answer",
]  # fmt: skip
