"""Examples, contexts, tasks, and the protocol of mechanisms."""

from leakbound.stats import CategoricalLaw, GaussianLaw
from leakbound.tasks.example import EMPTY_SLOT, Context, Example, as_context, present
from leakbound.tasks.mechanism import (
    Access,
    AnyRequest,
    Exactness,
    Mechanism,
    PublicManifest,
    RequestKinds,
    VoteNoise,
    require_mechanism,
)
from leakbound.tasks.outputs import (
    ANSWER,
    Aggregate,
    GeneratedText,
    Job,
    Outputs,
    Vector,
    Votes,
    channel_of,
    pack,
    reply_of,
    unpack,
)
from leakbound.tasks.task import Query, Task, parse_answer

__all__ = [
    "ANSWER",
    "Access",
    "Exactness",
    "Aggregate",
    "AnyRequest",
    "CategoricalLaw",
    "Context",
    "EMPTY_SLOT",
    "Example",
    "GaussianLaw",
    "GeneratedText",
    "Job",
    "PublicManifest",
    "Mechanism",
    "Outputs",
    "Query",
    "RequestKinds",
    "Task",
    "Vector",
    "Votes",
    "as_context",
    "channel_of",
    "pack",
    "parse_answer",
    "present",
    "reply_of",
    "require_mechanism",
    "unpack",
    "VoteNoise",
]
