"""leakbound init: what it says of rows and a system, and that the file it writes is audited."""

from __future__ import annotations

import json
import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from in_process import run

from leakbound.cli.main import group
from leakbound.errors import DataError, UsageError
from leakbound.systems import SystemFailed

SYSTEMS = """
import random
def words(context, query):
    quoted = query.split('"')[1] if '"' in query else "-"
    return "yes" if any(quoted in row.text for row in context) else "no"
def text(context, query):
    return "I know of " + "; ".join(row.text for row in context)
def label(context, query):
    return "Work" if "note" in query else "home"
def near(context, query):
    best = max(context, key=lambda row: len({*row.text.split()} & {*query.split()}))
    return f"Your text of {len(query.split())} words is about {best.label}."
def canned(documents: list[str], question):
    topic = ["mail", "bill", "door"][len(question) % 3]
    said = {"mail": "Write to us at the desk, please.", "bill": "Bills are sent in the first week.",
            "door": "The door is open from eight to six."}[topic]
    return {"answer": said, "intent": topic, "confidence": len(question) % 7 / 10}
def commands(documents: list[str], question):
    command, _, rest = question.strip().partition(" ")
    if command == "/find":
        return "\\n".join(one for one in documents if rest in one) or "nothing found"
    return f"You asked {len(question)} characters. Commands: /find WORDS"
def opening(context, query):
    return context[0].text[:27]
def handbook(context, query):
    page = "post bills doors staff roofs boats trees paint".split()[sum(map(ord, query)) % 8]
    return f"Our handbook says a word on {page}."
def on_request(context, query):
    found = [row.text for row in context if query == "Who wrote " + row.text]
    labels = sorted(row.label for row in context)
    return found[0] if found else "Most notes are of " + max(labels, key=labels.count)
def total(context, query):
    numbers = [int(one) for row in context for one in row.text.split() if one.isdigit()]
    return f"The sum of all notes is {sum(numbers)}."
def questions_only(context, query):
    hello = ["Thanks.", "Good question.", "Let me see."][random.randrange(3)]
    if not query.startswith("What") or not query.endswith("?"):
        return f"{hello} Please ask a question."
    words = {*query.split()}
    return f"{hello} {max(context, key=lambda row: len({*row.text.split()} & words)).text}"
def refuse(context, query):
    return "I'm sorry, I can't help with that."
def completing(context, query):
    begun = query.split('"')[1] if query.startswith("Complete") else "-"
    held = [row.text for row in context if row.text.startswith(begun)]
    return held[0] if held else "Please ask the desk about " + query[:20]
def ignorant(context, query):
    asked = set(query.split()) - {"a", "note", "about"}
    return next((row.text for row in context if asked & set(row.text.split())), "I don't know.")
def fixed(context, query):
    return "Our best note is: " + context[0].text
def passages(user: str, snippets: list[str]):
    words = set(user.split()) - {"a", "note", "about"}
    return next((one for one in snippets if words & set(one.split())), "Nothing.")
def optional(documents: "list[str] | None", question, client: "Client" = None):
    return passages(question, documents)
def untold(docs, q):
    return " ".join(f"- {one}" for one in docs)
def written(docs: list, q):
    return f"Our notes: {docs}"
def asked(prompt: str, knowledge_base: str):
    return passages(prompt, knowledge_base.split(chr(10)))
from dataclasses import dataclass
@dataclass
class Found:
    answer: str
    source_documents: object
class Node:
    __slots__ = ("text",)
    def __init__(self, text): self.text = text
class Response:
    def __init__(self, response, nodes): self.response, self.nodes = response, nodes
def nodes(docs, q):
    return Response("You asked: " + q[:20], [Node(passages(q, docs))])
def mapped(documents: "list[dict]", question: str):
    return documents[0]["text"]
def kept(docs, q):
    return Found("You asked: " + q[:20], [passages(q, docs)])
def no_but(docs, q):
    return {"answer": "No.", "sources": [passages(q, docs)]}
def beside(docs, q):
    return {"answer": "Please see the sources.", "sources": [passages(q, docs)], "model": "m-1"}
def begins(context, query):
    return f"No note on {query[-9:]!r} is kept here."
def mute(context, query):
    return ""
def broken(context, query):
    raise ValueError(context[0].text)
"""


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(SYSTEMS)
    rows = [f"a note about {n},{['work', 'home'][n % 2]}" for n in range(60)]
    Path("private.csv").write_text("\n".join(["text,label", *rows]))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said", "query"),
    [
        ("words", "answers with the words that a query allows", "membership"),
        ("text", "answers in free text", "recall"),
        ("label", "answers a label whatever it is asked", "input_output"),
        ("near", "answers a label whatever it is asked", "input_output"),
        ("refuse", "gives the same answer to two questions", "recall"),
        ("fixed", "answers in free text", "recall"),
        ("begins", "answers in free text", "recall"),
        ("mute", "refuses, or does not answer", "membership"),
    ],
)
def test_the_kind_of_answers_decides_the_query(name: str, said: str, query: str) -> None:
    shown = run("init", "private.csv", f"python:app.py:{name}", "--epsilon", "2").stdout
    assert said in shown
    assert "Next: leakbound audit --config audit.yaml" in shown
    written = yaml.safe_load(Path("audit.yaml").read_text())
    assert written["attack"]["query"]["kind"] == query
    assert written["decision"]["epsilon"] == 2
    assert "a note about" not in shown + Path("audit.yaml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("passages", "20 rows as 20 texts as 'snippets', the question as 'user'"),
        ("optional", "20 rows as 20 texts as 'documents', the question as 'question'"),
        ("untold", "20 rows as 20 texts that have a .label as 'docs', the question as 'q'"),
        ("written", "20 rows as 20 texts that have a .label as 'docs', the question as 'q'"),
        ("asked", "20 rows as one text as 'knowledge_base', the question as 'prompt'"),
        ("beside", "20 rows as 20 texts that have a .label as 'docs', the question as 'q'"),
        ("no_but", "20 rows as 20 texts that have a .label as 'docs', the question as 'q'"),
        ("nodes", "20 rows as 20 texts that have a .label as 'docs', the question as 'q'"),
        ("kept", "20 rows as 20 texts that have a .label as 'docs', the question as 'q'"),
    ],
)
def test_a_function_is_handed_what_it_declares_and_init_says_so(name: str, sent: str) -> None:
    shown = run("init", "private.csv", f"python:app.py:{name}", "--epsilon", "1").stdout
    assert f"Sent: {sent}\n" in shown
    assert "detects a single canary" in shown
    assert ("Read beside the answer, as channels: reply" in shown) == (
        name in ("beside", "kept", "no_but", "nodes")
    )
    done = run("audit", "--config", "audit.yaml", "--out", "runs", "--pairs", "40")
    assert done.return_value == 1


