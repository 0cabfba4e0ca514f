"""Examples, contexts, tasks, and the protocol of mechanisms."""

from typing import TYPE_CHECKING

from leakbound._sources import import_when_used

if TYPE_CHECKING:
    from leakbound.stats import CategoricalLaw, GaussianLaw
    from leakbound.tasks.example import EMPTY_SLOT, Context, Example, as_context, present
    from leakbound.tasks.mechanism import (
        ANSWER,
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
    from leakbound.tasks.task import Access, Job, Query, Task, parse_answer

__all__ = [
    "ANSWER", "Access", "Exactness", "Aggregate", "AnyRequest", "CategoricalLaw", "Context",
    "EMPTY_SLOT", "Example", "GaussianLaw", "GeneratedText", "Job", "PublicManifest", "Mechanism",
    "Outputs", "Query", "RequestKinds", "Task", "Vector", "Votes", "as_context", "channel_of",
    "pack", "parse_answer", "present", "reply_of", "require_mechanism", "unpack", "VoteNoise",
]  # fmt: skip

import_when_used(__name__)
