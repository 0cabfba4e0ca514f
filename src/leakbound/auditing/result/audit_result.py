"""AuditResult: the versioned result that every report, export, gate and comparison is made from."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy
import yaml
from pydantic import PrivateAttr

from leakbound._records import JsonRecord, bounds_plot, data_frame, write_record
from leakbound._version import __version__
from leakbound.attacks import ScoredAttack
from leakbound.auditing.decide.decide import ChannelResult, ContextUse
from leakbound.auditing.decide.obstacles import Reason, Verdict, score_reading
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.rejections import mu_bound
from leakbound.auditing.observe.release import StateCheck
from leakbound.auditing.result.record import (
    DIGITS,
    ClaimSource,
    Curves,
    EValuePath,
    GuaranteeData,
    TrialView,
)
from leakbound.auditing.result.sentences import (
    StandardReference,
    attacker_sentence,
    attacks_sentence,
    first_line,
    references_of,
    subject_of,
    verdict_words,
)
from leakbound.auditing.spec.audit_spec import GROUPS
from leakbound.auditing.store.commitments import commitment_of
from leakbound.auditing.store.folder import DIGITS as FINGERPRINT
from leakbound.auditing.store.folder import first_day, key_hash, key_id, load_manifest
from leakbound.auditing.store.run_store import RunStore
from leakbound.errors import UsageError
from leakbound.estimators import Bounds, Claim, Estimator, TrialDesign
from leakbound.estimators.exact import Profile
from leakbound.estimators.random_guessing import is_random_guessing
from leakbound.stats import BoundReading, Estimate, Power
from leakbound.stats.curves.curves import RateAtFpr

VERSION = 2
FACTORS = (1.25, 1.5, 2.0, 3.0, 4.0, 8.0)  # of what is tested; a gate reads the power from these
# codes of findings without which a verdict alone would mislead
BESIDE = frozenset({
    "unsupported_claim", "unused_statement", "noise_misfit", "answers_unlike_scores",
    "unseen_channels", "judge_refuses_all",
})  # fmt: skip
PLACES = {
    "model", "embedder", "judge_model", "address", "data", "data_dir", "encoding",
    "trust_remote_code",
}  # where, not what  # fmt: skip
ThresholdKind = Literal["fixed", "split", "bonferroni", "best"]


@dataclass(frozen=True, slots=True)
class _Beside:
    """What no record holds: fingerprint (PRIVATE), day of stored outputs, and rates by pair."""

    data: str | None = field(default=None, repr=False, compare=False)
    stored_on: str | None = field(default=None, repr=False, compare=False)
    by_pair: tuple[float, ...] = field(default=(), repr=False, compare=False)
    without_each: tuple[tuple[float, float], ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that an audit found beside its verdict."""

    code: str
    sentence: str


