"""A record whose budget is spent leaves an empty slot: nothing else changes, no client is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbound.auditing.prepare.rows import load_data
from leakbound.auditing.spec.groups import Design
from leakbound.cli.options.ledger import Accounts
from leakbound.errors import DataError, UsageError
from leakbound.mechanisms import MECHANISMS, ProductOfExperts, ReportNoisyMax
from leakbound.models import Model, Scripted, open_model
from leakbound.models.model import Wrapper
from leakbound.privacy import ApproxDP, PureDP
from leakbound.serving import PrivateICL
from leakbound.serving.ledger import Ledger, RecordName, record_names
from leakbound.tasks import EMPTY_SLOT, Context, Example, Job, Query, Task

TASK = Task("t", ("plain", "odd"))
ROWS = tuple(Example(f"row {i}.", ("plain", "odd")[i % 2]) for i in range(4))
IDS = ("a", "b", "c", "d")
MANY = tuple(Example(f"row {i}.", ("plain", "odd")[i % 2]) for i in range(20))
SAMPLED = {"sigma": 1.0, "rate": 0.5, "subsamples": 3}  # its calibration takes seconds


def served(ledger: Ledger, prompts: list[str], dataset: str) -> PrivateICL:
    def complete(prompt: str) -> str:
        prompts.append(prompt)
        return "plain"

    mechanism = ReportNoisyMax.calibrated(1.0, 1e-5, 2)
    model = Scripted(complete=complete, name="watched")
    return PrivateICL(mechanism, ROWS, TASK, model, ledger, dataset=dataset, record_ids=IDS)


def test_spent_records_are_shown_to_no_model_and_partitions_stay(tmp_path: Path) -> None:
    """Rows 0 and 2 are one partition, which answers without an example."""
    ledger, prompts = Ledger(tmp_path / "ledger", 1.0, 1e-5), list[str]()
    price = ReportNoisyMax.calibrated(1.0, 1e-5, 2).guarantee
    ledger.spend(record_names(ROWS[::2], IDS[::2]), price, "before")
    first = served(ledger, prompts, "mail").answer("what")
    shown = [prompt for prompt in prompts if "row" in prompt]
    assert len(shown) == 1
    assert "row 1." in shown[0]
    assert "row 3." in shown[0]
    fresh = served(Ledger(tmp_path / "fresh", 1.0, 1e-5), [], "mail").answer("what")
    assert (first.spent, first.remaining) == (fresh.spent, fresh.remaining)


def test_all_records_spent_still_answers(tmp_path: Path) -> None:
    ledger, prompts = Ledger(tmp_path / "ledger", 1.0, 1e-5), list[str]()
    served(ledger, [], "mail").answer("what")
    assert served(ledger, prompts, "mail again").answer("what").text
    assert prompts
    assert not any("row" in prompt for prompt in prompts)


def test_a_changed_row_keeps_its_account_by_its_id(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", 1.0, 0.0)
    changed = (Example("rewritten", "odd"), *ROWS[1:])
    assert ledger.spend(record_names(ROWS, IDS), PureDP(1.0), "monday").takes_part == (True,) * 4
    assert (
        ledger.spend(record_names(changed, IDS), PureDP(1.0), "tuesday").takes_part == (False,) * 4
    )


KINDS: list[tuple[RecordName, tuple[str, ...]]] = [
    ("content", record_names(ROWS)),
    ("id", record_names(ROWS, IDS)),
]


@pytest.mark.parametrize("first", [0, 1])
def test_a_ledger_names_records_in_one_way(tmp_path: Path, first: int) -> None:
    """By ids, every record had a second budget beside that of its content."""
    ledger = Ledger(tmp_path / "ledger", 1.0, 0.0)
    (kind, names), (other, others) = KINDS[first], KINDS[1 - first]
    assert ledger.spend(names, PureDP(0.5), "monday", kind).takes_part == (True,) * 4
    for again in (ledger, Ledger(tmp_path / "ledger", 1.0, 0.0)):
        with pytest.raises(UsageError, match=f"its {kind}, and these are named by their {other}"):
            again.spend(others, PureDP(0.5), "tuesday", other)
        with pytest.raises(UsageError, match="the two do not add up"):
            again.check(PureDP(0.5), other)
    assert ledger.spend(names, PureDP(0.5), "tuesday", kind).takes_part == (True,) * 4


def test_a_service_by_content_opens_on_no_ledger_of_ids(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", 4.0, 1e-5)
    served(ledger, [], "mail").answer("what")
    with pytest.raises(UsageError, match="these are named by their content"):
        PrivateICL(ReportNoisyMax.calibrated(1.0, 1e-5, 2), ROWS, TASK,
                   Scripted(complete=lambda prompt: "plain"), ledger)  # fmt: skip


FORMS = ("Zo\u00eb called.", "Zoe\u0308 CALLED. ", "  zo\u00eb\tcalled.")


def test_equal_rows_of_several_contexts_share_one_account_and_drop_out_together(
    tmp_path: Path,
) -> None:
    """Equal but for NFC, case and white space. Removing one leaves the account."""
    ledger = Ledger(tmp_path / "ledger", 1.0, 0.0)

    def takes_part(text: str, dataset: str) -> bool:
        names = record_names((Example(text, "plain"), ROWS[1]))
        return ledger.spend(names, PureDP(0.5), dataset, "content").takes_part[0]

    assert [takes_part(form, f"day {day}") for day, form in enumerate(FORMS)] == [True, True, False]
    assert not ledger.spend(record_names(ROWS[1:2]), PureDP(0.5), "without", "content").takes_part[
        0
    ]
    assert not takes_part(FORMS[0], "back")


@pytest.mark.parametrize("form", FORMS)
def test_equal_rows_of_one_context_are_refused_by_their_numbers(tmp_path: Path, form: str) -> None:
    """A copy had an account of its own: one copy more each day bought an answer more each day."""
    rows = (ROWS[0], Example(FORMS[0], "plain"), ROWS[1], Example(form, "plain"))
    with pytest.raises(DataError, match="numbers 2 and 4") as caught:
        PrivateICL(ReportNoisyMax.calibrated(1.0, 1e-5, 2), rows, TASK,
                   Scripted(complete=lambda prompt: "plain"),
                   Ledger(tmp_path / "ledger", 1.0, 1e-5))  # fmt: skip
    assert "called" not in str(caught.value).lower()
    with pytest.raises(DataError, match="numbers 1 and 3, 1 and 4, 2 and 5 and 1 more"):
        record_names((ROWS[0], ROWS[1], ROWS[0], ROWS[0], ROWS[1], ROWS[1]))
    assert record_names((ROWS[0], ROWS[1]))[0] == record_names((ROWS[1], ROWS[0]))[1]
    assert len({*record_names((ROWS[0], ROWS[0]), ("a", "b"))}) == 2


def test_a_record_that_stands_twice_in_a_context_loses_twice_the_price() -> None:
    """So no one charge covers copies."""
    model = Scripted(label_scores=lambda prompt, labels: [0.0, -9.0 if "row" in prompt else 9.0])
    mechanism = ProductOfExperts(1.0)

    def losses(changed: int) -> float:
        other = (Example("away", "plain"),) * changed
        jobs = [Job(context, Query("what")) for context in (MANY, other + MANY[changed:])]
        found = mechanism.collect(TASK, jobs, [7, 7], model)
        first, second = (np.log(mechanism.output_distribution(one).probabilities) for one in found)
        return float(abs(first - second).max())

    assert 0.99 < losses(1) <= 1.0
    assert losses(2) > 1.98


def test_synthetic_rows_are_records_by_their_numbers() -> None:
    """400 synthetic rows hold equal ones, and a demonstration needs no ids."""
    rows, _ = load_data(Design())
    assert len(set(rows)) < len(rows)
    accounts = Accounts("demo", None, None)
    assert len({*record_names(rows, accounts.ids(Design(), len(rows)))}) == len(rows)
    assert accounts.ids(Design(data="mail.jsonl"), 5) is None


OWN = Design(data="mail.jsonl")


@pytest.mark.parametrize(
    ("record_id", "by_content", "budget", "design", "named"),
    [
        (None, False, 4.0, OWN, False),
        (None, False, 4.0, Design(data_dir="pictures"), False),
        (None, True, 4.0, OWN, True),
        ("person", False, 4.0, OWN, True),
        (None, False, math.inf, OWN, True),
        (None, False, 4.0, Design(), True),
        ("person", True, math.inf, OWN, False),
    ],
)
def test_a_finite_budget_wants_to_know_whose_it_is(
    record_id: str | None, by_content: bool, budget: float, design: Design, named: bool
) -> None:
    """Without ids, each row of a person had a budget, and nobody had said so."""
    accounts = Accounts("mail", record_id, None)
    with nullcontext() if named else pytest.raises(UsageError, match=r"--record-id.*--by-content"):
        accounts.require_named(by_content, budget, design)
    with pytest.raises(UsageError, match="--by-content is for rows of your own"):
        Accounts("mail", None, None).require_named(True, budget, Design())


@pytest.mark.parametrize("name", sorted(MECHANISMS))
@pytest.mark.parametrize("query", [Query("what"), Query("what", free=True)])
def test_every_mechanism_asks_the_same_of_a_context_with_empty_slots(
    name: str, query: Query
) -> None:
    """As many requests, each of the same kind; none holds a trace of an empty block."""
    kind: Any = MECHANISMS[name]
    sampled = name == "subsample_average"
    mechanism = kind(**SAMPLED) if sampled else kind.for_claim(4.0, 1e-5)
    try:
        full = mechanism.requests(TASK, Job(MANY, query), 0)
    except UsageError:
        pytest.skip("answers no such query")
    slots = tuple(EMPTY_SLOT if i % 3 else row for i, row in enumerate(MANY))
    found = mechanism.requests(TASK, Job(slots, query), 0)
    assert [type(one) for one in found] == [type(one) for one in full]
    blank = TASK.block(EMPTY_SLOT)
    prompts = [str(value) for one in found for value in vars_of(one).values()]
    assert not any(str(blank) in text for text in prompts)
    assert mechanism.voters(len(slots)) == mechanism.voters(len(MANY))


def vars_of(request: Any) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__dataclass_fields__}


@pytest.mark.parametrize("poor", [0, 1, 4])
def test_no_client_learns_who_is_left_out(tmp_path: Path, poor: int) -> None:
    """Whatever is public of a spend is the same, however many records can pay."""
    ledger = Ledger(tmp_path / "ledger", 2.0, 1e-5)
    names = record_names(ROWS, IDS)
    ledger.spend(names[:poor], ApproxDP(2.0, 1e-5), "elsewhere")
    paid = ledger.spend(names, ApproxDP(1.0, 5e-6), "mail")
    assert paid.takes_part == (False,) * poor + (True,) * (4 - poor)
    assert (paid.state.epsilon, paid.state.answers) == (1.0, 1)
    assert ledger.answers_left(ApproxDP(1.0, 5e-6), "mail") == 1


BY_PRESENCE: dict[str, Any] = {
    "product_of_experts": {"epsilon": 1.0, "calibration": "add_remove", "tokens": 2},
    "invisible_ink": {"clip": 1.0, "partitions": 20, "relation": "add_remove", "tokens": 2},
    "subsample_average": SAMPLED,
}


def test_these_mechanisms_count_by_presence() -> None:
    """Any other shipped mechanism, as it is made for a claim, counts by replacement."""
    for name, kind in MECHANISMS.items():
        if name in BY_PRESENCE:
            assert kind(**BY_PRESENCE[name]).guarantee.relation == "add_remove"
        else:
            assert kind.for_claim(4.0, 1e-5).guarantee.relation == "replace_one"


def votes_alone(prompt: str, labels: Sequence[str]) -> list[float]:
    """Sure of "plain" without examples, unsure of rows: an expert without a row would be seen."""
    return [0.0, -9.0] if "row" not in prompt else [-0.1 * len(prompt), -0.2]


def collected(name: str, context: Context, query: Query, model: Model) -> Any:
    made: Any = MECHANISMS[name]
    return made(**BY_PRESENCE[name]).collect(TASK, [Job(context, query)], [7], model)[0]


@pytest.mark.parametrize("name", sorted(BY_PRESENCE))
@pytest.mark.parametrize("rows", [(), ROWS], ids=["alone", "among others"])
def test_the_slot_of_a_spent_record_is_as_good_as_none(name: str, rows: Context) -> None:
    """Under add_remove; the last slot, so that all others keep their places and their coins."""
    model = Scripted(label_scores=votes_alone)
    with_slot = collected(name, (*rows, EMPTY_SLOT), Query("what"), model)
    assert with_slot == collected(name, rows, Query("what"), model)
    assert name == "subsample_average" or with_slot != collected(name, MANY, Query("what"), model)


def test_one_record_more_changes_no_bit_of_the_public_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kept states had room for so many prompts: with one more, none continued from its own."""
    model: Any = open_model("pocket")
    monkeypatch.setattr(model.passes.own, "most", 3)

    class Watched(Wrapper):
        def answer(self, requests: Sequence[Any], /) -> list[Any]:
            replies = self.model.answer(requests)
            public.extend(reply[-1].tobytes() for reply in replies if len(requests) == 1)
            return replies

    found = []
    for rows in (ROWS[:2], ROWS[:3]):
        public = list[bytes]()
        collected("product_of_experts", rows, Query("what about it", free=True), Watched(model))
        found.append(public)
    assert len(found[0]) > 1
    assert found[0] == found[1]


def test_a_free_answer_of_experts_has_none_for_a_spent_record() -> None:
    model, query = open_model("pocket"), Query("what", free=True)
    for rows in ((), ROWS[:2]):
        given = collected("product_of_experts", (EMPTY_SLOT, *rows), query, model)
        assert given == collected("product_of_experts", rows, query, model)
