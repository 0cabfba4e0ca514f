"""The pocket model: 3 million parameters, shipped with the package.

`pocket_training/` trained it on generated text. It finds texts in its context, copies labels,
follows if-then requests, routes help-desk messages, and judges whether an answer quotes its
examples. It knows no facts. A system instruction that keeps its examples secret stops requests to
print them, and open questions about texts of words; most about random strings get through.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakbound.models.local import TransformersModel

__all__ = ["FOLDER", "HALF", "SEEING", "SHORT", "load_pocket"]

FOLDER = Path(__file__).parent / "weights"
SEEING = Path(__file__).parent / "vision"
HALF = 3  # layers of six: routes as well as the whole, cannot tell whether a text is there
SHORT = 3  # language layers of four: names images from examples, if less well
PARTS = {
    "pocket": (FOLDER, None), "pocket-half": (FOLDER, HALF),
    "pocket-vision": (SEEING, None), "pocket-vision-short": (SEEING, SHORT),
}  # fmt: skip


def load_pocket(name: str = "pocket", **how: Any) -> TransformersModel:
    """A bundled model, loaded with the same code as any other."""
    from leakbound.models.local import load

    folder, layers = PARTS[name]
    return load(str(folder), name, layers=layers, **how)