class AuditResult(JsonRecord):
    """One audit: what was claimed, what was done, what was found, and what it rests on.

    It holds everything that a report, a gate and an exported configuration need, and no private
    row.

    Attributes:
        schema_version: 2.
        name: Name of the run folder.
        verdict: "violation", "no_violation" or "inconclusive".
        reason: Why an audit is inconclusive, as a code.
        sentences: The sentences that carry the verdict.
        findings: What was found beside it.
        controls: Whether the attack saw contexts that are full of the canary.
        channels: What each channel of a system shows, where the audit reads them apart; the verdict
            is that of all of them together.
        state: Whether answers depend on what was asked before; None where a model is asked.
        use: What several attacks would have seen of a single canary, where the audit's own shows
            nothing; None where it was not asked.
        claim: What the operator states, for all outputs that a trial sees.
        claim_source: Whether somebody stated the claim, or it is the default of an audit.
        guarantee: What the mechanism is proven to satisfy.
        attack: Names of mechanism, canary, query and score; access and insertion; what the query
            asks and the score reads, and questions about one context.
        counts: pairs, tested_pairs, model_calls, answers, unparsable_answers, simulated_outputs,
            background_copies; of a judge withheld_member and withheld_nonmember;
            looks: how many results were computed from these paired trials before.
        decided_by: Methods of the deciding estimates, the one of epsilon first; one of mu only
            where the mechanism is Gaussian.
        estimates: All estimates.
        largest_certifiable: What a perfect attack would have certified with the tested pairs.
        power: Probability of a rejection at each of `FACTORS` times what is tested, with a model
            that notices canaries as `assume_hit` and `assume_false_alarm` of the spec say; of a
            simulation, the lower end of its 95 % interval. Empty where no formula is known.
        guessing_power: Where random guessing is claimed, the probability of a rejection by an
            attack of each accuracy, as `power` has it: (accuracy, probability).
        threshold: How the threshold of single outputs was chosen.
        e_values: The e-value after each pair.
        profile: The exact privacy profile, where output distributions are known.
        curves: ROC curve and histograms of simulated outputs.
        low_fpr: True-positive rates at false-positive rates of 10, 1 and 0.1 %, of simulated
            outputs, with intervals between pairs; empty in results of one run and older ones.
        example_prompt: A prompt that shows the canary, with private text as far as it may be kept.
        trials: A few paired trials with prompts and answers, redacted in the same way.
        warnings: What a reader should know before believing the verdict.
        handed: Which parts the caller handed over as objects.
        spec: Every parameter by its flat key.
        references: What standards and guidelines ask, and what this audit says to each.
        provenance: Versions and fingerprints; evidence: the head of the chain of hashes of the
            stored trials.
    """

    schema_version: Literal[2] = 2
    name: str
    verdict: Verdict
    reason: Reason | None = None
    sentences: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    controls: ControlCheck | None = None
    channels: tuple[ChannelResult, ...] = ()
    state: StateCheck | None = None
    use: ContextUse | None = None
    claim: Claim
    claim_source: ClaimSource = "unknown"
    guarantee: GuaranteeData
    attack: dict[str, str]
    counts: dict[str, int]
    decided_by: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    largest_certifiable: Bounds
    power: tuple[tuple[float, float], ...] = ()
    guessing_power: tuple[tuple[float, float], ...] = ()
    threshold: ThresholdKind
    e_values: EValuePath | None = None
    profile: Profile | None = None
    curves: Curves
    low_fpr: tuple[RateAtFpr, ...] = ()
    example_prompt: str
    trials: tuple[TrialView, ...] = ()
    warnings: tuple[str, ...]
    handed: tuple[str, ...] = ()
    spec: dict[str, Any]
    references: tuple[StandardReference, ...] = ()
    provenance: dict[str, str]
    _beside: _Beside = PrivateAttr(default_factory=_Beside)

    def referenced(self) -> AuditResult:
        """The same result with what it says to standards and guidelines.

        Returns:
            A result whose references are those of the present editions.
        """
        return self.model_copy(update={"references": references_of(self)})

    def know_data(self, fingerprint: str) -> None:
        """Note which data were audited, for `same_data`; it is written to no file.

        Args:
            fingerprint: Of the rows (PRIVATE), as the manifest of a run folder has it.
        """
        self._beside = replace(self._beside, data=fingerprint)

    def know_stored(self, day: str) -> None:
        """Note that nothing was asked for this result; it is written to no file.

        Args:
            day: Day on which the earlier run began that its outputs are of, as an ISO date.
        """
        self._beside = replace(self._beside, stored_on=day)

    def know_pairs(
        self, accuracies: Iterable[float], without_each: Iterable[Iterable[float]]
    ) -> None:
        """Note how well simulated outputs tell the contexts of each pair apart; see `by_pair`.

        Args:
            accuracies: Share of right guesses about each pair, in [0, 1].
            without_each: (TPR, FPR) of all pairs, then without each of them; see `without_each`.
        """
        rates = tuple((float(tpr), float(fpr)) for tpr, fpr in without_each)
        shares = tuple(float(one) for one in accuracies)
        self._beside = replace(self._beside, by_pair=shares, without_each=rates)

    @property
    def by_pair(self) -> tuple[float, ...]:
        """Share of right guesses about each pair, at the threshold that is best for the others.

        Empty unless `run_audit` was asked for it; it is written to no file.
        """
        return self._beside.by_pair

    @property
    def without_each(self) -> tuple[tuple[float, float], ...]:
        """(TPR, FPR) of simulated outputs at the threshold with the best accuracy: of all pairs,
        then without the first one, and so on.

        Empty unless `run_audit` was asked for `by_pair`; it is written to no file.
        """
        return self._beside.without_each

    @property
    def stored_on(self) -> str | None:
        """Day of the stored outputs; None where some were asked for now, or a result was loaded."""
        return self._beside.stored_on

    @property
    def reused(self) -> str:
        """That nothing was asked now, so that what changed since is not seen; else empty."""
        if self.stored_on is None:
            return ""
        return (
            f" Stored outputs of an earlier run ({self.stored_on}) were used: no model call now; "
            "--fresh or another --out asks again."
        )

    def same_data(self, other: AuditResult) -> bool | None:
        """Whether two audits are of the same rows.

        Returns:
            None where neither says so: both are shared results whose fingerprints have different
            keys.
        """
        mine, theirs = self._beside.data, other._beside.data
        if mine is not None and theirs is not None:
            return mine == theirs
        one, two = self.provenance, other.provenance
        if one.get("data_key") != two.get("data_key"):
            return None
        return one["data_fingerprint"] == two["data_fingerprint"]

    def estimate(self, method: str) -> Estimate:
        """The estimate of one method.

        Raises:
            KeyError: If no estimate is of this method.
        """
        found = next((e for e in self.estimates if e.method == method), None)
        if found is None:
            known = ", ".join(e.method for e in self.estimates)
            raise KeyError(f"the result has no estimate {method!r}; it has: {known}")
        return found

    @property
    def bounds(self) -> tuple[Estimate, ...]:
        """The estimates that decided, the one of epsilon first."""
        return tuple(self.estimate(method) for method in self.decided_by)

    @property
    def bound(self) -> Estimate:
        """The estimate of epsilon that decided."""
        return self.bounds[0]

    @property
    def epsilon(self) -> float | None:
        """epsilon of `bound`: what is leaked at least, if that is a lower bound."""
        return self.bound.epsilon

    @property
    def reading(self) -> BoundReading:
        """What decided, with its guesses: the reading of `bound`."""
        return self.bound.reading or score_reading(self.estimates)

    @property
    def mu_bound(self) -> Estimate:
        """The estimate of mu that goes with it; the one of epsilon where there is none."""
        return mu_bound(self.bounds) or self.bound

    @property
    def tested_pairs(self) -> int:
        """Pairs that entered the deciding bounds."""
        return self.counts["tested_pairs"]

    @property
    def beside(self) -> tuple[str, ...]:
        """Findings without which the verdict would mislead, in sentences."""
        return tuple(one.sentence for one in self.findings if one.code in BESIDE)

    def __str__(self) -> str:
        """Verdict, system and claim, what the attacker achieved, why, and what was tried."""
        said = self.sentences[0]
        lines = [
            attacker_sentence(self),
            said[:1].upper() + said[1:],
            *(f"Found: {one}" for one in self.beside if one.rstrip(".") not in said),
            f"{attacks_sentence(self)}{self.reused}",
        ]
        heading = first_line(verdict_words(self), [subject_of(self)])
        return "\n  ".join([heading, *filter(None, lines)])

    def results(self) -> str:
        """The result without where the outputs came from: addresses, provenance, looks, name.

        Returns:
            Stable text: equal outputs give equal bytes, whether they were collected in one process
            or many, at once or in parts, over HTTP or not.
        """
        found = self.model_dump(
            mode="json",
            exclude={
                "name": True,
                "provenance": True,
                "handed": True,
                "claim_source": True,
                "spec": PLACES,
                "attack": {"mechanism"},
                "counts": {"looks"},
            },
        )
        return json.dumps(found, indent=2, sort_keys=True) + "\n"

    @property
    def digest(self) -> str:
        """16 hexadecimal digits of a hash of `results`."""
        return hashlib.sha256(self.results().encode()).hexdigest()[:16]

    def save(self, path: str | Path) -> Path:
        """Write the record as a JSON file that only its owner can read; `load_result` reads it.

        Raises:
            UsageError: If the file cannot be written.
        """
        return write_record(path, self.to_json())

    def plot(self, axes: Any = None) -> Any:
        """Draw all lower bounds on epsilon beside the claim, the one that decides first.

        Args:
            axes: Matplotlib axes to draw on; None makes a figure.

        Returns:
            The axes.
        """
        decides = self.bound.method
        shown = sorted(self.estimates, key=lambda one: one.method != decides)
        return bounds_plot(shown, self.claim.epsilon, axes)

    def to_pandas(self) -> Any:
        """A table of the estimates.

        Returns:
            A DataFrame with a row for each estimate, its counts in columns of their own.

        Raises:
            UsageError: If pandas is not installed.
        """
        said = {"run": self.name, "verdict": self.verdict, "claim": self.claim.epsilon}
        names = ("method", "kind", "epsilon", "mu", "delta", "confidence", "threshold")
        return data_frame(
            {
                **said,
                **{name: getattr(e, name) for name in names},
                "decides": e.method == self.decided_by[0],
                **e.counts,
            }
            for e in self.estimates
        )

    to_frame = to_pandas

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """What `repr` shows, which notebooks and test runners write down: no text of rows."""
        return (
            ("name", self.name), ("verdict", self.verdict), ("bound", self.epsilon),
            ("claim", self.claim.epsilon), ("delta", self.claim.delta),
            ("pairs", self.tested_pairs),
        )  # fmt: skip


