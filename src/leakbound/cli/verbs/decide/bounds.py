"""leakbound bounds: what scores of any tool show."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import get_args

import click

from leakbound.auditing.receipts import trial_scores
from leakbound.cli.screen.finished_runs import runs_at
from leakbound.cli.screen.help_pages import PATH, WHOLE_NUMBER, cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.cli.verbs.audit.plan import power_lines
from leakbound.errors import UsageError
from leakbound.estimators.random_guessing import (
    RANDOM_GUESSING,
    random_guessing,
)
from leakbound.estimators.score_bounds import (
    DECIDING,
    DecidingName,
    ScoreBounds,
    ScoreDesign,
    ScoredTrials,
)
from leakbound.gating.score_files import (
    Columns,
    ScoreResult,
    Seen,
    claim_of,
    judge_scores,
    load_scores,
    rule_of,
    sees_leak,
)
from leakbound.report.words import KINDS, verdict_text
from leakbound.stats import cut

EXIT = {"no_violation": 0, "violation": 1, "inconclusive": 3}


@cli_command(
    "scores.csv --design unpaired --delta 1e-5",
    "member.csv nonmember.csv --design paired --epsilon 1",
    "scores.csv --design one_run --claim random-guessing",
    "runs/NAME --claim random-guessing",
)
@click.argument("files", nargs=-1, required=True, type=PATH)
@option(
    "--design",
    "how trials are made: in pairs, each by itself, or many records in one system "
    "[default: paired if there is a column pair]",
    click.Choice(get_args(ScoreDesign)),
)
@option("--delta", "delta of that epsilon", float, 0.0)
@option("--confidence", "confidence: of every bound", float, 0.95)
@option(
    "--threshold",
    "threshold of the score: split[:SHARE], a number, several with commas that were "
    "fixed beforehand, or rank[:SHARE] for one_run [default: split:0.2; rank:0.5 for one_run]",
)
@option("--epsilon", "epsilon of one answer: the claim, on which there is a verdict then", float)
@option(
    "--claim",
    "claim by its name: epsilon 0 at delta 0, tested on both sides",
    click.Choice([RANDOM_GUESSING]),
)
@option(
    "--estimator",
    "bound that the verdict rests on [default: e_process; one_run for one_run]",
    click.Choice(DECIDING),
)
@option("--control-scores", "scores of a positive control", PATH)
@option("--in-order", "rows stand in the order of the trials", bool)
@option("--seed", "seed of random choices: of their order otherwise", WHOLE_NUMBER, 0)
@option("--lower-is-member", "members have lower scores, as losses do", bool)
@option("--score-field", "field of the scores", default="score")
@option("--member-field", "field that says who was in", default="member")
@option("--pair-field", "field that names the pair", default="pair")
def command(
    files: tuple[Path, ...], design: ScoreDesign | None, delta: float, confidence: float,
    threshold: str | None, epsilon: float | None, claim: str | None, estimator: DecidingName | None,
    control_scores: Path | None, in_order: bool, seed: int, lower_is_member: bool, score_field: str,
    member_field: str, pair_field: str,
) -> int:  # fmt: skip
    """Bounds from scores of any membership inference tool: FILES are one CSV or JSONL file with the
    columns score and member, or two with the column score, that of the members first; or the folder
    of a finished audit, whose trials are scored again from what is stored.

    Without a claim it exits with 0. With --epsilon or --claim, one bound decides as in an audit: 0,
    no violation; 1, a violation; 3, inconclusive. No model is asked.
    """
    if len(files) > 2:
        raise UsageError(f"bounds got {len(files)} files; give one, or two: members first.")
    columns = Columns(score_field, member_field, pair_field, lower_is_member)
    stated = claim_of(epsilon, claim, delta)
    if stated is None and (estimator or control_scores):
        raise UsageError(
            f"{'--estimator' if estimator else '--control-scores'} is for a verdict, and "
            "nothing is claimed; add --epsilon or --claim, or leave it out."
        )
    if len(files) == 2 and files[0].resolve() == files[1].resolve():
        raise UsageError(
            f"{str(files[0])!r} is given for members and for non-members; name a file of each, or "
            "give one file with a column that says which is which."
        )
    known = None
    if control_scores is not None:
        known = load_scores([control_scores], "unpaired", False, columns)
    trials, check = _trials(files, design, in_order, columns)
    if known is not None and check is None:
        check = sees_leak(trials, known, stated == random_guessing())
    found = judge_scores(
        trials, stated, delta, confidence, rule_of(threshold), seed, estimator, check
    )
    say("\n".join(_lines(found.bounds)))
    return _decide(found)


def _trials(
    files: tuple[Path, ...], design: ScoreDesign | None, in_order: bool, columns: Columns
) -> tuple[ScoredTrials, Seen | None]:
    """Scores of files; of a finished audit, with what its controls showed."""
    folders = [path.parent if path.name == "record.json" else path for path in files]
    runs = runs_at(path for path in folders if path.is_dir()).all
    if not runs:
        return load_scores(files, design, in_order, columns), None
    if len(runs) > 1 or len(files) > 1:
        raise UsageError(
            f"{len(runs)} run{'s' * (len(runs) > 1)} and {len(files) - len(runs)} other files are "
            "given; give the folder of one finished audit by itself."
        )
    if design not in (None, "paired"):
        raise UsageError(f"--design is {design}, and trials of an audit are paired; leave it out.")
    scores, check = trial_scores(runs[0])
    known = check.combined if check.late is None else max(check.combined or 0.0, check.late)
    shown = 1.0 if known is None else known
    return ScoredTrials(scores.member, scores.nonmember, "paired"), (shown, True)


def _decide(found: ScoreResult) -> int:
    if found.verdict is None:
        emit({"exit_code": 0, "bounds": found.bounds})
        return 0
    said = " ".join(one[0].upper() + one[1:] for one in found.sentences)
    say(f"\n{verdict_text(found.verdict).upper()}: {said}")
    method = found.decided_by
    for line in power_lines(found.power, method):
        say(line)
    code = EXIT[found.verdict]
    emit({
        "exit_code": code, "verdict": found.verdict, "reason": found.reason,
        "sentences": found.sentences, "claim": found.claim, "decided_by": method,
        "largest_certifiable": found.bounds.largest(method), "power": found.power,
        "bounds": found.bounds,
    })  # fmt: skip
    return code


def _lines(found: ScoreBounds) -> Iterator[str]:
    counts = found.counts
    yield (
        f"{counts['member']} member and {counts['nonmember']} non-member scores, {found.design}; "
        f"δ = {found.delta:g}, each bound at {found.confidence:.0%} confidence"
    )
    yield f"threshold: {found.threshold}"
    order = "as given" if found.seed is None else f"shuffled by seed {found.seed}"
    yield f"order of the trials: {order}\n"
    yield f"{'method':<18} {'kind':<32} {'ε':>7} {'μ':>7}  counts"
    for one in found.estimates:
        mu, made = cut(one.mu), ", ".join(f"{name} {n}" for name, n in one.counts.items())
        epsilon = cut(inf if one.epsilon == inf else one.epsilon)
        yield f"{one.method:<18} {KINDS[one.kind]:<32} {epsilon:>7} {mu:>7}  {made}"
    yield ""
    for name, why in found.left_out.items():
        yield f"not {name}: {why}"
    for assumed in dict.fromkeys(a for one in found.estimates for a in one.assumptions):
        yield f"assumes: {assumed}"
    area, error = found.rates["auroc"], found.rates["auroc_standard_error"]
    yield f"AUROC {area:.3f} (standard error {error:.3f}), a point estimate"
