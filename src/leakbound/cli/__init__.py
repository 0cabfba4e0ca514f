"""The command line: thin.

Each command lives in its own module and is imported when it is called.
"""

from leakbound.cli.main import main

__all__ = ["main"]
