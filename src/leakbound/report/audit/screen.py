"""One audit on one screen: verdict, hits, bound, odds, checks, what to do, and what it is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from leakbound.auditing.result.audit_result import BESIDE
from leakbound.auditing.result.sentences import (
    attack_classes,
    guesses_of,
    notes_of,
    steps_of,
    subject_of,
    systems_words,
)
from leakbound.report.audit.remedies import next_step, remedy
from leakbound.report.audit.words import CHANNEL_HEAD, all_sentences, channel_row
from leakbound.report.screen import DEFAULT, MOST, NAMES, SIGNS, STEPS, WIDTH, lay_out, leak_rows
from leakbound.report.words import align, number_of, sentence, verdict_text
from leakbound.stats import beside

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

BAR = 20
ROWS = MOST - 2  # between headline and last line
# Rows that -v has, in the order in which they leave a full screen; of a violation, its odds stay.
SPARE = ("", "then", "noted", "how", "leak μ", "odds", "law", "checked")
SPARE_OF_VIOLATION = (*SPARE[:-3], "checked", "law")
EIGHTHS = " ▏▎▍▌▋▊▉"


def summary(
    result: AuditResult, verbose: bool = False, *, code: int | None = None,
    seconds: float | None = None, width: int = WIDTH,
) -> str:  # fmt: skip
    if verbose:
        return all_sentences(result)
    rows = [*_rows(result, seconds)]
    table = align(CHANNEL_HEAD, *map(channel_row, result.channels)) if result.channels else ""
    rows += [("", line) for line in table.splitlines()]
    why = " ".join(result.sentences)
    also = [one for one in (*result.beside, *result.warnings) if one not in why]
    other = [one for one in result.findings if one.sentence not in why]
    names = ", ".join(one.code.replace("_", " ") for one in other if one.code not in BESIDE)
    more = [f"And {len(also) - 1} more: -v."] if len(also) > 1 else []
    rows.append(("also", " ".join([*map(sentence, also[:1]), *more])))
    rows.append(("noted", names))
    rows = [one for one in rows if one[1]]
    for name in SPARE_OF_VIOLATION if result.verdict == "violation" else SPARE:
        longer = sum(row in STEPS and len(text) > WIDTH - NAMES for row, text in rows)
        rows = rows if len(rows) + longer <= ROWS else [one for one in rows if one[0] != name]
    untried = number_of(sum(not one.tried for one in attack_classes(result)), "kind")
    last = "Not a proof of safety"
    if result.verdict == "no_violation":
        last = "Another attack might find a violation"
    elif (result.bound.epsilon or 0.0) > 0:
        last = "A lower bound for these attacks only"
    last = f"{last}; {untried} of attack not tried. More: -v"
    return lay_out(_headline(result), rows, last, code=code, width=width)


def _headline(result: AuditResult) -> str:
    verdict, subject = verdict_text(result.verdict).upper(), subject_of(result)
    system = subject.system if subject.model is None else systems_words([subject])
    return f"{SIGNS[result.verdict]} {verdict}   {system}"


def _rows(result: AuditResult, seconds: float | None) -> Iterator[tuple[str, str]]:
    bound, claim, guarantee = result.bound, result.claim, result.guarantee
    yield from _attacker(result)
    notes = notes_of(replace(subject_of(result), claim_source="unknown"))
    if result.claim_source == "default":
        notes = f"{notes[:-1]}; default)" if notes else f" ({DEFAULT})"
    leak, *odds = leak_rows(bound.epsilon, claim.epsilon, notes=notes)
    yield leak
    if (stated := guarantee.mu) is not None:
        mu, other = beside(result.mu_bound.mu, stated, 3)
        yield "leak μ", f"≥ {mu:<9} guarantee {other}"
    yield from odds
    yield "reason", _why(result)
    if result.verdict == "no_violation" and (use := result.use) is not None:
        yield (
            "missed",
            f"leaks in under {math.ceil(100 * use.share)}% of replies, or of a kind not read",
        )
    yield "checked", " · ".join(_checks(result, seconds))
    if result.stored_on is not None:
        yield "stored", f"answers of {result.stored_on} reused; nothing was asked now"
    if result.verdict == "violation":
        found = remedy(result)
        yield "fix", found.change
        yield "then", found.command
    if result.verdict == "inconclusive":
        yield "next", next_step(result)
    if (staged := steps_of(result)) is not None:
        yield "law", staged.law


def _attacker(result: AuditResult) -> Iterator[tuple[str, str]]:
    read, bound = guesses_of(result), result.reading
    if not read.guesses:
        if bound.of == "distribution":
            yield "attacker", f"makes no guess; the bound is read from {bound.words}"
        return
    name, by, luck = "attacker right", "", read.guesses // 2
    if read.of == "codes":
        where = f" in {read.channel}" if read.channel else ""
        name, by, luck = "code quoted", f" replies{where}", 0
    elif read.compares:
        by = f" pairs, by {read.words}"
    elif bound.of == "distribution":
        by = " by its score; ε is from the votes"
    text, guessing = f"{read.right} of {read.guesses}{by}", f"(guessing: {luck})"
    room = min(BAR, WIDTH - NAMES - len(text) - len(guessing) - 5)
    bar = f"   {_bar(read.right / read.guesses, room)} " if room >= BAR // 4 else ""
    yield name, f"{text}{bar or ' '} {guessing}"
    if read.leads and (result.bound.epsilon or 0.0) > 0:  # of equal replies, half count as right
        yield "how", read.leads


def _bar(share: float, room: int) -> str:
    whole, part = divmod(math.floor(8 * room * share), 8)
    return ("█" * whole + EIGHTHS[part].strip()).ljust(room)


def _why(result: AuditResult) -> str:
    use, claim = result.use, result.claim
    first = re.split(r"(?<=[.:]) ", result.sentences[0])[0]
    if result.verdict == "violation":
        return "" if (result.bound.epsilon or 0.0) > claim.epsilon else sentence(first)
    if result.verdict == "inconclusive":
        first = first.partition("; ")[0].rstrip(".:")
        return f"{(result.reason or '').replace('_', ' ')}: {first}."
    if use is not None:
        least = math.ceil(100 * use.change)
        kind = "" if result.reason is None else f"{result.reason.replace('_', ' ')}: "
        return f"{kind}signs of a record in under {least}% of replies"
    return sentence(first)


def _checks(result: AuditResult, seconds: float | None) -> Iterator[str]:
    controls, counts = result.controls, result.counts
    above = (result.bound.epsilon or 0.0) > 0
    rarely = result.reason == "seen_only_in_bulk"  # a bound may be above 0 all the same
    staged = steps_of(result)
    if staged is not None and controls is not None and controls.p_value is not None:
        seen = (controls.seen, controls.seen_once)[: len(staged.controls)]
        yield staged.checked[not all(seen)]
    elif controls is not None and (controls.seen_once or (above and not rarely)):
        yield "a single canary is detected"
    elif controls is not None and controls.p_value is not None:
        yield "only many canaries are detected" if controls.seen else "no canary is detected"
    if "builds" in counts:
        yield f"{counts['canaries']} canaries in one run"
    else:
        yield number_of(counts["pairs"], "pair")
    yield number_of(counts["model_calls"], "call")
    if seconds is not None:
        yield f"{seconds:.0f} s"
    if unparsable := counts["unparsable_answers"]:
        yield f"{unparsable} of {counts['answers']} answers unreadable"
