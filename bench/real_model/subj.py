"""README's table: a known model on real rows, collected once and computed again without it.

    python bench/real_model/subj.py collect FOLDER [MODEL]   # with serve.py MODEL beside it
    python bench/real_model/subj.py table            # from evidence/subj alone

FOLDER holds subj/train.jsonl, MODEL is qwen-1.5b unless another one is named. What is audited was
fixed before the first call: `AUDITS`.
The question puts "no" before "yes", because this model leans to what it reads first: so a context
without the canary is answered with no. It was chosen among five wordings, on a few other draws from
the same file.
`--detect-change 0`: no attack of another kind is asked, so nothing passes as not using its context.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from leakbound import AuditResult, load_result
from leakbound.auditing.result.sentences import system_name
from leakbound.report.words import verdict_text
from leakbound.stats import cut
from leakbound.tasks.rows.datasets import fingerprint, load_rows

HOME = Path(__file__).parents[2] / "evidence" / "subj"
ROWS = "subj/train.jsonl"
ASKED = (
    'membership:template=Does the text "{canary}" appear in the examples above? Answer no or yes.'
)
SERVER = ("--base-url", "http://127.0.0.1:8731/v1",
          "--capabilities", "completions,top_logprobs=200,first_tokens_differ",
          "--connections", "1", "--timeout", "900", "--batch-pairs", "2")  # fmt: skip
DESIGN = ("--labels", "objective,subjective", "--query", ASKED, "--pairs", "100", "--seed", "12",
          "--detect-change", "0")  # fmt: skip
COLUMNS = ("system", "model", "examples", "claim ε", "paired trials", "calls", "ε ≥", "μ ≥",
           "guaranteed μ", "verdict")  # fmt: skip
UNDEFENDED = ("--mechanism", "answer_probabilities", "--shots", "5", "--epsilon", "1")
AUDITS = {
    "qwen-1.5b": [
        *(("--mechanism", "report_noisy_max:prior=uniform", "--shots", "20", "--epsilon", claim)
          for claim in ("1", "2", "4", "8")),
        UNDEFENDED,
        *(("--mechanism", f"answer_probabilities:level={level}", *UNDEFENDED[2:])
          for level in (1, 2)),
    ],
    "qwen-0.5b": [UNDEFENDED],
}  # fmt: skip


def collect(folder: Path, model: str) -> int:
    """Ask the model; the same command goes on where it was stopped."""
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / "left-out-rows.json").write_text(json.dumps(labels_of(folder)) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "leakbound", "audit", "--data", ROWS, *SERVER, *DESIGN]
    command += ["--model", f"openai/{model}"]
    for audit in AUDITS[model]:
        done = subprocess.run([*command, *audit, "--out", HOME], cwd=folder, check=False)
        if done.returncode not in (0, 1, 3):
            return done.returncode
    for page in HOME.glob("*/report.html"):  # made of the record
        page.unlink()
    return 0


def labels_of(folder: Path) -> dict[str, object]:
    """The labels of the rows, for those who have no rows."""
    rows = load_rows(str(folder / ROWS))
    names = sorted({row.label for row in rows})
    places = "".join(str(names.index(row.label)) for row in rows)
    return {
        "schema_version": 1,
        "data": {fingerprint(rows): {"labels": names, "of_each_row": places}},
    }


def table() -> None:
    results = [load_result(one.parent) for one in HOME.glob("*/record.json")]
    print(f"| {' | '.join(COLUMNS)} |\n" + "| --- " * len(COLUMNS) + "|")
    for one in sorted(results, key=lambda r: (name_of(r), r.spec["model"], r.claim.epsilon)):
        print(line(one))
    votes = next(HOME.glob("report_noisy_max*/trials.sqlite"))
    with closing(sqlite3.connect(f"file:{votes}?immutable=1", uri=True)) as db:
        pairs = db.execute("SELECT member, nonmember FROM evidence WHERE pair >= 0").fetchall()
    changed = sum(json.loads(one) != json.loads(other) for one, other in pairs)
    print(f"\nA canary changes the vote of its group in {changed} of {len(pairs)} pairs.")


def name_of(one: AuditResult) -> str:
    level = one.spec["mechanism"].get("level")
    return system_name(one) + (f", prompt defence L{level}" if level else "")


def line(one: AuditResult) -> str:
    mu = "none" if one.guarantee.mu is None else f"{one.guarantee.mu:.3f}"
    cells = (
        name_of(one), one.spec["model"].removeprefix("openai/"), one.spec["shots"],
        f"{one.claim.epsilon:g}", one.counts["pairs"],
        one.counts["model_calls"], cut(one.bound.epsilon), cut(one.mu_bound.mu, 3), mu,
        verdict_text(one.verdict),
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    if sys.argv[1:2] == ["collect"]:
        sys.exit(collect(Path(sys.argv[2]), *sys.argv[3:4] or ["qwen-1.5b"]))
    table()
