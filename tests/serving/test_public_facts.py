"""What is public is fixed before a private row is read: labels above all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import leakbound
from leakbound.auditing.prepare.prepare import prepare
from leakbound.auditing.spec.audit_spec import make_spec
from leakbound.cli.main import group
from leakbound.cli.verbs.protect import answer as answer_command
from leakbound.errors import DataError, UsageError
from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import Scripted, open_model
from leakbound.models.model import Counted
from leakbound.serving import PrivateICL
from leakbound.serving.ledger import Ledger
from leakbound.tasks import Example, PublicManifest, Task

SECRET = "the patient is Ada Quince"
LABELS = ("urgent", "other")
ROWS = [(f"message {i}", LABELS[i % 2]) for i in range(40)]
ONE_ODD_ROW = [*ROWS[:-1], ("message 39", SECRET)]
UNNAMED = "report_noisy_max gives a guarantee, so its labels have to be public"
MAIL = Task("mail", LABELS)


def says(prompts: list[str]) -> Scripted:
    """Answers with the last label of the instruction, and keeps the prompts."""

    def complete(prompt: str) -> str:
        prompts.append(prompt)
        return prompt.partition("one of: ")[2].partition(".")[0].rpartition(", ")[2]

    return Scripted(complete=complete)


# --- labels


def test_no_label_is_taken_from_private_rows(tmp_path: Path) -> None:
    """The label of one row, a text that stood nowhere else, was released as it is."""
    prompts: list[str] = []
    given: dict[str, Any] = {"model": says(prompts), "ledger": tmp_path / "ledger.sqlite"}

    def rows() -> Iterator[tuple[str, str]]:
        raise AssertionError("a row is read before labels are known")
        yield

    with pytest.raises(UsageError, match=UNNAMED):
        leakbound.answer("what is this", rows(), **given)
    with pytest.raises(DataError, match=r"with labels \(urgent,other\)") as refused:
        leakbound.answer("what is this", ONE_ODD_ROW, labels=LABELS, **given)
    assert SECRET not in str(refused.value)
    assert prompts == []
    answer = leakbound.answer("what is this", ROWS, labels=LABELS, **given)
    assert answer.text in (*LABELS, "(no answer)")
    assert all("one of: urgent, other." in prompt for prompt in prompts)


def test_a_task_or_its_name_stands_for_labels(tmp_path: Path) -> None:
    given: dict[str, Any] = {"model": Scripted(complete=lambda p: "urgent"), "budget": 9.0,
                             "ledger": tmp_path / "ledger.sqlite"}  # fmt: skip
    assert leakbound.answer("x", ROWS, task=MAIL, **given).spent > 0
    leakbound.answer("x", ROWS, task="classification", labels=LABELS, **given)
    with pytest.raises(UsageError, match="the task mail has its own"):
        leakbound.answer("x", ROWS, task=MAIL, labels=LABELS, **given)
    for task in ("generation", "subj"):
        with pytest.raises(UsageError, match=f"the task {task} fixes what is answered"):
            leakbound.answer("x", ROWS, task=task, labels=LABELS, **given)
    with pytest.raises(UsageError, match=UNNAMED):
        leakbound.answer("x", ROWS, task="classification", **given)


def test_where_nothing_is_guaranteed_labels_may_be_inferred(tmp_path: Path) -> None:
    model = Scripted(complete=lambda prompt: "urgent")
    given: dict[str, Any] = {"budget": float("inf"), "ledger": tmp_path / "ledger.sqlite"}
    assert leakbound.answer("x", ROWS, mechanism="few_shot", model=model, **given).text == "urgent"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"text": text, "label": label}) for text, label in ROWS]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    return tmp_path


def refusal(*args: str) -> str:
    done = CliRunner().invoke(group, args, standalone_mode=False)
    assert isinstance(done.exception, UsageError), (done.exception, done.output)
    return str(done.exception)


VOTES = ("--data", "rows.jsonl", "--mechanism", "report_noisy_max")


@pytest.mark.parametrize("verb", ["answer", "serve", "audit", "plan"])
def test_every_verb_asks_for_labels_before_it_reads_rows(verb: str, desk: Path) -> None:
    """Where there is no file, labels come first."""
    (desk / "rows.jsonl").unlink()
    query = ("x",) if verb == "answer" else ()
    assert refusal(verb, *VOTES, *query).startswith(UNNAMED)
    assert "rows.jsonl" in refusal(verb, *VOTES, "--labels", "urgent,other", *query)
    assert "rows.jsonl" in refusal(verb, *VOTES, "--task", "generation", *query)


@pytest.mark.parametrize("labels", ["urgent", "urgent,urgent", "urgent,,other", ","])
def test_labels_are_at_least_two_names(labels: str, desk: Path) -> None:
    assert "it must name at least two labels" in refusal("audit", *VOTES, "--labels", labels)
    with pytest.raises(UsageError, match=r"labels is \[1, 2\]; it must be a list of texts"):
        make_spec({"labels": [1, 2]})


def test_labels_with_commas_stand_in_a_list() -> None:
    spec = make_spec({"data": "rows.jsonl", "labels": ["no, never", "yes"]})
    assert spec.design.labels == ("no, never", "yes")
    assert make_spec(spec.nested()) == spec
    assert make_spec(json.loads(json.dumps(spec.flat()))) == spec


def test_the_bundled_and_the_named_tasks_have_their_labels(desk: Path) -> None:
    said = "the bundled help-desk rows have labels of their own"
    assert said in refusal("audit", "--labels", "urgent,other")
    spec = make_spec({"mechanism": "report_noisy_max", "pairs": 5})
    assert not prepare(spec, Scripted(complete=lambda prompt: "yes")).inferred


def test_an_audit_says_that_labels_were_inferred(tmp_path: Path) -> None:
    model = Scripted(complete=lambda prompt: "no")
    given: dict[str, Any] = {"model": model, "pairs": 2, "shots": 4, "controls": 0,
                             "simulations": 0}  # fmt: skip
    inferred = leakbound.audit(ROWS, out=tmp_path / "1", **given)
    named = leakbound.audit(ROWS, out=tmp_path / "2", task=MAIL, **given)
    listed = leakbound.audit(ROWS, out=tmp_path / "3", settings={"labels": LABELS}, **given)
    codes = [[found.code for found in one.findings] for one in (inferred, named, listed)]
    assert codes == [["inferred_labels"], [], []]
    assert "--labels" in inferred.findings[0].sentence
    with pytest.raises(UsageError, match=UNNAMED):
        leakbound.audit(ROWS, mechanism="report_noisy_max", out=tmp_path, **given | {"shots": 12})


def test_a_system_that_asks_its_own_model_needs_no_labels(tmp_path: Path) -> None:
    result = leakbound.audit(
        ROWS, system=lambda context, query: "no", guarantee=leakbound.PureDP(1.0), pairs=2, shots=4,
        simulations=0, out=tmp_path,
    )  # fmt: skip
    assert "inferred_labels" not in [found.code for found in result.findings]


# --- fields


@pytest.mark.parametrize("verb", ["answer", "serve", "audit"])
def test_no_verb_lets_one_row_choose_the_fields(verb: str, desk: Path) -> None:
    """The first row without `text` put another field of all rows into every prompt."""
    rows = [{"text": text, "sentence": SECRET, "label": label} for text, label in ROWS]
    rows[0] = {"sentence": "s", "label": "urgent"}
    (desk / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    money = {"serve": ("--budget", "1"), "answer": ("x",), "audit": ("--epsilon", "1")}[verb]
    done = CliRunner().invoke(
        group, (verb, *VOTES, "--labels", "urgent,other", *money), standalone_mode=False
    )
    assert isinstance(done.exception, DataError), (done.exception, done.output)
    assert str(done.exception) == (
        "'rows.jsonl' has rows whose usual fields differ; all rows must have the same ones, so "
        "that no single row decides what stands in every prompt. Name the fields with "
        "--input-field and --label-field."
    )


def test_named_fields_stand_in_the_manifest(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(complete=lambda prompt: "urgent")
    monkeypatch.setattr(answer_command, "open_models", lambda *given: model)
    shown = []
    for fields in ((), ("--input-field", "text"), ("--input-template", "{text}")):
        args = ("answer", *VOTES, "--labels", "urgent,other", *fields, "--ledger", str(len(shown)))
        shown.append(CliRunner().invoke(group, (*args, f"{len(fields)}"), catch_exceptions=False))
    usual, named, template = (done.stderr.partition("manifest: ")[2][:64] for done in shown)
    assert len(usual) == 64
    assert usual != named == template
    spec = make_spec({"data": "rows.jsonl", "labels": LABELS, "pairs": 5, "label_field": "label",
                      "input_template": "{text}\\n{text}"})  # fmt: skip
    assert prepare(spec, model).public.fields == ("{text}\n{text}", "label")


# --- settings of audits


@pytest.mark.parametrize("setting", ["pairs=3", "query=membership", "canary.digits=8", "answers=2"])
@pytest.mark.parametrize("verb", ["answer", "serve"])
def test_a_setting_of_audits_is_no_setting_of_answers(verb: str, setting: str, desk: Path) -> None:
    """They were accepted, and ignored."""
    query = ("x",) if verb == "answer" else ()
    name = setting.partition("=")[0].partition(".")[0]
    named = ("--labels", "urgent,other")
    found = refusal(verb, *VOTES, *named, "--set", setting, *query)
    assert found == f"--set {name} is a setting of audits, and decides no answer; leave it out."


def test_settings_of_answers_and_files_for_audits_too_are_taken(desk: Path) -> None:
    (desk / "audit.yaml").write_text("pairs: 3\nlabels: [urgent, other]\ndata: rows.jsonl\n")
    votes = ("--mechanism", "report_noisy_max:partitions=10", "--set", "shots=5")
    votes += ("--set", "epsilon=2")
    found = refusal("answer", "--config", "audit.yaml", *votes, "x")
    assert "10 partitions need at least as many examples" in found


# --- the manifest


def test_the_digest_names_every_public_fact_and_no_private_one(tmp_path: Path) -> None:
    model = Scripted(complete=lambda prompt: "urgent", window=5000)

    def digest(task: Task = MAIL, sigma: float = 1.0, partitions: int = 4, longest: int = 1000,
               rows: Any = tuple(ROWS), served: Scripted = model,
               fields: tuple[str | None, str | None] = (None, None)) -> str:  # fmt: skip
        ledger = Ledger(tmp_path / f"{sigma}.sqlite", 99.0, 1e-5)
        mechanism = ReportNoisyMax(sigma, partitions)
        private = PrivateICL(mechanism, rows, task, served, ledger, longest=longest,
                             fields=fields)  # fmt: skip
        assert private.answer("x").manifest == private.manifest.digest
        return private.manifest.digest

    same = {digest(), digest(rows=ROWS[:8]), digest(rows=tuple(ROWS[::-1]), served=model)}
    assert len(same) == 1
    others = [
        digest(Task("mail", ("other", "urgent"))), digest(Task("mail", LABELS, "Mail")),
        digest(Task("mail", LABELS, max_answer_tokens=9)), digest(sigma=2.0), digest(partitions=5),
        digest(longest=900), digest(served=Scripted(complete=lambda prompt: "other", window=4000)),
        digest(fields=("{text}", None)), digest(fields=("{text}", "label")),
    ]  # fmt: skip
    assert len({*same, *others}) == 1 + len(others)
    assert all(len(one) == 64 for one in others)


@pytest.mark.torch
def test_the_window_is_that_of_the_model_inside_all_wrappers() -> None:
    inner = Scripted(complete=lambda prompt: "x", window=77)
    assert PublicManifest.of(MAIL, ReportNoisyMax(1.0), Counted(Counted(inner))).window == 77
    assert PublicManifest.of(MAIL, ReportNoisyMax(1.0), open_model("pocket")).window == 2048


def test_the_record_of_an_audit_holds_the_digest(tmp_path: Path) -> None:
    model = Scripted(complete=lambda prompt: "no")
    result = leakbound.audit(
        [Example(text, label) for text, label in ROWS], task=MAIL, model=model, pairs=2, shots=4,
        mechanism="few_shot", simulations=0, controls=0, out=tmp_path,
    )  # fmt: skip
    mechanism = leakbound.mechanisms.FewShot()
    assert result.provenance["manifest"] == PublicManifest.of(MAIL, mechanism, model).digest


def test_how_many_rows_there_are_shows_nowhere_where_it_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under add_remove, "Expect at most 68% right answers" counted the rows, and so did a repr."""
    monkeypatch.chdir(tmp_path)
    opened = Scripted(label_scores=lambda prompt, labels: [0.0 for _ in labels])
    monkeypatch.setattr(answer_command, "open_models", lambda *_: opened)
    said, task = [], Task("mail", ("a", "b"))
    for rows in (3, 4):
        lines = [json.dumps({"text": f"t {at}", "label": "a"}) for at in range(rows)]
        Path("rows.jsonl").write_text("\n".join(lines))
        done = CliRunner().invoke(group, (
            "answer", "--data", "rows.jsonl", "--labels", "a,b", "--ledger", f"{rows}.sqlite",
            "--mechanism", "product_of_experts:calibration=add_remove", "what"),
            standalone_mode=False)  # fmt: skip
        mechanism = leakbound.mechanisms.ProductOfExperts(1.0, calibration="add_remove")
        ledger = Ledger("other.sqlite", 1.0, 0.0)
        served = PrivateICL(mechanism, [("t", "a")] * rows, task, opened, ledger,
                            record_ids=[str(at) for at in range(rows)])  # fmt: skip
        said.append((done.return_value, done.stderr, repr(served)))
    assert said[0] == said[1]
    assert said[0][0] == 0
