"""The canaries of this package, under their public name."""

from leakbound.attacks.canaries import *  # noqa: F403
from leakbound.attacks.canaries import __all__ as __all__


def __dir__() -> list[str]:
    return sorted(__all__)
