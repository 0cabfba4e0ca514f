"""InfluenceRecord: the versioned result that every view and export of an attribution is made from.

It holds PRIVATE text.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError
from scipy.special import stdtrit

from leakbound._notebook import card, data_frame
from leakbound._version import __version__
from leakbound.attribution.old_records import upgraded
from leakbound.attribution.prompts import TEMPLATE
from leakbound.errors import StoreError

__all__ = [
    "BOUNDED_NOTES",
    "NOTES",
    "Attribution",
    "Expected",
    "SpanGrid",
    "InfluenceRecord",
    "Reading",
    "ShareLimit",
    "UnmeasuredUnits",
    "expected",
    "interval",
    "load_influence",
    "provenance",
]

Floats = npt.NDArray[np.float64]
CONFIDENCE = 0.95
NOTES = (
    "The ex-post privacy loss of a span is |ln p(response | context) − ln p(response | context "
    "without the span)|: what this very response tells someone who weighs whether the span was "
    "there and knows everything else (ex-post per-instance differential privacy).",
    "It speaks of this response, this context and this way of sampling. Another response of the "
    "same model can lose more, so it is no ε of the system and no guarantee for the next answer.",
    "It may not be published beside the response as if it were harmless: it is computed from the "
    "private context.",
    "Unless a map says otherwise, spans are ablated one at a time. A secret that stands twice can "
    "have little influence at each place; the whole context shows it, and so do Shapley values.",
    "It assumes that tokens are sampled at the stated temperature and λ. Greedy, top-k and top-p "
    "decoding have no such loss.",
)
BOUNDED_NOTES = (
    "Bounded CID chooses λ for every token so that no token's probability differs from the one "
    "without the context by more than a factor e^(ε / (2 × largest number of tokens)). A response "
    "drawn so is ε-differentially private for any change of the context that leaves the same "
    "tokens of the template around it; a second response costs another ε.",
    "The bound is on the response alone. The λ of a token, its influence and this page are "
    "computed from the private context and are not covered by it.",
)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """Nothing: notebooks and test runners keep what `repr` shows, and readings are private."""
        return ()


class UnmeasuredUnits(_Frozen):
    """What a search that opened only some documents may have missed.

    Attributes:
        documents: Number of documents that were not opened.
        units: Number of units in them.
        joint: Influence of all of them, ablated at once.
        bounded: Whether `joint` bounds the influence of each unit in them: it does if ablating more
            never makes a response token likelier, and no document among them contradicts that.
        probed: How many of the units, drawn at random, were ablated one at a time.
        largest: Largest influence among those; 0 without any.
        share: Share of the units that may have a larger one, at the confidence of the record; 0
            where all were measured.
    """

    documents: int
    units: int
    joint: float
    bounded: bool
    probed: int
    largest: float
    share: float


class SpanGrid(_Frozen):
    """All spans of one size, or all units of one kind.

    Attributes:
        n: Tokens of a span; 0 where spans are units of the text.
        stride: Tokens from the beginning of one span to the next; 0 where they are units.
        spans: (first, end) in context tokens.
        signed: (spans, tokens) signed influence of each span on each response token, in nats.
        unit: What the spans are, such as `sentence` or `chunk:200`; "" for spans of n tokens.
        names: Name of each unit; empty for spans of n tokens.
        characters: First character of each unit, and the one after its last; empty likewise.
        method: `leave-one-out`, `shapley` or `lasso`.
        sets: Number of sets of units that were ablated.
        errors: Standard error of each total; empty where nothing was drawn at random.
        share_errors: Standard error of each share; empty likewise.
        parts: How many parts of what was drawn the errors compare: intervals are Student t with one
            degree of freedom less; 0 likewise.
        unopened: What was not measured, if only the top documents were opened.
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
    unopened: UnmeasuredUnits | None = None

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
        """(spans,) share of the influence of all spans; 0 where none has any."""
        totals = self.totals
        return np.asarray(totals / (totals.sum() or 1.0))

    @property
    def ex_post_privacy_losses(self) -> Floats:
        """(spans,) |sum of the signed values| over the response: at most the total."""
        return np.asarray(np.abs(np.asarray(self.signed, float).sum(1)))


