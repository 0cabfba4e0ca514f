"""python -m leakbound."""

from leakbound.cli import main

main()