def power_of(
    estimator: Estimator, design: TrialDesign, pairs: int
) -> tuple[tuple[float, float], ...]:
    """What a gate may rely on."""
    if is_random_guessing(design.claim):
        return ()  # no factor of nothing is anything; see `accuracies_of`
    known = [(factor, estimator.power(design, pairs, factor)) for factor in FACTORS]
    return tuple((factor, _least(power)) for factor, power in known if power)


def accuracies_of(
    estimator: Estimator, design: TrialDesign, pairs: int
) -> tuple[tuple[float, float], ...]:
    """What a gate may rely on where random guessing is claimed."""
    return tuple((at, _least(power)) for at, power in estimator.accuracy_power(design, pairs))


def _least(power: Power) -> float:
    scale: int = 10**DIGITS
    return math.floor(power.safe * scale) / scale


def attack_facts(attack: ScoredAttack, mechanism: str, questions: int) -> dict[str, str]:
    query, score = attack.query, attack.score
    texts = score.reads_text or (query.asks == "text" and score.free)
    return {
        "mechanism": mechanism, "canary": attack.canary.name, "query": query.name,
        "score": score.name, "access": attack.access, "insertion": attack.insertion,
        "asks": query.asks, "reads": "texts" if texts else "answers", "questions": f"{questions}",
    }  # fmt: skip


