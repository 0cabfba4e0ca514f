"""What checks leakbound, and what you add to it: recipes of the four papers, studies of influence,
defects that an auditor must find, and what every mechanism and estimator must hold.

`reproduce` runs tables and figures by name, `studies` measures how influence changes with one
factor, `planted` holds broken systems beside correct ones, for `selftest`, and `conformance` checks
parts of your own.
"""
