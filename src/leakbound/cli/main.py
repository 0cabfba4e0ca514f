"""The entry point: lazy commands, sentences for errors, exit codes."""

from __future__ import annotations

import errno
import importlib
import inspect
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

from leakbound.cli.screen.output import data_messages, emit_error, say, write_any_text
from leakbound.errors import IgnoredEntryPoint, LeakboundError, UsageError, unknown_name

SECTIONS = {
    "Start": {
        "demo": "Audit four systems on the bundled task, offline.",
        "init": "Look at your rows and your system, and write a configuration to audit them.",
        "list": "Show the catalogues: mechanisms, queries, canaries, scores, estimators, models, "
        "...",
        "probe": "Find out what the model at an address really supports.",
    },
    "Audit": {
        "plan": "Show what an audit will cost and can show, before any model call.",
        "audit": "Audit one system over your rows; the same command resumes.",
        "audit-log": "Test whether logged outputs disclose the rows that were used.",
        "tune": "Search for a better query, on paired trials that the audit does not use.",
        "sweep": "Audit every combination of a grid, and share model calls between them.",
        "cleanup": "Remove the records that a killed audit left in a store.",
        "watch": "Audit on a schedule, with one test over all runs of a year.",
        "merge": "Join the shards of an audit into its result.",
    },
    "Decide": {
        "report": "Write the HTML report of finished runs.",
        "view": "Show many runs on a local page: list, trend, reports.",
        "compare": "Compare finished runs: what differs, and whether it is more than noise.",
        "gate": "Decide whether finished runs pass: exit codes and JUnit for CI.",
        "verify": "Check that a finished run has not been modified.",
        "bounds": "Compute bounds and a verdict from another tool's scores.",
        "difference": "Test whether two runs of an evaluation really differ.",
        "export": "Print the configuration that reproduces a finished run.",
    },
    "Attribute": {
        "influence": "Show which parts of a context a response comes from.",
        "influence-study": "Measure how influence and utility change with one factor.",
        "score-generations": "Count the published responses that repeat their context.",
    },
    "Protect": {
        "answer": "Answer one query from your rows, within a privacy budget kept in a ledger.",
        "serve": "Answer queries over HTTP, as an OpenAI-compatible server, within the same "
        "budget.",
        "ledger": "Show what a ledger holds, what was answered, and what is wrong with it.",
    },
    "Check leakbound": {
        "selftest": "Audit every known defect and its correct reference.",
        "reproduce": "Reproduce a table or figure of the four papers.",
    },
}
VERBS = "leakbound.verbs"  # entry points of commands that other packages bring
OF_LAB = ("influence-study", "reproduce", "score-generations", "selftest", "tune")
OF_HOSTS = ("difference", "view", "watch")
BROUGHT = {**dict.fromkeys(OF_LAB, "lab"), **dict.fromkeys(OF_HOSTS, "hosts")}  # packages
DECIMAL_COMMA = re.compile(r"'(-?\d+),(\d+)' is not a number")
UNREAD = 141  # as the shell has it for a process that SIGPIPE ended
RENAMED = {  # options of earlier versions, and what they are called
    "audit-log": {"--used": "--data", "--text": "--outputs", "--output-field": "--answer"},
    "bounds": {"--controls": "--control-scores", "--score-column": "--score-field",
               "--member-column": "--member-field", "--pair-column": "--pair-field"},
    "difference": {"--id-column": "--id-field"},
    "influence": {"--query": "--question", "--system": "--message"},
    "influence-study": {"--data": "--context", "--query": "--question", "--system": "--message",
                        "--limit": "--contexts"},
    "init": {"--out": "--save"},
    "report": {"--out": "--html"},
    "score-generations": {"--contexts": "--context", "--context-column": "--context-field",
                          "--response-column": "--response-field",
                          "--reference-column": "--reference-field"},
    "serve": {"--limit": "--longest-request"},
    "sweep": {"--repeat": "--repeats", "--utility": "--queries"},
    "view": {"--static": "--out"},
}  # fmt: skip
PAGES = {  # that are always written, whatever is asked for
    "audit": "report.html in the folder of the run, below --out",
    "influence": "influence.html in the folder of --out",
    "sweep": "sweep.html in the folder of --out",
}
COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}
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
        if cmd_name not in COMMANDS or cmd_name in BROUGHT:
            from leakbound._catalogue import entries_of, load_entry  # for these verbs only

            for entry in entries_of(VERBS).select(name=cmd_name):
                return load_entry("the command", entry)  # type: ignore[no-any-return]
        if (package := BROUGHT.get(cmd_name)) is not None:
            raise UsageError(
                f"the command {cmd_name!r} is in the package leakbound-{package}, which is not "
                f"installed; install packages/{package} of a checkout beside leakbound."
            )
        if cmd_name not in COMMANDS:
            return None
        section = next(title for title, verbs in SECTIONS.items() if cmd_name in verbs)
        module = f"leakbound.cli.verbs.{section.lower()}.{cmd_name.replace('-', '_')}"
        command: click.Command = importlib.import_module(module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(17), text) for name, text in section.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise unknown_name("the command", args[0], COMMANDS)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="leakbound", prog_name="leakbound")
