"""Finished runs beside each other: `comparison_page`, and the figure of bounds from scores."""
