"""Which keys of a spec ask cheap questions: of answers that are there already."""

from __future__ import annotations

from leakbound.tasks import Mechanism, Query, Task

__all__ = ["post_hoc_keys"]

CHEAP = {"answers", "epsilon", "delta", "calibration", "confidence", "estimator", "threshold", "score", "access", "simulations",
         "stop_when_rejected"}  # what changes no question to the model, and nothing of what is kept  # fmt: skip
NOISE = {"epsilon", "delta", "calibration"}


def post_hoc_keys(mechanism: Mechanism, task: Task, query: Query) -> set[str]:
    """Keys of a spec that change no aggregate of such a query:

    noise among them, unless it is drawn while collecting.
    """
    early = getattr(mechanism, "decides_early", None)
    return CHEAP - NOISE if early is not None and early(task, query) else CHEAP
