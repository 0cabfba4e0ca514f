"""What the commands over influence share: sampling, progress, and what an early end keeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from leakbound.attribution import (
    Attribution,
    Case,
    Finished,
    InfluenceRecord,
    InfluenceSettings,
    attribute,
)
from leakbound.attribution.ablation_sets import METHODS
from leakbound.attribution.attribute import CaseRunner
from leakbound.attribution.measure import DRAW
from leakbound.attribution.spans import DOCUMENT, MESSAGE, TEMPLATE
from leakbound.cli.screen.help_pages import COUNT, WHOLE_NUMBER, RealRange, option, together
from leakbound.errors import Interrupted, LeakboundError, UsageError
from leakbound.models import Model

# the sampling of Context Influence, Section 4.1
PRESETS: Mapping[str, Mapping[str, float]] = {"influence": {"temperature": 0.8, "max_tokens": 50}}
SUFFIX = ".partial.jsonl"  # of files with the finished contexts of an unfinished run
T = TypeVar("T")
# how responses are sampled, apart from lambda and temperature
draw_options = together(
    option("--max-tokens", "maximum length of a sampled response", COUNT, 48),
    option("--min-tokens", "minimum length of a sampled response", WHOLE_NUMBER, 0),
    option("--ban", "token ids that are never sampled, such as 0,5", default=""),
    option("--stop", "text that ends a sampled response; empty for none", default="\\n"),
    option(
        "--template",
        "prompt template with {context} and {query}",
        default=TEMPLATE.replace("\n", "\\n"),
    ),
    option(
        "--message",
        "system message for an instruct model, with {context} or {query}; if it holds "
        "{context}, the default of --template is {query}",
        default="",
    ),
    option("--seed", "seed of random choices: of the sampling", int, 0),
)
# what is ablated: units of the text, how, and the limit on their shares
unit_options = together(
    option(
        "--by",
        "units that are ablated: sentence, line, paragraph, document, message (of a chat), "
        "chunk:N (at most N characters) or tokens:N; several with commas",
        default="",
    ),
    option(
        "--method",
        "how units are ablated: one at a time, or in sets, which show a secret that stands "
        "twice [default: leave-one-out; shapley with --max-share]",
        click.Choice(METHODS),
    ),
    option(
        "--sets",
        "maximum sets of units for shapley and lasso; shapley is exact up to 10 units",
        COUNT,
        1024,
    ),
    option(
        "--top",
        "of many spans of 4 tokens or more, measure those that may be among the K with the largest "
        "influence, and --draw others, which limit what was missed [default: all]",
        COUNT,
        metavar="K",
    ),
    option("--draw", "spans drawn from those that --top leaves out", COUNT, DRAW),
    option(
        "--max-share",
        "largest share of the influence on an answer that a source may have; exit code 1 if "
        "one has more, 3 if that cannot be decided",
        RealRange(0, 1),
    ),
    option("--source", "source that --max-share applies to [default: all]"),
    option(
        "--normalize",
        "show influence over the entropy of the response without the context as well",
        click.Choice(["entropy"]),
    ),
    option(
        "--ngram",
        "span sizes in tokens; the whole context is always added [default: 1,8; none with --by]",
    ),
)
preset_option = option(
    "--preset",
    "options of a paper, in a bundle: its sampling; no other option may contradict it",
    click.Choice(list(PRESETS)),
)


def apply_preset(flags: dict[str, Any]) -> None:
    """Put the options of --preset into the flags."""
    name, context = flags.pop("preset"), click.get_current_context()
    for key, value in PRESETS[name].items() if name else ():
        given = context.get_parameter_source(key) is not ParameterSource.DEFAULT
        if given and flags[key] != value:
            flag = f"--{key.replace('_', '-')}"
            raise UsageError(
                f"the preset {name} means {flag} {value:g}, and {flag} {flags[key]:g} is given "
                "beside it; leave one of them out."
            )
        flags[key] = value


def unit_settings(flags: dict[str, Any], cases: Sequence[Case]) -> dict[str, Any]:
    """The fields of InfluenceSettings that `unit_options` give."""
    sources = MESSAGE if any(case.roles for case in cases) else DOCUMENT
    by = tuple(part.strip() for part in flags["by"].split(",") if part.strip())
    limited = flags["max_share"] is not None
    if limited and any(case.sources for case in cases) and sources not in by:
        by = (sources, *by)
    if flags["source"] is not None and not limited:
        raise UsageError("--source names what --max-share holds for; give --max-share as well.")
    default = "" if by else "1,8"
    return {
        "by": by,
        "ngrams": numbers("--ngram", default if flags["ngram"] is None else flags["ngram"], int),
        "method": flags["method"] or ("shapley" if limited else METHODS[0]),
        "sets": flags["sets"],
        "top": flags["top"],
        "draw": flags["draw"],
        "entropy": flags["normalize"] is not None,
    }


def draw_settings(flags: dict[str, Any]) -> dict[str, Any]:
    """The fields of InfluenceSettings that `draw_options` give."""
    return {
        "max_tokens": flags["max_tokens"],
        "min_tokens": flags["min_tokens"],
        "banned": numbers("--ban", flags["ban"], int),
        "stop": flags["stop"].replace("\\n", "\n"),
        "template": flags["template"].replace("\\n", "\n"),
        "system": flags["message"].replace("\\n", "\n"),
        "seed": flags["seed"],
    }


def numbers(name: str, text: str, kind: Callable[[str], T]) -> tuple[T, ...]:
    """The numbers of an option, with commas between them."""
    try:
        return tuple(kind(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UsageError(
            f"{name} got {text!r}; it must be numbers with commas between them, such as 1,8."
        ) from None


def addresses(given: Sequence[str]) -> list[str]:
    """Model addresses, from an option given more than once or with commas, each once."""
    found = list(
        dict.fromkeys(part.strip() for text in given for part in text.split(",") if part.strip())
    )
    if not found:
        raise UsageError(
            "--model is empty; it must be a model address, such as pocket or hf/./folder."
        )
    return found


def attribute_cases(
    cases: Sequence[Case],
    model: Model,
    settings: InfluenceSettings,
    place: Path,
    redact: bool,
    label: str,
    each: CaseRunner | None = None,
) -> tuple[InfluenceRecord, Finished]:
    """Attribute a data set; each finished context is kept at `place`, and taken up from there."""
    finished = Finished(place.with_name(place.name + SUFFIX), model, settings, cases, redact)
    if finished.found:
        click.echo(
            f"{label}: {len(finished.found)} of {len(cases)} contexts were finished before",
            err=True,
        )
    show = _progress(label, len(cases))

    def keep(number: int, one: Attribution) -> None:
        finished.add(number, one)
        show(len(finished.found))

    return attribute(cases, model, settings, keep, dict(finished.found), each), finished


@contextmanager
def tell_partial(folder: Path) -> Iterator[None]:
    """Whatever stops the run early says how many finished contexts are kept."""
    before = _keep(folder)
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; {_keep(folder) or 'no context was finished yet.'}"
        ) from None
    except LeakboundError as error:
        kept = _keep(folder)
        if kept == before:  # by an earlier run
            raise
        raise (type(error)(f"{error} {kept[0].upper()}{kept[1:]}") if kept else error) from None


def _keep(folder: Path) -> str:
    files = sorted(folder.rglob(f"*{SUFFIX}"))
    count = sum(max(0, path.read_bytes().count(b"\n") - 1) for path in files)
    return (
        f"{count} finished context{'s are' if count > 1 else ' is'} kept in {str(folder)!r}, and "
        "the same command resumes there."
        if count
        else ""
    )


def _progress(label: str, total: int) -> Callable[[int], None]:
    """A line at most every two seconds, on standard error, if there are several contexts."""
    last = time.monotonic()

    def show(done: int) -> None:
        nonlocal last
        if total > 1 and (done == total or time.monotonic() - last >= 2):
            last = time.monotonic()
            click.echo(f"{label}: {done}/{total} contexts", err=True)

    return show
