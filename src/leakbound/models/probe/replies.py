"""What an endpoint generated: a text, and tokens with log-probabilities, which obey laws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, JsonValue, TypeAdapter

from leakbound.models.openai.replies import Fault, parse_generated

SLACK = 1e-3  # the effect of rounding in a reply
# difference in ln p of a token between one pass and token-by-token computation, in 16 bits
NUMERICS = 0.1
RUN = 3  # tokens that must agree before positions are compared; two may agree by chance
UNREADABLE = "�"  # the text of every incomplete piece of a character
Place = Literal["aligned", "early", "late", "elsewhere", "unclear"]
BROKEN = (AttributeError, LookupError, TypeError, ValueError, Fault)  # raised for unexpected JSON


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    logprob: float | None
    top: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ScoredText:
    text: str
    tokens: tuple[Token, ...] = ()


Text = Annotated[str, BeforeValidator(str)]  # None where an endpoint does not decode


class _CompletionTokens(BaseModel):
    tokens: list[Text]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None = None


class _Alternative(BaseModel):
    token: Text
    logprob: float


class _ChatToken(BaseModel):
    token: Text
    logprob: float | None
    top_logprobs: list[_Alternative] | None = None


class _PromptToken(BaseModel):
    decoded_token: Text
    logprob: float


CHAT_TOKENS = TypeAdapter(list[_ChatToken])
PROMPT_TOKENS = TypeAdapter(list[dict[str, _PromptToken] | None])


def parse_completion(choice: JsonValue) -> ScoredText | None:
    """Read a choice of /v1/completions, where llama.cpp writes tokens as in chat."""
    try:
        text, logprobs = _answer(choice), _part(choice, "logprobs")
        if not isinstance(logprobs, dict) or not (
            "token_logprobs" in logprobs or logprobs.get("content")
        ):
            return ScoredText(text)
        if logprobs.get("content"):
            return ScoredText(text, _chat_tokens(logprobs))
        found = _CompletionTokens.model_validate(logprobs)
        tops = found.top_logprobs or [None] * len(found.tokens)
        rows = zip(found.tokens, found.token_logprobs, tops, strict=True)
        return ScoredText(text, tuple(Token(one, value, top or {}) for one, value, top in rows))
    except BROKEN:
        return None


def parse_chat(choice: JsonValue) -> ScoredText | None:
    try:
        if not isinstance(_part(choice, "message"), dict):
            return None
        return ScoredText(_answer(choice), _chat_tokens(_part(choice, "logprobs") or {}))
    except BROKEN:
        return None


def parse_prompt(choice: JsonValue) -> ScoredText | None:
    """Read the tokens of a prompt from vLLM's `prompt_logprobs`."""
    try:
        rows = PROMPT_TOKENS.validate_python(_part(choice, "prompt_logprobs") or [])
        return ScoredText("", tuple(map(_prompt_token, rows))) if rows else None
    except BROKEN:
        return None


def _part(found: JsonValue, name: str) -> JsonValue:
    if not isinstance(found, dict):
        raise TypeError("no object")
    return found.get(name)


def _answer(choice: JsonValue) -> str:
    return parse_generated({"choices": [choice]}).answer


def _chat_tokens(logprobs: JsonValue) -> tuple[Token, ...]:
    found = CHAT_TOKENS.validate_python(_part(logprobs, "content") or [])
    # if tokens share a text, the likeliest one counts, which comes first
    tops = [{top.token: top.logprob for top in reversed(one.top_logprobs or [])} for one in found]
    return tuple(Token(one.token, one.logprob, top) for one, top in zip(found, tops, strict=True))


def _prompt_token(row: dict[str, _PromptToken] | None) -> Token:
    if row is None:
        return Token("", None, {})
    first, *_ = row.values()
    top = {one.decoded_token: one.logprob for one in row.values()}
    return Token(first.decoded_token, first.logprob, top)


# --- laws of log-probabilities


def broken_law(tokens: Sequence[Token]) -> str | None:
    """The first law that is broken: ln p is finite and at most 0, the probabilities of alternatives
    sum to at most 1, and a token's value is that of its alternative.

    Examples:
        >>> broken_law([Token("a", 0.5, {})])
        'a log-probability is 0.5, above 0'
    """
    for token in tokens:
        values = [value for value in (token.logprob, *token.top.values()) if value is not None]
        if not all(math.isfinite(value) for value in values):
            return "a log-probability is not a finite number"
        if any(value > SLACK for value in values):
            return f"a log-probability is {max(values):.3g}, above 0"
        if (total := sum(map(math.exp, token.top.values()))) > 1 + SLACK:
            return f"the probabilities of {len(token.top)} alternatives sum to {total:.3f}, above 1"
        own, there = token.logprob, token.text in token.top and UNREADABLE not in token.text
        if own is not None and there and (gap := abs(own - token.top[token.text])) > SLACK:
            return f"a token's ln p differs by {gap:.3g} from its entry among the alternatives"
    return None


def largest_change(one: ScoredText, other: ScoredText) -> float | None:
    """Largest change of ln p between two answers to the same question."""
    changes: list[float] = []
    for a, b in zip(one.tokens, other.tokens, strict=False):
        changes.append(_gap(a.top, b.top))
        if a.text != b.text:
            break
        if a.logprob is not None and b.logprob is not None:
            changes.append(abs(a.logprob - b.logprob))
    return max((change for change in changes if math.isfinite(change)), default=None)


def _gap(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Largest difference over common alternatives; infinite if there are fewer than two."""
    common = [token for token in one.keys() & other.keys() if UNREADABLE not in token]
    return max(abs(one[token] - other[token]) for token in common) if len(common) > 1 else math.inf


@dataclass(frozen=True, slots=True)
class Alignment:
    """The position of echoed log-probabilities relative to those of the generated tokens."""

    place: Place
    gap: float
    tokens: int


def alignment(generated: ScoredText, echoed: ScoredText, noise: float) -> Alignment:
    """Compare an echo with the generated distributions at the same, next and previous token."""
    at, run = _longest_run(
        [token.text for token in generated.tokens], [token.text for token in echoed.tokens]
    )
    echo, answer = echoed.tokens[at : at + run], generated.tokens[:run]
    own = [
        abs(e.logprob - a.logprob)
        for e, a in zip(echo, answer, strict=True)
        if e.logprob is not None and a.logprob is not None
    ]
    slack = NUMERICS + 3 * noise
    if len(own) < RUN or slack > 1:
        return Alignment("unclear", max(own, default=math.nan), len(own))
    place = _place(max(own), _shift(echo, answer), _shift(answer, echo), slack)
    return Alignment(place, max(own), len(own))


def _place(own: float, early: float, late: float, slack: float) -> Place:
    """Decide by the differences at the token itself and at its neighbours."""
    if own <= slack:
        return "unclear" if min(early, late) <= slack else "aligned"
    if early <= 3 * slack:
        return "early"
    return "late" if late <= 3 * slack else "elsewhere"


def _shift(one: Sequence[Token], other: Sequence[Token]) -> float:
    """Largest difference between each token's alternatives and those of the other's next token."""
    return max((_gap(a.top, b.top) for a, b in zip(one, other[1:], strict=False)), default=math.inf)


def _longest_run(answer: Sequence[str], echoed: Sequence[str]) -> tuple[int, int]:
    """(position, length) of the longest prefix of an answer inside an echo; the last if tied."""
    best = (0, 0)  # length, position
    for at in range(len(echoed)):
        run = 0
        while run < len(answer) and at + run < len(echoed) and answer[run] == echoed[at + run]:
            run += 1
        best = max(best, (run, at))
    return best[1], best[0]
