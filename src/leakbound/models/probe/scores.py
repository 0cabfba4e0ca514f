"""Questions about log-probabilities: of generated tokens, echoed tokens and prompt tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from leakbound.models.openai.endpoint import Capabilities
from leakbound.models.probe.contract import NUMERICS, Alignment, alignment, broken_law
from leakbound.models.probe.endpoint_probe import (
    CHAT_FIELDS,
    FIELDS,
    ONE,
    OTHER,
    TOP,
    EndpointProbe,
)
from leakbound.models.probe.record import CheckName
from leakbound.models.probe.replies import ScoredText, read_prompt
from leakbound.models.request import ScoreTokens

MANY = (1000, 100, 20, 5, 1)  # alternatives to request, until there is an answer: usual limits
WORDS = (64, 256, 1024)  # lengths of texts to echo: a short, a typical and a long context
PLACES = {
    "early": "each echoed token carries the log-probabilities of the position after it: "
    "shifted by one",
    "late": "each echoed token carries the log-probabilities of the position before it: "
    "shifted by one",
    "elsewhere": "echoed log-probabilities are not those of their tokens",
    "unclear": "cannot be determined: too few tokens agree, or their values do not tell positions "
    "apart",
}
ScoredTexts = Sequence[tuple[str, ScoredText]]


def ask_logprobs(
    probe: EndpointProbe, chats: bool, completes: bool
) -> tuple[ScoredText | None, Mapping[str, object]]:
    """Ask for log-probabilities of generated tokens."""
    chatted = probe.chat(ONE, **CHAT_FIELDS) if chats else None
    if chats:
        _note_presence(probe, "chat_logprobs", chatted)
    completed = probe.complete(ONE, **FIELDS) if completes else None
    if completes:
        _note_presence(probe, "logprobs", completed)
    seen = [token for one in (chatted, completed) if one is not None for token in one.tokens]
    if seen:
        broken = broken_law(seen)
        detail = broken or f"{len(seen)} tokens keep the laws of ln p"
        probe.note("logprobs_valid", broken is None, detail)
        _count_alternatives(probe, completed is not None and bool(completed.tokens))
    first, fields = (completed, FIELDS) if completes else (chatted, CHAT_FIELDS)
    return (first, fields) if first is not None and first.tokens else (None, {})


def _note_presence(probe: EndpointProbe, check: CheckName, answer: ScoredText | None) -> None:
    there = answer is not None and any(token.logprob is not None for token in answer.tokens)
    ignored = "ignores log-probabilities: answered without them"
    missing = probe.refused if answer is None else ignored
    probe.note(check, there, "each generated token has its ln p" if there else missing)


def _count_alternatives(probe: EndpointProbe, completes: bool) -> None:
    for k in MANY:
        answer = _one_token(probe, k, completes)
        if answer is not None and answer.tokens:
            count = min(k, len(answer.tokens[0].top))
            detail = f"{count} alternatives of {k} requested"
            probe.note("top_k", count > 0, detail, float(count))
            return
    probe.note("top_k", False, probe.refused)


def _one_token(probe: EndpointProbe, k: int, completes: bool) -> ScoredText | None:
    if completes:
        return probe.complete(ONE, max_tokens=1, logprobs=k)
    return probe.chat(ONE, max_tokens=1, logprobs=True, top_logprobs=k)


def ask_echo(probe: EndpointProbe, answers: ScoredTexts) -> None:
    """Echo each answer after its prompt, and find the position of its log-probabilities."""
    whole = probe.complete(ONE, echo=True, logprobs=1, max_tokens=1)
    if not _note_echo(probe, whole):
        return
    echoes = [
        probe.complete(prompt + answer.text, echo=True, max_tokens=1, **FIELDS)
        for prompt, answer in answers
    ]
    _place(probe, "echo_aligned", answers, echoes)
    _score(probe, "echo_scored", answers, Capabilities(completions=True, echo=True))
    _echo_length(probe)


def _note_echo(probe: EndpointProbe, whole: ScoredText | None) -> bool:
    if whole is None:
        return probe.note("echo", False, probe.refused)
    if ONE not in whole.text:
        return probe.note("echo", False, "answered without the prompt")
    if len(whole.tokens) <= TOP:
        return probe.note("echo", False, "the prompt comes back without log-probabilities")
    return probe.note("echo", True, "the prompt comes back with log-probabilities")


def _place(
    probe: EndpointProbe,
    check: CheckName,
    answers: ScoredTexts,
    echoes: Sequence[ScoredText | None],
) -> None:
    """Decide by the worst clear position."""
    found = [
        alignment(answer, echo, _noise(probe))
        for (_, answer), echo in zip(answers, echoes, strict=False)
        if echo is not None
    ]
    clear = [one for one in found if one.place != "unclear"]
    wrong = [one for one in clear if one.place != "aligned"]
    decided: Alignment | None = next(iter(wrong + clear), None)
    if decided is None:
        probe.note(check, None, PLACES["unclear"])
    elif decided.place == "aligned":
        detail = f"equal to the generated tokens' own within {decided.gap:.2g}"
        probe.note(check, True, detail, decided.gap)
    else:
        detail = f"{PLACES[decided.place]} (ln p off by up to {decided.gap:.2g})"
        probe.note(check, False, detail, decided.gap)


def _score(probe: EndpointProbe, check: CheckName, answers: ScoredTexts, can: Capabilities) -> None:
    """Score the first answer as an audit would, and compare it with the tokens as generated.

    The text must keep the answer's tokens. A token joined with the prompt says nothing.
    """
    usable = [(prompt, one) for prompt, one in answers if one.text[:1].isspace() and one.tokens]
    if not usable:
        probe.note(check, None, "cannot be determined: no answer begins with a blank")
        return
    prompt, answer = usable[0]
    found = probe.answer(ScoreTokens(prompt, answer.text), can)
    if not isinstance(found, np.ndarray):
        probe.note(check, False, f"an audit could not read scores: {probe.refused}")
        return
    own = [token.logprob or 0.0 for token in answer.tokens]
    gap = max((abs(a - b) for a, b in zip(own, found.tolist(), strict=False)), default=math.nan)
    holds = None if len(own) != len(found) else gap <= NUMERICS + 3 * _noise(probe)
    probe.note(check, holds, f"{len(found)} tokens scored as an audit does, within {gap:.2g}", gap)


def _echo_length(probe: EndpointProbe) -> None:
    longest, refused = 0, ""
    for words in WORDS:
        text = " ".join([OTHER] * (words // len(OTHER.split())))
        answer = probe.complete(text, echo=True, logprobs=1, max_tokens=1)
        if answer is None or not answer.tokens:
            refused = f", one of about {words} words was {probe.refused}"
            break
        longest = len(answer.tokens)
    detail = f"{longest} tokens were echoed{refused}"
    probe.note("echo_length", not refused, detail, float(longest))


def ask_prompt_logprobs(probe: EndpointProbe, answers: ScoredTexts) -> None:
    """Compare vLLM's log-probabilities of a prompt with those of the same generated tokens."""
    read = []
    for text in [prompt + answer.text for prompt, answer in answers] or [ONE]:
        fields = {"prompt": text, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": TOP}
        read.append(next(map(read_prompt, probe.choices("/completions", fields)), None))
    there = any(one is not None for one in read)
    detail = "each token of a prompt has its ln p" if there else probe.refused
    if probe.note("prompt_logprobs", there, detail):
        _place(probe, "prompt_logprobs_aligned", answers, read)
        can = Capabilities(completions=True, prompt_logprobs=True)
        _score(probe, "prompt_logprobs_scored", answers, can)


def _noise(probe: EndpointProbe) -> float:
    return next((f.value or 0.0 for f in probe.findings if f.check == "repeats"), 0.0)
