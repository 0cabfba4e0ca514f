"""The ledger on SQLite: the battery of all storages, and any sequence of contexts."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_battery import *  # noqa: F403
from ledger_battery import DELTA

from leakbound.errors import BudgetExhausted, StoreError
from leakbound.privacy import BoundedRange, Gaussian, Guarantee, PureDP, compose
from leakbound.serving.ledger import Ledger
from leakbound.serving.ledger.keys import KeyFile, Mark


@dataclass
class File:
    """A ledger in a folder."""

    folder: Path

    @property
    def address(self) -> str:
        return str(self.folder / "ledger")

    @property
    def key(self) -> Path:
        return self.folder / "key"

    def snapshot(self) -> None:
        shutil.copy(self.address, self.folder / "backup")

    def restore(self) -> None:
        shutil.copy(self.folder / "backup", self.address)

    def lose(self) -> None:
        Path(self.address).unlink()


@pytest.fixture
def place(tmp_path: Path) -> File:
    (tmp_path / "place").mkdir()
    return File(tmp_path / "place")


PRICES = (PureDP(0.3), BoundedRange(0.4), PureDP(0.7))
NOISE = (Gaussian(0.2, 1.0), Gaussian(0.5, 1.0))
CONTEXTS = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abcdef"), unique=True),
        st.sampled_from("xyz"),
        st.integers(0, 1),
    ),
    max_size=8,
)


@settings(max_examples=12, deadline=None)
@given(CONTEXTS, st.sampled_from((PRICES, NOISE)), st.floats(0.3, 2.0))
def test_no_sequence_of_contexts_overspends_a_record(
    contexts: list[tuple[list[str], str, int]], prices: tuple[Guarantee, ...], budget: float
) -> None:
    """What the ledger let each record take part in, composed without the ledger."""
    shown: dict[str, list[Guarantee]] = {name: [] for name in "abcdef"}
    answers = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger", budget, DELTA)
        for context, dataset, which in contexts:
            try:
                paid = ledger.spend(context, prices[which], dataset)
            except BudgetExhausted:
                continue
            answers[dataset] += 1
            for name, there in zip(context, paid.takes_part, strict=True):
                shown[name] += [prices[which]] * there
        for parts in shown.values():
            spent = compose(parts).epsilon(DELTA) if parts else 0.0
            assert spent <= budget * (1 + 2e-9)
        assert all(ledger.state(name).answers == given for name, given in answers.items())


def test_files_are_for_their_owner_only(place: File) -> None:
    Ledger(place.address, 1.0, DELTA, place.key)
    for path in (Path(place.address), place.key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_high_water_mark_never_falls(tmp_path: Path) -> None:
    """Two processes may raise it in the other order than they paid."""
    keys = KeyFile(tmp_path / "key")
    keys.create()
    for number in (1, 3, 2):
        keys.raise_to(Mark("ledger", "here", number, f"tag {number}"))
    assert keys.marks() == [Mark("ledger", "here", 3, "tag 3")]


@pytest.mark.parametrize("spelling", ["./mail", "../{name}/mail", "{folder}/mail", "link/mail"])
def test_no_spelling_of_a_path_gives_the_budget_of_a_lost_ledger_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    """The address was compared letter by letter."""
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to(tmp_path)
    Ledger("mail", 1.0, 0.0, "the.key").spend(["one"], PureDP(1.0))
    Path("mail").unlink()
    with pytest.raises(StoreError, match="there is no ledger at"):
        Ledger(spelling.format(name=tmp_path.name, folder=tmp_path), 1.0, 0.0, "the.key")


def test_a_key_file_that_knows_a_lost_ledger_opens_no_new_one(tmp_path: Path) -> None:
    """Neither at another place, nor where a second ledger was put over the first."""
    first, second, key = (tmp_path / name for name in ("first", "second", "the.key"))
    Ledger(first, 1.0, 0.0, key).spend(["one"], PureDP(1.0))
    Ledger(second, 1.0, 0.0, key).spend(["one"], PureDP(1.0))  # the first is there
    first.unlink()
    with pytest.raises(StoreError, match="first' that can be read"):
        Ledger(tmp_path / "third", 1.0, 0.0, key)
    second.rename(first)
    with pytest.raises(StoreError, match="first' that can be read"):
        Ledger(tmp_path / "third", 1.0, 0.0, key)


def test_a_ledger_that_was_moved_and_opened_is_not_lost(tmp_path: Path) -> None:
    key = tmp_path / "the.key"
    Ledger(tmp_path / "old", 1.0, 0.0, key).spend(["one"], PureDP(0.75))
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(StoreError, match="if it was moved, open it"):
        Ledger(tmp_path / "another", 1.0, 0.0, key)
    moved = Ledger(tmp_path / "new", 1.0, 0.0, key)
    Ledger(tmp_path / "another", 1.0, 0.0, key)
    assert moved.spend(["one"], PureDP(0.5), "again").takes_part == (False,)
