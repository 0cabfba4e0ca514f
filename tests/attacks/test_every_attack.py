"""Every attack points the right way on a system that leaks, and is at chance on one that ignores
its context.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakbound
from leakbound.attacks import (
    CANARIES,
    QUERIES,
    FalseFact,
    Mislabeled,
    Overlap,
    ReferenceDirection,
    Unigram,
)
from leakbound.attacks.canaries import FALSE_FACTS
from leakbound.attacks.scores import ContainsCanary, DistanceGap
from leakbound.attacks.templates import SIGNAL_MEMBER
from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.errors import UsageError
from leakbound.models import Scripted
from leakbound.stats import auroc_standard_error
from leakbound.tasks import Context, Example, Outputs

ROWS = tuple(
    Example(f"note {i} about thing {i * 7 % 31}", ("warm", "cold", "warm")[i % 3])
    for i in range(60)
)
CHOICES = (
    "membership",
    "if_then_explicit",
    "if_then_implicit",
    "gap",
    "brainwash",
    "input_output",
    "signal_pair",
)


def reader(seen: str, prompt: str) -> str:
    """A model that does whatever the query asks, and reads the whole context."""
    context, query = prompt.rsplit("Input: ", 1)
    quoted = query.split('"')
    if "Ignore all instructions" in query:
        return context.replace("\n", " ")
    if "begins with" in query:
        rest = context.split(quoted[1], 1)
        return rest[1].split("\n")[0] if len(rest) > 1 else "nothing"
    if "does not belong" in query:
        odd = any(
            w.strip() and all(c in "0123456789abcdef" for c in w) and len(w) == 16
            for w in context.split()
        )
        return quoted[1] if odd else quoted[3]
    if len(quoted) > 3:
        return quoted[3] if quoted[1] in context else quoted[5]
    if len(quoted) > 1:
        return "yes" if quoted[1] in context else "no"
    text = query.split("\n")[0]
    before = [block for block in context.split("\n\n") if block.startswith(f"Input: {text}\n")]
    return before[0].rsplit("Label: ", 1)[1] if before else "warm"


def leaky() -> Scripted:
    return Scripted(
        complete=lambda p: reader("", p),
        embed=lambda t: (1.0, 0.0) if t in (SIGNAL_MEMBER, "yes") else (0.0, 1.0),
    )


def deaf() -> Scripted:
    """Answers from the query alone, at random but always in the same way."""

    def say(prompt: str) -> str:
        query = prompt.rsplit("Input: ", 1)[1]
        quoted, coin = query.split('"'), sum(map(ord, query)) % 2
        if len(quoted) > 5:
            return quoted[3 + 2 * coin]
        return ("yes", "no")[coin] if "yes or no" in query else ("warm", "cold")[coin]

    return Scripted(complete=say)


def audit(model: Scripted, out: Path, **values: Any) -> leakbound.AuditResult:
    spec = make_spec({"shots": 6, "labels": ["cold", "warm"], **values})
    return run_audit(prepare(spec, model, rows=ROWS), out)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"query": "membership"}, {"query": "if_then_explicit"}, {"query": "if_then_implicit"},
        {"query": "gap", "canary": "mislabeled"}, {"query": "input_output"},
        {"query": {"kind": "if_then_explicit", "repeat_canary": True}},
        {"query": "signal_pair"}, {"query": "repeat", "canary": "false_fact"},
        {"query": "injection"}, {"query": "membership", "canary": "unigram"},
        {"query": "membership", "canary": "mislabeled"},
        {"query": "membership", "insertion": "append"}, {"query": "membership", "insertion": "add"},
    ],
)  # fmt: skip
def test_scores_point_at_members(values: dict[str, Any], tmp_path: Path) -> None:
    record = audit(leaky(), tmp_path, pairs=30, **values)
    assert record.curves.auroc > 0.7
    assert record.verdict == "violation"


@pytest.mark.slow
@pytest.mark.parametrize("attack", CHOICES)
def test_a_system_that_ignores_its_context_is_at_chance(attack: str, tmp_path: Path) -> None:
    record = audit(deaf(), tmp_path, pairs=300, query=attack, canary="hex", batch_pairs=150)
    assert abs(record.curves.auroc - 0.5) <= 3 * auroc_standard_error(0.5, 300, 300)
    assert record.verdict != "violation"


def test_reference_direction_learns_on_pilot_pairs_only(tmp_path: Path) -> None:
    values = {
        "mechanism": "embedding_mean",
        "mechanism.partitions": 6,
        "epsilon": 8,
        "query": "signal_pair",
        "simulations": 20_000,
    }
    record = audit(leaky(), tmp_path, pairs=50, score="reference_direction", **values)
    gap = audit(leaky(), tmp_path, pairs=50, score="distance_gap", **values)
    assert record.estimate("e_process").counts["pairs"] == 40
    assert (
        0.4 * (record.guarantee.mu or 0) < (record.mu_bound.mu or 0) <= (record.guarantee.mu or 0)
    )
    assert (gap.mu_bound.mu or 0) == pytest.approx(record.mu_bound.mu or 0, rel=0.35)
    assert (gap.estimate("exact").mu or 0) == pytest.approx(
        (gap.guarantee.mu or 0) / np.sqrt(2), rel=1e-6
    )


def test_distance_gap_counts_moved_answers() -> None:
    points = np.array([[1.0, 0.0], [0.0, 1.0]])
    for moved in (0, 1, 5, 10):
        mean = (moved * points[0] + (10 - moved) * points[1]) / 10
        outputs = Outputs(np.zeros(1, np.int64), mean[None], ("yes", "no"), points, 10.0)
        asked = QUERIES["membership"]().render(ROWS[0], prepare_task(), "warm", "cold")
        assert DistanceGap().score(outputs, asked, ("yes", "no")) == pytest.approx([2 * moved - 10])


def prepare_task() -> Any:
    return prepare(make_spec({"shots": 6, "pairs": 1}), leaky(), rows=ROWS).task


def test_reference_direction_lies_between_both_contexts() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(1, 0.1, (50, 3)), rng.normal(0, 0.1, (50, 3))
    score = ReferenceDirection().fit(one, other)
    for side, value in ((one, 1.0), (other, -1.0)):
        noisy = Outputs(np.zeros(50, np.int64), side)
        assert score.score(noisy, None, ()).mean() == pytest.approx(value)  # type: ignore[arg-type]


def test_texts_are_compared_word_by_word() -> None:
    asked = QUERIES["injection"]().render(
        Example("Blue Kite over town", "x"), prepare_task(), "warm", "cold"
    )
    said = Outputs(np.zeros(1, np.int64), choices=("so: blue  kite over TOWN!",))
    assert ContainsCanary().score(said, asked, ()) == [1.0]
    assert Overlap().score(said, asked, ()) == [0.75]
    assert Overlap().score(Outputs(np.zeros(1, np.int64), choices=("",)), asked, ()) == [0.0]


def test_a_long_answer_does_not_repeat_a_code_whose_characters_it_has_somewhere() -> None:
    asked = QUERIES["injection"]().render(Example("4e397abc", "x"), prepare_task(), "warm", "cold")
    long = " ".join(f"note {number}" for number in range(40))
    texts = (long, f"{long} 4e397abc", "I saw 4e39-7abc.")
    scores = [
        Overlap().score(Outputs(np.zeros(1, np.int64), choices=(text,)), asked, ())[0]
        for text in texts
    ]
    assert scores[0] < 0.5
    assert scores[1:] == [1.0, 1.0]


def test_canaries() -> None:
    rng, held = np.random.default_rng(0), Example("row", "warm")
    assert len(set(FALSE_FACTS)) == 100
    assert FalseFact().make(held, "cold", rng).input in FALSE_FACTS
    assert Mislabeled().make(held, "cold", rng) == Example("row", "cold")
    rare = Unigram(2).fit((*ROWS, Example("zyx qwv", "warm")), str.split)
    assert {"qwv", "zyx"} <= set(rare.words[:60])
    assert "zyx" not in repr(rare)
    with pytest.raises(UsageError, match="takes 5; use hex"):
        Unigram(5).fit(ROWS[:1], str.split).make(held, "cold", rng)


def test_mislabeled_canaries_never_carry_their_own_label() -> None:
    pairs = prepare(
        make_spec({"shots": 6, "pairs": 40, "canary": "mislabeled"}), leaky(), rows=ROWS
    ).pairs
    labels = {row.input: row.label for row in ROWS}
    assert all(pair.canary.label != labels[pair.canary.input] for pair in pairs)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"query": "membership", "score": "overlap"}, "use --score predicted_member"),
        ({"query": "injection", "score": "predicted_member"}, "use --score contains_canary"),
        ({"query": "repeat", "mechanism": "report_noisy_max", "mechanism.partitions": 6},
         "use a classification task, or keyword_mean"),
        ({"query": "injection", "store_text": "none"}, "use --store-text canary_only"),
        ({"query": "given"}, "write it as given:text=TEXT"),
    ],
)  # fmt: skip
def test_combinations_that_make_no_sense_name_one_that_does(
    values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        prepare(make_spec({"shots": 6, "labels": ["cold", "warm"], **values}), leaky(), rows=ROWS)


def test_free_answers_keep_no_private_words(rows: Context, tmp_path: Path) -> None:
    model = Scripted(complete=lambda p: reader("", p))
    prepared = prepare(make_spec({"query": "injection", "pairs": 8}), model, rows=rows)
    record, folder = run_audit(prepared, tmp_path)
    stored = b"".join(p.read_bytes() for p in folder.iterdir())
    assert not any(word in stored for word in (b"kite", b"theatre", b"salt"))
    assert record.curves.auroc == 1.0


def test_the_catalogues_are_complete() -> None:
    assert set(CANARIES) == {
        "hex",
        "unigram",
        "false_fact",
        "natural",
        "mislabeled",
        "given",
        "patchwork",
        "marked",
        "coded",
    }
    assert set(QUERIES) == {
        "membership", "input_output", "if_then_explicit", "if_then_implicit", "gap", "brainwash",
        "signal_pair", "repeat", "injection", "either_text", "given", "recall", "lookup",
        "zero_shot_signals", "mba", "interrogation", "s2", "differential", "prefix", "extraction",
    }  # fmt: skip
