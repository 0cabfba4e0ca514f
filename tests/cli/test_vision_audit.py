"""Real processes: the image task refutes the undefended system and not the private one; bad images
end before any model is opened.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import cli

pytest.importorskip("torch")
pytest.importorskip("PIL")

pytestmark = [pytest.mark.process, pytest.mark.torch]

IMAGES = (
    "--task",
    "pseudo_names",
    "--model",
    "pocket-vision",
    "--canary",
    "patchwork",
    "--shots",
    "10",
    "--pairs",
    "24",
    "--controls",
    "2",
)


@pytest.mark.slow
def test_the_undefended_system_is_refuted(tmp_path: Path) -> None:
    done = cli("audit", *IMAGES, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith("✗ VIOLATION   few_shot")


@pytest.mark.slow
def test_the_private_system_is_not(tmp_path: Path) -> None:
    done = cli("audit", *IMAGES, "--mechanism", "report_noisy_max:partitions=5", cwd=tmp_path)
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert not done.stdout.startswith("✗ VIOLATION")


def test_what_cannot_be_used_ends_before_the_model_is_opened(tmp_path: Path) -> None:
    (tmp_path / "data" / "dax").mkdir(parents=True)
    (tmp_path / "data" / "dax" / "0.png").write_bytes(b"")
    done = cli(
        "audit",
        "--data",
        "data",
        "--model",
        "hf/./no-such-model",
        "--canary",
        "patchwork",
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "zero bytes" in done.stderr
    assert "Traceback" not in done.stderr
