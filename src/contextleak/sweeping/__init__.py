"""Sweeps: many audits over a grid of settings, from answers that are collected once."""

from contextleak.sweeping.export import csv_text
from contextleak.sweeping.grid import Grid, merged, parse_grid, told
from contextleak.sweeping.plan import OpensOnce, Plan, plan
from contextleak.sweeping.record import SweepPoint, SweepRecord, Unmade, Utility, load_sweep
from contextleak.sweeping.run import Sweep

__all__ = [
    "Grid", "OpensOnce", "Plan", "Sweep", "SweepPoint", "SweepRecord", "Unmade", "Utility", "csv_text", "load_sweep", "merged",
    "parse_grid", "plan", "told",
]  # fmt: skip