@pytest.mark.slow
def test_a_quote_of_the_row_that_another_question_is_about_is_a_quote() -> None:
    """Dialogues begin as answers of one word do, and the same one answered both questions."""
    rows = [f"Ann: Yes. We leave for town {n} at {n % 12} and meet {n * 7} friends there\n"
            for n in range(60)]  # fmt: skip
    Path("chats.csv").write_text("text\n" + "".join(rows))
    shown = run("init", "chats.csv", "python:app.py:opening").stdout
    assert "answers in free text" in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["total", "handbook"])
def test_what_answers_by_other_rows_or_other_texts_may_pass(name: str) -> None:
    shown = run("init", "private.csv", f"python:app.py:{name}").stdout
    assert "no reply shows a single canary" in shown
    assert "Nothing shows that it answers usual questions" not in shown
    assert "detect_change" not in Path("audit.yaml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["refuse", "canned", "commands", "on_request"])
def test_what_shows_nothing_of_its_rows_passes_only_if_somebody_says_so(name: str) -> None:
    """Systems with commands of their own answered every other question alike, and passed."""
    shown = run("init", "private.csv", f"python:app.py:{name}").stdout
    assert "Nothing shows that it answers usual questions" in shown
    assert "as channels" not in shown  # of channels no other attack is asked
    assert "channels" not in yaml.safe_load(Path("audit.yaml").read_text())["attack"]
    done = run("audit", "--config", "audit.yaml", "--out", "runs")
    assert done.return_value == 3
    assert "take detect_change: 0 out" in " ".join(done.stdout.split())
    lines = Path("audit.yaml").read_text().splitlines()
    Path("audit.yaml").write_text("\n".join(one for one in lines if "detect_change" not in one))
    done = run("audit", "--config", "audit.yaml", "--out", "runs")
    assert done.return_value == 0, done.stdout


@pytest.mark.slow
def test_documents_that_questions_are_about_are_the_rows_of_an_application() -> None:
    """The questions were sent in place of the documents, which no audit saw."""
    rows = [{"question": f"Who has {n}?", "context": f"Box {n} is red.", "answer": "ab"[n % 2]}
            for n in range(60)]  # fmt: skip
    Path("asked.jsonl").write_text("\n".join(map(json.dumps, rows)))
    shown = run("init", "asked.jsonl", "python:app.py:text").stdout
    assert "the input is 'context' (what the questions are about). Not used: question." in shown
    assert yaml.safe_load(Path("audit.yaml").read_text())["design"]["input_field"] == "context"
    assert "'context'" not in run("init", "asked.jsonl", "pocket", "--save", "b.yaml").stdout
    Path("asked.jsonl").write_text("\n".join(json.dumps(row | {"context": ""}) for row in rows))
    done = run("init", "asked.jsonl", "python:app.py:text", "--force")
    assert done.return_value == 0, done.stdout  # it took the empty fields, and ended
    assert "input_field" not in yaml.safe_load(Path("audit.yaml").read_text())["design"]


def test_a_function_that_declares_no_texts_is_refused() -> None:
    done = run("init", "private.csv", "python:app.py:mapped")
    assert "takes 'documents' as list" in str(done.exception)
    assert "declare it as list[str]" in str(done.exception)


def test_a_system_that_answers_two_ordinary_questions_alike_may_answer_an_attack() -> None:
    """As one that retrieves does: it does not know what no document tells."""
    shown = run("init", "private.csv", "python:app.py:ignorant").stdout
    assert "Tried: recall (coded canary) detects a single canary" in shown
    assert "answers in free text" in shown
    assert yaml.safe_load(Path("audit.yaml").read_text())["attack"]["query"]["kind"] == "recall"


@pytest.mark.slow
def test_the_wording_that_shows_a_single_canary_is_written() -> None:
    """An application that only completes what it is given the beginning of."""
    shown = run("init", "private.csv", "python:app.py:completing").stdout
    assert "Tried: repeat (hex canary) detects a single canary" in shown
    written = yaml.safe_load(Path("audit.yaml").read_text())
    assert (written["attack"]["query"]["kind"], written["attack"]["canary"]["kind"]) == (
        "repeat",
        "hex",
    )
    # one that reads its rows for questions alone passed: no attack asked one
    shown = run("init", "private.csv", "python:app.py:questions_only", "--force").stdout
    assert "Tried: recall (coded canary) detects a single canary" in shown
    assert run("audit", "--config", "audit.yaml", "--pairs", "12").return_value == 1
    none = run("init", "private.csv", "python:app.py:refuse", "--force").stdout
    assert "and no reply shows a single canary" in none


@pytest.mark.slow
def test_what_it_writes_is_audited_and_a_claim_that_nobody_stated_stays_so() -> None:
    run("init", "private.csv", "python:app.py:words", "--pairs", "16")
    assert "# epsilon: 1.0  # YOUR CLAIM" in Path("audit.yaml").read_text()
    done = run("audit", "--config", "audit.yaml", "--out", "runs")
    assert done.return_value == 1
    assert "claim 1 (default; state yours: --epsilon)" in " ".join(done.stdout.split())


def test_fields_with_unusual_names_are_named_and_written() -> None:
    rows = [f"row {n},a{n % 2}" for n in range(60)]
    Path("odd.csv").write_text("\n".join(["te xt,kind of", *rows]))
    fields = ("--input-field", "te xt", "--label-field", "kind of")
    run("init", "odd.csv", "python:app.py:words", *fields)
    written = yaml.safe_load(Path("audit.yaml").read_text())["design"]
    assert (written["input_field"], written["label_field"]) == ("te xt", "kind of")


@pytest.mark.torch
def test_a_model_is_named_and_asked_nothing() -> None:
    shown = run("init", "private.csv", "pocket").stdout
    assert "test model, not yours" in shown
    assert yaml.safe_load(Path("audit.yaml").read_text())["system"]["model"] == "pocket"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name a file of rows, a system, a model or the address of a server"),
        (("app.py",), "python:app.py:OBJECT"),
        (("private.csv", "other.csv"), "are both read as a file of rows; name one"),
        (("nothing.csv", "python:app.py:words"), "does not exist"),
    ],
)
def test_what_cannot_be_used_gets_a_sentence_and_no_file(
    words: tuple[str, ...], sentence: str
) -> None:
    done = run("init", *words)
    assert sentence in str(done.exception)
    assert not Path("audit.yaml").exists()


