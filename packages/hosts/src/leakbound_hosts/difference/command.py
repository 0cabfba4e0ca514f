"""leakbound difference: whether two runs of an evaluation really differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

from leakbound.cli.screen.help_pages import PATH, RealRange, cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.errors import DataError, UsageError
from leakbound_hosts.difference import (
    ANYTIME,
    Difference,
    DifferencePlan,
    compare_scores,
    decide_together,
    plan_difference,
)
from leakbound_hosts.difference.files import FORMATS, ScoreColumns, columns_of, pairs_of

SHOWN = 3  # metrics on the screen
KINDS = f"CSV, JSON lines, inspect_ai, {', '.join(FORMATS)}"


@cli_command(
    "before.csv after.csv",
    "before.eval after.eval --look-often",
    "a.csv b.csv --metric accuracy --effect 0.05",
)
@click.argument("first", type=PATH, metavar="A")
@click.argument("second", type=PATH, metavar="B")
@option(
    "--paired/--unpaired",
    "the same samples, by their ids, or different ones [default: paired if all ids agree]",
    bool,
    None,
)
@option("--look-often", "the test may be read after every sample", bool)
@option("--metric", "metric to compare; may be given again [default: all]", name="metrics",
        multiple=True)  # fmt: skip
@option("--id-field", "field of a table that names the sample", default="id")
@option(
    "--effect",
    "difference to plan for: sets the stakes of the e-value, and prints how many samples show it",
    RealRange(0, 1, min_open=True),
)
@option(
    "--confidence",
    "confidence: of the test and the interval",
    RealRange(0.5, 1, max_open=True),
    0.95,
)
def command(
    first: Path, second: Path, paired: bool | None, look_often: bool, metrics: tuple[str, ...],
    id_field: str, effect: float | None, confidence: float,
) -> int:  # fmt: skip
    """Test whether two runs of an evaluation really differ. A and B are files with a score from 0
    to 1 for each sample: CSV, JSON lines, or what inspect_ai, lm-eval, garak, promptfoo or
    deepeval wrote.

    One metric of 0 and 1 is decided by an exact test of all samples (McNemar's, Fisher's). With
    --look-often, and for other scores or several metrics, an e-value decides, which holds after
    any number of samples. Exits with 0 if no difference was shown, 1 if one is real.
    """
    one, other = (columns_of(file, id_field, metrics) for file in (first, second))
    found = list[Difference]()
    names, number = _names(one, other, metrics)
    for name in names:
        a, b, same = pairs_of(name, one[name], other[name], paired)
        found.append(compare_scores(
            a, b, paired=same, look_often=look_often, effect=effect, confidence=confidence,
            metric=name, metrics=number,
        ))  # fmt: skip
    found = sorted(decide_together(found, number, confidence), key=lambda one: -one.e_value)
    code = int(any(one.real for one in found))
    plan = None if effect is None else plan_difference(effect, found[0].spread, 0.9, confidence)
    say("\n".join(line[:80].rstrip() for line in _lines(found, number, confidence, effect, plan)))
    emit({"exit_code": code, "differences": found, "effect": effect, "plan": plan})
    return code


def plan_rows(effect: float, discordant: float) -> tuple[list[tuple[str, str]], DifferencePlan]:
    """What `leakbound plan --effect` says."""
    if discordant < effect:
        raise UsageError(
            f"--discordant is {discordant:g}, and a difference of {effect:g} needs as many "
            "samples at least on which the two differ."
        )
    plan = plan_difference(effect, discordant)
    saved = 1 - plan.mean / plan.fixed
    return [
        ("shows", f"a difference of {effect:g} with power 0.9 at 95%, if {discordant:.0%} differ"),
        ("one look", f"{plan.fixed:,} pairs, all of them"),
        ("every look", f"~{plan.mean:,} pairs in the mean ({saved:.0%} fewer), most {plan.most:,}"),
        ("next", f"leakbound difference A B --look-often --effect {effect:g}"),
    ], plan


def _names(
    first: ScoreColumns, second: ScoreColumns, wanted: tuple[str, ...]
) -> tuple[list[str], int]:
    """The metrics of both files that can differ, and of how many."""
    common = [name for name in wanted or first if name in first and name in second]
    missing = [name for name in wanted if name not in common]
    if missing or not common:
        known = ", ".join(sorted(first.keys() | second.keys())) or "none"
        what = f"{missing[0]!r} is not in both files" if missing else "the files share no metric"
        raise DataError(
            f"{what} with a number from 0 to 1 for each sample; found {known}. Files may be "
            f"{KINDS}."
        )
    both = {one: np.concatenate([first[one].values, second[one].values]) for one in common}
    vary = [one for one, values in both.items() if np.ptp(values) > 0]
    return common if wanted or not vary else vary, len(common)


def _lines(
    found: list[Difference], number: int, confidence: float, effect: float | None,
    plan: DifferencePlan | None,
) -> Iterator[str]:  # fmt: skip
    one, code = found[0], int(any(one.real for one in found))
    title = "✗ REAL DIFFERENCE" if code else "✓ NO DIFFERENCE SHOWN"
    n, m = one.samples
    samples = f"{n:,} pairs by id" if one.paired else f"{n:,} and {m:,} different samples"
    yield f"{f'{title}   {samples}':<73} exit {code}"
    if number == 1:
        yield from _one(one, confidence)
    else:
        yield _row("decides", f"e-BH over {number} metrics, at {1 - confidence:.0%} FDR")
        for each in found[:SHOWN]:
            sign = "✗" if each.real else "·"
            low, high = each.interval
            text = f"{sign} {_change(each)}  [{low:+.3f}, {high:+.3f}]  e {_short(each.e_value)}"
            yield _row(each.metric[:16], text)
        if more := found[SHOWN:]:
            real = sum(each.real for each in more)
            yield _row("more", f"{len(more)} metrics, {real} real: --json")
    if plan is not None:
        looks = f"with looks ~{plan.mean:,} (most {plan.most:,})"
        yield _row("plan", f"{effect:g} by ~{plan.fixed:,} pairs, or {looks}")


def _one(one: Difference, confidence: float) -> Iterator[str]:
    low, high = one.interval
    yield _row(one.metric[:16], _change(one))
    yield _row("difference", f"{low:+.3f} to {high:+.3f} at {confidence:.0%}, at every look")
    p = f": p = {_short(one.exact or 0.0)}" if one.decided_by != ANYTIME else ""
    yield _row("decides", f"{one.decided_by}{p}")  # by the options, before scores are read
    at = "" if one.shown_at is None else f", enough after {one.shown_at:,} pairs"
    yield _row("at every look", f"p = {_short(one.p_value)} (e-value {_short(one.e_value)}{at})")
    if one.paired:
        yield _row("pairs", f"{one.wins[0]:,} higher in A, {one.wins[1]:,} higher in B")


def _change(one: Difference) -> str:
    a, b = one.means
    return f"A {a:.3f}, B {b:.3f}: {b - a:+.3f}"


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 1e6 else f"{value:.0e}"


def _row(name: str, text: str) -> str:
    return f"   {name:<17}{text}"
