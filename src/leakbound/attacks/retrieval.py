"""Attacks on stores about one document: questions about it, and one number for all replies.

The attacker has the document and asks whether a store holds it. Every question is one answer of
the store, so a claim for an answer is composed over all of them.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from leakbound._check import within
from leakbound.attacks import templates
from leakbound.attacks.protocols import AuditQuery, RenderedQuery
from leakbound.attacks.templates import TemplateQuery, fill_template
from leakbound.attacks.words import (
    long_words,
    only_words,
    replace_core,
    share_in_order,
    stance,
    words_of,
)
from leakbound.errors import UsageError
from leakbound.models.content import Private, text_only
from leakbound.tasks import Example, Query, Task

ALWAYS_KEPT = ("yes", "no")
# Takes the place of words: names that hardly any document holds, and that look like words
NAMES = (
    "Ardell", "Brisko", "Calveen", "Dorrick", "Elvaney", "Farlow", "Gantrel", "Hosmer", "Ildren",
    "Jaskin", "Kelbourne", "Lundrey", "Morvane", "Nostrell", "Ostrake", "Pellam",
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Question(Private):
    """A question about a document.

    Attributes:
        text: What is sent (PRIVATE).
        expected: What an answer made from the document says (PRIVATE).
    """

    text: str
    expected: str


class DocumentAttack(AuditQuery):
    """A query with one or more questions about a document that a store holds or does not hold.

    Its own choices, such as which words are masked, depend on the document alone.

    Attributes:
        canary: Name of the canary that it is used with by default.
    """

    __slots__ = ()
    free: ClassVar[bool] = True
    score: ClassVar[str] = "document"
    tasks: ClassVar[str] = "stores, memories"
    canary: ClassVar[str] = "natural"

    @abstractmethod
    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        """What is asked about a document: as many questions for every document.

        Args:
            document: Its text (PRIVATE).
            rng: Source of all randomness.

        Raises:
            UsageError: If the document is too short.
        """

    @abstractmethod
    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        """How much speaks for a store that holds the document, from -1 to 1.

        It depends on no word of a reply but those that a question expects, yes and no, and not on
        how many others there are.

        Args:
            questions: Those of the document (PRIVATE).
            replies: As many replies (PRIVATE); an empty one where there was no answer.
        """

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        """The questions about `canary`, as one query."""
        document = text_only(canary.input, self.name)
        digest = hashlib.sha256(f"{self.name}:{document}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        asked = self.questions(document, rng)
        query = Query(asked[0].text, free=True, further=tuple(one.text for one in asked[1:]))
        return DocumentQuery(query, "", None, document, self, asked)


@dataclass(frozen=True, slots=True, repr=False)
class DocumentQuery(RenderedQuery):
    """A rendered query that knows how its replies are scored."""

    attack: DocumentAttack | None = None
    questions: tuple[Question, ...] = ()

    def evaluate(self, text: str) -> float:
        if self.attack is None:
            raise UsageError("the query has no attack; make it by the render of a DocumentAttack.")
        return self.attack.evaluate(self.questions, self.query.replies(text))

    def kept(self, text: str) -> str:
        """The replies with everything blotted out that the score does not read."""
        known = {*ALWAYS_KEPT, *(word for one in self.questions for word in words_of(one.expected))}
        replies = self.query.replies(text)
        return self.query.joined(only_words(reply, known) for reply in replies)


class _TemplateAttack(TemplateQuery, DocumentAttack):
    """An attack whose questions show words of the document in a template."""

    __slots__ = ()

    def _require(self, words: Sequence[object], least: int) -> None:
        if len(words) < least:
            raise UsageError(
                f"the query {self.name} needs {least} words of a document that it can ask about, "
                f"and a document has {len(words)}; use longer documents (--canary natural), or "
                "--query lookup."
            )

    def _question(self, shown: Sequence[str], expected: Sequence[str]) -> Question:
        text = fill_template(self.template, {self.places[0]: " ".join(shown)})
        return Question(str(text), " ".join(expected))

    def _prefixes(self, document: str, steps: int) -> tuple[Question, ...]:
        """A question for each of so many beginnings of a document; the last is its half."""
        words = document.split()
        self._require(words, 2 * steps)
        sizes = [len(words) * step // (2 * steps) for step in range(1, steps + 1)]
        return tuple(self._question(words[:size], words[size:]) for size in sizes)


def _recall(question: Question, reply: str) -> float:
    """Share of the expected words that a reply gives in their order."""
    return share_in_order(words_of(question.expected), words_of(reply))


@dataclass(frozen=True, slots=True)
class MaskedWords(_TemplateAttack):
    """Masks words of a document; the score is the share that the reply restores in their order.

    Only words are masked that stand in the document once, so that the question holds none of them.
    The published attack (MBA) chooses words that a proxy language model finds hard to predict; here
    they are drawn from the longest.

    Attributes:
        masks: Words that are masked, at least 1.
        template: Wording; must hold {canary}.

    Reference:
        Liu, Zhang and Long, "Mask-based Membership Inference Attacks for Retrieval-Augmented
        Generation" (WWW 2025).

    Examples:
        >>> attack = MaskedWords(masks=1)
        >>> (asked,) = attack.questions("we saw a kestrel", np.random.default_rng(0))
        >>> asked.text.split(" Fill")[0], attack.evaluate([asked], ["[1] Kestrel"])
        ('we saw a [1]', 1.0)
    """

    name: ClassVar[str] = "mba"
    asks: ClassVar[Literal["membership", "text"]] = "text"
    least: ClassVar[Mapping[str, int]] = {"masks": 1}
    masks: int = 8
    template: str = templates.FILL_IN

    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        """One: `document` with words masked, drawn by `rng` from the longest."""
        words = document.split()
        places = long_words(words)
        self._require(places, self.masks)
        longest = sorted(places, key=lambda at: -len(words[at]))[: 2 * self.masks]
        chosen = sorted(int(at) for at in rng.choice(longest, self.masks, replace=False))
        shown = list(words)
        for number, at in enumerate(chosen, 1):
            shown[at] = replace_core(words[at], f"[{number}]")
        return (self._question(shown, [words[at] for at in chosen]),)

    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        return _recall(questions[0], replies[0])


@dataclass(frozen=True, slots=True)
class Interrogation(_TemplateAttack):
    """Asks whether passages of a document are true, half of them with a word changed.

    The score is the share of right answers, less a charge for each that is neither yes nor no, such
    as "I don't know": a store without the document cannot know. The published attack (IA) has a
    language model write its questions.

    Attributes:
        statements: Questions, at least 2.
        length: Words of each passage, at least 3.
        charge: What an answer that is neither yes nor no costs, in right answers; from 0 to 1.
        template: Wording; must hold {canary}.

    Reference:
        Naseh et al., "Riddle Me This! Stealthy Membership Inference for Retrieval-Augmented
        Generation" (CCS 2025).

    Examples:
        >>> attack = Interrogation(statements=2, charge=0.5)
        >>> asked = [Question("a kite flew, right?", "yes"), Question("a crow flew, right?", "no")]
        >>> attack.evaluate(asked, ["Yes.", "No."]), attack.evaluate(asked, ["Yes.", "Who knows"])
        (1.0, 0.25)
    """

    name: ClassVar[str] = "interrogation"
    least: ClassVar[Mapping[str, int]] = {"statements": 2, "length": 3}
    statements: int = 6
    length: int = 8
    charge: float = 0.5
    template: str = templates.STATEMENT

    def __post_init__(self) -> None:
        TemplateQuery.__post_init__(self)
        within("charge of the query interrogation", self.charge, 0.0, 1.0)

    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        """About passages of `document`; `rng` chooses those that get a word of another passage."""
        words = document.split()
        self._require(words, 2 * self.length)
        starts = np.linspace(0, len(words) - self.length, self.statements).astype(int).tolist()
        true = rng.permutation(np.arange(self.statements) % 2 == 0).tolist()
        found = []
        for start, as_it_is in zip(starts, true, strict=True):
            end = start + self.length
            passage = words[start:end]
            if not as_it_is:
                passage = _change(passage, [*words[:start], *words[end:]], rng)
            found.append(self._question(passage, ["yes" if as_it_is else "no"]))
        return tuple(found)

    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        said = [stance(reply) for reply in replies]
        right = sum(one.expected == answer for one, answer in zip(questions, said, strict=True))
        return (right - self.charge * said.count(None)) / len(questions)


def _change(passage: list[str], others: list[str], rng: np.random.Generator) -> list[str]:
    """One word, of the longest where there are such, becomes one of another passage."""
    known = set(words_of(" ".join(passage)))
    at = int(rng.choice(long_words(passage) or len(passage)))
    fresh = [others[i] for i in long_words(others)] or others
    fresh = [word for word in fresh if not known & set(words_of(word)) and words_of(word)]
    core = words_of(fresh[int(rng.integers(len(fresh)))])[0] if fresh else "nothing"
    return [*passage[:at], replace_core(passage[at], core), *passage[at + 1 :]]


@dataclass(frozen=True, slots=True)
class SecondHalf(_TemplateAttack):
    """Gives the first half of a document; the score is the share of the rest in the reply.

    The words of the rest count in their order (ROUGE-L recall). The published attack (S2) measures
    BLEU and the perplexity of the reply.

    Attributes:
        template: Wording; must hold {prefix}.

    Reference:
        Li et al., "Generating Is Believing: Membership Inference Attacks against
        Retrieval-Augmented Generation" (ICASSP 2025).

    Examples:
        >>> (asked,) = SecondHalf().questions("a b c d", np.random.default_rng(0))
        >>> asked.expected, SecondHalf().evaluate([asked], ["x c y"])
        ('c d', 0.5)
    """

    name: ClassVar[str] = "s2"
    asks: ClassVar[Literal["membership", "text"]] = "text"
    places: ClassVar[tuple[str, ...]] = ("prefix",)
    template: str = templates.RECALL

    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        return self._prefixes(document, 1)

    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        return _recall(questions[0], replies[0])


@dataclass(frozen=True, slots=True)
class GrowingPrefixes(_TemplateAttack):
    """Gives ever longer beginnings of a document, up to half of it, and asks for the rest.

    A reply counts by the share of the rest that it repeats in its order, and by how much of the
    document was not given: what follows from a short beginning weighs more.

    Attributes:
        steps: Prefixes, at least 1; each is a question.
        template: Wording; must hold {prefix}.

    Reference:
        Carlini et al., "Quantifying Memorization Across Neural Language Models" (ICLR 2023), of
        prompts of growing length.

    Examples:
        >>> attack = GrowingPrefixes(steps=2)
        >>> asked = attack.questions("a b c d", np.random.default_rng(0))
        >>> [one.expected for one in asked]
        ['b c d', 'c d']
        >>> round(attack.evaluate(asked, ["", "c d"]), 2)
        0.4
    """

    name: ClassVar[str] = "prefix"
    asks: ClassVar[Literal["membership", "text"]] = "text"
    places: ClassVar[tuple[str, ...]] = ("prefix",)
    least: ClassVar[Mapping[str, int]] = {"steps": 1}
    steps: int = 4
    template: str = templates.RECALL

    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        return self._prefixes(document, self.steps)

    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        """Weighted mean of the shares of the rest in `replies` to `questions`."""
        shares = [_recall(one, reply) for one, reply in zip(questions, replies, strict=True)]
        weights = [1 - step / (2 * self.steps) for step in range(1, self.steps + 1)]
        return float(np.average(shares, weights=weights))


@dataclass(frozen=True, slots=True)
class Extraction(_TemplateAttack):
    """Asks for the code of a document by a few of its words; the score is 1 if a reply tells it.

    The secret is the last word of the document, as the canary `coded` makes it. The attacker knows
    a few words of the document and not the secret, so what is told was extracted: of m planted
    documents, the share with a score of 1 is the share of secrets told within m * budget questions.

    Attributes:
        budget: Questions about each document, at least 1.
        length: Words of the document in each question, at least 1.
        template: Wording; must hold {prefix}.

    Reference:
        Zeng et al., "The Good and The Bad: Exploring Privacy Issues in Retrieval-Augmented
        Generation (RAG)" (Findings of ACL 2024).

    Examples:
        >>> attack = Extraction(budget=2, length=2)
        >>> asked = attack.questions("a b c d code 7f31", np.random.default_rng(0))
        >>> [one.text.split(" ...")[0] for one in asked]
        ['a b', 'd code']
        >>> attack.evaluate(asked, ["no idea", "It is 7F31."])
        1.0
    """

    name: ClassVar[str] = "extraction"
    asks: ClassVar[Literal["membership", "text"]] = "text"
    canary: ClassVar[str] = "coded"
    places: ClassVar[tuple[str, ...]] = ("prefix",)
    least: ClassVar[Mapping[str, int]] = {"budget": 1, "length": 1}
    budget: int = 3
    length: int = 6
    template: str = templates.SECRET

    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        """With words of `document` from its beginning to its end; nothing of `rng` is used."""
        *words, secret = document.split()
        self._require(words, self.length)
        starts = np.linspace(0, len(words) - self.length, self.budget).astype(int)
        return tuple(self._question(words[at : at + self.length], [secret]) for at in starts)

    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        secret = set(words_of(questions[0].expected))
        return float(any(secret <= set(words_of(reply)) for reply in replies))


@dataclass(frozen=True, slots=True)
class Differential(_TemplateAttack):
    """Asks for a document and for a copy with a few words changed; the scores are subtracted.

    So a store that says yes to anything, or repeats the question, scores 0, and a document whose
    subject is in the store anyway loses that advantage. A reply scores 1 for yes, 0 for no, else
    the share of the words at the changed places that it repeats.

    Attributes:
        share: Share of the words that are changed, above 0, at most 0.5; at least one word is.
        copies: Copies, at least 1, each with other changes; their scores are averaged.
        template: Wording; must hold {canary}.

    Reference:
        Gao et al., "DCMI: A Differential Calibration Membership Inference Attack Against
        Retrieval-Augmented Generation" (CCS 2025).

    Examples:
        >>> attack = Differential()
        >>> asked = attack.questions("we saw a kestrel", np.random.default_rng(0))
        >>> [one.expected.split()[0] == "kestrel" for one in asked]
        [True, False]
        >>> attack.evaluate(asked, ["Yes.", "No."]), attack.evaluate(asked, ["Yes.", "Yes."])
        (1.0, 0.0)
    """

    name: ClassVar[str] = "differential"
    least: ClassVar[Mapping[str, int]] = {"copies": 1}
    share: float = 0.03
    copies: int = 1
    template: str = templates.EXACT

    def __post_init__(self) -> None:
        TemplateQuery.__post_init__(self)
        within("share of the query differential", self.share, 1e-6, 0.5)

    def questions(self, document: str, rng: np.random.Generator) -> tuple[Question, ...]:
        """About `document`, then about its copies; `rng` chooses words and what replaces them."""
        words = document.split()
        places = long_words(words)
        self._require(places, 1)
        number = min(len(places), max(1, round(self.share * len(words))))
        changes = []
        for _ in range(self.copies):
            chosen = sorted(int(at) for at in rng.choice(places, number, replace=False))
            changes.append({at: NAMES[int(rng.integers(len(NAMES)))] for at in chosen})
        touched = sorted({at for change in changes for at in change})
        found = [self._question(words, [words[at] for at in touched])]
        for change in changes:
            shown = [
                replace_core(word, change[at]) if at in change else word
                for at, word in enumerate(words)
            ]
            found.append(self._question(shown, list(change.values())))
        return tuple(found)

    def evaluate(self, questions: Sequence[Question], replies: Sequence[str]) -> float:
        """Score of the first of `replies` less the mean of those about the copies."""
        said = [stance(reply) for reply in replies]
        first, *others = (
            _recall(question, reply) if answer is None else float(answer == "yes")
            for question, reply, answer in zip(questions, replies, said, strict=True)
        )
        return first - float(np.mean(others))
