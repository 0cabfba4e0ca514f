"""Mechanisms that write answers or pay for them, each with one known defect, and all planted ones.

None of this is a mechanism that anyone should use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from leakbound.mechanisms import BoundedCID, KeywordMean, ProductOfExperts
from leakbound.mechanisms.parts.exponential import mix_logits
from leakbound.models import Complete, Model, NextLogits, ScoreLabels
from leakbound.privacy import ApproxDP, Guarantee, PureDP, compose, leaves
from leakbound.stats.arrays import Floats
from leakbound.tasks import (
    Aggregate,
    AnyRequest,
    GeneratedText,
    Job,
    Mechanism,
    Query,
    Task,
    Vector,
    Votes,
)
from leakbound_lab.planted import planted_mechanisms as planted
from leakbound_lab.planted import planted_parts as parts
from leakbound_lab.planted.planted_mechanisms import DELTA, VotingBase
from leakbound_lab.planted.served_defects import SERVED_DEFECTS, NoiseBeforeRelease

WORDY = 12  # characters of a planted example: one that is longer changes something


@dataclass(frozen=True, slots=True)
class _PlantedMechanism:
    """A broken mechanism that `conform` must find."""

    id: str
    found_by: str
    make: Callable[[], Mechanism]


class _SharedPrefix(parts.PartsBase):
    """The prompts of a batch depend on one another, as answers do in low precision."""

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        made = VotingBase.requests(self, task, job, draw)
        prompts = [str(one.prompt) for one in made if isinstance(one, Complete)]
        bit = sum(map(len, prompts)) % 2
        return [Complete(f"{bit} {prompt}") for prompt in prompts]


class Cheap(VotingBase):
    """An answer costs a hundredth of its guarantee."""

    def cost(self, task: Task, query: Query) -> Guarantee:
        return PureDP(self.guarantee.epsilon(DELTA) / 100)


class _FreeForThePolite(VotingBase):
    """An answer to a query that says please costs nothing."""

    def cost(self, task: Task, query: Query) -> Guarantee:
        return PureDP(0.0) if "please" in str(query.text) else VotingBase.cost(self, task, query)


class _AsksAgain(VotingBase):
    """One more call of the model for each vote that could not be read."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        found = VotingBase.collect(self, task, jobs, draws, model)
        for job, draw, votes in zip(jobs, draws, found, strict=True):
            if isinstance(votes, Votes) and votes.counts[-1]:
                model.answer(self.requests(task, job, draw + 1)[: votes.counts[-1]])
        return found


class _RawFallback(KeywordMean):
    """Releases a private answer where no keyword is left."""

    def _aggregate(self, task: Task, query: Query, texts: Sequence[str], model: Model) -> Vector:
        found = KeywordMean._aggregate(self, task, query, texts, model)
        return found if any(found.values) else Vector((1.0,), (texts[0],))


class _DeltaOnce(ProductOfExperts):
    """The tokens of an answer compose, and delta is counted once for all of them."""

    def cost(self, task: Task, query: Query) -> Guarantee:
        if task.answers(query):
            return self.guarantee
        return ApproxDP(self.epsilon, DELTA)


class OneTokenCost(ProductOfExperts):
    """A free answer costs what one choice costs."""

    def cost(self, task: Task, query: Query) -> Guarantee:
        return self.guarantee


class _UncountedToken(ProductOfExperts):
    """The first token of a free answer is not counted."""

    def cost(self, task: Task, query: Query) -> Guarantee:
        each = leaves(ProductOfExperts.cost(self, task, query))
        return compose(each[1:] or each)


