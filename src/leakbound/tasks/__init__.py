"""Examples, contexts, tasks, and the protocols of what can be audited."""

from leakbound.tasks.example import Context, Example, as_context
from leakbound.tasks.mechanism import (
    Access,
    Aggregate,
    CategoricalLaw,
    GaussianLaw,
    Job,
    Mechanism,
    Outputs,
    Spoken,
    System,
    Vector,
    Votes,
)
from leakbound.tasks.parse import parse_answer
from leakbound.tasks.task import Query, Task

__all__ = [
    "Access", "CategoricalLaw", "Aggregate", "Context", "Example", "GaussianLaw", "Job", "Mechanism", "Query", "Outputs", "Spoken", "System",
    "Task", "Vector", "Votes", "as_context", "parse_answer",
]  # fmt: skip
