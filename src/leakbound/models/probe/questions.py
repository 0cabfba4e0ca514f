"""The fixed list of questions to an endpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from leakbound.errors import TargetError
from leakbound.models.openai.account import usage_of
from leakbound.models.openai.dialect import Dialect
from leakbound.models.openai.generated import Generated
from leakbound.models.probe.contract import largest_change
from leakbound.models.probe.dialects import ask_dialect
from leakbound.models.probe.endpoint_probe import HOT, ONE, OTHER, TOKENS, EndpointProbe, Sender
from leakbound.models.probe.replies import ScoredText, read_completion
from leakbound.models.probe.scores import ask_echo, ask_logprobs, ask_prompt_logprobs

OWN = Dialect()
IDS = (10, 11, 12, 13, 14)  # token ids that are in every vocabulary


class Say(Protocol):
    """`EndpointProbe.complete` or `EndpointProbe.chat`."""

    def __call__(self, prompt: str, **fields: object) -> ScoredText | None: ...


def run_questions(client: Sender, model: str, dialect: Dialect = OWN) -> EndpointProbe:
    """Ask an endpoint all questions."""
    probe = EndpointProbe(client, model, dialect=dialect)
    chatted, completed = _texts(probe)
    say: Say = probe.complete if completed else probe.chat
    first, fields = ask_logprobs(probe, chatted is not None, completed is not None)
    answers = _repeats(probe, say, first or completed or chatted, fields)
    if completed:
        _prompts(probe, completed)
        ask_echo(probe, answers)
        ask_prompt_logprobs(probe, answers)
    _draws(probe, say)
    _embeddings(probe)
    return probe


# --- texts


def _texts(probe: EndpointProbe) -> tuple[ScoredText | None, ScoredText | None]:
    chatted = _text(ask_dialect(probe, chats=True))
    there = chatted is not None
    probe.note("chat", there, "answers /chat/completions" if there else probe.refused)
    failed = probe.failed
    completed = probe.complete(ONE)
    if completed is None and chatted is None:
        completed = _text(ask_dialect(probe, chats=False))
    there = completed is not None
    probe.note("completions", there, "answers /completions" if there else probe.refused)
    if chatted is None and completed is None:
        raise TargetError(
            f"the endpoint answers neither /chat/completions ({failed}) nor /completions "
            f"({probe.failed}); check the base URL, which ends in /v1 on most servers, and the "
            f"model's name {probe.model!r}."
        )
    return chatted, completed


def _text(found: Generated | None) -> ScoredText | None:
    return None if found is None else ScoredText(found.answer)


def _prompts(probe: EndpointProbe, completed: ScoredText) -> None:
    """Several prompts in one request; prompts of token ids."""
    fields = {"prompt": [ONE, OTHER], "max_tokens": TOKENS, "temperature": 0.0}
    texts = [read_completion(choice) for choice in probe.choices("/completions", fields)]
    kept = len(texts) == 2 and texts[0] is not None and texts[0].text == completed.text
    probe.note("batches", kept, "two prompts in one request, in order" if kept else probe.refused)
    fields = {"prompt": list(IDS), "max_tokens": 1, "temperature": 0.0}
    body = probe.ask("/completions", fields)
    choices, usage = body.get("choices"), usage_of(body)
    used = usage.prompt if usage else 0
    taken = isinstance(choices, list) and len(choices) == 1 and used in (len(IDS), len(IDS) + 1)
    detail = f"a prompt of {len(IDS)} ids counts {used} tokens" if usage else probe.refused
    probe.note("token_ids", taken, detail)


def _embeddings(probe: EndpointProbe) -> None:
    data = probe.ask("/embeddings", {"input": [ONE, OTHER]}).get("data")
    sizes = {_size(entry) for entry in data} if isinstance(data, list) and len(data) == 2 else {0}
    good = len(sizes) == 1 and 0 not in sizes
    probe.note("embeddings", good, f"{sizes.pop()} numbers for a text" if good else probe.refused)


def _size(entry: object) -> int:
    vector = entry.get("embedding") if isinstance(entry, dict) else None
    if not isinstance(vector, list):
        return 0
    good = all(isinstance(x, int | float) and math.isfinite(x) for x in vector)
    return len(vector) if good else 0


def _repeats(
    probe: EndpointProbe, say: Say, first: ScoredText | None, fields: Mapping[str, object]
) -> list[tuple[str, ScoredText]]:
    """One question, another, then the first again: whether answers repeat, and how ln p changes.

    Returns the (prompt, answer) pairs that came with log-probabilities.
    """
    between, again = say(OTHER, **fields), say(ONE, **fields)
    if first is None or again is None:
        probe.note("repeats", None, probe.refused)
        return []
    change, same = largest_change(first, again), first.text == again.text
    detail = f"the answer {'is the same' if same else 'differs'} when a question is asked again"
    change_detail = "" if change is None else f"; ln p changes by up to {change:.2g}"
    probe.note("repeats", same, detail + change_detail, change)
    answers = ((ONE, first), (OTHER, between))
    return [(prompt, answer) for prompt, answer in answers if answer is not None and answer.tokens]


# --- draws


def _draws(probe: EndpointProbe, say: Say) -> None:
    """Answers at a high temperature must differ, and equal seeds must give equal answers."""
    seeded = [say(ONE, temperature=HOT, seed=seed) for seed in (1, 1, 2, 3)]
    free = [say(ONE, temperature=HOT) for _ in range(2)]
    texts = {answer.text for answer in (*seeded, *free) if answer is not None}
    if not texts:
        probe.note("temperature", None, f"a temperature of {HOT:g} is {probe.refused}")
        probe.note("seed", None, "cannot be determined without draws")
        return
    still = next(finding for finding in probe.findings if finding.check == "repeats").holds
    if not _temperature(probe, texts, bool(still)) and len(texts) < 2:
        probe.note("seed", None, "cannot be determined: answers do not vary")
        return
    _seed(probe, seeded)


def _temperature(probe: EndpointProbe, texts: set[str], still: bool) -> bool:
    if not still:
        detail = "cannot be determined: answers differ at temperature 0 already"
        return probe.note("temperature", None, detail)
    if len(texts) < 2:
        detail = f"ignores the temperature: 6 draws at {HOT:g} gave one answer"
        return probe.note("temperature", False, detail)
    detail = f"6 draws at {HOT:g} gave {len(texts)} answers, two at 0 gave one"
    return probe.note("temperature", True, detail)


def _seed(probe: EndpointProbe, seeded: Sequence[ScoredText | None]) -> None:
    if any(answer is None for answer in seeded):
        probe.note("seed", False, f"a seed is {probe.refused}")
        return
    one, again, *others = [answer.text for answer in seeded if answer is not None]
    if one != again:
        probe.note("seed", False, "ignores the seed: one seed gave two answers")
    elif all(text == one for text in others):
        probe.note("seed", None, "cannot be determined: all seeds gave one answer")
    else:
        probe.note("seed", True, "one seed gave one answer, others gave others")
