"""python -m contextleak."""

from contextleak.cli import main

main()
