"""The search with a reflection model:

the optimiser GEPA, fed by the pilot. Its package is the extra `tune`.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from leakbound._install import install_hint
from leakbound.errors import LeakboundError, TargetError, UsageError
from leakbound.models import Complete, Model, require
from leakbound.models.content import text_only
from leakbound_lab.tuning.pilot import PERFECT, SPENT, Metered, OutOfCalls, PairOutcome, Pilot
from leakbound_lab.tuning.streams import search_seed
from leakbound_lab.tuning.words import words_for

P = ParamSpec("P")
T = TypeVar("T")
PART = "query_text"
TOKENS = 4096  # of a reply of the reflection model: a query may be long, and it may think first
LEAST = 128  # tokens of a reply, below which a window is too short
MINIBATCH = 3


def require_gepa() -> Any:
    """The package, or a sentence that says how to get it."""
    if importlib.util.find_spec("gepa") is None:
        raise UsageError(
            "tuning with a reflection model needs the package gepa; install it with: "
            f"{install_hint('tune')}, or use --reflection-model none."
        )
    return importlib.import_module("gepa")


class Reflection:
    """Asks the reflection model, within the budget, and never the same thing twice:

    its replies are in the journal.
    """

    def __init__(self, model: Model, pilot: Pilot, tokens: int) -> None:
        require(model, [Complete], "the reflection")
        self.model, self.pilot, self.tokens = Metered(model, pilot.budget), pilot, tokens
        self.asked = 0

    def __call__(self, prompt: object) -> str:
        """One proposal; each has a random draw of its own, so that an unchanged prompt still gets
        new ideas.
        """
        self.asked += 1
        key = hashlib.sha256(f"{self.model.fingerprint} {self.asked} {prompt}".encode()).hexdigest()
        known = self.pilot.proposals
        if key not in known:
            (reply,) = self.model.answer([self._request(str(prompt))])
            self.pilot.journal.add("proposal", asked=key, reply=reply, calls=1)
            known[key] = reply
        return known[key]

    def _request(self, prompt: str) -> Complete:
        """For as many tokens as are stated, or half of them, or a quarter, ... where the window of
        the model does not hold more."""
        tokens = self.tokens
        while True:
            ask = Complete(prompt, max_tokens=tokens, temperature=1.0, stop=(), draw=self.asked)
            try:
                self.model.check([ask])
            except TargetError:
                if tokens <= LEAST:
                    raise
                tokens //= 2
            else:
                return ask


class _Adapter:
    """The pilot as GEPA wants it: an instance is the place of a pair, a candidate is one text under
    `query_text`.

    The reflection model sees, of a pair, the rendered query (with the canary in it), whether the
    canary was there, what was replied, and how often that was right. It sees no other example, but
    what a reply repeats.
    """

    propose_new_texts: None = None

    def __init__(self, pilot: Pilot, batch: Callable[..., object]) -> None:
        self.pilot, self.batch = pilot, batch

    def evaluate(
        self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False
    ) -> object:
        found = self.pilot.outcomes(candidate[PART], batch)
        traces = list(zip(batch, found, strict=True)) if capture_traces else None
        return self.batch(
            outputs=found, scores=[sum(pair) / 2 for pair in found], trajectories=traces
        )

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """Two records a pair, one for each context."""
        text = candidate[PART]
        refusal = self.pilot.refusal(text)
        if refusal:
            return {PART: [{"Question": text, "Feedback": f"It cannot be asked: {refusal}"}]}
        records = [
            record
            for place, found in eval_batch.trajectories
            for record in self._records(text, place, found)
        ]
        return {PART: records}

    def _records(self, text: str, place: int, found: PairOutcome) -> list[dict[str, str]]:
        (pair,) = self.pilot.asked(text, [place])
        asked = pair.asked
        by_share = {0.0: "wrong", 1.0: "right"}
        said = (
            (f"one that holds {asked.target!r}", "one without it")
            if asked.target
            else (repr(asked.member), repr(asked.nonmember))
        )
        there = zip(("stood in the examples", "did not stand in them"), said, strict=True)
        return [
            {
                "Question": text_only(asked.query.text, "tuning"),
                "Reply": reply or "(nothing)",
                "Feedback": (
                    f"The text {context}; the right answer is {answer}. "
                    "The reply was "
                    f"{by_share.get(right, f'right in {right:.0%} of the outputs with noise')}."
                ),
            }
            for (context, answer), reply, right in zip(
                there, self.pilot.replies[text][place], found, strict=True
            )
        ]


class _Stop:
    """Ends the search: a perfect query, something that failed, or as many rounds as there are
    calls (each takes one).
    """

    def __init__(self, pilot: Pilot) -> None:
        self.pilot = pilot
        self.failed: Exception | None = None

    def __call__(self, state: Any) -> bool:
        return self.failed is not None or self.pilot.perfect() or state.i >= self.pilot.budget.limit

    def guard(self, function: Callable[P, T]) -> Callable[P, T]:
        """The function, with what it raises kept:

        the optimiser passes over failures of its parts, and must not here.
        """

        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except (OutOfCalls, LeakboundError) as error:
                self.failed = self.failed or error
                raise

        return guarded


class _Silent:
    def log(self, message: str) -> None:
        """The optimiser's own messages may hold private text."""


def search_by_reflection(pilot: Pilot, start: str, model: Model, tokens: int) -> str:
    """Let GEPA search from `start`; returns why it ended. What it finds is in the pilot."""
    gepa, stop = require_gepa(), _Stop(pilot)
    adapter = _Adapter(pilot, gepa.EvaluationBatch)
    adapter.evaluate = stop.guard(adapter.evaluate)  # type: ignore[method-assign]
    places = list(range(len(pilot.pairs)))
    try:
        gepa.optimize(
            seed_candidate={PART: start},
            trainset=places,
            valset=places,
            adapter=adapter,
            reflection_lm=stop.guard(Reflection(model, pilot, tokens)),
            reflection_prompt_template=words_for(pilot.prepared.spec.attack.query)[1],
            reflection_minibatch_size=min(MINIBATCH, len(places)),
            stop_callbacks=stop,
            logger=_Silent(),
            seed=search_seed(pilot.prepared.spec.design.seed),
        )
    except OutOfCalls:
        pass
    except LeakboundError as error:
        stop.failed = error
    if isinstance(stop.failed, LeakboundError):
        raise stop.failed
    if stop.failed:
        return SPENT
    return PERFECT if pilot.perfect() else "no better query was in sight"
