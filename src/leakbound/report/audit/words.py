"""The sentences of an audit's report, shared by terminal, page and notebook, and its summary.

A number never stands without its kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leakbound.auditing.result.sentences import (
    ACCESS,
    attacker_sentence,
    attacks_sentence,
    first_line,
    odds_sentence,
    steps_of,
    subject_of,
    system_name,
    verdict_words,
)
from leakbound.report.audit.remedies import next_step, remedy
from leakbound.report.words import (
    KINDS,
    LIMITS,
    align,
    decimal,
    sentence,
    verdict_text,
)
from leakbound.stats import beside, cut

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult
    from leakbound.auditing.decide.decide import ChannelResult
    from leakbound.auditing.observe.controls import ControlCheck
    from leakbound.auditing.spec.staged import Staged
    from leakbound.stats import Estimate


CHANNEL_HEAD = ("Channel", "Verdict", "ε ≥", "Rejected at pair", "Control canary")
ESTIMATE_HEAD = (
    "Method", "ε", "μ", "Kind", "δ", "Confidence", "Counts", "Threshold", "Assumptions",
)  # fmt: skip
LIMITS_OF_ONE_RUN = (
    *LIMITS[:2],
    "The bound of one run holds for all answers of the run together, and for none by itself. More "
    "questions leak more.",
    LIMITS[3],
    "A bound of one run assumes that each canary was planted by a fair coin of its own, and that "
    "nothing but the answers told the coins.",
)
REMEDY = ("What leaked", "What to change", "Then check")
IMPLIED = "implied_epsilon"  # of an estimate of mu: no bound of its own


def reason_sentences(result: AuditResult) -> tuple[str, ...]:
    findings = [
        finding.sentence
        for finding in result.findings
        if not any(reason.startswith(finding.sentence) for reason in result.sentences)
    ]
    return tuple(map(sentence, (*result.sentences, *findings)))


def check_sentence(result: AuditResult) -> str:
    controls, state = result.controls, result.state
    found = []
    if controls is not None and controls.p_value is not None and (staged := steps_of(result)):
        found.append(_own_records(staged, controls))
    elif controls is not None and controls.p_value is not None:
        session = result.spec.get("layout") == "session"
        what = f"a canary placed {'several times' if session else 'in every example'}"
        what = "the planted control canaries" if _one_run(result) else what
        shown = controls.witness if controls.by_replies_alone else controls.p_value
        above = (result.bound.epsilon or 0.0) > 0
        number = f"{controls.pairs} with and {controls.pairs} without, p = {shown:.2g}"
        number += " by whole replies, not by the score" * controls.by_replies_alone
        # the controls after the last pair tell something of what was seen before
        if controls.late is not None and controls.seen:
            again = "" if controls.seen_late else "no longer "
            number += f"; {again}after the last pair, p = {controls.late:.2g}"
        passed, did = ("passed", "detected") if controls.seen else ("failed", "did not detect")
        text = f"Positive control {passed}: the attack {did} {what} ({number})."
        if above and not controls.seen:
            text = f"The paired trials show the canary, although the {text[0].lower()}{text[1:]}"
        elif controls.single is not None:
            single = "detected" if controls.seen_once or above else "not clearly detected"
            if above and not controls.seen_once:
                single += " in the paired trials, but not clearly in its controls"
            text += f" One copy of it was {single} (p = {controls.single:.2g})."
        found.append(text)
    if state is not None and state.found is None:
        found.append(f"No evidence of state between queries ({state.repeats} repeated).")
    return " ".join(found)


def _own_records(staged: Staged, controls: ControlCheck) -> str:
    each = (controls.seen, controls.combined), (controls.seen_once, controls.single)
    said = [
        f"{words[not seen]} ({'none asked' if p is None else f'p = {p:.2g}'})"
        for (seen, p), words in zip(each, staged.controls, strict=False)
    ]
    if controls.seen and not controls.seen_late:
        said[0] += ", and no longer after the last pair"
    return f"Controls ({controls.pairs} of each): {'; '.join(said)}."


def bound_sentence(result: AuditResult) -> str:
    bound, claim = result.bound, result.claim
    shown, claimed = beside(bound.epsilon, claim.epsilon)
    text = (
        f"ε(δ={claim.delta:g}) ≥ {shown} with {bound.confidence:.0%} confidence; claimed: {claimed}"
    )
    if (guaranteed := result.guarantee.mu) is not None:
        mu, other = beside(result.mu_bound.mu, guaranteed, 3)
        text += f". μ ≥ {mu}; guaranteed: {other}"
    return text + "."


def setup_sentence(result: AuditResult) -> str:
    attack, counts = result.attack, result.counts
    return (
        f"{_trials(result)}; query {attack['query']}, score {attack['score']} "
        f"({ACCESS[attack['access']]}); {counts['model_calls']} model calls.{result.reused}"
    )


def _trials(result: AuditResult) -> str:
    counts, canary = result.counts, result.attack["canary"]
    if _one_run(result):
        builds = "once" if counts["builds"] == 1 else f"{counts['builds']} times"
        return (
            f"{counts['canaries']} {canary} canaries, {counts['planted']} of them planted by fair "
            f"coins beside {counts['documents']} documents in one store, which was built {builds}"
        )
    where = f"with {result.spec['shots']} examples a context"
    if result.spec.get("layout") == "session":
        where = "in one store, into which each was put and taken out,"
    where = where if (staged := steps_of(result)) is None else staged.trials
    text = f"{counts['pairs']} paired trials {where} and a {canary} canary"
    if copies := counts["background_copies"]:
        text += f", which also stands in {copies} other partitions of both contexts"
    return text


def channel_row(channel: ChannelResult) -> tuple[str, ...]:
    reason = "" if channel.reason is None else f" ({channel.reason})"
    controls = channel.controls
    late = "seen" if controls.seen_late else "seen, later not"
    return (
        channel.name,
        verdict_text(channel.verdict) + reason,
        cut(channel.bound.epsilon),
        "" if channel.rejected_at is None else str(channel.rejected_at),
        late if controls.seen else "not seen",
    )


def channels_sentence(result: AuditResult) -> str:
    if not result.channels:
        return ""
    one = result.channels[0].bound.confidence or 0.0
    return (
        "The verdict is that of all channels together, by the mean of their e-values. Each line "
        f"has {one:.2%} confidence, so that all hold together with {result.bound.confidence:.0%}."
    )


def limits_of(results: Sequence[AuditResult]) -> tuple[str, ...]:
    of_each = (LIMITS_OF_ONE_RUN if _one_run(result) else LIMITS for result in results)
    return tuple(dict.fromkeys(line for limits in of_each for line in limits))


def _one_run(result: AuditResult) -> bool:
    return "builds" in result.counts


def estimate_row(estimate: Estimate, numbers: Mapping[str, int], gaussian: bool) -> tuple[str, ...]:
    implied = gaussian and estimate.epsilon is None and IMPLIED in estimate.details
    epsilon = estimate.details[IMPLIED] if implied else estimate.epsilon
    return (
        estimate.method,
        cut(epsilon) + (" if Gaussian" if implied else ""),
        cut(estimate.mu, 3),
        KINDS[estimate.kind],
        f"{estimate.delta:g}",
        f"{estimate.confidence:.0%}" if estimate.confidence else "none",
        ", ".join(f"{key} {value}" for key, value in estimate.counts.items()),
        estimate.threshold,
        ", ".join(str(numbers[text]) for text in estimate.assumptions),
    )


HEAD = (
    "system", "verdict", "claim ε", "ε ≥", "μ ≥", "guarantee μ", "AUROC (point)", "model calls",
    "by",
)  # fmt: skip


def all_sentences(result: AuditResult) -> str:
    lines = [first_line(verdict_words(result), [subject_of(result)])]
    meaning = (attacker_sentence(result), odds_sentence(result), bound_sentence(result))
    lines += [f"  {one}" for one in meaning if one]
    lines += [f"  {one}" for one in reason_sentences(result)]
    if result.channels:
        table = align(CHANNEL_HEAD, *map(channel_row, result.channels))
        lines += [f"  {line}" for line in (*table.splitlines(), channels_sentence(result))]
    lines += [f"  {sentence(one)}" for one in result.beside if one not in " ".join(lines)]
    lines += [f"  Warning: {warning}" for warning in result.warnings]
    lines += [f"  Tried: {setup_sentence(result)}"]
    lines += [f"  {checked}"] if (checked := check_sentence(result)) else []
    unparsable, answers = result.counts["unparsable_answers"], result.counts["answers"]
    if unparsable:
        lines += [
            f"  {unparsable} of {answers} answers could not be read; they count as no answer."
        ]
    lines += [f"  {attacks_sentence(result)}"]
    if result.verdict == "violation":
        lines += [f"  {name}: {text}" for name, text in zip(REMEDY, remedy(result), strict=True)]
    elif result.verdict == "inconclusive" and (step := next_step(result)):
        lines += [f"  Next: {step}"]
    lines += [] if (staged := steps_of(result)) is None or not staged.law else [f"  {staged.law}"]
    lines += ["  Not shown: that no other attack does better. See the report for all limits."]
    return "\n".join(lines)


def comparison_table(results: Sequence[AuditResult]) -> str:
    rows = [
        (
            system_name(r),
            verdict_text(r.verdict),
            *reversed(beside(r.bound.epsilon, r.claim.epsilon)),
            cut(r.mu_bound.mu, 3),
            "none" if r.guarantee.mu is None else decimal(r.guarantee.mu),
            decimal(r.curves.auroc),
            str(r.counts["model_calls"]),
            f"{r.bound.method}, {r.bound.confidence:.0%}",
        )
        for r in results
    ]
    found = Counter(one.verdict for one in results)
    tally = ", ".join(
        f"{number} {verdict_text(verdict, number)}" for verdict, number in found.items()
    )
    heading = first_line(f"AUDITS ({tally})", list(map(subject_of, results)))
    return f"{heading}\n{align(HEAD, *rows)}"