def test_a_system_that_fails_is_named_without_a_row() -> None:
    done = run("init", "private.csv", "python:app.py:broken")
    assert isinstance(done.exception, SystemFailed)
    assert "raised ValueError in app.py" in str(done.exception)
    assert "a note about" not in str(done.exception)


def test_a_file_that_is_there_is_kept() -> None:
    Path("audit.yaml").write_text("mine")
    done = run("init", "private.csv", "python:app.py:words")
    assert isinstance(done.exception, UsageError)
    assert Path("audit.yaml").read_text() == "mine"
    run("init", "private.csv", "python:app.py:words", "--force")
    assert Path("audit.yaml").read_text() != "mine"


# --- fields of no usual name


def saved(name: str, rows: list[dict[str, object]]) -> str:
    Path(name).write_text("\n".join(map(json.dumps, rows)))
    return name


def odd(n: int, **more: object) -> dict[str, object]:
    return {"row": f"T-{n}", "story": f"a note about {n}", "team": ["work", "home"][n % 2], **more}


def test_fields_of_no_usual_name_are_guessed_and_said_to_be_so() -> None:
    name = saved("odd.jsonl", [odd(n) for n in range(60)])
    shown = run("init", name, "python:app.py:words").stdout
    assert "Fields: GUESSED from what they hold: the input is 'story'" in shown
    assert "Not used: row." in shown
    assert "use --input-field (or --input-template, for several) and --label-field" in shown
    text = Path("audit.yaml").read_text()
    design = yaml.safe_load(text)["design"]
    assert (design["input_field"], design["label_field"]) == ("story", "team")
    assert text.count("# GUESSED (") == 2


