"""Stores and applications of other frameworks, known by what their classes inherit from.

No framework is imported before one of its objects is there.
"""

from leakbound.systems.adapters.adapt import ADAPTERS, adapted
from leakbound.systems.adapters.index_store import IndexStore

__all__ = ["ADAPTERS", "IndexStore", "adapted"]
