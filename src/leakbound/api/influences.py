"""`influence`: which parts of a context a response comes from."""

from __future__ import annotations

from leakbound.attribution import InfluenceRecord, InfluenceSettings, context_influence
from leakbound.models import Model, open_model

__all__ = ["influence"]


def influence(
    context: str,
    query: str = "",
    *,
    model: Model | str = "pocket",
    response: str | None = None,
    ngrams: tuple[int, ...] = (1, 8),
    stride: int | None = None,
    lam: float | tuple[float, ...] = 1.0,
    temperature: float = 1.0,
    max_tokens: int = 48,
    seed: int = 0,
) -> InfluenceRecord:
    """How much each span of a context moved each token of a response, by ablation.

    Args:
        context: The text that the model is shown (PRIVATE).
        query: What is asked about it.
        model: A model, or its address.
        response: The response to attribute; None: one is sampled for each lambda.
        ngrams: Span sizes in tokens; the whole context is always added.
        stride: Tokens between the starts of windows; None for disjoint blocks.
        lam: Weight of the context in context influence decoding; several give a reading each.
        temperature: Of the sampling and of the measured distribution, above 0.
        max_tokens: Longest sampled response, in tokens.
        seed: Of the sampling.

    Returns:
        The record: influence by span and by response token, signed and absolute.

    Raises:
        LeakboundError: With a sentence, before the first pass where that is possible.

    Reference:
        CI, Definitions 3.3 and 3.4.
    """
    opened = open_model(model) if isinstance(model, str) else model
    lams = lam if isinstance(lam, tuple) else (lam,)
    settings = InfluenceSettings(
        ngrams=ngrams,
        stride=stride,
        lams=lams,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
    )
    return context_influence(context, query, opened, response, settings)
