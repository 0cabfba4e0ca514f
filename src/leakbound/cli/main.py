"""The entry point: lazy commands, sentences for errors, exit codes."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path

import click

from leakbound.cli.screen import say
from leakbound.errors import LeakboundError

__all__ = ["main"]

COMMANDS = {
    "demo": "Audit four systems on the bundled task with the pocket model, offline.",
    "audit": "Audit one system over your rows; the same command resumes.",
    "sweep": "Audit every combination of a grid, asking the model once for what differs in noise or statistics only.",
    "merge": "Join the shards of an audit into its record.",
    "tune": "Search for a better audit query, on pairs that the audit does not use.",
    "plan": "What an audit will cost and can show, before any model call.",
    "probe": "What the model at an address really supports, found by asking it about public texts.",
    "report": "Make the HTML report of finished runs.",
    "compare": "Finished runs in one table: what differs, and whether it is more than noise.",
    "gate": "Let finished runs pass, or say why not: exit codes and JUnit for continuous integration.",
    "export": "Print the configuration that makes a finished run again.",
    "influence": "Which parts of a context a response comes from: heat map, table, arrays.",
    "influence-study": "How influence and utility change with λ, temperature, context size, position or model.",
    "score-generations": "How many published responses repeat their context, by both known definitions.",
    "answer": "Answer one query from your rows, within a privacy budget kept in a ledger.",
    "serve": "Answer queries over HTTP, as an OpenAI-compatible server, within the same budget.",
    "selftest": "The auditor against every known defect, beside correct references.",
    "reproduce": "A table or figure of the four papers: what it prints beside what is measured here.",
    "list": "Show the catalogues: mechanisms, attacks, canaries, scores, models, tasks.",
}
EXIT_CODES = (
    "Exit codes: 0 no violation, 1 violation, 2 usage, 3 inconclusive, 4 target unreachable or "
    "lacks a capability, "
    "5 privacy budget exhausted, 70 internal error, 130 interrupted (the same command resumes)."
)


class Commands(click.Group):
    """Knows its commands by name, and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = f"leakbound.cli.{cmd_name.replace('-', '_')}_command"
        command: click.Command = importlib.import_module(module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from leakbound.errors import unknown_name

            raise unknown_name("the command", args[0], COMMANDS)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="leakbound", prog_name="leakbound")
def group() -> None:
    """What does an LLM application leak about the private examples in its prompt, and how to limit
    it.
    """


def main(args: list[str] | None = None) -> None:
    """Run a command; a user's mistake ends in a sentence and its exit code, never in a traceback."""
    try:
        code = group.main(args, prog_name="leakbound", standalone_mode=False)
    except LeakboundError as error:
        code = _fail(str(error), error.exit_code)
    except click.UsageError as error:
        code = _fail(
            (
                f"{error.format_message()} Try: "
                f"{error.ctx.command_path if error.ctx else 'leakbound'} --help"
            ),
            2,
        )
    except click.ClickException as error:
        code = _fail(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        code = _fail(
            "interrupted; finished batches are kept, and the same command goes on from there.", 130
        )
    except BrokenPipeError:
        code = 0
    except Exception as error:  # a crash must never end with the code of a verdict
        code = _crashed(error)
    sys.exit(code if isinstance(code, int) else 0)


def _crashed(error: Exception) -> int:
    """Exit code 70, and where it happened; the message stays out, it may hold private text."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if os.environ.get("LEAKBOUND_DEBUG"):
        traceback.print_exception(error)
    return _fail(
        f"internal error: {type(error).__name__} in {Path(frame.filename).name}, line {frame.lineno}. "
        "This is a fault of leakbound, not a verdict. Set LEAKBOUND_DEBUG=1 for the traceback (it "
        "may show private text), and report it.",
        70,
    )


def _fail(sentence: str, code: int) -> int:
    say(f"leakbound: {sentence}", err=True)
    return code
