"""`influence`: which parts of a context a response comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from leakbound.api.kinds import as_model, in_python
from leakbound.attribution import (
    Case,
    InfluenceRecord,
    InfluenceSettings,
    attribute,
    case_of_documents,
    case_of_messages,
    limit_shares,
)
from leakbound.attribution.measure import DRAW
from leakbound.attribution.spans import TEMPLATE, UnitKind
from leakbound.errors import UsageError
from leakbound.models import Model

Method = Literal["leave-one-out", "shapley", "lasso"]
UnitName = Literal["sentence", "line", "paragraph", "document", "message"] | UnitKind


NGRAMS = (1, 8)


@in_python
def influence(
    context: str | Mapping[str, str] | Sequence[Mapping[str, str]],
    question: str = "",
    *,
    model: Model | str = "pocket",
    response: str | None = None,
    by: UnitName | tuple[UnitName, ...] = (),
    ngrams: tuple[int, ...] | None = None,
    stride: int | None = None,
    method: Method | None = None,
    sets: int = 1024,
    top: int | None = None,
    draw: int = DRAW,
    max_share: float | None = None,
    source: str | None = None,
    entropy: bool = False,
    lam: float | tuple[float, ...] = 1.0,
    temperature: float = 1.0,
    max_tokens: int = 48,
    seed: int = 0,
    template: str = TEMPLATE,
    message: str = "",
) -> InfluenceRecord:
    """Measure by ablation how much each span of a context moved each token of a response.

    Args:
        context: The text that the model is shown (PRIVATE), several documents by name, or chat
            messages, such as `{"role": "system", "content": "..."}`: without a `question`, the last
            one of the user is it.
        question: What is asked about it.
        model: A model, or its address.
        response: The response to attribute; None: one is sampled for each lambda.
        by: Units of the text: "sentence", "line", "paragraph", "document" or "message", or a
            `UnitKind` with a size, such as `UnitKind("chunk", 200)` (characters) or
            `UnitKind("tokens", 8)`;
            several, as a tuple, are measured side by side. Texts are read as by the command
            line, as in "sentence,chunk:200".
        ngrams: Span sizes in tokens; the whole context is always added. None for 1 and 8, or for
            none where `by` is given.
        stride: Tokens between the starts of windows; None for disjoint blocks.
        method: How units are ablated. Shapley values and the lasso ablate sets of units, and so
            see a secret that stands twice. None for leave-one-out, or shapley with `max_share`.
        sets: Most sets of units that shapley or lasso measure.
        top: Of many spans of 4 tokens or more, measure those that may be among as many with the
            largest influence, and `draw` others, which limit what was missed (`SpanGrid.unopened`).
            None for all, which sets of units and `max_share` need.
        draw: Spans that are drawn from those that `top` leaves out, from 1 to 200.
        max_share: Largest share of the influence on an answer that a source may have, from 0 to 1;
            the record's `share_limit` tells whether it holds. None for no limit.
        source: The source that `max_share` holds for; None for each.
        lam: Weight of the context in context influence decoding; several give a reading each.
        temperature: Of the sampling and of the measured distribution, above 0.
        max_tokens: Longest sampled response, in tokens.
        seed: Of the sampling, and of sets of units.
        entropy: Measure the entropy of the response as well, which normalizes influence.
        template: The prompt, or the message of the user to an instruct model, with {context} and
            {query} where they stand.
        message: The system message to an instruct model, with {context} or {query}; "" for none.
            Where it holds {context}, the default of `template` is {query}.

    Returns:
        The record: influence by span and by response token, signed and absolute.

    Raises:
        LeakboundError: With a sentence, before the first pass where that is possible.

    Reference:
        CI, Definitions 3.3 and 3.4.
    """
    opened = as_model(model)
    kinds = _kinds(by)
    sources = "document" if isinstance(context, Mapping) else "message"
    if max_share is not None and sources not in kinds and not isinstance(context, str):
        kinds = (sources, *kinds)
    settings = InfluenceSettings(
        ngrams=(() if kinds else NGRAMS) if ngrams is None else ngrams, by=kinds,
        lams=lam if isinstance(lam, tuple) else (lam,),
        method=method or ("leave-one-out" if max_share is None else "shapley"),
        stride=stride, temperature=temperature, max_tokens=max_tokens, seed=seed, sets=sets,
        top=top, draw=draw, entropy=entropy, template=template, system=message,
    )  # fmt: skip
    record = attribute([_case(context, question, response)], opened, settings)
    return record if max_share is None else limit_shares(record, max_share, source)


def _kinds(by: object) -> tuple[str, ...]:
    """Names of units; several may stand in one text, with commas."""
    listed = by if isinstance(by, tuple | list) else (by,)
    wrong = [one for one in listed if not isinstance(one, str | UnitKind)]
    if wrong:
        raise UsageError(
            f"by is {wrong[0]!r}; it must be the name of a unit, such as 'sentence', or a UnitKind."
        )
    return tuple(name for one in listed for name in str(one).split(",") if name)


def _case(
    context: str | Mapping[str, str] | Sequence[Mapping[str, str]], query: str, response: str | None
) -> Case:
    for name, value in (("question", query), ("response", "" if response is None else response)):
        if not isinstance(value, str):
            raise UsageError(f"{name} is {type(value).__name__}; it must be a text.")
    if isinstance(context, str):
        return Case(context, query, response)
    if isinstance(context, list | tuple) and not any(isinstance(one, str) for one in context):
        return case_of_messages(context, query, response)
    if not isinstance(context, Mapping):
        raise UsageError(
            f"context is {type(context).__name__}; it must be a text, documents by name such as "
            '{"note": "..."}, or a list of chat messages. Read a file first.'
        )
    return case_of_documents(tuple(context.items()), query, response)
