"""InfluenceRecord: the versioned result that every view and export of an attribution uses.

It holds PRIVATE text.
"""

from __future__ import annotations

import csv
import io
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy

from leakbound._records import Frozen, JsonRecord, data_frame, load_json
from leakbound._version import __version__
from leakbound.attribution.spans import TEMPLATE
from leakbound.errors import StoreError, findable

Floats = npt.NDArray[np.float64]
CONFIDENCE = 0.95
CsvCell = str | int | float
COLUMNS = (
    "context", "lambda", "temperature", "n", "span", "first_token", "end_token", "first_character",
    "end_character", "span_text", "response_token", "response_token_text", "signed", "absolute",
    "token_lambda", "unit", "name", "method",
)  # fmt: skip
NOTES = (
    "The ex-post privacy loss of a span is |ln p(response | context) − ln p(response | context "
    "without the span)|. It measures what this response reveals about the presence of the "
    "span to someone who knows everything else (ex-post per-instance differential privacy).",
    "The loss applies to this response, this context and this way of sampling. Another response of "
    "the same model can lose more, so it is not an ε of the system and no guarantee for others.",
    "Do not publish the loss beside the response as if it were harmless: it is computed from the "
    "private context.",
    "Unless a map says otherwise, spans are ablated one at a time. A secret that occurs twice can "
    "have little influence at each place. The influence of the whole context shows it, and so do "
    "Shapley values.",
    "The loss assumes that tokens are sampled at the stated temperature and λ. Greedy, top-k and "
    "top-p decoding have no such loss.",
)
BOUNDED_NOTES = (
    "Bounded CID chooses λ for each token so that no token's probability differs from its "
    "probability without the context by more than a factor e^(ε / (2 × maximum number of tokens)). "
    "Such a response is ε-differentially private for any change of the context that leaves the "
    "tokens of the template around it unchanged. A second response costs another ε.",
    "The bound covers the response alone. The λ of a token, its influence and this page are "
    "computed from the private context and are not covered.",
)


class _Frozen(Frozen):
    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """Show nothing: notebooks and test runners keep the `repr`, and readings are private."""
        return ()


class UnopenedUnits(_Frozen):
    """What is known about the units of a grid that a screen did not put first.

    Attributes:
        top: The K whose units were searched for.
        units: Number of units that were not opened, before any was drawn.
        drawn: How many of them were drawn at random, without replacement, and measured.
        kth: Influence of the K-th of the units that were opened, in nats.
        exceeded: How many of the drawn units have more.
        most: Upper limit, at `CONFIDENCE`, on how many of the `units` have more.
    """

    top: int
    units: int
    drawn: int
    kth: float
    exceeded: int
    most: int


class SpanGrid(_Frozen):
    """All spans of one size, or all units of one kind.

    Attributes:
        n: Tokens of a span; 0 if the spans are units of the text.
        stride: Tokens between the starts of two spans; 0 if the spans are units of the text.
        spans: (first, end) in context tokens.
        signed: (spans, tokens) signed influence of each span on each response token, in nats.
        unit: What the spans are, such as `sentence` or `chunk:200`; "" for spans of n tokens.
        names: Name of each unit; empty for spans of n tokens.
        characters: First character and end (exclusive) of each unit; empty for spans of n tokens.
        method: `leave-one-out`, `shapley` or `lasso`.
        sets: Number of sets of units that were ablated.
        errors: Standard error of each total; empty if nothing was drawn at random.
        share_errors: Standard error of each share; empty if nothing was drawn at random.
        parts: Number of parts that the errors compare; 0 if nothing was drawn at random. Intervals
            are Student t with one degree of freedom less.
        unopened: What is known about units that are not among `spans`; None if all are.
    """

    n: int
    stride: int
    spans: tuple[tuple[int, int], ...]
    signed: tuple[tuple[float, ...], ...]
    unit: str = ""
    names: tuple[str, ...] = ()
    characters: tuple[tuple[int, int], ...] = ()
    method: str = "leave-one-out"
    sets: int = 0
    errors: tuple[float, ...] = ()
    share_errors: tuple[float, ...] = ()
    parts: int = 0
    unopened: UnopenedUnits | None = None

    @property
    def absolute(self) -> Floats:
        """(spans, tokens) influence (tau)."""
        return np.asarray(np.abs(np.asarray(self.signed, float)))

    @property
    def totals(self) -> Floats:
        """(spans,) influence on the response: the sum of tau over its tokens."""
        return np.asarray(self.absolute.sum(1))

    @property
    def shares(self) -> Floats:
        """(spans,) share of the influence of all measured spans; 0 if no span has any."""
        totals = self.totals
        return np.asarray(totals / (totals.sum() or 1.0))

    @property
    def ex_post_privacy_losses(self) -> Floats:
        """(spans,) |sum of the signed values| over the response; at most the total."""
        return np.asarray(np.abs(np.asarray(self.signed, float).sum(1)))


