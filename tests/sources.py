"""Where the sources of the three packages are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = ROOT / "src" / "leakbound"
PACKAGES = (CORE, *sorted((ROOT / "packages").glob("*/src/leakbound_*")))
SOURCES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))


def module_of(path: Path) -> str:
    """The name by which a file is imported."""
    package = next(one for one in PACKAGES if path.is_relative_to(one))
    return ".".join(path.relative_to(package.parent).with_suffix("").parts)
