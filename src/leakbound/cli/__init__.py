"""The command line. Each command is a module, which is imported when the command is called."""

from leakbound.cli.main import main

__all__ = ["main"]
