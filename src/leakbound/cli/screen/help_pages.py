"""Commands and options as their help shows them: examples, the options that matter first, and all
others by section under --help-all.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leakbound.cli.screen.output import OUTPUT_OPTIONS, output

if TYPE_CHECKING:
    from leakbound._catalogue import Catalogue

SETTINGS = {"auto_envvar_prefix": "LEAKBOUND", "help_option_names": ["-h", "--help"]}
OWN = "Options"
Function = Callable[..., object]
Decorating = Callable[[Function], Function]
WHOLE = "leakbound.cli.help_all"  # key of a context: whether its help shows every option


class Option(click.Option):
    """An option under a heading."""

    def __init__(
        self, *args: Any, section: str = OWN, choices: Callable[[], Catalogue[Any]] | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, **kwargs)
        self.section = section
        self.choices = choices  # read where they are shown: a broken package of others is imported

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Flag and text; with every choice where all options are shown."""
        record = super().get_help_record(ctx)
        if record is None or self.choices is None or not ctx.meta.get(WHOLE):
            return record
        return record[0], f"{record[1]}; one of {', '.join(self.choices().usable)}"


class SectionedCommand(click.Command):
    """A command with examples, and with sections of options if it has more than a screen holds."""

    def __init__(
        self, *args: Any, first: str = "", examples: Sequence[str] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.first = tuple(first.split())
        self.examples = tuple(examples)
        self.params.extend(option() for option in OUTPUT_OPTIONS)
        if self.first:
            self.params.append(_help_all())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; an empty path, as of an unset variable, is not this folder."""
        given = self.make_parser(ctx).parse_args(list(args))[0]
        for flag, file in pairwise(args):
            if flag == "--json" and file.endswith(".json") and not Path(file).exists():
                raise click.UsageError(f"--json takes no file; it prints: --json >{file}", ctx)
        for param in self.params:
            values = given.get(param.name or "", ())
            texts = values if isinstance(values, list | tuple) else [values]
            if isinstance(param.type, click.Path) and "" in texts:
                raise click.BadParameter("it is empty; name a file or folder", ctx, param)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with what it prints as --json, --quiet and --verbose say."""
        with output(ctx):
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples, then options: the first ones, or all by section."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {ctx.command_path} {one}\n" for one in self.examples))
        params = self.get_params(ctx)
        if not self.first or ctx.meta.get(WHOLE):
            for section in dict.fromkeys(map(_section, params)):
                _write(ctx, formatter, section, [p for p in params if _section(p) == section])
            return
        by_flag = {flag: param for param in params for flag in param.opts}
        shown = [by_flag[flag] for flag in (*self.first, "--help-all", "--help")]
        _write(ctx, formatter, "First options", shown)
        formatter.write_paragraph()
        hidden = [p for p in params if isinstance(p, click.Option) and p not in shown]
        rest = Counter(map(_section, hidden))
        listed = ", ".join(f"{section.lower()} ({number})" for section, number in rest.items())
        formatter.write_text(f"--help-all shows {rest.total()} more: {listed}.")


def _help_all() -> click.Option:

    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            ctx.meta[WHOLE] = True
            click.echo(ctx.get_help())
            ctx.exit()

    text = "Show every option, by section, and exit."
    return click.Option(
        ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show, help=text
    )


def _section(param: click.Parameter) -> str:
    return param.section if isinstance(param, Option) else OWN


def _write(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    section: str,
    params: Sequence[click.Parameter],
) -> None:
    records = [record for p in params if (record := p.get_help_record(ctx)) is not None]
    if records:
        with formatter.section(section):
            formatter.write_dl(records)


PATH = click.Path(path_type=Path)
FILE, FOLDER = (
    click.Path(path_type=Path, file_okay=file, dir_okay=not file) for file in (True, False)
)
NONE_GIVEN = object()
COUNT, WHOLE_NUMBER = click.IntRange(1), click.IntRange(0)
OptionType = type | click.ParamType  # type: ignore[type-arg, unused-ignore]


class RealRange(click.FloatRange):
    """As click's, which lets NaN pass: it is neither below nor above any number."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return found


def option(
    flag: str, text: str, kind: OptionType | None = None, default: object = NONE_GIVEN, *,
    name: str = "", show_default: bool = True, section: str = OWN, **more: Any,
) -> Decorating:  # fmt: skip
    """A decorator that adds an option; `bool` is a flag without a value."""
    how: dict[str, Any] = {"is_flag": True} if kind is bool else {"type": kind}
    if default is not NONE_GIVEN:
        how |= {"default": default, "show_default": show_default and default not in (None, "")}
    names = (flag, name) if name else (flag,)
    made: Decorating = click.option(*names, cls=Option, section=section, help=text, **how, **more)
    return made


def names_of(*options: Decorating) -> tuple[str, ...]:
    """The parameters that options give a command."""
    params: list[click.Parameter] = together(*options)(lambda: None).__click_params__  # type: ignore[attr-defined]
    return tuple(str(one.name) for one in params)


def together(*options: Decorating) -> Decorating:
    """One decorator of several, whose options the help shows in this order."""

    def decorate(function: Function) -> Function:
        for one in reversed(options):
            function = one(function)
        return function

    return decorate


def combine(name: str, make: Callable[..., object], *options: Decorating) -> Decorating:
    """Options in whose place a command gets one value, made of them by their names."""

    def decorate(function: Function) -> Function:
        names = names_of(*options)

        @functools.wraps(function)
        def with_value(**flags: Any) -> object:
            made = make(**{one: flags.pop(one) for one in names})
            return function(**{name: made}, **flags)

        return together(*options)(with_value)

    return decorate


def cli_command(*examples: str, first: str = "") -> Callable[[Any], SectionedCommand]:
    """A decorator that makes a command of a function."""
    return click.command(
        cls=SectionedCommand, context_settings=SETTINGS, examples=examples, first=first
    )


def subcommand(
    of: click.Group, name: str, *examples: str, epilog: str | None = None
) -> Callable[[Any], click.Command]:
    """A decorator that makes a command of a group of a function."""
    return of.command(
        name, cls=SectionedCommand, context_settings=SETTINGS, examples=examples, epilog=epilog
    )