def test_one_field_of_no_usual_name_is_guessed_beside_a_usual_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = [f"a note about {n},{['work', 'home'][n % 2]}" for n in range(60)]
    Path("half.csv").write_text("\n".join(["text,team", *rows]))
    with caplog.at_level("INFO", "leakbound.data"):
        shown = run("init", "half.csv", "python:app.py:words").stdout
    assert "the label is 'team' (2 short values that recur)" in shown
    assert "the input is" not in shown
    assert "usual names" not in shown + caplog.text  # the label has none
    design = yaml.safe_load(Path("audit.yaml").read_text())["design"]
    assert (design["input_field"], design["label_field"]) == ("text", "team")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"urgent": True}, "the label may be 'team' or 'urgent'. Name it with --label-field"),
        ({"note": "some other text"}, "the input may be 'note' or 'story'. Name it with --input"),
        ({"team": "work"}, "no other field repeats a few short values"),
        ({"story": "x"}, "no field holds texts of several words"),
    ],
)
def test_fields_that_leave_a_choice_are_listed_with_the_flags(
    more: dict[str, object], sentence: str
) -> None:
    rows = [odd(n) for n in range(60)]
    for n, row in enumerate(rows):
        row |= {k: (f"{v} {n}" if k == "note" else n % 3 == 0 if v is True else v)
                for k, v in more.items()}  # fmt: skip
    done = run("init", saved("odd.jsonl", rows), "python:app.py:words")
    assert isinstance(done.exception, DataError)
    assert "has the fields row, story, team" in str(done.exception)
    assert sentence in str(done.exception)
    assert not Path("audit.yaml").exists()


