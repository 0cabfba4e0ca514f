"""A folder of images as rows: one folder per class, one file per example."""

from __future__ import annotations

from pathlib import Path

from leakbound.errors import DataError
from leakbound.tasks.images import SUFFIXES


def folder_rows(folder: Path) -> list[tuple[str, dict[str, object]]]:
    """The files of a folder of images; hidden files are left out."""
    classes = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not classes:
        raise DataError(
            f"the data folder {str(folder)!r} holds no folders; it must hold one folder of images "
            "per class (for a folder of a Hugging Face dataset, write hf: before it)."
        )
    return [row for label in classes for row in _rows(folder, label)]


def _rows(folder: Path, label: Path) -> list[tuple[str, dict[str, object]]]:
    files = sorted(p for p in label.iterdir() if not p.name.startswith("."))
    strange = next((p for p in files if p.suffix.lower() not in SUFFIXES), None)
    if strange is not None:
        raise DataError(
            f"the class folder {str(label)!r} holds {strange.name!r}, which is not an image by its "
            f"name; take it out (images end in {', '.join(SUFFIXES)})."
        )
    return [
        (repr(str(p)), {"image": str(p.relative_to(folder)), "label": label.name}) for p in files
    ]
