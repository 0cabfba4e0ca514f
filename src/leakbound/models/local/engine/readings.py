"""Values read from logits: log-probabilities, scores of labels, the next token."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from leakbound.errors import TargetError
from leakbound.models.local.engine.prefixes import Ids
from leakbound.models.request import Complete, prompt_seed

Floats = npt.NDArray[np.float32]
# for a row that runs alone and whose logits are not numbers
NO_SCORE, NO_LOGITS = np.full(1, np.nan, np.float32), np.zeros((1, 0), np.float32)
# how to combine the log-probabilities of a label's tokens into one number
LABEL_SCORES: dict[str, Callable[[Floats], float]] = {
    "sum": lambda scores: float(scores.sum()),
    "mean": lambda scores: float(scores.mean()),
    "first_token": lambda scores: float(scores[0]),
}


def check_labels(labels: Sequence[str]) -> None:
    """Refuse a label without tokens: its score of 0 would exceed every other score."""
    empty = [label for label in labels if not label.strip()]
    if empty:
        raise TargetError(
            f"a label is {empty[0]!r}; it must have at least one non-blank character, because "
            "the score of no token exceeds every other. Give it a name, such as none."
        )
    if not labels:
        raise TargetError("there is no label to score; give at least one.")


def plain_logits(logits: torch.Tensor, ids: Ids) -> Floats:
    return logits.float().cpu().numpy()


def log_probabilities(logits: torch.Tensor, ids: Ids) -> Floats:
    table = torch.log_softmax(logits[: len(ids)].float(), -1)
    return (
        table.gather(-1, torch.tensor(ids, dtype=torch.long, device=table.device)[:, None])[:, 0]
        .cpu()
        .numpy()
    )


def choose(logits: Floats, request: Complete, step: int) -> int:
    """The next token: greedy, or one Gumbel draw with its own seed for each prompt, draw and
    step.
    """
    if request.temperature == 0:
        return int(logits.argmax())
    seed = [request.draw, step, prompt_seed(request.prompt)]
    noise = np.random.default_rng(seed).gumbel(size=logits.shape)
    return int((logits / request.temperature + noise).argmax())
