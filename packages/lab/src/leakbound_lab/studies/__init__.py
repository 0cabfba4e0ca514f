"""How influence and utility change with one factor of a context: `run_study` measures, and the
page shows a table with intervals and a figure.
"""
