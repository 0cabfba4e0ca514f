"""How to install an optional dependency of this package, for error messages."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

PUBLISHED = False  # whether `leakbound` on the package index is this project
EXTRA = re.compile(r"""(.+?)\s*;.*\bextra == ['"]([\w-]+)['"]""")  # of a requirement
OWN = re.compile(r"leakbound\[([\w,-]+)\]")


def install_hint(extra: str) -> str:
    """The command that installs an extra of the leakbound that is running."""
    found = _install()
    if found is None:
        return f'pip install -e ".[{extra}]"'
    wanted = [f"leakbound[{extra}]"] if PUBLISHED else list(_packages(found, extra))
    packages, here = " ".join(f'"{one}"' for one in wanted), Path(sys.prefix)
    added = " ".join(f'--with "{one}"' for one in wanted)
    if (here / "pipx_metadata.json").exists():
        return f"pipx inject leakbound {packages}"
    if any(part.startswith("archive-v") for part in here.parts):  # where uvx keeps what it runs
        return f"uvx --from {_source(found)} {added} leakbound"
    if (here / "uv-receipt.toml").exists():
        return f"uv tool install {_source(found)} {added}"
    python = shlex.quote(sys.executable)
    if (found.read_text("INSTALLER") or "").strip() == "uv":
        return f"uv pip install --python {python} {packages}"
    return f"{python} -m pip install {packages}"


def _install() -> Distribution | None:
    """The distribution that runs; None in a checkout."""
    try:
        found = distribution("leakbound")
    except PackageNotFoundError:
        return None
    beside = Path(str(found.locate_file("leakbound"))).resolve() == Path(__file__).resolve().parent
    return found if beside and not _origin(found).get("dir_info", {}).get("editable") else None


def _origin(found: Distribution) -> dict[str, dict[str, bool]]:
    origin: dict[str, dict[str, bool]] = json.loads(found.read_text("direct_url.json") or "{}")
    return origin


def _source(found: Distribution) -> str:
    """What it was installed from: a wheel or a checkout, or its name on the index."""
    url = str(_origin(found).get("url", "leakbound" if PUBLISHED else "."))
    return shlex.quote(unquote(urlsplit(url).path) if url.startswith("file:") else url)


def _packages(found: Distribution, extra: str) -> Iterator[str]:
    """The packages of an extra, and of those that it names."""
    for needed in found.requires or ():
        match = EXTRA.fullmatch(needed)
        if match is None or match[2] != extra:
            continue
        if own := OWN.fullmatch(match[1]):
            for name in own[1].split(","):
                yield from _packages(found, name)
        else:
            yield match[1]
