"""The pocket model: 3 million parameters, shipped with the package.

`pocket_training/` trained it on generated text. It finds texts in its context, copies labels,
follows if-then requests, routes help-desk messages, and judges whether an answer quotes its
examples. It knows no facts. A system instruction that keeps its examples secret stops requests to
print them, and open questions about texts of words; most about random strings get through.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leakbound.models.local import TransformersModel

__all__ = ["FOLDER", "HALF", "SEEING", "SHORT", "load_pocket", "load_pocket_vision"]

FOLDER = Path(__file__).parent / "weights"
SEEING = Path(__file__).parent / "vision"
HALF = 3  # layers of six: routes as well as the whole, cannot tell whether a text is there
SHORT = 3  # language layers of four: names images from examples, if less well


def load_pocket(
    memory: int | None = None,
    dtype: str = "auto",
    device: str = "auto",
    label_scores: str = "sum",
    chat_template: str = "auto",
    half: bool = False,
) -> TransformersModel:
    """Load the model with the same code as any other causal model."""
    from leakbound.models.local import load

    name, layers = ("pocket-half", HALF) if half else ("pocket", None)
    return load(
        str(FOLDER), name, dtype, device, memory=memory, label_scores=label_scores, layers=layers,
        chat_template=chat_template,
    )  # fmt: skip


def load_pocket_vision(
    memory: int | None = None,
    dtype: str = "auto",
    device: str = "auto",
    label_scores: str = "sum",
    chat_template: str = "auto",
    short: bool = False,
) -> TransformersModel:
    """Load the pocket model of 2 million parameters that names images."""
    from leakbound.models.local import load

    name, layers = ("pocket-vision-short", SHORT) if short else ("pocket-vision", None)
    return load(
        str(SEEING), name, dtype, device, memory=memory, label_scores=label_scores, layers=layers,
        chat_template=chat_template,
    )  # fmt: skip
