"""leakbound influence-study:

the factor studies of context influence, from contexts to a table with intervals and a figure.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import click

from leakbound._files import write_private
from leakbound.attribution import Case, Finished, InfluenceRecord, InfluenceSettings, load_cases
from leakbound.cli.options.endpoint import local_options
from leakbound.cli.options.influence import (
    addresses,
    attribute_cases,
    draw_options,
    draw_settings,
    numbers,
    tell_partial,
)
from leakbound.cli.options.takers import require_taken
from leakbound.cli.screen.help_pages import COUNT, PATH, cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.errors import StoreError, reason_of
from leakbound.models import Local, Model
from leakbound.models.address import model_names, open_shared
from leakbound_lab.studies.bundled import notes
from leakbound_lab.studies.page import study_page, study_table
from leakbound_lab.studies.record import StudyRecord, study_csv
from leakbound_lab.studies.run import STUDIES, Run, run_study, runs_of, truncate
from leakbound_lab.studies.utility import Judges

BUNDLED = 8


@cli_command("temperature --values 0.5,1,1.5")
@click.argument("name", metavar=f"[{'|'.join(STUDIES)}]")
@option(
    "--model",
    "model address; the study `models` takes several (repeat the option, or use commas)",
    default=("pocket",),
    name="models",
    multiple=True,
)
@option(
    "--context",
    "file of contexts: .jsonl or .csv, optionally with query and reference [default: "
    f"{BUNDLED} bundled notes]",
    PATH,
    name="file",
)
@option("--question", "question about the context, unless it has its own", default="")
@option("--contexts", "number of contexts: the first N", COUNT, name="limit")
@option(
    "--values", "values of the factor, such as 0.5,1,1.5 [default: those of the paper]", default=""
)
@option("--lam", "weight of the context (lambda)", float, 1.0)
@option("--temperature", "temperature of the sampling", float, 0.8)
@draw_options
@local_options
@option("--bertscore-model", "folder of an encoder, for BERTScore")
@option("--factkb-model", "folder of a sequence classifier of two classes, for FactKB")
@option("--out", "folder to write into [default: influence-NAME]", PATH)
def command(
    name: str, models: tuple[str, ...], file: Path | None, question: str, limit: int | None,
    values: str, lam: float, temperature: float, bertscore_model: str | None,
    factkb_model: str | None, out: Path | None, local: Local, **flags: object,
) -> int:  # fmt: skip
    """Measure how context influence and the utility of responses change with one factor: means over
    contexts, 95 % intervals.

    Writes study.html, study.csv and study.json, which hold numbers and no private text. An
    interrupted study keeps the contexts that are finished (private, deleted at the end), and the
    same command resumes.
    """
    settings = InfluenceSettings(lams=(lam,), temperature=temperature, **draw_settings(flags))
    require_taken(addresses(models))
    runs = runs_of(name, addresses(models), settings, numbers("--values", values, float))
    cases = list(islice(load_cases(file, question) if file else notes(limit or BUNDLED), limit))
    out = out or Path(f"influence-{name}")
    with tell_partial(out):
        judges = Judges(bertscore_model, factkb_model)
        judges.check()
        bench = _Bench(cases, out, local)
        record = run_study(name, runs, cases, bench.attributed, judges)
        _write(record, out)
    bench.drop()
    say(f"STUDY of influence on the answers of {model_names(record.models)}")
    say(study_table(record))
    click.echo(f"Report: {out / 'study.html'}")
    files = [out / f"study.{ending}" for ending in ("html", "csv", "json")]
    emit({"report": files[0], "files": files, "record": json.loads(record.to_json())})
    return 0


class _Bench:
    """Attributes one run after the other, with one model in memory at a time."""

    def __init__(self, cases: list[Case], out: Path, local: Local) -> None:
        self.cases, self.out, self.local = cases, out, local
        self._model: tuple[str, Model] | None = None
        self._finished: list[Finished] = []

    def attributed(self, run: Run) -> InfluenceRecord:
        """The record of a run, with what an interrupted study has left of it."""
        model = self._opened(run.model)
        cases = truncate(self.cases, run.tokens, model, run.settings.template, run.settings.system)
        place = self.out / f"run-{len(self._finished) + 1}"
        record, finished = attribute_cases(cases, model, run.settings, place, False, run.name)
        self._finished.append(finished)
        return record

    def _opened(self, address: str) -> Model:
        if self._model is None or self._model[0] != address:
            self._model = None
            self._model = address, open_shared(address, local=self.local)
        return self._model[1]

    def drop(self) -> None:
        """Delete what was kept of the contexts."""
        for finished in self._finished:
            finished.drop()


def _write(record: StudyRecord, out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(out / "study.json", record.to_json())
        write_private(out / "study.csv", study_csv(record))
        write_private(out / "study.html", study_page(record))
    except OSError as error:
        raise StoreError(
            f"the folder {str(out)!r} cannot be written ({reason_of(error)}); choose another with "
            "--out."
        ) from None
