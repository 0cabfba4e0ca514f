"""Audits over images: statistics and reports as for text, and no image where it may not be."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.errors import TargetError
from leakbound.models import Model, open_model
from leakbound.report import page
from leakbound.tasks.images import as_image
from leakbound.tasks.synthetic_images import HELD_OUT, NAMES, draw, patchwork

pytestmark = pytest.mark.torch

IMAGES = {
    "task": "pseudo_names",
    "canary": "patchwork",
    "shots": 10,
    "pairs": 40,
    "simulations": 1000,
}


@pytest.fixture(scope="module")
def seeing() -> Model:
    return open_model("pocket-vision")


def audited(model: Model, folder: Path, **values: Any) -> Any:
    record, _ = run_audit(prepare(make_spec({**IMAGES, **values}), model), folder)
    return record


@pytest.mark.slow
def test_the_label_of_a_canary_gives_the_undefended_system_away(
    seeing: Model, tmp_path: Path
) -> None:
    assert audited(seeing, tmp_path, query="input_output").verdict == "violation"


@pytest.mark.slow
def test_product_of_experts_in_groups_is_not_refuted(seeing: Model, tmp_path: Path) -> None:
    experts = {"kind": "product_of_experts", "group_size": 2}
    record = audited(seeing, tmp_path, mechanism=experts, pairs=16, controls=4)
    assert record.verdict in ("no_violation", "inconclusive")
    # five groups, of which one differs between the contexts; groups full of the canary are alike
    assert record.counts["model_calls"] == (16 + 2 * 4) * 6


@pytest.mark.slow
@pytest.mark.parametrize("canary", ["marked", "natural"])
def test_other_canaries_of_images_are_audited(canary: str, seeing: Model, tmp_path: Path) -> None:
    record = audited(seeing, tmp_path, canary=canary, query="input_output", pairs=5)
    assert record.counts["pairs"] == 5


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["canary_only", "all"])
def test_the_page_shows_images_only_where_all_may_be_kept(
    keep: str, seeing: Model, tmp_path: Path
) -> None:
    record = audited(seeing, tmp_path, pairs=4, shots=3, store_text=keep)
    assert "an image of 32 x 32 pixels" in record.example_prompt
    text = page([record])
    shown = re.findall(
        r'<img src="data:image/png;base64,([^"]+)" alt="an image of the context"', text
    )
    assert len(shown) == (4 if keep == "all" else 0)
    assert all(base64.b64decode(image).startswith(b"\x89PNG") for image in shown)
    kept = (
        b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        + text.encode()
    )
    assert (b"iVBORw0KGgo" in kept) == (keep == "all")


def test_a_folder_of_images_is_audited_with_a_canary_of_ones_own(
    seeing: Model, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    for name, look in zip(NAMES[:2], HELD_OUT[::20], strict=False):
        (tmp_path / "data" / name).mkdir(parents=True)
        for i in range(6):
            (tmp_path / "data" / name / f"{i}.png").write_bytes(as_image(draw(look, rng)).png)
    (tmp_path / "own.png").write_bytes(as_image(patchwork(rng)).png)
    own = {
        "data": str(tmp_path / "data"),
        "canary": "given",
        "canary.image": str(tmp_path / "own.png"),
    }
    record = audited(seeing, tmp_path / "runs", task=None, shots=4, pairs=4, **own)
    assert record.counts["pairs"] == 4


def test_a_model_of_texts_gets_a_sentence(pocket: Model) -> None:
    with pytest.raises(TargetError, match="reads text only"):
        prepare(make_spec(IMAGES), pocket)
