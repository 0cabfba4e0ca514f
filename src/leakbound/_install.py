"""How to install an optional dependency of this package, for error messages."""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

__all__ = ["install_hint"]


def install_hint(extra: str) -> str:
    """The command that installs an extra of the leakbound that is running.

    Args:
        extra: Name of the extra, as in `pyproject.toml`.

    Returns:
        `pip install "leakbound[EXTRA]"` for an installed package, `pip install -e ".[EXTRA]"` for a
        checkout (an editable install or a source tree on the path).
    """
    return f'pip install -e ".[{extra}]"' if _is_checkout() else f'pip install "leakbound[{extra}]"'


@cache
def _is_checkout() -> bool:
    try:
        found = distribution("leakbound")
    except PackageNotFoundError:
        return True
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable", False):
        return True
    return Path(str(found.locate_file("leakbound"))).resolve() != Path(__file__).resolve().parent
