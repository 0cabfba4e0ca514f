"""Laws that log-probabilities must keep, checked on replies; no request is made here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from leakbound.models.probe.replies import ScoredText, Token

__all__ = ["Alignment", "alignment", "broken_law", "largest_change"]

SLACK = 1e-3  # what rounding in a reply may do
# difference of ln p of one token, computed in one pass or token by token in 16 bits
NUMERICS = 0.1
RUN = 3  # tokens that must agree before positions are compared: two agree by chance
UNREADABLE = "�"  # pieces of characters share this text


def broken_law(tokens: Sequence[Token]) -> str | None:
    """The first law that log-probabilities break.

    Laws: finite; at most 0; the alternatives' probabilities sum to at most 1; a token has the value
    that the list of alternatives gives it.

    Args:
        tokens: Tokens of one reply or of several.

    Returns:
        What is wrong, in words; None if they keep all laws.

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
        if (gap := _own_gap(token)) > SLACK:
            return f"a token's ln p differs by {gap:.3g} from its entry among the alternatives"
    return None


def _own_gap(token: Token) -> float:
    if token.logprob is None or token.text not in token.top or UNREADABLE in token.text:
        return 0.0
    return abs(token.logprob - token.top[token.text])


def largest_change(one: ScoredText, other: ScoredText) -> float | None:
    """Largest change of ln p between two answers to one question.

    Args:
        one: An answer.
        other: The answer to the same question.

    Returns:
        The largest change up to the first token that differs; None if nothing can be compared.
    """
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


Place = Literal["aligned", "early", "late", "elsewhere", "unclear"]


@dataclass(frozen=True, slots=True)
class Alignment:
    """How echoed log-probabilities stand to those of the same tokens as they were generated.

    Attributes:
        place: "aligned"; "early" (each token carries the distribution of the token after it);
            "late" (of the one before it); "elsewhere"; "unclear" (too few tokens agree, or the
            values do not tell places apart).
        gap: Largest difference of a token's own ln p.
        tokens: How many tokens were compared.
    """

    place: Place
    gap: float
    tokens: int


def alignment(generated: ScoredText, echoed: ScoredText, noise: float) -> Alignment:
    """Compare the echo of an answer with the answer.

    The echo is compared with the generated distributions at the same token, at the one after it and
    at the one before it.

    Args:
        generated: The answer.
        echoed: Its echo, which may hold the prompt as well.
        noise: Change of ln p between equal questions.

    Returns:
        Where the echo stands.
    """
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
    place = _place(max(own), _shifted(echo, answer), _shifted(answer, echo), slack)
    return Alignment(place, max(own), len(own))


def _place(own: float, early: float, late: float, slack: float) -> Place:
    """Of the differences at the own token and at its neighbours."""
    if own <= slack:
        return "unclear" if min(early, late) <= slack else "aligned"
    if early <= 3 * slack:
        return "early"
    return "late" if late <= 3 * slack else "elsewhere"


def _shifted(one: Sequence[Token], other: Sequence[Token]) -> float:
    """Largest difference between each token's alternatives and those of the other's next token."""
    return max((_gap(a.top, b.top) for a, b in zip(one, other[1:], strict=False)), default=math.inf)


def _longest_run(answer: Sequence[str], echoed: Sequence[str]) -> tuple[int, int]:
    """(position, length) of the longest beginning of an answer inside an echo, the last such."""
    best = (0, 0)  # length, position
    for at in range(len(echoed)):
        run = 0
        while run < len(answer) and at + run < len(echoed) and answer[run] == echoed[at + run]:
            run += 1
        best = max(best, (run, at))
    return best[1], best[0]
