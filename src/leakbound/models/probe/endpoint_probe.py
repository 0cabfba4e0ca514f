"""Ask one model of an OpenAI-compatible endpoint about public texts, and note the findings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from leakbound._version import __version__
from leakbound.errors import Refused, TargetError, UsageError
from leakbound.models.openai.account import Size, usage_of
from leakbound.models.openai.client import Client
from leakbound.models.openai.endpoint import LENGTHS, OWN, Capabilities, Dialect
from leakbound.models.openai.replies import Fault, Generated, Unsupported, parse_generated
from leakbound.models.openai.requests import HttpRequest, http_request_for
from leakbound.models.probe.replies import (
    NUMERICS,
    Alignment,
    ScoredText,
    alignment,
    broken_law,
    largest_change,
    parse_chat,
    parse_completion,
    parse_prompt,
)
from leakbound.models.request import Complete, Request, ScoreTokens

if TYPE_CHECKING:
    from pydantic import JsonValue

CheckName = Literal[
    "completions", "chat", "batches", "token_ids", "embeddings", "logprobs", "chat_logprobs",
    "logprobs_valid", "top_k", "echo", "echo_aligned", "echo_length", "prompt_logprobs",
    "prompt_logprobs_aligned", "vocabulary", "repeats", "temperature", "seed", "parameters",
    "reasoning", "echo_scored", "prompt_logprobs_scored",
]  # fmt: skip


class ProbeFinding(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    check: CheckName
    holds: bool | None
    detail: str
    value: float | None = None


class ProbeRecord(BaseModel):
    """The findings at an address. Holds no key."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    schema_version: Literal[3] = 3
    version: str = __version__
    address: str
    base_url: str | None = None
    requests: int
    findings: tuple[ProbeFinding, ...]
    supports: tuple[str, ...]
    dialect: Dialect = Dialect()

    def finding(self, check: CheckName) -> ProbeFinding:
        missing = ProbeFinding(
            check=check, holds=None, detail="not checked: nothing to check it on"
        )
        return next((finding for finding in self.findings if finding.check == check), missing)

    def holds(self, check: CheckName) -> bool:
        return self.finding(check).holds is True


def load_probe(path: Path) -> ProbeRecord:
    """Read a record that `leakbound probe --json` wrote."""
    try:
        return ProbeRecord.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            f"the capabilities file {str(path)!r} cannot be read; write it with leakbound probe "
            "ADDRESS --json."
        ) from None
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UsageError(
            f"the capabilities file {str(path)!r} is not a probe record of this version"
            f"{f' (see {where})' if where else ''}; write it again with leakbound probe ADDRESS "
            "--json."
        ) from None


Floats = npt.NDArray[np.float32]

ONE = "The capital of France is Paris. The capital of Italy is"
OTHER = "The sun rises in the east and sets in the"
TOKENS = 12  # of an answer: enough to align an echo, few enough to cost little
TOP = 5  # alternatives requested for each token, unless their number is in question
FIELDS: Mapping[str, object] = {"logprobs": TOP}
CHAT_FIELDS: Mapping[str, object] = {"logprobs": True, "top_logprobs": TOP}
HOT = 2.0  # temperature at which answers must differ


TRIES = 4  # for a temporary failure: a fault in 1 of 10 requests then passes 9,999 in 10,000
# failures that say nothing about the capabilities of the endpoint
AWAY = ("no connection", "HTTP 429", "HTTP 502", "HTTP 503", "HTTP 504")


class Findings:
    def __init__(self) -> None:
        self.requests = 0
        self.findings: list[ProbeFinding] = []

    def note(
        self, check: CheckName, holds: bool | None, detail: str, value: float | None = None
    ) -> bool:
        self.findings.append(ProbeFinding(check=check, holds=holds, detail=detail, value=value))
        return holds is True