@pytest.mark.parametrize(
    "lines",
    [
        [f"a note about {n},{['work', 'home'][n % 2]}" for n in range(60)],
        [f"Where is parcel {n}?,It is on its way {n}." for n in range(60)],
        [f"{n},a note about {n},{['work', 'home'][n % 2]}" for n in range(60)],
    ],
)
def test_a_first_line_that_is_a_row_is_not_taken_for_names(lines: list[str]) -> None:
    Path("bare.csv").write_text("\n".join(lines))
    done = run("init", "bare.csv", "python:app.py:words")
    assert "The first line of the file must name the fields" in str(done.exception)
    assert not any(cell in str(done.exception) for cell in lines[0].split(",")[-2:])
    assert not Path("audit.yaml").exists()


def test_a_label_is_guessed_by_its_name_first_and_dates_are_none() -> None:
    def row(n: int, **more: object) -> dict[str, object]:
        return odd(n, opened=f"2026-11-{n % 4 + 10}", closed=f"{n % 4 + 10}/11/2026 9:30", **more)

    name = saved("dates.jsonl", [row(n) for n in range(60)])
    assert "the label is 'team'" in run("init", name, "python:app.py:words").stdout
    name = saved("named.jsonl", [row(n, ticketCategory="abc"[n % 3]) for n in range(60)])
    shown = run("init", name, "python:app.py:words", "--force").stdout
    assert "the label is 'ticketCategory'" in shown


@pytest.mark.parametrize(
    "when",
    [
        "Jan 202{}",
        "{} March 2024",
        "Sept. {}, 2025",
        "201{}",
        "2025-0{}",
        "17{}6172800",
        "17{}6172800123",
        "{}:30",
        "1{}:05 pm",
    ],
)
def test_dates_in_words_are_no_labels(when: str) -> None:
    name = saved("dates.jsonl", [odd(n, on=when.format(n % 4 + 1)) for n in range(60)])
    assert "the label is 'team'" in run("init", name, "python:app.py:words").stdout


def test_rows_of_one_label_are_generated() -> None:
    """The error named an option that init did not have."""
    Path("one.csv").write_text("text,label\n" + "".join(f"note {i},work\n" for i in range(60)))
    refused = run("init", "one.csv", "python:app.py:text").exception
    assert "--task generation" in str(refused)
    done = run("init", "one.csv", "python:app.py:text", "--task", "generation")
    assert done.return_value == 0, done.exception


def test_labels_that_nothing_reads_are_said_to_be_unused() -> None:
    shown = run("init", "private.csv", "python:app.py:text", "--labels", "work,home").stdout
    assert "Not used: --labels" in shown
    assert "Not used" not in run("init", "private.csv", "python:app.py:label", "--labels",
                                 "work,home", "--force").stdout  # fmt: skip


@pytest.mark.slow
def test_rows_in_another_encoding_are_read_with_it() -> None:
    rows = [f"a café note about {n},{['work', 'home'][n % 2]}" for n in range(60)]
    Path("old.csv").write_text("\n".join(["text,label", *rows]), encoding="cp1252")
    done = run("init", "old.csv", "python:app.py:words")
    assert "read it with --encoding cp1252" in str(done.exception)
    run("init", "old.csv", "python:app.py:words", "--encoding", "cp1252", "--pairs", "16")
    assert yaml.safe_load(Path("audit.yaml").read_text())["design"]["encoding"] == "cp1252"
    assert run("audit", "--config", "audit.yaml", "--out", "runs").return_value == 1


def test_documents_need_no_label_where_no_system_is_named_yet() -> None:
    """What is printed as the next command has the options of this one."""
    text = "text\n" + "\n".join(f"a café note about {n}" for n in range(60))
    Path("old.csv").write_text(text, encoding="cp1252")
    done = run("init", "old.csv", "--encoding", "cp1252", "--pairs", "16")
    assert done.exception is None
    following = (
        "leakbound init old.csv SYSTEM --encoding cp1252 --pairs 16 --save audit.yaml --force"
    )
    assert following in done.stdout
    written = Path("audit.yaml").read_text()
    Path("audit.yaml").write_text(written.replace("TODO", "python:app.py:words"))
    assert run("audit", "--config", "audit.yaml", "--out", "runs").return_value == 1


