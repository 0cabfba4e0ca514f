"""Log-probabilities as endpoints write them, aligned with the text in question.

What cannot be aligned is refused: no score is invented.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models.openai.faults import Fault
from leakbound.models.openai.placing import NO_FIRST, boundaries, makes_up

Floats = npt.NDArray[np.float32]
ROUNDING = 1e-5  # how far above 0 the log-probability of a probability of 1 may be rounded


def log_probability(value: object) -> float:
    """Check a log-probability."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value > ROUNDING
    ):
        raise Fault("an invalid log-probability")
    return min(0.0, float(value))


def align_echo(
    tokens: Sequence[object], values: Sequence[object], prompt: str, response: str
) -> Floats:
    """Scores of the tokens of a response, from the echo of prompt and response.

    A token for the beginning of a text may come first, and more tokens may follow the response.
    """
    texts = [token for token in tokens if isinstance(token, str)]
    if not len(texts) == len(tokens) == len(values):
        raise Fault("echoed tokens and values that do not match")
    first = 0 if makes_up(texts, prompt + response) else 1
    begin, end = boundaries(texts[first:], prompt, response)
    return np.array([_own(value) for value in values[first + begin : first + end]], np.float32)


def align_prompt(entries: object, ids: object, prompt: str, response: str) -> Floats:
    """Scores of the tokens of a response, from vLLM's `prompt_logprobs` of prompt and response.

    The first token has no entry, so its text is unknown. A tokenizer may have put it before the
    text, or it may be the beginning of the text. Tokens are therefore placed from the end.
    """
    if not isinstance(entries, list) or not entries:
        raise Fault("no prompt log-probabilities")
    known = ids if isinstance(ids, list) and len(ids) == len(entries) else [None] * len(entries)
    rows = [_token(entry, token) for entry, token in zip(entries[1:], known[1:], strict=True)]
    pieces = [text for text, _ in rows]
    begin, end = boundaries(["", *pieces], prompt, response, first_known=False)
    return np.array([_own(value) for _, value in rows[begin - 1 : end - 1]], np.float32)


def _token(entry: object, token: object) -> tuple[str, object]:
    """Text and value of the token at a position."""
    if not isinstance(entry, dict) or (token is None and len(entry) != 1):
        raise Fault("prompt log-probabilities of several tokens")
    found = next(iter(entry.values())) if token is None else entry.get(str(token))
    if not isinstance(found, dict):
        raise Fault("prompt log-probabilities without tokens")
    return str(found.get("decoded_token")), found.get("logprob")


def _own(value: object) -> float:
    if value is None:
        raise TargetError(NO_FIRST)
    return log_probability(value)


def align_ids(entries: object, prompt: Sequence[int], response: Sequence[int]) -> Floats:
    """Scores of the tokens of a response, from vLLM's `prompt_logprobs` of token ids."""
    ids = (*prompt, *response)
    if not isinstance(entries, list) or len(entries) != len(ids):
        raise TargetError(
            f"{len(ids)} token ids were sent, and the endpoint gives log-probabilities of another "
            "number of tokens; its server adds or removes tokens, so it cannot score token ids."
        )
    found = [_under(entry, token) for entry, token in zip(entries, ids, strict=True)][len(prompt) :]
    return np.array([_own(value) for value in found], np.float32)


def _under(entry: object, token: int) -> object:
    if entry is None:
        return None
    found = entry.get(str(token)) if isinstance(entry, dict) else None
    if not isinstance(found, dict):
        raise Fault("prompt log-probabilities of other tokens")
    return found.get("logprob")


def first_token_scores(top: Mapping[str, object], labels: Sequence[str]) -> Floats:
    """Scores of labels among the next tokens that the endpoint reports.

    A label must be a reported token, with or without a leading blank. A token that only begins like
    the label may belong to another word, while the label's own first token is not reported.
    """
    tokens = [_shown_as(top, label) for label in labels]
    scores = [math.nan if token is None else log_probability(top[token]) for token in tokens]
    return np.array(scores, np.float32)


def _shown_as(top: Mapping[str, object], label: str) -> str | None:
    """The reported token of a label: the likelier one of those with and without a blank."""
    fits = [token for token in top if token.strip() and token.lstrip() == label.strip()]
    return max(fits, key=lambda token: log_probability(top[token]), default=None)
