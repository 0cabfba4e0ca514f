"""InfluenceRecord: the versioned result that every view and export of an attribution is made from.
Holds PRIVATE text.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError
from scipy import stats

from leakbound._notebook import card, data_frame
from leakbound._version import __version__
from leakbound.errors import StoreError

__all__ = [
    "BOUNDED_PROMISE",
    "PROMISE",
    "Attribution",
    "Expected",
    "Grid",
    "InfluenceRecord",
    "Reading",
    "expected",
    "interval",
    "load_influence",
    "provenance",
]

Floats = npt.NDArray[np.float64]
CONFIDENCE = 0.95
PROMISE = (
    "The loss of a span is |ln p(response | context) − ln p(response | context without the "
    "span)|: what this very response tells "
    "someone who weighs whether the span was there and knows everything else (ex-post "
    "per-instance differential privacy).",
    "It speaks of this response, this context and this way of sampling. Another response of the "
    "same model can lose more, so it is no "
    "ε of the system and no guarantee for the next answer.",
    (
        "It may not be published beside the response as if it were harmless: it is computed from the "
        "private context."
    ),
    (
        "Spans are removed one at a time. A secret that stands twice can have little influence at "
        "each place; the whole context shows it."
    ),
    (
        "It assumes that tokens are sampled at the stated temperature and λ. Greedy, top-k and top-p "
        "decoding have no such loss."
    ),
)
BOUNDED_PROMISE = (
    "Bounded CID chooses λ for every token so that no token's probability leaves the law without "
    "the context by more than a factor "
    "e^(ε / (2 × largest number of tokens)). A response drawn so is ε-differentially private for "
    "any change of the context that leaves "
    "the same tokens of the template around it; a second response costs another ε.",
    "The bound is on the response alone. The λ of a token, its influence and this page are "
    "computed from the private context and are "
    "not covered by it.",
)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Nothing: notebooks and test runners write down what `repr` shows, and readings hold
        private text.
        """
        return ()


class Grid(_Frozen):
    """All spans of one size:

    (first, end) in context tokens, and the signed influence of each on each response token.
    """

    n: int
    stride: int
    spans: tuple[tuple[int, int], ...]
    signed: tuple[tuple[float, ...], ...]

    @property
    def absolute(self) -> Floats:
        """(spans, tokens) tau."""
        return np.asarray(np.abs(np.asarray(self.signed, float)))

    @property
    def totals(self) -> Floats:
        """(spans,) influence on the response: the sum of tau over its tokens."""
        return np.asarray(self.absolute.sum(1))

    @property
    def losses(self) -> Floats:
        """(spans,) |sum of the signed values|:

        the ex-post loss of the whole response, at most its total.
        """
        return np.asarray(np.abs(np.asarray(self.signed, float).sum(1)))