class Reading(_Frozen):
    """One response under one distribution of tokens.

    Attributes:
        lam: Weight of the context (lambda); under bounded CID, the largest one.
        temperature: Temperature.
        sampled: Whether the response was sampled from this distribution or given.
        text: The response (PRIVATE).
        token_ids: Its token ids.
        tokens: The text that each token adds.
        log_p: ln p of each token with the context.
        prior_log_p: ln p of each token without the context.
        pmi: ln p with the context minus ln p without it, under the model's own distribution
            (lambda 1, temperature 1).
        tolerance: Numerical tolerance of a token: twice the change of ln p for the same prompt
            alone, or its rounding. Smaller values mean nothing. NaN if it was not measured.
        grids: Influence for each span size; the whole context is last.
        epsilon: epsilon of the whole response under bounded CID; None for plain CID.
        lams: lambda of each token under bounded CID; otherwise empty.
        entropy: Entropy of each token without the context, in nats; empty if it was not requested.
    """

    lam: float
    temperature: float
    sampled: bool
    text: str
    token_ids: tuple[int, ...]
    tokens: tuple[str, ...]
    log_p: tuple[float, ...]
    prior_log_p: tuple[float, ...]
    pmi: tuple[float, ...]
    tolerance: float
    grids: tuple[SpanGrid, ...]
    epsilon: float | None = None
    lams: tuple[float, ...] = ()
    entropy: tuple[float, ...] = ()

    def normalized(self, influence: float) -> float:
        """Influence divided by the entropy of the response without the context.

        Reference:
            CI, section 7, names normalization by entropy as future work.
        """
        joint = sum(self.entropy)
        return influence / joint if joint > 0 else float("nan")


class Attribution(_Frozen):
    """One context and query (PRIVATE), with a reading for each lambda.

    Attributes:
        context: The context.
        query: The query about it.
        bounds: (tokens + 1,) the character where each context token begins, then the end.
        readings: One for each lambda.
    """

    context: str
    query: str
    bounds: tuple[int, ...]
    readings: tuple[Reading, ...]

    def words(self, span: tuple[int, int]) -> str:
        """The text of a span of tokens."""
        return self.context[self.bounds[span[0]] : self.bounds[span[1]]]

    def redacted(self) -> Attribution:
        """The same numbers without token ids, and with texts hidden but for ASCII punctuation."""
        return self.model_copy(
            update={
                "context": _hidden(self.context),
                "query": _hidden(self.query),
                "readings": tuple(_without_words(reading) for reading in self.readings),
            }
        )


def _without_words(reading: Reading) -> Reading:
    texts = {"text": _hidden(reading.text), "tokens": tuple(map(_hidden, reading.tokens))}
    grids = []
    for grid in reading.grids:  # the name of a source may tell as much as its text
        numbers = {name: at for at, name in enumerate(dict.fromkeys(grid.names), 1)}
        names = tuple(f"{grid.unit} {numbers[name]}" for name in grid.names)
        grids.append(grid.model_copy(update={"names": names}))
    return reading.model_copy(update={**texts, "token_ids": (), "grids": tuple(grids)})


class Expected(_Frozen):
    """A mean over the data set, with its t interval.

    Attributes:
        lam: Weight of the context (lambda).
        n: Size of the spans; 0 for whole contexts of any length, and for units.
        of: `span` (mean of a context's spans), `top_attributed` (its largest one), or `context`
            (all of it).
        contexts: Number of contexts.
        mean: The mean, in nats.
        low: Lower end of the interval.
        high: Upper end of the interval.
        unit: What the spans are; "" for spans of n tokens.
    """

    lam: float
    n: int
    of: str
    contexts: int
    mean: float
    low: float
    high: float
    unit: str = ""


