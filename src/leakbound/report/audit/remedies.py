"""What leaked, what to change, and the command that shows that the change helped: one table."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from leakbound.auditing.result.sentences import reads_texts, steps_of
from leakbound.systems.channels import TOOL_CALLS
from leakbound.systems.replies import REPLY

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

PRIVATELY = "answer privately (leakbound answer)"
SAME = "leakbound audit …"  # the same command, with what follows
# what leaked, by reading
LEAKED = {
    "score": "the answers reveal whether a record is present",
    "texts": "replies repeat the text of a record",
    "codes": "replies quote the text of a record",
    "replies": "whole replies differ when a record is present",
    "distribution": "what is computed before noise changes too much with one record",
    "seconds": "reply times reveal whether a record is present",
    "channel": "the channel {channel} reveals whether a record is present",
}
# What to change by reading, kind of system and mechanism ("" is any), with the options of the
# command that shows it; the first row that fits holds. Kinds: a guarantee weaker than the claim, or
# one that is broken; a store that trials share; an application; a mechanism that asks a model.
CHANGES = (
    ("", "weak guarantee", "",
     "strengthen its guarantee of ε = {stated:g}, or claim no more",
     "--epsilon {stated:g}"),
    ("", "broken guarantee", "",
     "its guarantee is broken: check sensitivity, noise, sampling", "--fresh"),
    ("", "staged", "", "{staged}", "--fresh"),
    ("seconds", "", "", "make reply times independent of rows, and share no cache",
     "--fresh"),
    ("channel", "", "", "hide {channel} from callers, or let it depend on no row",
     "--fresh"),
    ("", "store", "", "let callers search only rows that they may read",
     "--fresh"),
    ("codes", "application", "", "let no reply repeat a row, or use leakbound answer",
     "--fresh"),
    ("texts", "application", "", "let no reply repeat a row, or use leakbound answer",
     "--fresh"),
    ("", "application", "", "let no single row change a reply, or use leakbound answer", "--fresh"),
    ("texts", "model", "", f"{PRIVATELY} or show no private rows", "--mechanism keyword_mean"),
    ("", "model", "prompt_defense", f"{PRIVATELY}; no prompt bounds a leak",
     "--mechanism report_noisy_max"),
    ("", "model", "", f"{PRIVATELY} or show no private rows",
     "--mechanism report_noisy_max"),
)  # fmt: skip


class Remedy(NamedTuple):
    leaked: str
    change: str
    command: str


def remedy(result: AuditResult) -> Remedy:
    read, mechanism = _name_of_reading(result), result.attack["mechanism"]
    staged = steps_of(result)
    known = {"channel": result.reading.channel, "stated": result.guarantee.epsilon}
    known |= {"staged": "" if staged is None else staged.remedy}
    keys = (read, _kind(result), mechanism)
    change, options = next(
        (change, options)
        for *row, change, options in CHANGES
        if all(one in ("", key) for one, key in zip(row, keys, strict=True))
    )
    leaked = LEAKED[read].format(**known)
    again = "leakbound.audit(…) again" if result.handed else f"{SAME} {options.format(**known)}"
    return Remedy(leaked, change.format(**known), again)


def _name_of_reading(result: AuditResult) -> str:
    read = result.reading
    if read.channel not in ("", "answer", REPLY):
        return "seconds" if "seconds" in read.channel else "channel"
    return "texts" if read.of == "score" and reads_texts(result.attack) else read.of


def _kind(result: AuditResult) -> str:
    stated, found = result.guarantee.epsilon, result.bound.epsilon or 0.0
    if stated < math.inf:
        weak = result.claim.epsilon < stated and found <= stated
        return "weak guarantee" if weak else "broken guarantee"
    if steps_of(result) is not None:
        return "staged"
    if "builds" in result.counts or result.spec.get("layout") == "session":
        return "store"
    own = result.provenance["model"] == result.attack["mechanism"]  # it asks its own model
    return "application" if own else "model"


# options with values in the sentence of an obstacle
GIVEN = re.compile(
    r"(?:--[a-z][a-z-]+ (?:'[^']*'|(?!and\b|or\b|in\b|which\b|with\b)[a-z_][\w:.=-]*\b) ?)+"
)


# what a configuration says of an application whose answers never showed its rows
DECLARED = re.compile(r"`(\w+: (?:0|false))`")


def next_step(result: AuditResult) -> str:
    why, counts = result.sentences[0], result.counts
    if declared := DECLARED.search(why):
        return f"ask what is answered from the rows, and take {declared[1]} out"
    if _kind(result) in ("application", "store"):  # which is no local chat model
        why = why.replace("--chat-template off", "")
    if given := GIVEN.search(why):
        seed = f" --seed {result.spec['seed'] + 1}" * ("another --seed" in why)
        return f"{SAME} {given[0].strip()}{seed}"
    if result.reason == "too_few_trials":
        name = "canaries" if "builds" in counts else "pairs"  # a perfect attack needs some
        return f"{SAME} --{name} {2 * max(counts.get('pairs_needed', 0), counts[name])}"
    if "(leakbound tune)" in why:
        return "leakbound tune …, for a query that makes it quote the canary"
    if "more --controls" in why and {one.name for one in result.channels} & {TOOL_CALLS, REPLY}:
        return "take channels out, to read whole replies, their tool calls too"
    if "more --controls" in why and result.controls is not None:
        return f"{SAME} --controls {3 * result.controls.pairs}"
    return f"change that, then {SAME} --fresh" if result.reason != "attack_blind" else ""
