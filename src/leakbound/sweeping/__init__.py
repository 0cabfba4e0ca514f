"""Sweeps: many audits over a grid of settings, from answers that are collected once."""

from leakbound.sweeping.export import csv_text
from leakbound.sweeping.grid import Grid, merged, parse_grid, told
from leakbound.sweeping.plan import OpensOnce, Plan, plan
from leakbound.sweeping.record import SweepPoint, SweepRecord, Unmade, Utility, load_sweep
from leakbound.sweeping.run import Sweep

__all__ = [
    "Grid", "OpensOnce", "Plan", "Sweep", "SweepPoint", "SweepRecord", "Unmade", "Utility", "csv_text", "load_sweep", "merged",
    "parse_grid", "plan", "told",
]  # fmt: skip