class Reading(_Frozen):
    """One response under one distribution of tokens.

    Attributes:
        lam: Weight of the context (lambda); the largest one under bounded CID.
        temperature: Temperature.
        sampled: Whether the response was sampled from this distribution, not given.
        text: The response (PRIVATE).
        token_ids: Its token ids.
        tokens: The text that each token adds.
        log_p: ln p of each token with the context.
        prior_log_p: ln p of each token without it.
        pmi: The same difference under the model's own distribution (lambda 1, temperature 1).
        tolerance: Numerical tolerance of a token: how far the same prompt moves in another batch,
            so what is smaller means nothing; NaN where it was not measured.
        grids: Influence for each span size, the whole context last.
        epsilon: Of the whole response under bounded CID; None for plain CID.
        lams: lambda of every token under bounded CID; empty elsewhere.
        entropy: Entropy of each token without the context, in nats; empty where it was not asked
            for.
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
        """Influence over the entropy of the response without the context, summed over tokens.

        Args:
            influence: Of a span on the whole response, in nats.

        Returns:
            The ratio; NaN where no entropy was measured, or it is 0.

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
        bounds: (tokens + 1,) the character at which each context token begins.
        readings: One for each lambda.
    """

    context: str
    query: str
    bounds: tuple[int, ...]
    readings: tuple[Reading, ...]

    def words(self, span: tuple[int, int]) -> str:
        """The text of a span of tokens.

        Args:
            span: First token, and the one after the last.

        Returns:
            A piece of the context.
        """
        return self.context[self.bounds[span[0]] : self.bounds[span[1]]]

    def redacted(self) -> Attribution:
        """The same numbers, with letters and digits of all texts hidden, and without token ids."""
        return self.model_copy(
            update={
                "context": _hidden(self.context),
                "query": _hidden(self.query),
                "readings": tuple(_without_words(reading) for reading in self.readings),
            }
        )


def _without_words(reading: Reading) -> Reading:
    texts = {"text": _hidden(reading.text), "tokens": tuple(map(_hidden, reading.tokens))}
    grids = tuple(_without_names(grid) for grid in reading.grids)
    return reading.model_copy(update={**texts, "token_ids": (), "grids": grids})


def _without_names(grid: SpanGrid) -> SpanGrid:
    """Units are named by their number: the name of a source may tell as much as a text."""
    numbers = {name: at for at, name in enumerate(dict.fromkeys(grid.names), 1)}
    names = tuple(f"{grid.unit} {numbers[name]}" for name in grid.names)
    return grid.model_copy(update={"names": names})


class Expected(_Frozen):
    """A mean over the data set with its t interval.

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
    """Whether a source has more than its share of the influence on an answer.

    Attributes:
        max_share: Largest share that is allowed, from 0 to 1.
        source: The source that it holds for; None for each.
        outcome: `passed`, `violation` or `inconclusive`.
        sentence: Why, in a sentence (PRIVATE: it names the source).
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
        """The same without names."""
        sentence = self.sentence.replace(repr(self.name), "one source")
        source = None if self.source is None else _hidden(self.source)
        return self.model_copy(
            update={"sentence": sentence, "name": _hidden(self.name), "source": source}
        )


class InfluenceRecord(_Frozen):
    """What was measured, by which model, over one context or many.

    Attributes:
        schema_version: Version of the record; versions 1 and 2 are read.
        kind: Always `influence`.
        model: Name of the model.
        settings: What was measured.
        attributions: Each context with its readings (PRIVATE).
        expected: Means over the contexts.
        confidence: Of the intervals of `expected`.
        notes: What the numbers mean, in sentences.
        provenance: Versions of what computed the record, and fingerprints.
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
        """The same numbers, with letters and digits of all texts hidden, and without token ids."""
        limit = self.share_limit and self.share_limit.redacted()
        attributions = tuple(one.redacted() for one in self.attributions)
        settings = self.settings | _own_texts_hidden(self.settings)
        update = {"settings": settings, "attributions": attributions, "share_limit": limit}
        return self.model_copy(update=update)

    def to_pandas(self) -> Any:
        """The long table of the CSV export as a DataFrame.

        Returns:
            A row for every context, lambda, span and response token. PRIVATE: it has the texts of
            spans, unless this record is redacted.

        Raises:
            UsageError: If pandas is not installed.
        """
        from leakbound.attribution.export import COLUMNS, lines

        return data_frame(dict(zip(COLUMNS, line, strict=True)) for line in lines(self))

    def _repr_html_(self) -> str | None:
        """What a notebook shows: numbers, places and figures; no text of contexts and responses."""
        return card(self)

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """The model and how many contexts."""
        return (("model", self.model), ("contexts", len(self.attributions)))


