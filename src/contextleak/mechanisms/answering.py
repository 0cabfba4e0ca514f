"""What every mechanism shares: how a release is put into words, and what one answer costs."""

from __future__ import annotations

from typing import Any

from contextleak.icl import Query, Releases, Task
from contextleak.models import Model
from contextleak.privacy import Guarantee

__all__ = ["Answering", "NO_ANSWER"]

NO_ANSWER = "(no answer)"


class Answering:
    """Base of the mechanisms whose release is a choice: its text is the chosen one, its price the guarantee."""

    __slots__ = ()
    guarantee: Any

    def speak(self, task: Task, query: Query, releases: Releases, model: Model) -> list[str]:
        """The chosen text of each draw; "(no answer)" where none was chosen. Asks nothing."""
        choices = (*(releases.choices or task.answers(query)), NO_ANSWER)
        return [choices[i] for i in releases.answers]

    def guarantee_of(self, task: Task, query: Query) -> Guarantee:
        """The guarantee of one answer."""
        found: Guarantee = self.guarantee
        return found