class _DefaultSeed(ProductOfExperts):
    """The noise of a free answer comes from a default seed."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        return ProductOfExperts.collect(self, task, jobs, [42] * len(jobs), model)


class _LengthsOfRows(ProductOfExperts):
    """An answer may be as long as the longest private row."""

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """Room for as many tokens as the longest row has words."""
        found = ProductOfExperts.requests(self._for(job), task, job, draw)
        return [
            NextLogits(one.prompt, (), self._for(job).tokens)
            if isinstance(one, NextLogits)
            else one
            for one in found
        ]

    def _for(self, job: Job) -> ProductOfExperts:
        longest = max(len(str(row.input).split()) for row in job.context)
        fields = {f: getattr(self, f) for f in ("epsilon", "group_size", "clip", "token_epsilon")}
        return ProductOfExperts(**fields, tokens=min(longest, self.tokens))

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        return [
            self._for(job).collect(task, [job], [draw], model)[0]
            for job, draw in zip(jobs, draws, strict=True)
        ]


class _LongerOnRows(ProductOfExperts):
    """A free answer gets longer where a row is long: a channel beside its words."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        found = ProductOfExperts.collect(self, task, jobs, draws, model)
        return [self._wordy(one, job) for one, job in zip(found, jobs, strict=True)]

    def _wordy(self, found: Aggregate, job: Job) -> Aggregate:
        long = any(len(str(row.input)) > WORDY for row in job.context)
        if not isinstance(found, GeneratedText) or not long:
            return found
        return replace(found, text=f"{found.text} and that is all that there is to say")


class _OneWayBound(BoundedCID):
    """The divergence is bounded in one direction, and clamped: an answer may become impossible."""

    def log_p(self, context: Floats, prior: Floats, choices: int = 1) -> Floats:
        """The mixture with the largest weight at which no answer gets much likelier."""
        p0, bound = mix_logits(context, prior, 0.0, self.temperature), self.epsilon / choices / 2
        weights = np.linspace(0.0, self.largest, 30)
        kept = [
            lam
            for lam in weights
            if float((mix_logits(context, prior, lam, self.temperature) - p0).max()) <= bound
        ]
        return mix_logits(context, prior, max(kept), self.temperature)


class _LengthInBaseline(BoundedCID):
    """The prompt without the private part is as long as the one with it."""

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """The first prompt has blanks in place of the examples."""
        first, *others = BoundedCID.requests(self, task, job, draw)
        if isinstance(first, ScoreLabels):
            blank = " " * max(len(str(one.prompt)) - len(str(first.prompt)) for one in others)  # type: ignore[attr-defined]
            return [replace(first, prompt=f"{first.prompt}{blank}"), *others]
        return [first, *others]


class _PrivateCandidates(ProductOfExperts):
    """The candidate tokens are those of the last expert."""

    def _token(self, rows: list[Floats], rng: np.random.Generator) -> int:
        return ProductOfExperts._token(self, [rows[-1], *rows[1:]], rng)


class _TokenRate(ProductOfExperts):
    """Tokens at 10 times the epsilon that is charged."""

    def _token(self, rows: list[Floats], rng: np.random.Generator) -> int:
        return ProductOfExperts._token(replace(self, token_epsilon=10 * self._each), rows, rng)


class _TokenClip(ProductOfExperts):
    """A wider clip of tokens, at the rate of the narrow one."""

    def _token(self, rows: list[Floats], rng: np.random.Generator) -> int:
        wide = replace(self, clip=5 * self.clip, token_epsilon=5 * self._each)
        return ProductOfExperts._token(wide, rows, rng)


class _TokenTemperature(BoundedCID):
    """The divergence is bounded at one temperature, and tokens are drawn at a lower one."""

    def _log_p(self, context: Floats, prior: Floats, free: bool) -> Floats:
        return BoundedCID._log_p(self, context, prior, free) * (1.25 if free else 1.0)


def _votes(kind: Callable[..., Any], epsilon: float = 1.0, **options: Any) -> Callable[[], Any]:
    return partial(kind.calibrated, epsilon, DELTA, **options)  # type: ignore[attr-defined]


