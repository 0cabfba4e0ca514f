"""A task: how a context and a query become one prompt. Every system renders its prompts here."""

from __future__ import annotations

from dataclasses import dataclass

from leakbound.models.content import Content, Parts, join
from leakbound.tasks.example import Context, Example

__all__ = ["Query", "Task"]


@dataclass(frozen=True, slots=True)
class Query:
    """What a user sends: a text, an image or both, and the answers it allows (none:

    those of the task; free: any text at all).
    """

    text: Content
    labels: tuple[str, ...] = ()
    free: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """Field names, instruction and public label set of a task; no labels means free generation.

    A prompt is: preamble and instruction, one block per example, then the query in the same
    block form with its answer left open. The user's query always stands inside the operator's
    template, also when it attacks.
    """

    name: str
    labels: tuple[str, ...] = ()
    input_name: str = "Input"
    label_name: str = "Label"
    instruction: str = ""
    max_answer_tokens: int = 48

    def answers(self, query: Query) -> tuple[str, ...]:
        """The public answer set that a query may be given:

        its own, else the task's; none if any text will do.
        """
        return () if query.free else query.labels or self.labels

    def block(self, example: Example) -> str | Parts:
        """One example as it stands in a prompt."""
        opened, answer = self.open_block(example.input), f" {example.label}\n\n"
        return opened + answer if isinstance(opened, str) else join((opened, answer))

    def open_block(self, content: Content) -> str | Parts:
        """A block whose answer the model has to give."""
        if isinstance(content, str):
            return f"{self.input_name}: {content}\n{self.label_name}:"
        return join((f"{self.input_name}: ", content, f"\n{self.label_name}:"))

    def head(self, preamble: str = "") -> str:
        """What stands before the examples: preamble (a defence) and instruction."""
        parts = [part for part in (preamble, self.instruction or self._instruction()) if part]
        return "".join(f"{part}\n\n" for part in parts)

    def prompt(self, context: Context, query: Query, preamble: str = "") -> str | Parts:
        """The whole prompt for one query over one context (or partition)."""
        blocks = (self.block(example) for example in context)
        return join((self.head(preamble), *blocks, self.open_block(query.text)))

    def _instruction(self) -> str:
        if not self.labels:
            return f"Write the {self.label_name.lower()} of each {self.input_name.lower()}."
        return f"Label each {self.input_name.lower()} with one of: {', '.join(self.labels)}."
