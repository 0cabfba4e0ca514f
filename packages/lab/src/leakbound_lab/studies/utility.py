"""The utility of the responses of a run. Each score that is not measured gets a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakbound.attribution.cases import Case
from leakbound.attribution.record import Attribution
from leakbound.errors import UsageError
from leakbound.utility import rouge
from leakbound_lab.studies.judges import bertscore_f1, factkb
from leakbound_lab.studies.record import SCORES, Mean, Utility
from leakbound_lab.studies.regurgitation import Generation, count_generations


@dataclass(frozen=True, slots=True)
class Judges:
    """Models that score responses."""

    bertscore: str | None = None
    factkb: str | None = None

    def check(self) -> None:
        """Load the models before anything is measured."""
        if self.bertscore is not None:
            bertscore_f1(self.bertscore, [], [])
        if self.factkb is not None:
            factkb(self.factkb, [], [])


def utility(
    cases: Sequence[Case], attributions: Sequence[Attribution], judges: Judges
) -> tuple[Utility, dict[str, str]]:
    """The utility of the one response to each context."""
    rows = [
        Generation(one.context, one.readings[0].text.strip(), case.reference)
        for case, one in zip(cases, attributions, strict=True)
    ]
    missing: dict[str, str] = {}
    values = {
        "rouge_l": _rouge(rows),
        "bertscore": _bertscore(rows, judges.bertscore),
        "factkb": "it needs its classifier; name its folder with --factkb-model."
        if judges.factkb is None
        else factkb(judges.factkb, [row.context for row in rows], [row.response for row in rows]),
    }
    measured: dict[str, Mean] = {}
    for name, found in values.items():
        if isinstance(found, str):
            missing[SCORES[name]] = found
        else:
            measured[name] = Mean.of(found, most=1.0)
    return Utility.model_validate({**measured, **_counts(rows, missing)}), missing


NO_REFERENCE = "no context has a reference; add a `reference` to the rows of the data."


def _rouge(rows: Sequence[Generation]) -> list[float] | str:
    try:
        return [
            rouge(row.reference, row.response)["rougeL"].f1 for row in rows if row.reference
        ] or NO_REFERENCE
    except UsageError as error:  # the package is not installed
        return str(error)


def _bertscore(rows: Sequence[Generation], folder: str | None) -> list[float] | str:
    if folder is None:
        return "it needs an encoder; name its folder with --bertscore-model."
    found = [row for row in rows if row.reference]
    if not found:
        return NO_REFERENCE
    return bertscore_f1(folder, [row.reference for row in found], [row.response for row in found])


def _counts(rows: Sequence[Generation], missing: dict[str, str]) -> dict[str, int]:
    try:
        counts = count_generations([Generation(row.context, row.response) for row in rows])
    except UsageError as error:
        missing["Repeated text"] = str(error)
        return {}
    by_name = {"repeat": counts.repeat, "rouge": counts.rouge}
    return {f"{name}_{by}": n for name, found in by_name.items() for by, n in found.items()}
