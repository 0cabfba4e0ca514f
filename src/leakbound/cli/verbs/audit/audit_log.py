"""leakbound audit-log: what outputs that exist already disclose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from leakbound.auditing.logs import DisclosedRecord, LogAudit, audit_logs, load_outputs, load_texts
from leakbound.cli.screen.help_pages import PATH, WHOLE_NUMBER, cli_command, option
from leakbound.cli.screen.output import emit, say

EXIT = {"no_disclosure_shown": 0, "disclosure": 1, "inconclusive": 3}
SHOWN = 20  # records in the terminal; --json has all


@cli_command(
    "--data used.jsonl --held-out heldout.jsonl --outputs answers.jsonl",
    "--data used.csv --held-out heldout.csv --field note --outputs log.jsonl --answer reply",
)
@option("--data", "private rows: those that the application was shown", PATH, required=True)
@option("--held-out", "rows like them that it was never shown", PATH, required=True)
@option("--outputs", "what it answered, one row an output", PATH, required=True)
@option(
    "--field",
    "field of the rows to look for; may be given again [default: all that hold text]",
    name="fields",
    multiple=True,
)
@option(
    "--answer",
    "path of the answer in an output, such as answer, or response.choices.0.message.content "
    "[default: the only field, or one with a usual name]",
    metavar="PATH",
)
@option("--confidence", "confidence: of the verdict", float, 0.95)
@option("--fdr", "false discovery rate of named rows", float, 0.1)
@option("--seed", "seed of random choices: of the permutation test", WHOLE_NUMBER, 0)
@option("--show-text", "show the passages that were disclosed", bool)
def command(
    data: Path, held_out: Path, outputs: Path, fields: tuple[str, ...], answer: str | None,
    confidence: float, fdr: float, seed: int, show_text: bool,
) -> int:  # fmt: skip
    """Test whether logged outputs disclose the rows that an application was shown.

    Rows like them that it was never shown are the comparison: both kinds must come from one source,
    divided at random. No model is asked. Exits with 0 (no disclosure shown), 1 (disclosure) or 3
    (inconclusive: too few rows to show any). Rows are named by their numbers.
    """
    found = audit_logs(
        load_texts(data, fields), load_texts(held_out, fields), load_outputs(outputs, answer),
        confidence, fdr, seed, show_text,
    )  # fmt: skip
    say("\n".join(_lines(found)))
    code = EXIT[found.verdict]
    emit({"exit_code": code, **asdict(found)})
    return code


def _lines(found: LogAudit) -> Iterator[str]:
    counts = found.counts
    yield (
        f"{found.verdict.replace('_', ' ').upper()}: {_sentence(found)} (p = {found.p_value:.2g}, "
        f"{found.method}, {found.draws} draws, seed {found.seed})"
    )
    yield (
        f"{counts['used']} used rows, {counts['held_out']} held-out rows, {counts['outputs']} "
        "outputs; a passage counts if no other row has it"
    )
    if counts["in_both"]:
        yield f"{counts['in_both']} held-out rows are used rows, too: they show nothing"
    yield f"\n{'a passage of':<18} {'used':>8} {'held out':>9}"
    for words, (mine, others) in found.rates.items():
        yield f"{f'{words} or more words':<18} {mine:>8.1%} {others:>9.1%}"
    yield f"\n{len(found.disclosed)} rows stand out (false discovery rate {found.rate:.0%})"
    if found.verdict == "disclosure" and not found.disclosed:
        yield "  which rows it is cannot be said: held-out rows have passages as long, or too few"
        yield "  were held out; see --fdr"
    yield from map(_row, found.disclosed[:SHOWN])
    if len(found.disclosed) > SHOWN:
        yield f"  and {len(found.disclosed) - SHOWN} more; --json has all"
    if found.verdict != "disclosure":
        yield f"\n{_power(found)}"
    yield from (f"assumes: {one}" for one in found.assumptions)
    yield "not shown: that other outputs, or paraphrases, disclose nothing"


def _sentence(found: LogAudit) -> str:
    if found.verdict == "disclosure":
        return (
            f"outputs hold passages of {found.threshold} or more words of more used rows than "
            "chance explains"
        )
    if found.verdict == "inconclusive" and found.smallest is not None:
        return (
            f"{found.together} used rows are quoted with words that only other used rows share, "
            "which this test cannot read; put what shares text, such as a thread of mails or parts "
            "of a document, into one row"
        )
    if found.verdict == "inconclusive":
        return (
            "so few rows that differ from all others could show no disclosure, whatever the "
            "outputs say; give more"
        )
    return "outputs hold no longer passages of used rows than of held-out ones, beyond chance"


def _row(one: DisclosedRecord) -> str:
    where = f"output {one.outputs[0]}" if one.outputs else "no single output"
    more = f" and {len(one.outputs) - 1} more" if len(one.outputs) > 1 else ""
    text = f": {one.passage}" if one.passage else ""
    return f"  row {one.record}: {one.words} words, in {where}{more}, p = {one.p_value:.2g}{text}"


def _power(found: LogAudit) -> str:
    if found.smallest is None:
        return "power: none with so few rows that differ from all others"
    share = found.smallest / found.counts["used"]
    return (
        f"power: {found.smallest} used rows ({share:.1%}), quoted longer than any other, would "
        "have been found"
    )
