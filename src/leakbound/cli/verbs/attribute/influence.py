"""leakbound influence: which parts of a context a response comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from leakbound._files import write_private
from leakbound.attribution import (
    Case,
    Finished,
    InfluenceRecord,
    InfluenceSettings,
    case_of_documents,
    csv_text,
    limit_shares,
    load_cases,
    npz_bytes,
)
from leakbound.attribution.attribute import attribution
from leakbound.cli.options.collect import Cluster, cluster_of, cluster_options
from leakbound.cli.options.endpoint import endpoint_options, local_options
from leakbound.cli.options.influence import (
    addresses,
    apply_preset,
    attribute_cases,
    draw_options,
    draw_settings,
    numbers,
    preset_option,
    tell_partial,
    unit_options,
    unit_settings,
)
from leakbound.cli.options.takers import require_taken
from leakbound.cli.screen.help_pages import COUNT, PATH, cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.cli.screen.result import show
from leakbound.errors import StoreError, UsageError, reason_of
from leakbound.models import Endpoint, Local, Model
from leakbound.models.address import model_names, open_shared, require_address
from leakbound.report.influence.page import influence_page
from leakbound.report.influence.terminal import influence_screen, influence_summary, print_heat

EXIT = {"violation": 1, "inconclusive": 3}  # the first that any model has is the answer


@cli_command(
    '--context note.txt --question "What is the code?" --by sentence',
    "--context trace.jsonl --model hf/path/to/model",
    first="--context --text --question --response --model --by --ngram --out",
)
@option(
    "--model",
    "model address; several (repeat the option, or use commas) are compared",
    default=("pocket",),
    name="models",
    multiple=True,
)
@option(
    "--context",
    "file of contexts: a text (several: a named document each), or a .jsonl or .csv file "
    "with a context per row, and optionally a query and a response; .jsonl rows may have a "
    "question, chunks and an answer, or chat messages",
    PATH,
    name="files",
    multiple=True,
)
@option("--text", "context as text, instead of --context")
@option("--question", "question about the context", default="")
@option("--response", "the response to attribute [default: sampled for each --lam]")
@unit_options
@option("--stride", "distance between windows in tokens [default: disjoint blocks]", COUNT)
@option("--lam", "weight of the context (lambda); several are compared", default="1")
@option("--temperature", "temperature of the sampling", float, 1.0)
@preset_option
@option(
    "--bounded",
    "sample from bounded CID: lambda is chosen for every token, at most --lam, so that a "
    "response is EPSILON-private",
    float,
    metavar="EPSILON",
)
@draw_options
@endpoint_options
@local_options
@cluster_options
@option("--redact", "write no text of contexts, queries and responses", bool)
@option("--out", "folder to write into", PATH, Path("influence"))
def command(
    models: tuple[str, ...], files: tuple[Path, ...], text: str | None, question: str,
    response: str | None, out: Path, redact: bool, endpoint: Endpoint, local: Local,
    ray: str | None, workers: int | None, **flags: Any,
) -> int:  # fmt: skip
    """Measure how each span of a context moved each token of a response, and write a heat map, a
    table and arrays.

    Writes influence.html, .json, .csv and .npz, readable by their owner only: they hold the context
    (see --redact). Several models share one page, and each has a folder for the rest. An
    interrupted run over many contexts keeps those that are finished.

    With --max-share, exits with 0 (no source has a larger share of the influence on an answer), 1
    (a source has) or 3 (undecided).
    """
    apply_preset(flags)
    cases = _cases(files, text, question, response)
    settings = InfluenceSettings(
        lams=numbers("--lam", flags["lam"], float),
        **{key: flags[key] for key in ("stride", "bounded", "temperature")},
        **unit_settings(flags, cases),
        **draw_settings(flags),
    )
    names, cluster = addresses(models), cluster_of(ray, workers)
    opened, homes = partial(open_shared, endpoint=endpoint, local=local), _homes(names, out)
    for name in names:
        require_address(name)
    require_taken(names)
    with tell_partial(out):
        done = [
            _measure(cases, name, settings, home, redact, opened, cluster)
            for name, home in homes.items()
        ]
        if flags["max_share"] is not None:
            done = [(_limit(record, cases, flags, redact), kept) for record, kept in done]
        _write([record for record, _ in done], list(homes.values()), out)
    outcomes = {r.share_limit.outcome for r, _ in done if r.share_limit is not None}
    code = next((code for outcome, code in EXIT.items() if outcome in outcomes), 0)
    for record, finished in done:
        finished.drop()
        page = out / "influence.html"
        show(partial(influence_screen, record, page, code=code), partial(_say_all, record, page))
    facts = [
        {"model": name, "folder": home, "record": json.loads(record.to_json())}
        for (record, _), (name, home) in zip(done, homes.items(), strict=True)
    ]
    emit({"exit_code": code, "report": out / "influence.html", "models": facts})
    return code


def _say_all(record: InfluenceRecord, page: Path) -> None:
    say(f"INFLUENCE of the context on the answers of {model_names([record.model])}")
    print_heat(record)
    say(f"{influence_summary(record)}\nReport: {page}")
    if record.share_limit is not None:
        say(f"{record.share_limit.outcome.upper()}: {record.share_limit.sentence}")


def _limit(
    record: InfluenceRecord, cases: list[Case], flags: dict[str, Any], redact: bool
) -> InfluenceRecord:
    """The record with the outcome of --max-share; a redacted one names no source."""
    source = flags["source"]
    names = [_number(case, source) for case in cases] if redact and source is not None else []
    found = limit_shares(record, flags["max_share"], source, names)
    limit = found.share_limit
    if not redact or limit is None or source is None:
        return found
    hidden = limit.model_copy(update={"source": limit.name})
    return found.model_copy(update={"share_limit": hidden})


def _number(case: Case, source: str) -> str:
    """The name of a source in a redacted record; that of none if the case does not have it."""
    names = list(dict.fromkeys(name for name, _, _ in case.sources))
    return f"document {names.index(source) + 1}" if source in names else source


def _cases(
    files: tuple[Path, ...], text: str | None, query: str, response: str | None
) -> list[Case]:
    if text is None and len(files) == 1:
        return load_cases(files[0], query, response)
    if text is None and files and not any(file.suffix in (".jsonl", ".csv") for file in files):
        texts = [(file.name, load_cases(file)[0].context) for file in files]
        return [case_of_documents(texts, query, response)]
    if text is not None and not files:
        return [Case(text, query, response)]
    raise UsageError(
        "give the context once: --context FILE (text, more than once for several documents; or one "
        ".jsonl or .csv with many) or --text TEXT."
    )


def _homes(names: list[str], out: Path) -> dict[str, Path]:
    """The folder of each model: `out` of a single one, else one within that has its name."""
    if len(names) == 1:
        return {names[0]: out}
    return {
        name: out / f"{at}-{re.sub(r'[^A-Za-z0-9.]+', '-', Path(name).name)}"
        for at, name in enumerate(names, 1)
    }


def _measure(
    cases: list[Case],
    name: str,
    settings: InfluenceSettings,
    home: Path,
    redact: bool,
    opened: Callable[[str], Model],
    cluster: Cluster | None,
) -> tuple[InfluenceRecord, Finished]:
    each = None
    if cluster:
        each = partial(cluster.spread, opened, name, partial(attribution, cases, settings))
    record, finished = attribute_cases(
        cases, opened(name), settings, home / "influence", redact, f"influence, {name}", each
    )
    return (record.redacted() if redact else record), finished


def _write(records: list[InfluenceRecord], homes: list[Path], out: Path) -> None:
    try:
        for record, home in zip(records, homes, strict=True):
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(home / "influence.json", record.to_json())
            write_private(home / "influence.csv", csv_text(record))
            (home / "influence.npz").touch(mode=0o600)
            (home / "influence.npz").write_bytes(npz_bytes(record))
        write_private(out / "influence.html", influence_page(*records))
    except OSError as error:
        raise StoreError(
            f"the folder {str(out)!r} cannot be written ({reason_of(error)}); choose another with "
            "--out."
        ) from None
