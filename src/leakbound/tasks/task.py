"""A task: how a context and a query become one prompt, and which answer a model's text gives.

Every mechanism renders prompts here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from leakbound.errors import UsageError
from leakbound.models.content import Chat, ChatMessage, Content, Parts, Private, join, text_only
from leakbound.tasks.example import Context, Example, present

# Between the replies to several questions of one query, which are kept as one text. It stands for
# itself in hardly any text, and replies that hold it lose it.
BETWEEN = "\u241e"
# What an attacker sees: answers; with them the probabilities that an endpoint reports; or the noisy
# aggregate before the answer.
Access = Literal["black_box", "probabilities", "white_box"]


@dataclass(frozen=True, slots=True)
class Query:
    """What a user sends, and the answers that it allows.

    Attributes:
        text: A text, an image or both.
        labels: The allowed answers; empty for those of the task.
        free: Whether any text may be answered.
        further: Questions that are asked after the text in the same session, of systems only. The
            answer is then all replies together.

    Examples:
        >>> query = Query("one?", free=True, further=("two?",))
        >>> query.calls, query.replies(query.joined(["yes", "no"]))
        (2, ('yes', 'no'))
    """

    text: Content
    labels: tuple[str, ...] = ()
    free: bool = False
    further: tuple[str, ...] = ()

    @property
    def calls(self) -> int:
        """Answers that it takes: a claim for an answer is composed over them."""
        return 1 + len(self.further)

    def joined(self, replies: Iterable[str]) -> str:
        """Replies to all its questions, in their order, as a text from which `replies` makes them
        again.
        """
        found = list(replies)
        return found[0] if len(found) == 1 else BETWEEN.join(t.replace(BETWEEN, "") for t in found)

    def replies(self, text: str) -> tuple[str, ...]:
        """The (calls,) replies that a text of `joined` holds; empty where there was no answer."""
        if not self.further:
            return (text,)
        found = text.split(BETWEEN)[: self.calls]
        return (*found, *[""] * (self.calls - len(found)))


@dataclass(frozen=True, slots=True, repr=False)
class Job(Private):
    """One query over one private context (PRIVATE)."""

    context: Context
    query: Query


@dataclass(frozen=True, slots=True)
class Task:
    """Field names, instruction and public label set of a task.

    A prompt is: preamble and instruction, one block per example, then the query in the same block
    form with its answer left open. The user's query always stands inside the operator's template,
    also when it attacks.

    Attributes:
        name: Name for reports.
        labels: The public labels; empty for free generation.
        input_name: What an input is called in the prompt.
        label_name: What a label is called in the prompt.
        instruction: What stands before the examples; "" for a sentence made of the names.
        max_answer_tokens: Largest length of a free answer.
        system_message: What goes into the system message of an instruct model: "instruction" (what
            stands before the examples) or "examples" (these as well). None puts all of a prompt
            into one text, which is the message of a user.

    Raises:
        UsageError: If the labels are one text, or the system message holds something else.

    Examples:
        >>> task = Task("mail", ("work", "home"))
        >>> print(task.prompt((Example("a fee", "work"),), Query("a cake")))
        Label each input with one of: work, home.
        <BLANKLINE>
        Input: a fee
        Label: work
        <BLANKLINE>
        Input: a cake
        Label:
    """

    name: str
    labels: tuple[str, ...] = ()
    input_name: str = "Input"
    label_name: str = "Label"
    instruction: str = ""
    max_answer_tokens: int = 48
    system_message: Literal["instruction", "examples"] | None = None

    def __post_init__(self) -> None:
        if self.system_message not in (None, "instruction", "examples"):
            raise UsageError(
                f"system_message is {self.system_message!r}; it must be instruction, examples or "
                "None."
            )
        if isinstance(self.labels, str):
            raise UsageError(
                f"labels is {self.labels!r}; it must be a sequence of texts, such as "
                "('work', 'home')."
            )

    def answers(self, query: Query) -> tuple[str, ...]:
        """The public answers to a query: its own, else those of the task; none if any text may be
        answered.
        """
        return () if query.free else query.labels or self.labels

    def block(self, example: Example) -> str | Parts:
        """One example (PRIVATE) as it stands in a prompt."""
        opened, answer = self.open_block(example.input), f" {example.label}\n\n"
        return opened + answer if isinstance(opened, str) else join((opened, answer))

    def open_block(self, content: Content) -> str | Parts:
        """A block whose answer the model has to give: the input and the name of the label."""
        if isinstance(content, str):
            return f"{self.input_name}: {content}\n{self.label_name}:"
        return join((f"{self.input_name}: ", content, f"\n{self.label_name}:"))

    def head(self, preamble: str = "") -> str:
        """What stands before the examples: system instructions, such as a defence, and the
        instruction, each with a blank line behind it.
        """
        usual = f"Write the {self.label_name.lower()} of each {self.input_name.lower()}."
        if self.labels:
            usual = f"Label each {self.input_name.lower()} with one of: {', '.join(self.labels)}."
        parts = [part for part in (preamble, self.instruction or usual) if part]
        return "".join(f"{part}\n\n" for part in parts)

    def prompt(self, context: Context, query: Query, preamble: str = "") -> str | Parts | Chat:
        """The whole prompt for one query over one context (PRIVATE) or partition; empty slots show
        nothing.

        A text, parts where there is an image, or messages where there is a system message.

        Raises:
            UsageError: If there is an image beside a system message.
        """
        blocks, asked = map(self.block, present(context)), self.open_block(query.text)
        if self.system_message is None:
            return join((self.head(preamble), *blocks, asked))
        if self.system_message == "instruction":
            return _chat(self.head(preamble), join((*blocks, asked)))
        return _chat(join((self.head(preamble), *blocks)), asked)


def _chat(system: Content, user: Content) -> Chat:
    texts = [text_only(part, "a prompt with a system message") for part in (system, user)]
    return Chat((ChatMessage("system", texts[0].rstrip()), ChatMessage("user", texts[1])))


AROUND = " \t\n\"'`*.,:;!?()[]{}<>«»“”‘’-"  # means nothing before or behind an answer


def parse_answer(text: str, answers: Sequence[str]) -> int:
    """Index of the allowed answer that a text gives; len(answers) if it gives none or more than one
    (unreadable).

    Case, quotes, surrounding punctuation and chatty prefixes do not matter, unless answers differ
    in nothing else: an exact match wins, then the longest answer that the text begins with, then
    the only answer that it mentions.

    Examples:
        >>> [parse_answer(text, ("yes", "no")) for text in ("Yes.", "I think no", "perhaps")]
        [0, 1, 2]
        >>> [parse_answer(text, ("-1", "0", "1")) for text in ("-1", "1.", "0")]
        [0, 2, 1]
    """
    if text.strip() in answers:
        return answers.index(text.strip())
    said, names = _compare(text, answers)
    if said in names:
        return names.index(said)
    starts = [
        i for i, name in enumerate(names) if name and re.match(rf"{re.escape(name)}(?!\w)", said)
    ]
    if starts:
        return max(starts, key=lambda i: len(names[i]))
    found = [
        i
        for i, name in enumerate(names)
        if name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said)
    ]
    return found[0] if len(found) == 1 else len(answers)


def _compare(text: str, answers: Sequence[str]) -> tuple[str, list[str]]:
    """Text and answers in the plainest form in which the answers differ."""
    names = [plain(answer) for answer in answers]
    if len(set(names)) == len(set(answers)):
        return plain(text), names
    ends = {end for answer in answers for end in (answer[:1], answer[-1:])}
    around = "".join(sign for sign in AROUND if sign.isspace() or sign not in ends)
    return plain(text, around), [plain(answer, around) for answer in answers]


def plain(text: str, around: str = AROUND) -> str:
    """A text without what means nothing in an answer."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"\s+", " ", folded).strip(around)
