"""Sweeps: many audits over a grid of settings, from outputs that are collected once."""

from leakbound.sweeping.compare import ComparedPoint, SweepComparison, compare_sweeps
from leakbound.sweeping.grid import Grid, describe, merge_grids, parse_grid
from leakbound.sweeping.merge import has_shards, merge_sweeps, shard_file
from leakbound.sweeping.plan import (
    CachingOpener,
    Described,
    Sweep,
    SweepObjects,
    SweepPlan,
    plan_sweep,
)
from leakbound.sweeping.record import (
    MissingPoint,
    SweepPoint,
    SweepRecord,
    SweepUtility,
    load_sweep,
    sweep_csv,
)

__all__ = [
    "CachingOpener", "ComparedPoint", "Described", "Grid", "MissingPoint", "Sweep",
    "SweepComparison", "SweepObjects", "SweepPlan", "SweepPoint", "SweepRecord", "SweepUtility",
    "compare_sweeps", "describe", "has_shards", "load_sweep", "merge_grids", "merge_sweeps",
    "parse_grid", "plan_sweep", "shard_file", "sweep_csv",
]  # fmt: skip