class EndpointProbe(Findings):
    def __init__(self, client: Client, url: str, model: str, dialect: Dialect = OWN) -> None:
        super().__init__()
        self.client, self.url, self.model, self.dialect = client, url, model, dialect
        self.failed = self.parameter = ""  # of the last request

    def ask(
        self, path: str, fields: Mapping[str, object], dialect: Dialect | None = None
    ) -> dict[str, JsonValue]:
        self.requests += 1
        written = self.dialect if dialect is None else dialect
        text = path != "/embeddings"
        sent = written.applied({"model": self.model, **fields}, text)
        # no tokenizer makes more tokens of a text than its bytes
        generated = next((sent[name] for name in LENGTHS if name in sent), 0)
        size = Size(len(json.dumps(sent)), generated if isinstance(generated, int) else 0)
        self.failed = self.parameter = ""
        try:
            return self.client.ask(HttpRequest(path, sent, size, dict))
        except Refused as refused:
            if refused.status == 401:
                raise
            self.failed = f"HTTP {refused.status}"
            self.parameter = refused.parameter if isinstance(refused, Unsupported) else ""
        except Fault as fault:
            if fault.kind in AWAY:
                raise TargetError(
                    f"{self.url} does not answer ({fault.kind}, {TRIES} times); start "
                    "the server, give the right --base-url, or probe it when it works again."
                ) from None
            self.failed = fault.kind
        return {}

    def answer(self, request: Request[object], can: Capabilities) -> Generated | Floats | None:
        """Send a request and read its answer as an audit does."""
        sent = http_request_for(request, self.model, can, self.dialect)
        body = self.ask(sent.path, sent.body, Dialect())
        try:
            return sent.read(body) if body else None
        except (Fault, TargetError):
            self.failed = "unreadable"
            return None

    def choices(self, path: str, fields: Mapping[str, object]) -> list[JsonValue]:
        found = self.ask(path, fields).get("choices")
        return found if isinstance(found, list) else []

    def complete(self, prompt: str, **fields: object) -> ScoredText | None:
        """One answer, greedy unless the fields say otherwise."""
        wanted = {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0.0, **fields}
        return next(map(parse_completion, self.choices("/completions", wanted)), None)

    def chat(self, prompt: str, **fields: object) -> ScoredText | None:
        turn = [{"role": "user", "content": prompt}]
        wanted = {"messages": turn, "max_tokens": TOKENS, "temperature": 0.0, **fields}
        return next(map(parse_chat, self.choices("/chat/completions", wanted)), None)

    def check(self, check: CheckName, holds: bool, detail: str, missing: str = "") -> bool:
        """Note what holds, or what is missing: by default, how the last request failed."""
        return self.note(check, holds, detail if holds else missing or self.refused)

    @property
    def refused(self) -> str:
        """How the last request failed to bring what it asked for."""
        return f"refused ({self.failed})" if self.failed else "answered without it"


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

    def ask(check: CheckName, say: Say, fields: Mapping[str, object]) -> ScoredText | None:
        answer = say(ONE, **fields)
        there = answer is not None and any(token.logprob is not None for token in answer.tokens)
        ignored = "ignores log-probabilities: answered without them" if answer else ""
        probe.check(check, there, "each generated token has its ln p", ignored)
        return answer

    chatted = ask("chat_logprobs", probe.chat, CHAT_FIELDS) if chats else None
    completed = ask("logprobs", probe.complete, FIELDS) if completes else None
    if seen := [token for one in (chatted, completed) if one is not None for token in one.tokens]:
        broken = broken_law(seen)
        laws = f"{len(seen)} tokens keep the laws of ln p"
        probe.check("logprobs_valid", broken is None, laws, broken or "")
        _count_alternatives(probe, completed is not None and bool(completed.tokens))
    first, fields = (completed, FIELDS) if completes else (chatted, CHAT_FIELDS)
    return (first, fields) if first is not None and first.tokens else (None, {})


def _count_alternatives(probe: EndpointProbe, completes: bool) -> None:
    for k in MANY:
        fields = {"logprobs": k} if completes else {"logprobs": True, "top_logprobs": k}
        answer = (probe.complete if completes else probe.chat)(ONE, max_tokens=1, **fields)
        if answer is not None and answer.tokens:
            count = min(k, len(answer.tokens[0].top))
            detail = f"{count} alternatives of {k} requested"
            probe.note("top_k", count > 0, detail, float(count))
            return
    probe.note("top_k", False, probe.refused)


