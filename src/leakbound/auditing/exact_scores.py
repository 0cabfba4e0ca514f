"""Which chances of a score are known given the votes, and which pairs of them a design allows.

Others are shares of simulated outputs.
"""

from __future__ import annotations

from leakbound.attacks import RenderedQuery, Score
from leakbound.auditing.spec import AuditSpec
from leakbound.stats import VoteScores
from leakbound.stats.noise.best_votes import BestVotes
from leakbound.stats.noise.discrete_votes import DiscreteBestVotes, DiscreteMargins
from leakbound.stats.noise.votes import KnownScores
from leakbound.tasks import Mechanism, Task
from leakbound.tasks.mechanism import exactness_of


def known_scores(
    mechanism: Mechanism, score: Score, asked: RenderedQuery, spec: AuditSpec, task: Task
) -> KnownScores | None:
    """The scores of noisy votes."""
    noise, shots = mechanism.vote_noise, spec.design.shots
    if noise is None or spec.design.answers > 1:
        return None
    votes, shared = mechanism.voters(shots), _shares_votes(mechanism, spec)
    classes = len(task.answers(asked.query)) + 1  # the last one: none of them
    best, margins = (DiscreteBestVotes, DiscreteMargins) if noise.whole else (BestVotes, VoteScores)
    if score.of_votes == "winner":
        return best(votes, classes, noise.sigma, shared=shared, wins=True)
    if score.of_votes != "margin":
        return None
    if asked.nonmember is not None:
        return margins.margin(votes, noise.sigma, shared)
    levels = tuple(score.levels(votes).tolist())
    return best(votes, classes, noise.sigma, levels, shared)


def simulated_draws(mechanism: Mechanism, spec: AuditSpec) -> int:
    """How many outputs of each aggregate are simulated."""
    if not mechanism.needs or "white_box" not in mechanism.access:  # a system is asked once
        return 1
    return max(1, spec.decision.simulations // (2 * spec.design.pairs))


def _shares_votes(mechanism: Mechanism, spec: AuditSpec) -> bool:
    """Do both contexts of a pair share every vote but one?

    One example is replaced, it is shown to one voter, and the votes follow from what voters are
    shown; equal requests of a batch are asked once.
    """
    parts = mechanism.disjoint_parts(spec.design.shots)
    exact = exactness_of(mechanism) == "full"
    return exact and bool(parts) and spec.attack.insertion != "add"
