"""The fixed list of questions to an endpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from leakbound.errors import TargetError
from leakbound.models.openai.account import usage_of
from leakbound.models.probe.contract import largest_change
from leakbound.models.probe.endpoint_probe import HOT, ONE, OTHER, TOKENS, EndpointProbe, Sender
from leakbound.models.probe.replies import Said, read_completion
from leakbound.models.probe.scores import ask_echo, ask_logprobs, ask_prompt_logprobs

__all__ = ["interview"]

IDS = [10, 11, 12, 13, 14]  # token ids that every vocabulary has


def interview(door: Sender, model: str) -> EndpointProbe:
    """Ask everything. Raises TargetError if the endpoint is not there, refuses the key, or answers
    no question at all.
    """
    on = EndpointProbe(door, model)
    spoken, written = _texts(on)
    say = on.complete if written else on.talk
    first, fields = ask_logprobs(on, spoken is not None, written is not None)
    answers = _repeats(on, say, first or written or spoken, fields)
    if written:
        _prompts(on, written)
        ask_echo(on, answers)
        ask_prompt_logprobs(on, answers)
    _draws(on, say)
    _embeddings(on)
    return on


# --- texts
# --------------------------------------------------------------------------------------------------------------


def _texts(on: EndpointProbe) -> tuple[Said | None, Said | None]:
    spoken = on.talk(ONE)
    on.note("chat", spoken is not None, "answers /chat/completions" if spoken else on.refused)
    failed = on.failed
    written = on.complete(ONE)
    on.note("completions", written is not None, "answers /completions" if written else on.refused)
    if spoken is None and written is None:
        raise TargetError(
            f"the endpoint answers neither /chat/completions ({failed}) nor /completions "
            f"({on.failed}); "
            "check the base URL, which ends in /v1 on most servers, and the model's name "
            f"{on.model!r}."
        )
    return spoken, written


def _prompts(on: EndpointProbe, written: Said) -> None:
    """Several prompts in one request; prompts of token ids."""
    texts = [read_completion(choice) for choice in on.choices(
        "/completions", prompt=[ONE, OTHER], max_tokens=TOKENS, temperature=0.0)]  # fmt: skip
    kept = len(texts) == 2 and texts[0] is not None and texts[0].text == written.text
    on.note("batches", kept, "two prompts in one request, in order" if kept else on.refused)
    body = on.ask("/completions", prompt=IDS, max_tokens=1, temperature=0.0) or {}
    choices, usage = body.get("choices"), usage_of(body)
    used = usage.prompt if usage else 0
    taken = isinstance(choices, list) and len(choices) == 1 and used in (len(IDS), len(IDS) + 1)
    told = f"a prompt of {len(IDS)} ids counts {used} tokens" if usage else on.refused
    on.note("token_ids", taken, told)


def _embeddings(on: EndpointProbe) -> None:
    data = (on.ask("/embeddings", input=[ONE, OTHER]) or {}).get("data")
    sizes = {_size(entry) for entry in data} if isinstance(data, list) and len(data) == 2 else {0}
    good = len(sizes) == 1 and 0 not in sizes
    on.note("embeddings", good, f"{sizes.pop()} numbers for a text" if good else on.refused)


def _size(entry: Any) -> int:
    vector = entry.get("embedding") if isinstance(entry, dict) else None
    good = isinstance(vector, list) and all(
        isinstance(x, int | float) and math.isfinite(x) for x in vector
    )
    return len(vector) if good and isinstance(vector, list) else 0


def _repeats(
    on: EndpointProbe, say: Callable[..., Said | None], first: Said | None, fields: dict[str, Any]
) -> list[tuple[str, Said]]:
    """One question, another, the first again: equal answers, and by how much ln p changes. Returns
    texts that were answered
    with log-probabilities, as (prompt, answer)."""
    between, again = say(OTHER, **fields), say(ONE, **fields)
    if first is None or again is None:
        on.note("repeats", None, on.refused)
        return []
    change = largest_change(first, again)
    same = first.text == again.text
    told = f"the answer {'is the same' if same else 'differs'} when a question is asked again"
    on.note(
        "repeats",
        same,
        told + ("" if change is None else f"; ln p changes by up to {change:.2g}"),
        change,
    )
    return [
        (prompt, said)
        for prompt, said in ((ONE, first), (OTHER, between))
        if said is not None and said.tokens
    ]


# --- draws
# --------------------------------------------------------------------------------------------------------------


def _draws(on: EndpointProbe, say: Callable[..., Said | None]) -> None:
    """Answers at a high temperature must differ, equal seeds must give equal ones."""
    drawn = [say(ONE, temperature=HOT, seed=seed) for seed in (1, 1, 2, 3)]
    free = [say(ONE, temperature=HOT) for _ in range(2)]
    texts = {said.text for said in (*drawn, *free) if said is not None}
    if not texts:
        on.note("temperature", None, f"a temperature of {HOT:g} is {on.refused}")
        on.note("seed", None, "cannot be told without draws")
        return
    still = next(finding for finding in on.findings if finding.check == "repeats").holds
    if not _temperature(on, texts, bool(still)) and len(texts) < 2:
        on.note("seed", None, "cannot be told: answers do not vary")
        return
    _seed(on, drawn)


def _temperature(on: EndpointProbe, texts: set[str], still: bool) -> bool:
    if not still:
        return on.note(
            "temperature", None, "cannot be told: answers differ at temperature 0 already"
        )
    if len(texts) < 2:
        return on.note(
            "temperature", False, f"ignores the temperature: 6 draws at {HOT:g} gave one answer"
        )
    return on.note(
        "temperature", True, f"6 draws at {HOT:g} gave {len(texts)} answers, two at 0 gave one"
    )


def _seed(on: EndpointProbe, drawn: Sequence[Said | None]) -> None:
    if any(said is None for said in drawn):
        on.note("seed", False, f"a seed is {on.refused}")
        return
    one, again, *others = [said.text for said in drawn if said is not None]
    differ = any(text != one for text in others)
    if one != again:
        on.note("seed", False, "ignores the seed: one seed gave two answers")
    else:
        on.note("seed", differ or None, "one seed gave one answer, others gave others" if differ else
                "cannot be told: all seeds gave one answer")  # fmt: skip