def ask_echo(probe: EndpointProbe, answers: ScoredTexts) -> None:
    """Echo each answer after its prompt, and find the position of its log-probabilities."""
    whole = probe.complete(ONE, echo=True, logprobs=1, max_tokens=1)
    missing = ""
    if whole is None:
        missing = probe.refused
    elif ONE not in whole.text:
        missing = "answered without the prompt"
    elif len(whole.tokens) <= TOP:
        missing = "the prompt comes back without log-probabilities"
    detail = missing or "the prompt comes back with log-probabilities"
    if not probe.note("echo", not missing, detail):
        return
    echoes = [
        probe.complete(prompt + answer.text, echo=True, max_tokens=1, **FIELDS)
        for prompt, answer in answers
    ]
    _place(probe, "echo_aligned", answers, echoes)
    _score(probe, "echo_scored", answers, Capabilities(completions=True, echo=True))
    _echo_length(probe)


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
    """Score the first answer as an audit would, and compare it with the tokens as generated."""
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
        read.append(next(map(parse_prompt, probe.choices("/completions", fields)), None))
    there = any(one is not None for one in read)
    if probe.check("prompt_logprobs", there, "each token of a prompt has its ln p"):
        _place(probe, "prompt_logprobs_aligned", answers, read)
        can = Capabilities(completions=True, prompt_logprobs=True)
        _score(probe, "prompt_logprobs_scored", answers, can)


def _noise(probe: EndpointProbe) -> float:
    return next((f.value or 0.0 for f in probe.findings if f.check == "repeats"), 0.0)


ROOM = 4096  # tokens for reasoning and answer; reasoning on a short question takes hundreds
LENGTH = Dialect(rename={"max_tokens": "max_completion_tokens"})
# tried in turn if an endpoint refuses a request without naming the parameter
GUESSES = (
    LENGTH,
    Dialect(omit=("temperature",)),
    Dialect(omit=("top_p",)),
    Dialect(omit=("stop",)),
    replace(LENGTH, omit=("temperature",)),
    replace(LENGTH, omit=("temperature", "top_p", "stop")),
    Dialect(omit=("temperature", "top_p", "stop")),
)
REFUSED = ("HTTP 400", "HTTP 422")


def ask_dialect(probe: EndpointProbe, chats: bool) -> ScoredText | None:
    """Ask as an audit does, and change refused parameters until there is an answer."""
    can = Capabilities(chat=chats, completions=not chats)
    kept, body, guesses = probe.dialect, _ask(probe, can), iter(GUESSES)
    while not body and probe.failed in REFUSED:
        named = probe.parameter
        changed = _change(probe.dialect, named) if named else next(guesses, None)
        if changed is None:
            break
        probe.dialect = changed if named else changed.over(kept)
        body = _ask(probe, can)
    try:
        return ScoredText(_with_room(probe, can, body).answer)
    except Fault:
        probe.dialect = kept
        return None


def _change(dialect: Dialect, name: str) -> Dialect | None:
    """The dialect without a parameter. A length is first renamed."""
    if name == "max_tokens" and name not in dialect.rename:
        return replace(dialect, rename={**dialect.rename, name: "max_completion_tokens"})
    if name in dialect.omit:
        return None
    renamed = {old: new for old, new in dialect.rename.items() if old != name}
    return replace(dialect, rename=renamed).without(name)


def _ask(probe: EndpointProbe, can: Capabilities) -> dict[str, JsonValue]:
    sent = http_request_for(Complete(ONE, TOKENS), probe.model, can, probe.dialect)
    return probe.ask(sent.path, sent.body, Dialect())