class ShareLimit(_Frozen):
    """The outcome of a limit on the share that a source has in the influence on an answer.

    Attributes:
        max_share: The largest share allowed, from 0 to 1.
        source: The source that the limit applies to; None for every source.
        outcome: `passed`, `violation` or `inconclusive`.
        sentence: The reason, in a sentence (PRIVATE: it names the source).
        context: Index of the context that decided.
        name: The source that decided.
        share: Its share of the influence of all sources.
        low: Lower end of its interval.
        high: Upper end of its interval.
    """

    max_share: float
    source: str | None
    outcome: Literal["passed", "violation", "inconclusive"]
    sentence: str
    context: int
    name: str
    share: float
    low: float
    high: float

    def redacted(self) -> ShareLimit:
        """The same outcome without names."""
        sentence = self.sentence.replace(repr(self.name), "one source")
        source = None if self.source is None else _hidden(self.source)
        return self.model_copy(
            update={"sentence": sentence, "name": _hidden(self.name), "source": source}
        )


class InfluenceRecord(_Frozen, JsonRecord):
    """What was measured, with which model, over one or more contexts.

    Attributes:
        schema_version: Version of the record.
        kind: Always `influence`.
        model: Name of the model.
        settings: What was measured.
        attributions: Each context with its readings (PRIVATE).
        expected: Means over the contexts.
        confidence: Confidence of the intervals of `expected`.
        notes: What the numbers mean, in sentences.
        provenance: Versions of the software that computed the record, and fingerprints.
        share_limit: The outcome of a limit on shares; None if none was set.
    """

    schema_version: Literal[2] = 2
    kind: Literal["influence"] = "influence"
    model: str
    settings: dict[str, object]
    attributions: tuple[Attribution, ...]
    expected: tuple[Expected, ...]
    confidence: float = CONFIDENCE
    notes: tuple[str, ...] = NOTES
    provenance: dict[str, str]
    share_limit: ShareLimit | None = None

    def to_json(self) -> str:
        """Stable text: equal records give equal bytes."""
        return self.model_dump_json() + "\n"

    def redacted(self) -> InfluenceRecord:
        """The same numbers without token ids, and with texts hidden but for ASCII punctuation."""
        limit = self.share_limit and self.share_limit.redacted()
        attributions = tuple(one.redacted() for one in self.attributions)
        # settings with texts of the user, such as a system message, hidden
        usual = {"template": TEMPLATE, "system": "", "stop": "\n"}
        own = (name for name, text in usual.items() if self.settings.get(name, text) != text)
        settings = self.settings | {name: _hidden(str(self.settings[name])) for name in own}
        update = {"settings": settings, "attributions": attributions, "share_limit": limit}
        return self.model_copy(update=update)

    def to_pandas(self) -> Any:
        """The long table of the CSV export as a DataFrame.

        Returns:
            A row for each context, lambda, span and response token. PRIVATE: it contains the texts
            of spans, unless this record is redacted.

        Raises:
            UsageError: If pandas is not installed.
        """
        return data_frame(dict(zip(COLUMNS, line, strict=True)) for line in lines(self))

    to_frame = to_pandas

    def __str__(self) -> str:
        """The influence of each whole context, and the limit, without any text."""
        found = [f"InfluenceRecord of {len(self.attributions)} answers of {self.model}"]
        for at, one in enumerate(self.attributions, 1):
            for reading in one.readings:
                whole = reading.grids[-1]
                losses = f"ex-post privacy loss ε {whole.ex_post_privacy_losses[0]:.3f}"
                found.append(f"context {at}, λ = {reading.lam:g}: influence "
                             f"{whole.totals[0]:.3f} nats, {losses}")  # fmt: skip
        if (limit := self.share_limit) is not None:
            found.append(f"{limit.outcome}: share {limit.share:.3f}; allowed {limit.max_share:g}")
        return "\n  ".join(found)

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """The model and the number of contexts."""
        return (("model", self.model), ("contexts", len(self.attributions)))


def _hidden(text: str) -> str:
    return re.sub(r"[^\s!-/:-@\[-^`{-~]", "•", text)  # punctuation of ASCII stays


def load_influence(path: str | Path) -> InfluenceRecord:
    """Load a record of this schema version."""
    file = Path(path) / "influence.json" if findable(path).is_dir() else Path(path)
    if not file.is_file():
        raise StoreError(
            f"{str(path)!r} holds no influence.json; give a folder that leakbound influence wrote."
        )
    again = "Restore it from a copy, or run leakbound influence again."
    return load_json(file, InfluenceRecord, "an influence record of schema version 2", again)


