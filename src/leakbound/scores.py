"""The scores of this package, under their public name."""

from leakbound.attacks.scores import *  # noqa: F403
from leakbound.attacks.scores import __all__ as __all__


def __dir__() -> list[str]:
    return sorted(__all__)