def _with_room(probe: EndpointProbe, can: Capabilities, body: dict[str, JsonValue]) -> Generated:
    """Make room for reasoning, which ends at the first stop text and uses the answer's tokens."""
    found, usual = parse_generated(body), not probe.dialect
    detail = "takes the usual parameters" if usual else str(probe.dialect)
    probe.note("parameters", usual, detail)
    if not (found.reasoning or _reason(body)):
        probe.note("reasoning", False, "the model shows no reasoning")
        return found
    kept = probe.dialect
    given = next((name for name in kept.params if name in LENGTHS), None)
    length = given or kept.rename.get("max_tokens", "max_tokens")
    probe.dialect = Dialect({length: ROOM}, ("stop",)).over(kept)
    again = _ask(probe, can)
    answered = parse_generated(again) if again else found
    room = f"{length} is {ROOM} and stop is left out, so that an answer follows it"
    probe.note("reasoning", True, f"the model reasons before it answers: {room}")
    return answered


def _reason(body: Mapping[str, JsonValue]) -> bool:
    """Whether reasoning tokens are counted, as OpenAI does without showing them."""
    usage = body.get("usage")
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    tokens = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return isinstance(tokens, int) and tokens > 0


IDS = (10, 11, 12, 13, 14)  # token ids that are in every vocabulary
Say = Callable[..., ScoredText | None]  # `EndpointProbe.complete` or `EndpointProbe.chat`


def run_questions(probe: EndpointProbe) -> None:
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


# --- texts


def _texts(probe: EndpointProbe) -> tuple[ScoredText | None, ScoredText | None]:
    chatted = ask_dialect(probe, chats=True)
    probe.check("chat", chatted is not None, "answers /chat/completions")
    failed = probe.failed
    completed = probe.complete(ONE)
    if completed is None and chatted is None:
        completed = ask_dialect(probe, chats=False)
    probe.check("completions", completed is not None, "answers /completions")
    if chatted is None and completed is None:
        raise TargetError(
            f"the endpoint answers neither /chat/completions ({failed}) nor /completions "
            f"({probe.failed}); check the base URL, which ends in /v1 on most servers, and the "
            f"model's name {probe.model!r}."
        )
    return chatted, completed


def _prompts(probe: EndpointProbe, completed: ScoredText) -> None:
    fields = {"prompt": [ONE, OTHER], "max_tokens": TOKENS, "temperature": 0.0}
    texts = [parse_completion(choice) for choice in probe.choices("/completions", fields)]
    kept = len(texts) == 2 and texts[0] is not None and texts[0].text == completed.text
    probe.check("batches", kept, "two prompts in one request, in order")
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
    probe.check("embeddings", good, f"{min(sizes)} numbers for a text")


def _size(entry: object) -> int:
    vector = entry.get("embedding") if isinstance(entry, dict) else None
    if not isinstance(vector, list):
        return 0
    good = all(isinstance(x, int | float) and math.isfinite(x) for x in vector)
    return len(vector) if good else 0


def _repeats(
    probe: EndpointProbe, say: Say, first: ScoredText | None, fields: Mapping[str, object]
) -> list[tuple[str, ScoredText]]:
    """Whether answers repeat and how ln p changes; the (prompt, answer) pairs with ln p."""
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
    many = len(texts) > 1
    if not still:
        detail = "cannot be determined: answers differ at temperature 0 already"
    elif many:
        detail = f"6 draws at {HOT:g} gave {len(texts)} answers, two at 0 gave one"
    else:
        detail = f"ignores the temperature: 6 draws at {HOT:g} gave one answer"
    probe.note("temperature", many if still else None, detail)
    one, again, *others = [answer and answer.text for answer in seeded]
    if not many:
        probe.note("seed", None, "cannot be determined: answers do not vary")
    elif None in (one, again, *others):
        probe.note("seed", False, f"a seed is {probe.refused}")
    elif one != again:
        probe.note("seed", False, "ignores the seed: one seed gave two answers")
    elif all(text == one for text in others):
        probe.note("seed", None, "cannot be determined: all seeds gave one answer")
    else:
        probe.note("seed", True, "one seed gave one answer, others gave others")