SERVED_BY = ("many_draws", "many_draws", "seeds", "fresh_noise", "many_draws", "outputs")
ROWS: tuple[tuple[str, str, Callable[[], Any]], ...] = (
    ("half-noise", "loss", _votes(planted.HalfNoise, 4)),
    ("half-noise (in the release)", "outputs", _votes(planted.HalfNoiseInRelease, 4)),
    ("one-class-noise", "outputs", _votes(planted.OneClassNoise)),
    ("l1-as-l2", "loss", _votes(planted.ScalarSensitivity)),
    ("esa-unit-sensitivity", "loss", _votes(planted.UnitEmbeddings, candidates=3)),
    ("classical-sigma", "loss", partial(planted.ClassicalNoise.asked, 10.0, DELTA)),
    ("replace-vs-monotone", "loss", partial(planted.MonotoneExperts, 2.0, tokens=3)),
    ("clip-to-zero", "agreement", partial(planted.ClipToZero, 2.0, tokens=3)),
    ("ptr-off-by-one", "returned", _votes(planted.TestOneRankLate)),
    ("delta-once", "cost", partial(_DeltaOnce.calibrated, 2.0, DELTA, tokens=3)),
    ("wrong-em-curve", "loss", _votes(planted.ExponentialVotes)),
    ("public-seed", "state", partial(parts.PublicSeed, 4.0, 10, 0.5)),
    ("seeded-noise", "many_draws", _votes(SERVED_DEFECTS[0])),
    ("private-domain", "public_facts", _votes(parts.WordsOfRows, candidates=3)),
    ("huge-inner-epsilon", "returned", _votes(planted.InnerCount)),
    ("exact-ranking", "returned", _votes(planted.CountedRanking)),
    ("same-sample", "state", partial(parts.SameSample, 4.0, 10, 0.5)),
    ("raw-fallback", "decode", _votes(_RawFallback, candidates=3)),
    ("retry-until", "outputs", _votes(planted.RetryUntil)),
    ("positional-split", "loss", _votes(parts.PoissonByPosition)),
    ("padding-contamination", "loss", _votes(parts.PaddedPrompts)),
    ("free-text-label", "public_facts", _votes(parts.LabelsOfRows)),
    ("with-replacement", "loss", _votes(parts.Replaced)),
    ("overlap", "loss", _votes(parts.Overlapping)),
    ("order-round-robin", "seeds", _votes(parts.ChangingVotes)),
    ("memory-of-uploads", "nothing_kept", _votes(parts.Uploads)),
    ("unnoised-majority", "outputs", _votes(planted.BareMajority)),
    ("unnoised-majority (alone)", "returned", _votes(planted.HiddenMajority)),
    ("stale-reuse", "reuse", _votes(NoiseBeforeRelease)),
    ("free-text-channel", "returned", partial(_LongerOnRows.calibrated, 1.0, DELTA, tokens=3)),
    ("failing-row", "total", _votes(parts.RaisingOnRows)),
    ("flipping-neighbours", "loss", _votes(_SharedPrefix)),
    ("price of an answer", "cost", _votes(Cheap)),
    ("price of a word", "cost", _votes(_FreeForThePolite)),
    ("another call", "request_count", _votes(_AsksAgain)),
    ("price of one token", "cost", partial(OneTokenCost.calibrated, 2.0, DELTA, tokens=3)),
    ("clamped-divergence", "loss", partial(_OneWayBound, epsilon=2.0, tokens=3)),
    ("uncounted-token", "cost", partial(_UncountedToken.calibrated, 2.0, DELTA, tokens=3)),
    ("private-length-in-baseline", "loss", partial(_LengthInBaseline, epsilon=2.0, tokens=3)),
    ("token-candidates", "tokens", partial(_PrivateCandidates.calibrated, 1.0, DELTA, tokens=8)),
    ("token-rate", "tokens", partial(_TokenRate.calibrated, 1.0, DELTA, tokens=8)),
    ("token-clip", "tokens", partial(_TokenClip.calibrated, 1.0, DELTA, tokens=8)),
    ("token-temperature", "tokens", partial(_TokenTemperature, epsilon=2.0, tokens=3)),
    ("default-seed", "reuse", partial(_DefaultSeed.calibrated, 2.0, DELTA, tokens=3)),
    (
        "lengths-from-private-rows",
        "public_facts",
        partial(_LengthsOfRows.calibrated, 1.0, DELTA, tokens=6),
    ),
    *(
        (f"constant-seed ({kind.name})", found_by, _votes(kind))
        for kind, found_by in zip(SERVED_DEFECTS, SERVED_BY, strict=True)
    ),
)
PLANTED = tuple(_PlantedMechanism(*row) for row in ROWS)
# Rows of the catalogues with nothing that a mechanism could get wrong: `selftest` and the tests of
# the ledger and the service find them.
NOT_MECHANISMS = {
    "threshold-reuse": "an auditor", "resample-then-cp": "an auditor",
    "index-shift": "an influence meter", "first-token-drop": "an influence meter",
    "blind-classifier": "an attack that does not fit", "claim-not-tested": "a verdict",
    "shadowed-option": "a command line", "private-label": "a manifest; see free-text-label",
    "reordered-budget": "a ledger", "retry-spends": "a service",
}  # fmt: skip
