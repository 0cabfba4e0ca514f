"""The words of a report of a sweep, shared by terminal and page, and a few lines for a terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from leakbound.auditing.result.sentences import Subject, first_line, systems_words, values_words
from leakbound.report.screen import GRAVEST, SIGNS, WIDTH, lay_out, leak_rows
from leakbound.report.words import VERDICTS, align, decimal, number_of, verdict_text
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.sweeping import SweepPoint, SweepRecord


def setting_name(changes: Mapping[str, object], without: str | None = None) -> str:
    shown = {key: value for key, value in changes.items() if key != without}
    return ", ".join(
        f"{'ε' if key == 'epsilon' else key_name(key)}={'none' if value is None else value}"
        for key, value in shown.items()
    )


def key_name(key: str) -> str:
    return key.removeprefix("mechanism.")


FIXED = ("query", "canary", "model", "mechanism", "address", "data")
WITHIN = ("model", "mechanism")  # an application at an address has its own


def subjects_of(record: SweepRecord) -> list[Subject]:
    """Who was asked in a sweep, and what was claimed."""
    base = record.base
    if record.points:
        return [_subject(point) for point in record.points]
    address, mechanism, model = map(base.get, ("address", "mechanism", "model"))
    system, asked = address or mechanism, None if address or model is None else str(model)
    return [] if system is None else [Subject(str(system), asked)]


def _subject(point: SweepPoint) -> Subject:
    system, claim = point.attack["mechanism"], point.claim
    model = None if point.model == system else point.model
    return Subject(system, model, claim.epsilon, claim.delta, point.claim_source)


def tally(record: SweepRecord) -> dict[str, int]:
    """Points of each verdict, and points without a result by their cause."""
    found = Counter(str(point.verdict) for point in record.points)
    missing = Counter(str(point.cause) for point in record.missing)
    return {**{verdict: found[verdict] for verdict in VERDICTS}, **dict(sorted(missing.items()))}


def answer_sentence(record: SweepRecord) -> str:
    number, found = len(record.points), tally(record)["violation"]
    if not number:
        return "No point has a result."
    if not found:
        return f"None of {number_of(number, 'point')} was shown to leak more than claimed."
    leak = "leaks" if found == 1 else "leak"
    return f"{found} of {number_of(number, 'point')} {leak} more than claimed."


def worst_sentences(record: SweepRecord) -> list[str]:
    """The largest lower bound, and the one that is largest beside its claim."""
    bounded = [point for point in record.points if point.bound.epsilon is not None]
    if not bounded:
        return ["No point has a bound."]
    largest, nearest = max(bounded, key=lambda point: point.bound.epsilon or 0.0), _nearest(record)
    found = [f"Largest bound: {_bound(largest)}."]
    if nearest is not None and nearest is not largest:
        found.append(f"Largest bound relative to its claim: {_bound(nearest)}.")
    return found


def _bound(point: SweepPoint) -> str:
    bound, claim = point.bound, point.claim
    where = setting_name(point.changes) or "the setting as given"
    return (
        f"ε(δ={claim.delta:g}) ≥ {cut(bound.epsilon)} with {bound.confidence:.0%} confidence by "
        f"{bound.method}; claimed: {claim.epsilon:g} ({where}, seed {point.seed})"
    )


def grid_sentence(record: SweepRecord) -> str:
    grid = "; ".join(
        f"{key} = {', '.join('none' if v is None else str(v) for v in values)}"
        for key, values in record.grid.items()
    )
    seeds = f", {record.repeats} seeds each" if record.repeats > 1 else ""
    pairs = values_words(sorted({float(point.pairs) for point in record.points}))
    return (
        f"{len(record.settings)} settings{seeds}: {grid or 'as given'}; {pairs} paired trials a "
        "point."
    )


def not_tried_sentence(record: SweepRecord) -> str:
    """What the sweep keeps fixed, so that nobody reads it as all there is."""
    left_out = WITHIN if record.base.get("address") is not None else ()
    keys = [key for key in FIXED if key not in left_out]
    fixed = {key: record.base[key] for key in keys if record.base.get(key) is not None}
    return "; ".join(f"{key} other than {value}" for key, value in fixed.items()) + "."


def joint_confidence(record: SweepRecord) -> str:
    """How far bounds that hold one by one hold together."""
    missed = math.fsum(1 - (point.bound.confidence or 0.0) for point in record.points)
    all_together = (
        f"all of them hold together with at least {1 - missed:.0%}"
        if missed < 1
        else "there are too many to state a joint confidence"
    )
    number = len(record.points)
    return (
        f"Each of the {number} bounds holds with its own confidence; {all_together} (Bonferroni)."
    )


def calls_sentence(record: SweepRecord) -> str:
    """How many model calls stand behind the sweep, and how many without sharing."""
    return (
        f"{record.model_calls} model calls for all points; {record.model_calls_unshared} if points "
        "shared none."
    )


def tally_sentence(record: SweepRecord) -> str:
    counts = tally(record).items()
    return ", ".join(f"{n} {verdict_text(name, n)}" for name, n in counts if n) or "no point"


UTILITY = {"value": "utility", "zero_shot": "zero-shot", "non_private": "non-private"}


def sweep_summary(record: SweepRecord, model_calls: int | None = None) -> str:
    lines = [first_line(f"SWEEP ({tally_sentence(record)})", subjects_of(record))]
    if record.points:
        tried = f"Tried: {grid_sentence(record)}"
        said = (*worst_sentences(record), joint_confidence(record), tried)
        lines += [f"  {one}" for one in said]
        lines += [align(_head(record), *(_cells(record, point) for point in record.points))]
    lines += [
        f"  {verdict_text(one.cause)}: {setting_name(one.changes)}, seed {one.seed}: {one.reason}"
        for one in record.missing
    ]
    if model_calls is not None:
        lines.append(f"  Model calls of this command: {model_calls}.")
    return "\n".join([*lines, f"  {calls_sentence(record)}"])


def sweep_screen(
    record: SweepRecord, page: object, *, code: int | None = None, width: int = WIDTH
) -> str:
    """Verdicts, the bound that is worst beside its claim, what is missing, and calls."""
    subjects, found = subjects_of(record), tally(record)
    worst_kind = next((one for one in GRAVEST if found.get(one)), "failed")
    sign = SIGNS.get(worst_kind, SIGNS["inconclusive"])
    calls = f"{number_of(record.model_calls, 'call')} ({record.model_calls_unshared:,} unshared)"
    rows = [("points", f"{tally_sentence(record)} · {calls}")]
    if (worst := _nearest(record)) is not None:
        where = setting_name(worst.changes) or "as given"
        notes = f" ({where}, seed {worst.seed})"
        rows += leak_rows(worst.bound.epsilon, worst.claim.epsilon, notes=notes)
    rows += [(verdict_text(one.cause), one.reason) for one in record.missing[:1]]
    rows += [("report", str(page))]
    name = f"   {systems_words(subjects)}" if subjects else ""
    last = "Each bound holds on its own, not all at once. More: -v"
    return lay_out(f"{sign} SWEEP{name}", rows, last, code=code, width=width)


def _nearest(record: SweepRecord) -> SweepPoint | None:
    bounded = [point for point in record.points if point.bound.epsilon is not None]
    return max(
        bounded,
        key=lambda point: (point.bound.epsilon or 0.0) / (point.claim.epsilon or 1e-12),
        default=None,
    )


def _head(record: SweepRecord) -> tuple[str, ...]:
    utility = UTILITY.values() if record.utilities else ()
    last = ("seed", "verdict", "claim ε", "ε ≥", "μ ≥", "exact ε", *utility, "by")
    return (*map(key_name, record.grid), *last)


def _cells(record: SweepRecord, point: SweepPoint) -> tuple[str, ...]:
    values = ("none" if value is None else str(value) for value in point.changes.values())
    return (
        *values, str(point.seed), verdict_text(point.verdict), f"{point.claim.epsilon:g}",
        cut(point.bound.epsilon), cut(point.mu_bound, 3), decimal(point.exact_epsilon),
        *map(decimal, utility_of(record, point)),
        f"{point.bound.method}, {point.bound.confidence:.0%}",
    )  # fmt: skip


def utility_of(record: SweepRecord, point: SweepPoint) -> list[float | None]:
    """The utility of a point and its references; none where the sweep measured none."""
    if not record.utilities:
        return []
    return [None if point.utility is None else getattr(point.utility, name) for name in UTILITY]