def provenance(store: RunStore, pairs: int, data: str, seed: int, **known: str) -> dict[str, str]:
    """Versions of what computed a result, and what it was computed from."""
    folder = store.folder
    begun = first_day(folder, load_manifest(folder)["evidence"])
    return {
        "leakbound": __version__,
        **({} if begun is None else {"begun": begun}),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        **known,
        "data_fingerprint": key_hash(folder, data)[:FINGERPRINT],
        "data_key": key_id(folder),
        "seed": str(seed),
        "evidence": key_hash(folder, store.head(pairs)),
        **commitment_of(folder),
    }


OF_MODELS = ("mechanism", "model", "embedder", "judge_model", "trust_remote_code")


def config_text(result: AuditResult) -> str:
    """A YAML file that makes the run again where data, model and version are the same."""
    if result.handed:
        what = " and ".join(result.handed)
        raise UsageError(
            f"{result.name} audited Python objects ({what}), or rows that its configuration held, "
            "and a result keeps neither; put rows into a file and audit with --data, put a system "
            "into a file and audit it as --system python:file.py:object, register a class of your "
            "own by an entry point."
        )
    head = f"# leakbound audit --config FILE makes {result.name} again\n"
    spec = {key: value for key, value in result.spec.items() if value is not None}
    if "address" in spec:  # an application answers by itself
        spec = {key: value for key, value in spec.items() if key not in OF_MODELS}
    groups = {
        group: {key: spec[key] for key in kind.model_fields if key in spec}
        for group, kind in GROUPS.items()
    }
    text: str = yaml.safe_dump(groups, sort_keys=False, allow_unicode=True)
    return head + text
