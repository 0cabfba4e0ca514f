"""Spreading slow work over the machines of a cluster. Ray is imported when it is used."""

from leakbound.scaling.spread import Cluster, connected, rooted, spread

__all__ = ["Cluster", "connected", "rooted", "spread"]
