"""What a process may take: limits of containers, weights that are mapped and not read yet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

from leakbound.errors import UsageError  # noqa: E402
from leakbound.models.local import load  # noqa: E402
from leakbound.models.local.engine import budget as budgets  # noqa: E402
from leakbound.models.local.engine.budget import (  # noqa: E402
    container_limit,
    container_room,
    unread_weights,
    weight_bytes,
)
from leakbound.models.pocket import FOLDER  # noqa: E402

pytestmark = pytest.mark.torch

GB = 1 << 30
STAT = "anon 5\ninactive_file {}\ntotal_inactive_file {}\n"
PEAK = """
import json, resource, sys
import numpy as np
from leakbound.models import Local, NextLogits, ScoreLabels, open_model
from leakbound.models.local.engine.budget import unread_weights
model = open_model("hf/" + sys.argv[1], local=Local(memory=int(sys.argv[2])))
rng = np.random.default_rng(0)
head = tuple(rng.integers(3, 2048, 1500).tolist())
for _ in range(3):
    rows = [head + tuple(rng.integers(3, 2048, 1500).tolist()) for _ in range(6)]
    model.answer([NextLogits(row, (5, 6, 7)) for row in rows])
print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, unread_weights()]))
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_no_control_group_is_no_limit(tmp_path: Path) -> None:
    assert container_limit(tmp_path) is None
    assert container_room(tmp_path) is None


def test_limits_of_version_2_and_of_the_groups_around(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/jobs/one\n")
    group = tmp_path / "sys/fs/cgroup/jobs"
    write(group / "one/memory.max", "max\n")
    write(group / "memory.max", f"{4 * GB}\n")
    write(group / "memory.current", f"{3 * GB}\n")
    write(group / "memory.stat", STAT.format(2 * GB, 0).split("total")[0])
    assert container_limit(tmp_path) == 4 * GB
    assert container_room(tmp_path) == 3 * GB


def test_a_container_that_sees_its_own_group_as_the_outermost(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/../docker/abc\n")
    write(tmp_path / "sys/fs/cgroup/memory.max", f"{2 * GB}\n")
    write(tmp_path / "sys/fs/cgroup/memory.current", f"{3 * GB}\n")
    assert container_limit(tmp_path) == 2 * GB
    assert container_room(tmp_path) == 0


def test_limits_of_version_1(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "9:cpu:/a\n4:memory:/docker/abc\n1:name=systemd:/\n")
    group = tmp_path / "sys/fs/cgroup/memory"
    write(group / "memory.limit_in_bytes", "9223372036854771712\n")
    write(group / "docker/abc/memory.limit_in_bytes", f"{8 * GB}\n")
    write(group / "docker/abc/memory.usage_in_bytes", f"{3 * GB}\n")
    write(group / "docker/abc/memory.stat", STAT.format(0, GB))
    assert container_limit(tmp_path) == 8 * GB
    assert container_room(tmp_path) == 6 * GB


def test_a_budget_above_the_limit_of_the_container_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budgets, "container_limit", lambda: 3 * GB)
    with pytest.raises(UsageError, match=r"4\.00 GB, and the container .* limited to 3\.00 GB"):
        budgets.require_memory(4 * GB, 0, torch.device("cpu"))
    assert budgets.require_memory(3 * GB, GB, torch.device("cpu")) == GB


def test_what_a_container_leaves_is_free_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "container_room", lambda: 12345)
    assert budgets._free(torch.device("cpu")) == 12345


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 32 MB."""
    shape = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 6,
             "num_attention_heads": 4, "vocab_size": 4096, "max_position_embeddings": 4096,
             "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
    out = tmp_path_factory.mktemp("model")
    AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **shape)).save_pretrained(out)
    PreTrainedTokenizerFast.from_pretrained(FOLDER).save_pretrained(out)
    return out


def test_weights_are_counted_by_the_headers_of_their_files(folder: Path) -> None:
    files = list(folder.glob("*.safetensors"))
    found = sum(file.stat().st_size for file in files)
    assert 0 <= found - weight_bytes(files, 4) < 20_000  # the header
    broken = folder / "config.json"
    assert weight_bytes([broken, folder / "none"], 4) == 0


def test_mapped_weights_count_before_they_are_read(folder: Path) -> None:
    before = unread_weights()
    net = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    size = weight_bytes(folder.glob("*.safetensors"), 4)
    assert unread_weights() - before > 0.5 * size
    held = budgets._use(net)
    for weights in net.parameters():
        weights.sum()
    assert unread_weights() - before < 0.1 * size
    assert abs(budgets._use(net) - held) < 0.2 * size


def test_a_budget_below_the_weights_is_refused_before_they_are_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = budgets.resident()
    assert held is not None
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", None)
    with pytest.raises(UsageError, match=r"memory budget is .* with the model's weights takes"):
        load(str(folder), memory=held + (80 << 20))


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("more", [0.15, 0.5])
def test_the_peak_of_the_process_stays_within_its_budget(folder: Path, more: float) -> None:
    """Measured from outside, weights included; a process of its own for each budget."""
    base = 560 << 20  # of Python with torch and these weights
    memory = base + int(more * GB)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(folder), str(memory)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    peak, unread = json.loads(done.stdout.splitlines()[-1])
    assert unread < 1 << 20
    assert peak <= 1.05 * memory
