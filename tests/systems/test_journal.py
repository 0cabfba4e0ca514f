"""The file that says what an audit has planted in a store and not removed yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from leakbound.errors import StoreError
from leakbound.systems.journal import FILE, Journal


def test_what_cannot_be_removed_is_told_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Journal(tmp_path / FILE)
    for name in ("7", 8, "9"):
        first.note(name)
    first.of("b").note("7")
    first.note("9", removed=True)
    with (tmp_path / FILE).open("a") as file:
        file.write('[false, "", "1')  # cut by the kill
    del first  # its process ended
    removed = list[tuple[str, object]]()

    def remover(tenant: str) -> Callable[[object], None]:
        def remove(name: object) -> None:
            if name == 8:
                raise KeyError("private text")
            removed.append((tenant, name))

        return remove

    again = Journal(tmp_path / FILE)
    again.remove_left("notes", remover)
    assert removed == [("", "7"), ("b", "7")]
    assert "2 of 3 are removed now. 1 could not be removed (KeyError)" in caplog.text
    assert "private" not in caplog.text
    again.remove_left("notes", remover)  # tried once
    assert len(removed) == 2
    del again
    assert Journal(tmp_path / FILE).left() == (("", 8),)


def test_two_processes_do_not_plant_for_one_run(tmp_path: Path) -> None:
    """Each would take the records of the other for those of a killed one."""
    one, other = Journal(tmp_path / FILE), Journal(tmp_path / FILE)
    one.note("7")
    with pytest.raises(StoreError, match="another process plants records"):
        other.left()
    one.note("7", removed=True)
    assert not (tmp_path / FILE).exists()
    other.note("8")
    with pytest.raises(StoreError, match="another process plants records"):
        one.note("9")