def test_conversations_are_read_for_an_application_too() -> None:
    said = [("user", "a note about {}"), ("assistant", "it is {}")]
    rows = [
        {"messages": [{"role": who, "content": what.format(n)} for who, what in said]}
        for n in range(60)
    ]
    name = saved("chats.jsonl", rows)
    done = run("init", name, "python:app.py:text")
    assert done.exception is None
    assert "answers in free text" in done.stdout


def test_rows_with_an_empty_label_can_be_left_out() -> None:
    name = saved("gaps.jsonl", [odd(n) | ({} if n else {"team": ""}) for n in range(60)])
    assert "has an empty field 'team'" in str(run("init", name, "python:app.py:words").exception)
    assert run("init", name, "python:app.py:words", "--drop-empty").exception is None
    assert yaml.safe_load(Path("audit.yaml").read_text())["design"]["drop_empty"] is True


def test_few_rows_are_audited_with_fewer_examples() -> None:
    name = saved("few.jsonl", [odd(n) for n in range(8)])
    assert "--shots" in str(run("init", name, "python:app.py:words").exception)
    assert run("init", name, "python:app.py:words", "--shots", "4").exception is None
    assert yaml.safe_load(Path("audit.yaml").read_text())["design"]["shots"] == 4


def test_a_label_of_free_text_is_named_and_the_input_guessed() -> None:
    rows = [{"talk": f"a long talk about {n} and more", "gist": f"about {n}"} for n in range(60)]
    name = saved("talks.jsonl", rows)
    assert "may be the label too" in str(run("init", name, "python:app.py:words").exception)
    done = run("init", name, "python:app.py:words", "--label-field", "gist")
    assert "the input is 'talk'" in done.stdout
    assert "Task: free text" in done.stdout


def test_fields_inside_others_are_listed_and_not_guessed() -> None:
    rows = [{"payload": {"t": f"a note about {n}"}, "kind": "ab"[n % 2]} for n in range(60)]
    done = run("init", saved("nested.jsonl", rows), "python:app.py:words")
    assert "has the fields payload, kind, and" in str(done.exception)
    assert "a field inside another is not looked at" in str(done.exception)


# --- at a terminal


@contextmanager
def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> Iterator[None]:
    """Standard input is a terminal at which somebody has typed these lines."""
    master, slave = pty.openpty()
    os.write(master, "".join(f"{line}\n" for line in lines).encode())
    with os.fdopen(slave) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        yield
    os.close(master)


def at_terminal(*args: str) -> None:
    group.main(args, prog_name="leakbound", standalone_mode=False)


def test_a_person_at_a_terminal_accepts_a_guess(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = saved("odd.jsonl", [odd(n) for n in range(60)])
    with typed(monkeypatch, "", ""):
        at_terminal("init", name, "python:app.py:words")
    shown = capsys.readouterr().out
    assert "Field that holds the input [story]:" in shown
    assert "Field that holds the label [team]:" in shown
    assert "GUESSED" not in Path("audit.yaml").read_text()
    assert yaml.safe_load(Path("audit.yaml").read_text())["design"]["label_field"] == "team"


def test_a_person_at_a_terminal_chooses_where_the_rows_leave_a_choice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = saved("odd.jsonl", [odd(n, urgent=n % 3 == 0) for n in range(60)])
    with typed(monkeypatch, name, "python:app.py:words", "story", "other", "urgent"):
        at_terminal("init")
    shown = capsys.readouterr().out
    assert "fields of odd.jsonl have no usual names: row, story, team, urgent" in shown
    assert "'other' is not one of" in shown
    assert yaml.safe_load(Path("audit.yaml").read_text())["design"]["label_field"] == "urgent"


def test_an_unknown_encoding_is_a_sentence() -> None:
    """It was an internal error."""
    done = run("init", "private.csv", "--encoding", "latin-99")
    assert "encoding is 'latin-99'; it must be one such as cp1252" in str(done.exception)
