"""Names of models as people read them."""

from __future__ import annotations

from collections.abc import Iterable

from leakbound.models.address import BUNDLED

NOT_YOURS = " (bundled with leakbound: it is not your model)"


def model_names(models: Iterable[str]) -> str:
    """Models, each once.

    Examples:
        >>> model_names(["pocket", "openai/mine", "pocket"])
        'pocket (bundled with leakbound: it is not your model), openai/mine'
    """
    return ", ".join(f"{m}{NOT_YOURS}" if m in BUNDLED else m for m in dict.fromkeys(models))
