"""Log-probabilities as endpoints write them, aligned with the text that was asked about, or
refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models.openai.faults import Fault

__all__ = ["first_token_scores", "log_probability", "of_ids", "of_text", "prompt_tokens"]

Floats = npt.NDArray[np.float32]
ROUNDING = 1e-5  # a log-probability may exceed 0 by so much


def log_probability(value: Any) -> float:
    """A log-probability; Fault if it is none: not a number, not finite, or above 0."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value > ROUNDING
    ):
        raise Fault("a log-probability that is none")
    return min(0.0, float(value))


def of_text(tokens: Sequence[Any], values: Sequence[Any], prompt: str, response: str) -> Floats:
    """(response tokens,) log-probabilities, from the echoed tokens of prompt + response and what
    may follow them.

    Tokens are placed by their lengths. One token that stands for the beginning of a text may come
    first. Raises TargetError if the
    tokens are not those of the text, or one of them lies across the boundary of prompt and
    response; Fault for values that are none.
    """
    if len(tokens) != len(values) or not all(isinstance(token, str) for token in tokens):
        raise Fault("echoed tokens and values that do not match")
    text, begin = prompt + response, len(prompt)
    at, found = -_beginning(tokens, text), []
    for token, value in zip(tokens, values, strict=True):
        end = at + len(token)
        if at >= len(text):
            break
        if at < begin < end or end > len(text) or (begin <= at == end):
            raise TargetError(
                "a token of the endpoint lies across the boundary of a prompt and its "
                "continuation, so the continuation cannot be "
                "scored; score token ids (prompt_logprobs and token_ids), or use another mechanism."
            )
        if at >= begin:
            found.append(_own(value))
        at = end
    return np.array(found, np.float32)


def _own(value: Any) -> float:
    if value is None:
        raise TargetError(
            "the first token of a text has no log-probability, so a continuation of nothing "
            "cannot be scored."
        )
    return log_probability(value)


def _beginning(tokens: Sequence[str], text: str) -> int:
    """Length of the token before the text: 0 if there is none."""
    whole = "".join(tokens)
    if whole.startswith(text):
        return 0
    if tokens and whole.startswith(text, len(tokens[0])):
        return len(tokens[0])
    raise TargetError(
        "the tokens that the endpoint echoes do not make up the text that was sent, so their "
        "log-probabilities cannot be placed "
        "(a character may be split over tokens, or the prompt may have been changed or cut); use "
        "text that survives, or token ids."
    )


def prompt_tokens(entries: Any) -> tuple[list[str], list[Any]]:
    """Tokens and values of vLLM's prompt_logprobs that were asked for with 0 alternatives:

    one entry a position.
    """
    if not isinstance(entries, list) or not entries:
        raise Fault("no prompt log-probabilities")
    found = [_single(entry) for entry in entries[1:]]
    return ["", *(token for token, _ in found)], [None, *(value for _, value in found)]


def _single(entry: Any) -> tuple[str, Any]:
    if not isinstance(entry, dict) or len(entry) != 1:
        raise Fault("prompt log-probabilities of several tokens")
    (only,) = entry.values()
    return str(only.get("decoded_token")), only.get("logprob")


def of_ids(entries: Any, prompt: Sequence[int], response: Sequence[int]) -> Floats:
    """(response tokens,) log-probabilities, from vLLM's prompt_logprobs of token ids:

    each is found under its id.
    """
    ids = (*prompt, *response)
    if not isinstance(entries, list) or len(entries) != len(ids):
        raise TargetError(
            f"{len(ids)} token ids were sent, and the endpoint gives log-probabilities of another "
            "number of tokens; its server "
            "adds or removes tokens, so it cannot score token ids."
        )
    found = [_under(entry, token) for entry, token in zip(entries, ids, strict=True)][len(prompt) :]
    return np.array([_own(value) for value in found], np.float32)


def _under(entry: Any, token: int) -> Any:
    if entry is None:
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get(str(token)), dict):
        raise Fault("prompt log-probabilities of other tokens")
    return entry[str(token)].get("logprob")


def first_token_scores(top: Mapping[str, Any], labels: Sequence[str]) -> Floats:
    """(labels,) log-probability of each label, among the next tokens that the endpoint shows.

    A label must be a shown token, with or without a leading blank: a token that only begins like it
    may belong to another word, while the
    label's own first token is hidden. Raises TargetError if it is none: nothing is made up.
    """
    tokens = [_whole(top, label) for label in labels]
    if None in tokens:
        raise TargetError(
            f"label number {tokens.index(None) + 1} of {len(labels)} is not one of the next "
            "tokens that the endpoint shows, so it has no "
            "score; rename it to a word of one token, state a higher top_logprobs if the endpoint "
            "allows it, or use a mechanism that reads "
            "answers."
        )
    return np.array(
        [log_probability(top[token]) for token in tokens if token is not None], np.float32
    )


def _whole(top: Mapping[str, Any], label: str) -> str | None:
    """The shown token that is the label:

    the likelier one, if it is shown with and without a blank.
    """
    fits = [token for token in top if token.strip() and token.lstrip() == label.strip()]
    return max(fits, key=lambda token: log_probability(top[token]), default=None)
