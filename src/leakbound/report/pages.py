"""HTML pages from templates: one file each, readable offline, with all text escaped."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
from typing import TYPE_CHECKING

from leakbound.report.glossary import terms_on

if TYPE_CHECKING:
    from jinja2 import Environment

WORDS = "<!-- words -->"  # where a page lists the words of the glossary that stand on it


def render(template: str, *, script: str = "", **values: object) -> str:
    """Fill a template of this package."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    found = _environment().get_template(template)
    page = found.render(script=script, digest=digest, **values)
    return page.replace(WORDS, _words(page), 1) if WORDS in page else page


def script_file(path: str) -> str:
    """The text of a script of this package."""
    return (importlib.resources.files("leakbound.report") / path).read_text(encoding="utf-8")


def _words(page: str) -> str:
    return _environment().get_template("words.html.j2").render(terms=terms_on(page))


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("leakbound.report", "."), autoescape=True, undefined=StrictUndefined
    )
