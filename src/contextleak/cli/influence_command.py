"""contextleak influence: which parts of a context a response comes from."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from contextleak.auditing.store import write_private
from contextleak.cli.options import SETTINGS
from contextleak.errors import DataError, Interrupted, StoreError, UsageError
from contextleak.influence import Case, InfluenceRecord, Settings, attribute, csv_text, npz_bytes
from contextleak.influence.spans import TEMPLATE
from contextleak.models import open_model
from contextleak.report.influence_page import influence_page
from contextleak.report.influence_terminal import influence_summary, print_heat

__all__ = ["command"]


@click.command(context_settings=SETTINGS)
@click.option("--model", default="pocket", show_default=True, help="model address")
@click.option(
    "--context", "file", type=click.Path(path_type=Path), default=None,
    help="text file with the context, or a .jsonl file with one {context, query, response} a line (query and response optional)",
)  # fmt: skip
@click.option("--text", default=None, help="the context itself, in place of --context")
@click.option("--query", default="", help="what is asked about the context")
@click.option("--response", default=None, help="the response to attribute [default: sampled for each --lam]")
@click.option(
    "--ngram", default="1,8", show_default=True, help="span sizes in tokens; the whole context is always added"
)
@click.option(
    "--stride", type=click.IntRange(1), default=None, help="windows this far apart [default: disjoint blocks]"
)
@click.option(
    "--lam", default="1", show_default=True, help="how strongly the context speaks; several are put side by side"
)
@click.option("--temperature", type=float, default=1.0, show_default=True, help="of the sampling")
@click.option("--max-tokens", type=click.IntRange(1), default=48, show_default=True, help="of a sampled response")
@click.option("--min-tokens", type=click.IntRange(0), default=0, show_default=True, help="end tokens are banned before")
@click.option("--ban", default="", help="token ids that are never drawn, such as 0,5")
@click.option("--stop", default="\\n", show_default=True, help="text that ends a sampled response; empty for none")
@click.option("--template", default=TEMPLATE.replace("\n", "\\n"), show_default=True, help="with {context} and {query}")
@click.option("--seed", type=int, default=0, show_default=True, help="of the draws")
@click.option("--redact", is_flag=True, help="write no letter of contexts, queries and responses")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("influence"), show_default=True, help="folder to write"
)
def command(
    model: str,
    file: Path | None,
    text: str | None,
    query: str,
    response: str | None,
    out: Path,
    redact: bool,
    **flags: Any,
) -> int:
    """Measure how each span of a context moved each token of a response, and write heat map, table and arrays.

    Writes influence.html, .json, .csv and .npz, readable by their owner only: they hold the context (see --redact).
    """
    settings = _settings(flags)
    cases = _cases(file, text, query, response)
    try:
        record = attribute(cases, open_model(model), settings, _progress(len(cases)))
    except KeyboardInterrupt:
        raise Interrupted("interrupted; files are written at the end, so nothing was kept. Run it again.") from None
    record = record.redacted() if redact else record
    _write(record, out)
    print_heat(record)
    click.echo(influence_summary(record))
    click.echo(f"Report: {out / 'influence.html'}")
    return 0


def _settings(flags: dict[str, Any]) -> Settings:
    return Settings(
        ngrams=_numbers("--ngram", flags["ngram"], int), stride=flags["stride"], lams=_numbers("--lam", flags["lam"], float),
        temperature=flags["temperature"], max_tokens=flags["max_tokens"], min_tokens=flags["min_tokens"],
        banned=_numbers("--ban", flags["ban"], int), stop=flags["stop"].replace("\\n", "\n"),
        template=flags["template"].replace("\\n", "\n"), seed=flags["seed"],
    )  # fmt: skip


def _numbers(name: str, text: str, kind: Callable[[str], Any]) -> tuple[Any, ...]:
    try:
        return tuple(kind(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UsageError(f"{name} got {text!r}; it must be numbers with commas between them, such as 1,8.") from None


def _cases(file: Path | None, text: str | None, query: str, response: str | None) -> list[Case]:
    if (file is None) == (text is None):
        raise UsageError("give the context once: --context FILE (text, or .jsonl with many) or --text TEXT.")
    if text is not None:
        return [Case(text, query, response)]
    assert file is not None
    try:
        found = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the context {str(file)!r} cannot be read as UTF-8 text: {error}.") from None
    if file.suffix != ".jsonl":
        return [Case(found.strip("\n"), query, response)]
    return [_case(file, at + 1, line, query, response) for at, line in enumerate(found.splitlines()) if line.strip()]


def _case(file: Path, number: int, line: str, query: str, response: str | None) -> Case:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    wrong = not isinstance(row, dict) or not isinstance(row.get("context"), str)
    if wrong or any(not isinstance(row.get(key, ""), str) for key in ("query", "response")):
        raise DataError(
            f"line {number} of {str(file)!r} is not a context; it must be an object with a text `context`, and if you like "
            '`query` and `response`, such as {"context": "...", "query": "..."}.'
        )
    return Case(row["context"], row.get("query", query), row.get("response", response))


def _progress(total: int) -> Callable[[int], None]:
    """A line at most every two seconds, on standard error, if there are several contexts."""
    last = time.monotonic()

    def show(done: int) -> None:
        nonlocal last
        if total > 1 and (done == total or time.monotonic() - last >= 2):
            last = time.monotonic()
            click.echo(f"influence: {done}/{total} contexts", err=True)

    return show


def _write(record: InfluenceRecord, out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(out / "influence.json", record.to_json())
        write_private(out / "influence.csv", csv_text(record))
        write_private(out / "influence.html", influence_page(record))
        (out / "influence.npz").touch(mode=0o600)
        (out / "influence.npz").write_bytes(npz_bytes(record))
    except OSError as error:
        raise StoreError(f"the folder {str(out)!r} cannot be written ({error}); choose another with --out.") from None
