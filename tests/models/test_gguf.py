"""A GGUF file is a local model: hf/PATH/NAME.gguf."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_models import save_tiny_gguf

from leakbound.errors import LeakboundError, TargetError

pytest.importorskip("torch")
pytest.importorskip("gguf")

from leakbound.models.local import load
from leakbound.models.local.engine.budget import resident
from leakbound.models.local.loading import find_files
from leakbound.models.request import ScoreLabels

pytestmark = pytest.mark.torch

TEXT = "the cat sat on the mat, and then it left"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same weights in a folder and in a GGUF file."""
    return save_tiny_gguf(tmp_path_factory.mktemp("gguf"))


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "leakbound" / "gguf"


def test_a_gguf_file_answers_as_the_folder_of_the_same_weights(
    both: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    saved, packed = (load(str(path)) for path in both)
    assert capfd.readouterr().err == ""  # no progress of unpacking
    assert packed.name == f"hf/{both[1]}"
    assert packed.encode(TEXT) == saved.encode(TEXT)
    asked = [ScoreLabels(TEXT, ("yes", "no"))]
    np.testing.assert_allclose(packed.answer(asked)[0], saved.answer(asked)[0], atol=1e-5)


def test_its_fingerprint_is_of_the_file(both: tuple[Path, Path], tmp_path: Path) -> None:
    file = both[1]
    copy = tmp_path / file.name
    copy.write_bytes(file.read_bytes())
    same = find_files(str(copy)).fingerprint()
    assert same == find_files(str(file)).fingerprint()
    changed = bytearray(file.read_bytes())
    changed[-100] ^= 1
    copy.write_bytes(changed)
    assert find_files(str(copy)).fingerprint() != same


def test_its_memory_is_that_of_the_unpacked_weights(both: tuple[Path, Path]) -> None:
    saved, packed = (find_files(str(path)).bytes_at(4) for path in both)
    assert packed == pytest.approx(saved, rel=0.02)  # that a folder counts its header too
    with pytest.raises(LeakboundError, match="memory"):
        load(str(both[1]), memory=resident())


def test_it_is_unpacked_once(
    both: tuple[Path, Path], tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start took the time of the first: half a minute of CPU for 98 MB."""
    file = shutil.copy2(both[1], tmp_path / "tiny.gguf")
    first = load(str(file))
    with monkeypatch.context() as without:
        without.setattr("gguf.GGUFReader", None)
        again = load(str(file))
    assert (again.name, again.fingerprint) == (first.name, first.fingerprint)
    assert again.encode(TEXT) == first.encode(TEXT)
    assert again.end_ids() == first.end_ids()
    asked = [ScoreLabels(TEXT, ("yes", "no"))]
    np.testing.assert_array_equal(again.answer(asked)[0], first.answer(asked)[0])
    with file.open("r+b") as changed:  # what stands between the samples of a fingerprint
        changed.seek(-100, 2)
        changed.write(b"!")
    load(str(file))
    assert len(list(kept.iterdir())) == 2


def test_without_room_it_is_not_kept(
    both: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert load(str(both[1])).window == 4096


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("model.safetensors", b"GGUF", "or a GGUF file (*.gguf)"),
        ("notes.gguf", b"no weights at all", "is no GGUF file: it must begin with GGUF"),
        ("short.gguf", b"GGUF", "could not be loaded"),
    ],
)
def test_a_file_that_is_no_model_is_refused(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TargetError) as refused:
        load(str(tmp_path / name))
    assert says in str(refused.value)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused(
    both: tuple[Path, Path], tmp_path: Path, share: float
) -> None:
    whole, cut = both[1].read_bytes(), tmp_path / "cut.gguf"
    cut.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(TargetError, match="Copy the file again"):
        load(str(cut))


def test_a_folder_with_a_gguf_file_alone_names_it(tmp_path: Path) -> None:
    (tmp_path / "one.gguf").write_bytes(b"GGUF")
    with pytest.raises(TargetError, match=r"or its GGUF file \(hf/.*one\.gguf\)"):
        load(str(tmp_path))


def test_a_missing_file_does_not_reach_for_the_hub() -> None:
    with pytest.raises(TargetError, match="does not exist"):
        load("models/none.gguf")


@pytest.mark.slow
@pytest.mark.process
def test_without_the_package_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "one.gguf").write_bytes(b"GGUF")
    code = (
        "import sys; sys.modules['gguf'] = None\n"
        "from leakbound.models.local.loading import find_files\n"
        f"find_files({str(tmp_path / 'one.gguf')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "gguf]" in done.stderr
