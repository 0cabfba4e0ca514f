"""A model's folder is data:

weights that run code and code of its own are refused with a sentence, and not run.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from leakbound.errors import TargetError
from leakbound.models import open_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

import leakbound.models.pocket as pocket_home  # noqa: E402
from leakbound.models.address import hub_host  # noqa: E402
from leakbound.models.local import load, loading  # noqa: E402
from leakbound.models.local.loading import ModelFiles  # noqa: E402

pytestmark = pytest.mark.torch


def _fingerprint(folder: Path) -> str:
    return ModelFiles(str(folder), str(folder), True).fingerprint()


CODE = """
from pathlib import Path
Path({marker!r}).touch()
from transformers import LlamaConfig, LlamaForCausalLM
class OwnConfig(LlamaConfig):
    model_type = "own_kind"
class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the pocket model's folder."""
    weights = pocket_home.FOLDER / "model.safetensors"
    return Path(shutil.copytree(weights.parent, tmp_path / "model"))


@pytest.mark.parametrize("name", ["chat_template.jinja", "vocab.txt", "tokenizer.model"])
def test_what_changes_answers_changes_the_fingerprint(folder: Path, name: str) -> None:
    """Templates and vocabularies stand beside the JSON files:

    runs and caches must tell such folders apart.
    """
    found = [_fingerprint(folder)]
    for text in ("one", "two"):
        (folder / name).write_text(text)
        found.append(_fingerprint(folder))
    assert len(set(found)) == 3


def test_weights_in_a_pickle_are_refused(folder: Path) -> None:
    for file in folder.glob("*.safetensors"):
        file.unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(
        TargetError, match=r"must hold \*.safetensors .*files can run code when they are read"
    ):
        open_model(f"hf/{folder}")
    with pytest.raises(TargetError, match="files can run code"):
        open_model(f"hf/{folder}", trust_remote_code=True)


def test_weights_that_lack_a_parameter_are_refused(folder: Path) -> None:
    """Transformers fills it with random numbers, as all of a vision tower that an older release
    knows by other names.
    """
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(TargetError, match=r"lack 1 of .* 'model\.norm\.weight'.* save_pretrained"):
        open_model(f"hf/{folder}")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_damaged_json_file_is_named(folder: Path, name: str) -> None:
    """Before, config.json without weights "had no weights", and tokenizer.json was not named."""
    (folder / name).write_text('{"model_type": ')
    if name == "config.json":
        (folder / "model.safetensors").unlink()
    with pytest.raises(TargetError, match=rf"{name}' cannot be read \(no JSON at line 1"):
        load(str(folder))


def own_code(folder: Path, marker: Path) -> None:
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "own_kind",
        "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"},
    }
    (folder / "config.json").write_text(json.dumps(config))


def test_code_of_a_folder_is_refused_and_not_run(folder: Path, tmp_path: Path) -> None:
    own_code(folder, tmp_path / "marker")
    with pytest.raises(
        TargetError, match=r"its own Python code, which is not run; .*--trust-remote-code"
    ):
        open_model(f"hf/{folder}")
    assert not (tmp_path / "marker").exists()


def test_code_of_a_folder_is_run_by_those_who_trust_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    own_code(folder, tmp_path / "marker")
    open_model(f"hf/{folder}", trust_remote_code=True)
    assert (tmp_path / "marker").exists()


def test_weights_that_were_trained_in_the_middle_of_a_file_are_other_weights(
    tmp_path: Path,
) -> None:
    """Both ends of the file stay as they were, as where a few matrices are adapted."""
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(bytes(16 << 20))
    before = _fingerprint(tmp_path)
    with weights.open("r+b") as file:
        file.seek((8 << 20) + 12345)
        file.write(b"\1" * (1 << 20))
    assert _fingerprint(tmp_path) != before


def test_without_a_network_a_hub_id_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its name is unknown, five retries of eight seconds would find nothing either."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    asked: list[object] = []

    def unknown(host: str, port: int) -> None:
        asked.append(host)
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(TargetError, match="cannot be reached from here; give the folder"):
        load("nobody/nothing")
    assert asked == [hub_host()]


@pytest.mark.parametrize(("slower", "warns"), [(80.0, True), (0.5, False)])
def test_a_format_that_the_processor_lacks_is_named(
    slower: float, warns: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """bfloat16 was 80 times slower on one processor, and four times faster on another."""
    seconds = {torch.float32: 1.0, torch.bfloat16: slower}
    monkeypatch.setattr(loading, "_seconds", lambda dtype, device: seconds[dtype])
    model = load(str(pocket_home.FOLDER), dtype="bfloat16")
    assert model.model.dtype == torch.bfloat16
    assert ("bfloat16 is 80 times slower than float32" in caplog.text) == warns


def test_the_time_of_a_product_is_measured() -> None:
    assert 0 < loading._seconds(torch.float32, torch.device("cpu")) < 1
