"""The queries of this package, under their public name."""

from leakbound.attacks.queries import *  # noqa: F403
from leakbound.attacks.queries import __all__ as __all__


def __dir__() -> list[str]:
    return sorted(__all__)