def _own_texts_hidden(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings that are texts of the user's own, such as a system message."""
    usual = {"template": TEMPLATE, "system": "", "stop": "\n"}
    own = (name for name, text in usual.items() if settings.get(name, text) != text)
    return {name: _hidden(str(settings[name])) for name in own}


def _hidden(text: str) -> str:
    return re.sub(r"\w", "•", text)


def load_influence(path: str | Path) -> InfluenceRecord:
    """Load a record, of this schema version or an earlier one.

    Args:
        path: A folder that `leakbound influence` wrote, or its influence.json.

    Returns:
        The record.

    Raises:
        StoreError: If there is none, or it is no influence record.
    """
    file = Path(path) / "influence.json" if Path(path).is_dir() else Path(path)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return InfluenceRecord.model_validate(upgraded(found))
    except OSError:
        raise StoreError(
            f"{str(path)!r} holds no influence.json; give a folder that leakbound influence wrote."
        ) from None
    except (ValueError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise StoreError(
            f"{str(file)!r} is not an influence record of schema version 1 or 2: {reason}."
        ) from None


def expected(
    attributions: Sequence[Attribution], confidence: float = CONFIDENCE
) -> tuple[Expected, ...]:
    """Expected context influence: means over contexts with t intervals.

    Args:
        attributions: Contexts with their readings; for the interval to mean anything, drawn
            independently.
        confidence: Of the intervals, in (0, 1).

    Returns:
        A mean for each lambda and span size; a single context has an interval without end.

    Reference:
        CI, equation 5.
    """
    values: dict[tuple[float, int, str, str], list[float]] = {}
    for reading in (r for one in attributions for r in one.readings):
        for grid in reading.grids:
            whole = grid is reading.grids[-1]
            n = 0 if whole else grid.n
            for of, value in _statistics(grid.totals, whole):
                values.setdefault((reading.lam, n, of, grid.unit), []).append(value)
    return tuple(
        Expected(lam=lam, n=n, of=of, unit=unit, contexts=len(found),
                 **interval(np.asarray(found), confidence))
        for (lam, n, of, unit), found in values.items()
    )  # fmt: skip


def _statistics(totals: Floats, whole: bool) -> tuple[tuple[str, float], ...]:
    if whole:
        return (("context", float(totals[0])),)
    return ("span", float(totals.mean())), ("top_attributed", float(totals.max()))


def interval(values: Floats, confidence: float = CONFIDENCE) -> dict[str, float]:
    """Student t interval for the mean of numbers that are at least 0.

    Args:
        values: (n,) numbers, at least one.
        confidence: Of the interval, in (0, 1).

    Returns:
        mean, low and high; one number alone has no upper end.

    Examples:
        >>> interval(np.array([1.0, 2.0, 3.0]))["mean"]
        2.0
    """
    mean, count = float(values.mean()), len(values)
    if count < 2:
        return {"mean": mean, "low": 0.0, "high": float("inf")}
    half = float(stdtrit(count - 1, (1 + confidence) / 2) * values.std(ddof=1) / np.sqrt(count))
    return {"mean": mean, "low": max(0.0, mean - half), "high": mean + half}


def provenance(**known: str) -> dict[str, str]:
    """Versions of what computed a record.

    Args:
        **known: Further names and fingerprints.

    Returns:
        Versions by name, and what is known.
    """
    return {
        "leakbound": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        **known,
    }
