"""Stores and applications of other frameworks, known by what their classes inherit from.

No framework is imported before one of its objects is there.
"""

from leakbound_hosts.adapters.adapt import ADAPTERS, adapted

__all__ = ["ADAPTERS", "adapted"]
