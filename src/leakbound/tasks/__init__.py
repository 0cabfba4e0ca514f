"""Examples, contexts, tasks, and the protocol of mechanisms."""

from leakbound.stats import CategoricalLaw, GaussianLaw
from leakbound.tasks.example import EMPTY_SLOT, Context, Example, as_context, present
from leakbound.tasks.mechanism import (
    ANSWER,
    Access,
    Aggregate,
    AnyRequest,
    Exactness,
    GeneratedText,
    Mechanism,
    Outputs,
    PublicManifest,
    RequestKinds,
    Vector,
    VoteNoise,
    Votes,
    channel_of,
    pack,
    reply_of,
    require_mechanism,
    unpack,
)
from leakbound.tasks.task import Job, Query, Task, parse_answer

__all__ = [
    "ANSWER", "Access", "Exactness", "Aggregate", "AnyRequest", "CategoricalLaw", "Context",
    "EMPTY_SLOT", "Example", "GaussianLaw", "GeneratedText", "Job", "PublicManifest", "Mechanism",
    "Outputs", "Query", "RequestKinds", "Task", "Vector", "Votes", "as_context", "channel_of",
    "pack", "parse_answer", "present", "reply_of", "require_mechanism", "unpack", "VoteNoise",
]  # fmt: skip
