"""What checks leakbound itself: recipes of the four papers, studies of influence, and defects that
an auditor must find.

`reproduce` runs tables and figures by name, `studies` measures how influence changes with one
factor, and `planted` holds broken systems beside correct ones, for `selftest`.
"""
