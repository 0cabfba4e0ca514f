"""`influence`: which parts of a context a response comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from leakbound.attribution import (
    Case,
    InfluenceRecord,
    InfluenceSettings,
    attribute,
    case_of_documents,
    limit_shares,
)
from leakbound.models import Model, open_model

__all__ = ["influence"]

Method = Literal["leave-one-out", "shapley", "lasso"]


NGRAMS = (1, 8)


def influence(
    context: str | Mapping[str, str],
    query: str = "",
    *,
    model: Model | str = "pocket",
    response: str | None = None,
    by: str | tuple[str, ...] = (),
    ngrams: tuple[int, ...] | None = None,
    stride: int | None = None,
    method: Method | None = None,
    sets: int = 1024,
    top_documents: int | None = None,
    max_share: float | None = None,
    source: str | None = None,
    entropy: bool = False,
    lam: float | tuple[float, ...] = 1.0,
    temperature: float = 1.0,
    max_tokens: int = 48,
    seed: int = 0,
) -> InfluenceRecord:
    """How much each span of a context moved each token of a response, by ablation.

    Args:
        context: The text that the model is shown (PRIVATE), or several documents by name.
        query: What is asked about it.
        model: A model, or its address.
        response: The response to attribute; None: one is sampled for each lambda.
        by: Units of the text: sentence, line, paragraph, document, chunk:N (characters) or
            tokens:N; several, as a tuple or with commas, are measured beside each other.
        ngrams: Span sizes in tokens; the whole context is always added. None for 1 and 8, or for
            none where `by` is given.
        stride: Tokens between the starts of windows; None for disjoint blocks.
        method: How units are ablated. Shapley values and the lasso ablate sets of units, and so
            see a secret that stands twice. None for leave-one-out, or shapley with `max_share`.
        sets: Most sets of units that shapley or lasso measure.
        top_documents: Measure other units only inside as many documents, those with the largest
            influence; None for all.
        max_share: Largest share of the influence on an answer that a source may have, from 0 to 1;
            the record's `share_limit` tells whether it holds. None for no limit.
        source: The source that `max_share` holds for; None for each.
        lam: Weight of the context in context influence decoding; several give a reading each.
        temperature: Of the sampling and of the measured distribution, above 0.
        max_tokens: Longest sampled response, in tokens.
        seed: Of the sampling, and of sets of units.
        entropy: Measure the entropy of the response as well, which normalizes influence.

    Returns:
        The record: influence by span and by response token, signed and absolute.

    Raises:
        LeakboundError: With a sentence, before the first pass where that is possible.

    Reference:
        CI, Definitions 3.3 and 3.4.
    """
    opened = open_model(model) if isinstance(model, str) else model
    kinds = tuple(by.split(",")) if isinstance(by, str) and by else tuple(by)
    if max_share is not None and "document" not in kinds and not isinstance(context, str):
        kinds = ("document", *kinds)
    settings = InfluenceSettings(
        ngrams=(() if kinds else NGRAMS) if ngrams is None else ngrams,
        stride=stride,
        lams=lam if isinstance(lam, tuple) else (lam,),
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
        by=kinds,
        method=method or ("leave-one-out" if max_share is None else "shapley"),
        sets=sets,
        top_documents=top_documents,
        entropy=entropy,
    )
    record = attribute([_case(context, query, response)], opened, settings)
    return record if max_share is None else limit_shares(record, max_share, source)


def _case(context: str | Mapping[str, str], query: str, response: str | None) -> Case:
    if isinstance(context, str):
        return Case(context, query, response)
    return case_of_documents(tuple(context.items()), query, response)
