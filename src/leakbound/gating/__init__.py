"""Decisions over finished runs: whether they pass, how they differ, and bounds from scores."""