def group() -> None:
    """Measure and limit what an LLM application leaks about the private examples in its prompt."""


def main(args: list[str] | None = None) -> None:
    """Run a command. A mistake ends with a sentence and an exit code, never with a traceback."""
    write_any_text()
    with _terminable(), data_messages(), warnings.catch_warnings():
        warnings.showwarning = _show
        code, message = _code_of(args)
        if message:
            say(f"leakbound: {message}", err=True)
            emit_error(sys.argv[1:] if args is None else args, code, message)
    sys.exit(code)


_show_elsewhere = warnings.showwarning


def _show(
    message: Warning | str, category: type[Warning], filename: str, lineno: int,
    file: TextIO | None = None, line: str | None = None,
) -> None:  # fmt: skip
    if issubclass(category, IgnoredEntryPoint):
        say(f"leakbound: {message}", err=True)
    else:
        _show_elsewhere(message, category, filename, lineno, file, line)


def _code_of(args: list[str] | None) -> tuple[int, str]:
    """The exit code of a command, and the sentence of a mistake."""
    try:
        code = group.main(args, prog_name="leakbound", standalone_mode=False)
    except LeakboundError as error:
        return error.exit_code, str(error)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code, ""
    except click.UsageError as error:
        return error.exit_code, _usage(error)
    except click.ClickException as error:
        return error.exit_code, error.format_message()
    except (KeyboardInterrupt, click.Abort):
        return 130, "interrupted; a run that began is kept, and the same command resumes it."
    except BaseException as error:  # a crash must never end with the code of a verdict
        if _is_unread(error):
            return UNREAD, ""
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return 70, "no space is left on the disk; free some, and run the command again."
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            return 2, "a path is longer than the file system allows; name a shorter one."
        return 70, _crash_words(error)
    return code if isinstance(code, int) else 0, ""


def _usage(error: click.UsageError) -> str:
    command = error.ctx.command_path if error.ctx else "leakbound"
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        now = RENAMED.get(str(error.ctx.info_name), {}).get(error.option_name)
        if now is not None:
            return f"{error.option_name} of {command} is now {now}. Try: {command} --help"
        page = PAGES.get(str(error.ctx.info_name))
        if page is not None and error.option_name in ("--html", "--report"):
            return f"{command} always writes its page: {page}. Leave {error.option_name} out."
        if error.option_name == "--format":
            return f"{command} has no --format; --json prints the result as JSON."
    said = error.format_message().replace("a valid integer range", "a whole number")
    said = said.replace("a valid integer", "a whole number").replace("a valid float", "a number")
    said = DECIMAL_COMMA.sub(r"\g<0>. Did you mean \1.\2?", said).replace("?.", "?")
    return f"{said}{'' if said.endswith(('.', '?', '?)')) else '.'} Try: {command} --help"


def _is_unread(error: BaseException) -> bool:
    """Whether nobody reads the output any more; click ends its `main` by itself then."""
    if isinstance(error, BrokenPipeError):
        return True
    raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
    return isinstance(error, SystemExit) and raised_in == inspect.getsourcefile(click.Command.main)


@contextmanager
def _terminable() -> Iterator[None]:
    """Within, SIGTERM ends a command as Ctrl-C does; only a main thread may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _crash_words(error: BaseException) -> str:
    """Where it happened, without the message, which may hold private text."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if os.environ.get("LEAKBOUND_DEBUG"):
        traceback.print_exception(error)
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    return (
        f"internal error: {type(error).__name__} in {where}. "
        "This is a fault of leakbound, not a verdict. Set LEAKBOUND_DEBUG=1 for the traceback (it "
        "may show private text), and report it."
    )
