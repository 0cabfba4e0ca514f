"""Known faults of whole systems, audited from end to end as a user would."""

from __future__ import annotations

import math
import tempfile
from functools import partial

from leakbound.api import audit
from leakbound.auditing import AuditResult
from leakbound.auditing.result.sentences import verdict_sentence
from leakbound.privacy import Gaussian
from leakbound.tasks import Context
from leakbound.tasks.synthetic import HELP_DESK, help_desk
from leakbound_lab.planted.auditor import AuditorFinding, Rng
from leakbound_lab.planted.channels import ChannelSystem
from leakbound_lab.planted.planted_systems import PLANTED, Planted, PlantedSystem, leaks

PAIRS, SHOTS, CLAIM = 60, 8, 1.0
CHANNEL_PAIRS = 110
TRUE = 0.5  # epsilon of the correct reference: below the claim
WEAK = Gaussian(1.0, 1 / 8)  # a declared guarantee far above the claim


def response(epsilon: float, rng: Rng) -> Planted:
    """Randomised response: the right answer, flipped with probability 1/(1 + e^epsilon)."""
    honest, flipped = leaks(), 1 / (1 + math.exp(epsilon))

    def answer(context: Context, query: str) -> str:
        said = honest(context, query)
        return said if rng.random() >= flipped else {"yes": "no", "no": "yes"}[said]

    return answer


def planted(which: PlantedSystem, broken: bool, rng: Rng) -> AuditorFinding:
    """Audit a planted system, or the correct reference by the same attack."""
    system = which.make() if broken else response(TRUE, rng)
    result = _audit(system, rng, which if broken else None)
    said = result.reason or result.verdict
    accused = said in ("violation", "stateful_system")
    return AuditorFinding(said in which.allowed if broken else accused, PAIRS, said)


def claim_not_tested(broken: bool, rng: Rng) -> AuditorFinding:
    """A system of true epsilon 5 declares a weaker guarantee than it claims."""
    result = _audit(response(5.0 if broken else TRUE, rng), rng, None, WEAK if broken else None)
    return AuditorFinding(result.verdict == "violation", PAIRS, verdict_sentence(result))


def free_text(broken: bool, rng: Rng) -> AuditorFinding:
    """Refusals are more frequent where the canary is, and nothing else gives it away."""
    rates = (0.7, 0.1) if broken else (0.2, 0.2)  # true epsilon 1.9: no self-test misses it
    system = ChannelSystem("refusal", int(rng.integers(1 << 31)), rates)
    rows, seed = help_desk(120, rng), int(rng.integers(1 << 31))
    with tempfile.TemporaryDirectory() as out:
        result = audit(
            rows, system=system, query="repeat", pairs=CHANNEL_PAIRS, shots=SHOTS, epsilon=0.25,
            stop_when_rejected=True, state_check=0.0, seed=seed, simulations=0, batch_pairs=20,
            out=out,
        )  # fmt: skip
    return AuditorFinding(
        result.verdict == "violation", result.counts["pairs"], verdict_sentence(result)
    )


def _audit(
    system: Planted, rng: Rng, attack: PlantedSystem | None, guarantee: Gaussian | None = None
) -> AuditResult:
    rows, seed = help_desk(120, rng), int(rng.integers(1 << 31))
    with tempfile.TemporaryDirectory() as out:
        return audit(
            rows, system=system, task=HELP_DESK, pairs=PAIRS, shots=SHOTS, epsilon=CLAIM,
            guarantee=guarantee, query=attack.query if attack else None,
            canary=attack.canary if attack else None, seed=seed, simulations=0,
            batch_pairs=PAIRS, out=out,
        )  # fmt: skip


# The correct reference is the same for all planted systems, so the first stands for all of them.
WHOLE = tuple(
    (one.id, one.what, partial(planted, one), 1 if one is PLANTED[0] else 0) for one in PLANTED
)