def means_over_contexts(attributions: Sequence[Attribution]) -> tuple[Expected, ...]:
    """Expected context influence (CI, equation 5): means over contexts with t intervals."""
    values: dict[tuple[float, int, str, str], list[float]] = {}
    for reading in (r for one in attributions for r in one.readings):
        for of, n, unit, value in statistics(reading):
            values.setdefault((reading.lam, n, of, unit), []).append(value)
    return tuple(
        Expected(lam=lam, n=n, of=of, unit=unit, contexts=len(found),
                 **interval(np.asarray(found)))
        for (lam, n, of, unit), found in values.items()
    )  # fmt: skip


def statistics(reading: Reading, tokens: int = 1) -> Iterator[tuple[str, int, str, float]]:
    """Of what, its size, its unit, and influence in nats per token; the last grid is the whole."""
    for grid in reading.grids[:-1]:
        if len(totals := grid.totals / tokens):
            if grid.unopened is None:  # those that were opened are no sample of all
                yield "span", grid.n, grid.unit, float(totals.mean())
            yield "top_attributed", grid.n, grid.unit, float(totals.max())
    whole = reading.grids[-1]
    yield "context", 0, whole.unit, float(whole.totals[0] / tokens)


def interval(values: Floats, confidence: float = CONFIDENCE) -> dict[str, float]:
    """Student t interval for the mean of numbers that are at least 0."""
    mean, count = float(values.mean()), len(values)
    if count < 2:
        return {"mean": mean, "low": 0.0, "high": float("inf")}
    wide = scipy.special.stdtrit(count - 1, (1 + confidence) / 2)
    half = float(wide * values.std(ddof=1) / np.sqrt(count))
    return {"mean": mean, "low": max(0.0, mean - half), "high": mean + half}


def provenance(**known: str) -> dict[str, str]:
    """Versions of the software that computes a record."""
    return {
        "leakbound": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        **known,
    }


def csv_text(record: InfluenceRecord) -> str:
    """One line for each context, lambda, span and response token.

    Cells that a spreadsheet would run as a formula are quoted.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    formulas = ("=", "+", "-", "@")  # of a spreadsheet
    for line in lines(record):
        begins = (isinstance(cell, str) and cell.startswith(formulas) for cell in line)
        writer.writerow(f"'{cell}" if one else cell for one, cell in zip(begins, line, strict=True))
    return buffer.getvalue()


def lines(record: InfluenceRecord) -> Iterator[tuple[CsvCell, ...]]:
    """The rows of the table, with unchanged texts."""
    for number, one in enumerate(record.attributions):
        for reading in one.readings:
            lams = reading.lams or (reading.lam,) * len(reading.tokens)
            start = (number, reading.lam, reading.temperature)
            for grid in reading.grids:
                for head, row, name in _rows(one, grid):
                    tail = (grid.unit, name, grid.method)
                    cells = enumerate(zip(reading.tokens, row, lams, strict=True))
                    for t, (piece, value, lam) in cells:
                        yield (*start, *head, t, piece, value, abs(value), lam, *tail)


def _rows(
    one: Attribution, grid: SpanGrid
) -> Iterator[tuple[tuple[CsvCell, ...], tuple[float, ...], str]]:
    for at, (span, row) in enumerate(zip(grid.spans, grid.signed, strict=True)):
        first, end = grid.characters[at] if grid.unit else (one.bounds[i] for i in span)
        text = one.context[first:end]
        yield (grid.n, at, *span, first, end, text), row, grid.names[at] if grid.unit else ""


def npz_bytes(record: InfluenceRecord) -> bytes:
    """The numbers of a record as NumPy arrays.

    Returns:
        The bytes of an .npz file. Names are context/reading/what: token ids, ln p, and for each n
        and each kind of unit the spans (spans, 2), signed values (spans, tokens) and errors.
    """
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for number, one in enumerate(record.attributions):
        arrays[f"{number}/bounds"] = np.asarray(one.bounds)
        for at, reading in enumerate(one.readings):
            name = f"{number}/{at}"
            arrays[f"{name}/lambda"] = np.asarray(reading.lam)
            for key in ("token_ids", "log_p", "prior_log_p", "pmi", "lams"):
                arrays[f"{name}/{key}"] = np.asarray(getattr(reading, key))
            for grid in reading.grids:
                what = f"n{grid.n}" if not grid.unit else grid.unit.replace(":", "")
                arrays[f"{name}/{what}/spans"] = np.asarray(grid.spans)
                arrays[f"{name}/{what}/signed"] = np.asarray(grid.signed)
                if grid.errors:
                    arrays[f"{name}/{what}/errors"] = np.asarray(grid.errors)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
