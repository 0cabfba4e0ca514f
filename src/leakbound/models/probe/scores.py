"""Questions about log-probabilities:

of generated tokens, of echoed ones, of a prompt's; and whose they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakbound.models.probe.contract import Alignment, alignment, broken_law
from leakbound.models.probe.endpoint_probe import (
    CHAT_FIELDS,
    FIELDS,
    ONE,
    OTHER,
    TOP,
    EndpointProbe,
)
from leakbound.models.probe.record import Check
from leakbound.models.probe.replies import Said, read_prompt

__all__ = ["ask_echo", "ask_logprobs", "ask_prompt_logprobs"]

MANY = (1000, 100, 20, 5, 1)  # alternatives asked for, until an answer comes
WORDS = (64, 256, 1024)  # lengths of the texts to echo
PLACES = {
    "early": "each echoed token carries the log-probabilities of the position after it: shifted by one",
    "late": "each echoed token carries the log-probabilities of the position before it: shifted by one",
    "elsewhere": "echoed log-probabilities are not those of their tokens",
    "unclear": "cannot be told: too few tokens agree, or their values do not tell positions apart",
}


def ask_logprobs(
    on: EndpointProbe, chats: bool, completes: bool
) -> tuple[Said | None, dict[str, Any]]:
    """Log-probabilities of generated tokens; returns an answer that has them, and the fields that
    ask for them.
    """
    shown = on.talk(ONE, **CHAT_FIELDS) if chats else None
    if chats:
        _present(on, "chat_logprobs", shown)
    written = on.complete(ONE, **FIELDS) if completes else None
    if completes:
        _present(on, "logprobs", written)
    seen = [token for said in (shown, written) if said is not None for token in said.tokens]
    if seen:
        broken = broken_law(seen)
        on.note(
            "logprobs_valid", broken is None, broken or f"{len(seen)} tokens keep the laws of ln p"
        )
        _top(on, bool(written and written.tokens))
    first, fields = (written, FIELDS) if completes else (shown, CHAT_FIELDS)
    return (first, fields) if first is not None and first.tokens else (None, {})


def _present(on: EndpointProbe, check: Check, said: Said | None) -> bool:
    there = said is not None and any(token.logprob is not None for token in said.tokens)
    ignored = "ignores log-probabilities: answered without them" if said is not None else on.refused
    return on.note(check, there, "each generated token has its ln p" if there else ignored)


def _top(on: EndpointProbe, completes: bool) -> None:
    """How many alternatives come with a token."""
    for k in MANY:
        said = (on.complete(ONE, max_tokens=1, logprobs=k) if completes
                else on.talk(ONE, max_tokens=1, logprobs=True, top_logprobs=k))  # fmt: skip
        if said is not None and said.tokens:
            count = min(k, len(said.tokens[0].top))
            on.note("top_k", count > 0, f"{count} alternatives of {k} asked for", float(count))
            return
    on.note("top_k", False, on.refused)


def ask_echo(on: EndpointProbe, answers: Sequence[tuple[str, Said]]) -> None:
    """Echo each answer behind its prompt, and look where its log-probabilities stand."""
    whole = on.complete(ONE, echo=True, logprobs=1, max_tokens=1)
    there = whole is not None and ONE in whole.text
    scored = there and whole is not None and len(whole.tokens) > TOP
    told = "answered without the prompt" if whole is not None and not there else on.refused
    on.note("echo", scored, "the prompt comes back with log-probabilities" if scored else told if not there else
            "the prompt comes back without log-probabilities")  # fmt: skip
    if not scored:
        return
    echoes = [
        on.complete(prompt + said.text, echo=True, max_tokens=1, **FIELDS)
        for prompt, said in answers
    ]
    _place(on, "echo_aligned", answers, echoes)
    _echo_length(on)


def _place(
    on: EndpointProbe,
    check: Check,
    answers: Sequence[tuple[str, Said]],
    echoes: Sequence[Said | None],
) -> None:
    """The worst clear place decides."""
    pairs = [
        (said, echo) for (_, said), echo in zip(answers, echoes, strict=False) if echo is not None
    ]
    found = [alignment(said, echo, _noise(on)) for said, echo in pairs]
    clear = [one for one in found if one.place != "unclear"]
    wrong = next((one for one in clear if one.place != "aligned"), None)
    decided: Alignment | None = wrong or next(iter(clear), None)
    if decided is None:
        on.note(check, None, PLACES["unclear"])
    elif decided.place == "aligned":
        on.note(
            check, True, f"equal to the generated tokens' own within {decided.gap:.2g}", decided.gap
        )
    else:
        on.note(
            check,
            False,
            f"{PLACES[decided.place]} (ln p off by up to {decided.gap:.2g})",
            decided.gap,
        )


def _echo_length(on: EndpointProbe) -> None:
    longest, refused = 0, ""
    for words in WORDS:
        said = on.complete(
            " ".join([OTHER] * (words // len(OTHER.split()))), echo=True, logprobs=1, max_tokens=1
        )
        if said is None or not said.tokens:
            refused = f", one of about {words} words was {on.refused}"
            break
        longest = len(said.tokens)
    on.note("echo_length", not refused, f"{longest} tokens were echoed{refused}", float(longest))


def ask_prompt_logprobs(on: EndpointProbe, answers: Sequence[tuple[str, Said]]) -> None:
    """vLLM's log-probabilities of a prompt, compared with the same tokens as they were generated."""
    read = []
    for text in [prompt + said.text for prompt, said in answers] or [ONE]:
        asked = on.choices(
            "/completions", prompt=text, max_tokens=1, temperature=0.0, prompt_logprobs=TOP
        )
        read.append(next(map(read_prompt, asked), None))
    there = any(said is not None for said in read)
    if on.note(
        "prompt_logprobs", there, "each token of a prompt has its ln p" if there else on.refused
    ):
        _place(on, "prompt_logprobs_aligned", answers, read)


def _noise(on: EndpointProbe) -> float:
    return next((f.value or 0.0 for f in on.findings if f.check == "repeats"), 0.0)