class Reading(_Frozen):
    """One response under one law.

    text, tokens: the response and its tokens' texts; log_p, prior_log_p: ln p of each with the
    context and without; pmi: the
    same difference under the model's own law (lambda = 1, temperature = 1); floor: how far the same
    prompt moves in another
    batch, so what is smaller means nothing; grids: one for each n, the whole context last; epsilon:
    of the whole response under
    bounded CID, where `lam` is the largest lambda; lams: the lambda of every token there, empty
    elsewhere.
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
    floor: float
    grids: tuple[Grid, ...]
    epsilon: float | None = None
    lams: tuple[float, ...] = ()


class Attribution(_Frozen):
    """One context and query (PRIVATE), with a reading for each lambda; bounds:

    the character at which each context token begins.
    """

    context: str
    query: str
    bounds: tuple[int, ...]
    readings: tuple[Reading, ...]

    def words(self, span: tuple[int, int]) -> str:
        """The text of a span of tokens."""
        return self.context[self.bounds[span[0]] : self.bounds[span[1]]]

    def redacted(self) -> Attribution:
        """The same numbers, with every letter and digit of texts replaced, and without token ids."""
        readings = tuple(
            r.model_copy(
                update={
                    "text": _hidden(r.text),
                    "tokens": tuple(map(_hidden, r.tokens)),
                    "token_ids": (),
                }
            )
            for r in self.readings
        )
        return self.model_copy(
            update={
                "context": _hidden(self.context),
                "query": _hidden(self.query),
                "readings": readings,
            }
        )


class Expected(_Frozen):
    """A mean over the data set with its t interval.

    n: the size of the spans, 0 for whole contexts of any length; of: `span` (mean of a context's
    spans), `hottest` (largest one),
    `context` (all of it).
    """

    lam: float
    n: int
    of: str
    contexts: int
    mean: float
    low: float
    high: float


class InfluenceRecord(_Frozen):
    """What was measured, by which model, over one context or many."""

    schema_version: Literal[1] = 1
    kind: Literal["influence"] = "influence"
    model: str
    settings: dict[str, Any]
    attributions: tuple[Attribution, ...]
    expected: tuple[Expected, ...]
    confidence: float = CONFIDENCE
    promise: tuple[str, ...] = PROMISE
    provenance: dict[str, str]

    def to_json(self) -> str:
        """Stable text: equal records give equal bytes."""
        return self.model_dump_json() + "\n"

    def redacted(self) -> InfluenceRecord:
        """The same numbers, with every letter and digit of contexts, queries and responses
        replaced, and without token ids.
        """
        return self.model_copy(
            update={"attributions": tuple(one.redacted() for one in self.attributions)}
        )

    def to_pandas(self) -> Any:
        """The long table of the CSV export as a DataFrame (PRIVATE: it has the texts of spans,
        unless this record is redacted).

        Raises UsageError without pandas.
        """
        from leakbound.attribution.export import COLUMNS, lines

        return data_frame(dict(zip(COLUMNS, line, strict=True)) for line in lines(self))

    def _repr_html_(self) -> str:
        """What a notebook shows: numbers, places and figures; no text of contexts and responses."""
        return card("influence", self)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """The model and how many contexts."""
        return (("model", self.model), ("contexts", len(self.attributions)))


def _hidden(text: str) -> str:
    return re.sub(r"\w", "•", text)


def load_influence(path: str | Path) -> InfluenceRecord:
    """The record in a folder that `leakbound influence` wrote, or in its influence.json.

    Raises StoreError.
    """
    file = Path(path) / "influence.json" if Path(path).is_dir() else Path(path)
    try:
        return InfluenceRecord.model_validate_json(file.read_text(encoding="utf-8"))
    except OSError:
        raise StoreError(
            f"{str(path)!r} holds no influence.json; give a folder that leakbound influence wrote."
        ) from None
    except (ValidationError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise StoreError(
            f"{str(file)!r} is not an influence record of schema version 1: {reason}."
        ) from None


def expected(
    attributions: Sequence[Attribution], confidence: float = CONFIDENCE
) -> tuple[Expected, ...]:
    """The estimator of expected context influence (CI equation 5) for each lambda and n: means over
    contexts, t intervals.

    The contexts must be drawn independently for the interval to mean anything; a single one has an
    interval without end.
    """
    values: dict[tuple[float, int, str], list[float]] = {}
    for reading in (r for one in attributions for r in one.readings):
        for grid in reading.grids:
            whole = grid is reading.grids[-1]
            n = 0 if whole else grid.n
            for of, value in _statistics(grid.totals, whole):
                values.setdefault((reading.lam, n, of), []).append(value)
    return tuple(
        Expected(
            lam=lam, n=n, of=of, contexts=len(found), **interval(np.asarray(found), confidence)
        )
        for (lam, n, of), found in values.items()
    )


def _statistics(totals: Floats, whole: bool) -> tuple[tuple[str, float], ...]:
    if whole:
        return (("context", float(totals[0])),)
    return ("span", float(totals.mean())), ("hottest", float(totals.max()))


def interval(values: Floats, confidence: float = CONFIDENCE) -> dict[str, float]:
    """mean, low and high of a Student t interval for the mean of numbers that are at least 0; one
    alone has no end above.
    """
    mean, count = float(values.mean()), len(values)
    if count < 2:
        return {"mean": mean, "low": 0.0, "high": float("inf")}
    half = float(stats.t.ppf((1 + confidence) / 2, count - 1) * values.std(ddof=1) / np.sqrt(count))
    return {"mean": mean, "low": max(0.0, mean - half), "high": mean + half}


def provenance(**known: str) -> dict[str, str]:
    """Versions of what computed the record, and the given fingerprints."""
    return {
        "leakbound": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        **known,
    }
