"""Files of scores, logs and generations that a user could really make, and no bound rests on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from malformed import PRIVATE, mistaken, written

from leakbound.cli.main import main


def _table(head: str, *rows: str, times: int = 1) -> str:
    return "\n".join([head, *rows * times]) + "\n"


def _rows(kind: str, count: int = 30, field: str = "text") -> str:
    texts = (f"{kind} {i} of {PRIVATE} alpha beta gamma" for i in range(count))
    return "".join(json.dumps({field: text}) + "\n" for text in texts)


GOOD = _table("score,member", *(f"{(i % 7) / 7 + i % 2 * 0.3},{i % 2}" for i in range(60)))
FILES: dict[str, str | bytes] = {
    "good.csv": GOOD,
    "member.csv": _table("score", "0.5", "0.7", times=9),
    "other.csv": _table("score", "0.1", "0.2", "0.3", times=9),
    "nan.csv": _table("score,member", "nan,1", "0,0"),
    "gap.csv": _table("score,member", ",1", "0,0"),
    "word.csv": _table("score,member", "high,1", "0,0"),
    "comma.csv": _table("score;member", "0,5;1", "0,2;0"),
    "percent.csv": _table("score,member", "50%,1", "10%,0"),
    "null.jsonl": '{"score": null, "member": true}\n',
    "list.jsonl": '{"score": [0.5], "member": 1}\n',
    "members.csv": _table("score,member", "0.5,1", times=9),
    "strangers.csv": _table("score,member", "0.5,0", times=9),
    "two.csv": _table("score,member", "0.5,2"),
    "maybe.csv": _table("score,member", "0.5,maybe"),
    "value.csv": _table("value,member", "0.5,1"),
    "wide.csv": _table("score,member", "0.5,1,9"),
    "twice.csv": _table("score,score,member", "0.5,0.4,1"),
    "third.csv": _table("score,member,pair", "0.5,1,1", "0.4,0,1", "0.3,0,1"),
    "alone.csv": _table("score,member,pair", "0.5,1,1", "0.4,0,1", "0.5,1,2"),
    "blank.csv": _table("score,member,pair", "0.5,1,", "0.4,0,"),
    "no-score.json": "{}",
    "used.jsonl": _rows("used"),
    "held.jsonl": _rows("held"),
    "log.jsonl": _rows("answer", field="output"),
    "null-log.jsonl": '{"output": null}\n',
    "two-log.jsonl": f'{{"prompt": "{PRIVATE}", "said": "{PRIVATE}"}}\n',
    "empty.jsonl": "",
    "no-words.jsonl": '{"text": ""}\n' * 9,
    "generations.csv": _table("context,response", f"{PRIVATE} a,b"),
    "wide-generations.csv": _table("context,response", f"{PRIVATE} a,b,c"),
    "head.csv": _table("context,response"),
    "responses.csv": _table("response", "b"),
    "numbers.csv": _table("a,b", "1,2"),
}
UNPAIRED = ("--design", "unpaired")
WAYS = ("bounds", "good.csv", *UNPAIRED)
SCORES: list[tuple[tuple[str, ...], str]] = [
    (("good.csv",), "nothing says how the trials were made; add --design, or a column 'pair'"),
    *[((name, *UNPAIRED), f"'score' of line 2 of '{name}' is not a number; every trial has a score")
      for name in ("nan.csv", "gap.csv", "word.csv", "comma.csv", "percent.csv")],
    (("null.jsonl", *UNPAIRED), "'score' of line 1 of 'null.jsonl' is empty; fill it, or leave th"),
    (("list.jsonl", *UNPAIRED), "'score' of line 1 of 'list.jsonl' is not a number"),
    (("members.csv", *UNPAIRED), "there is no score of a non-member; each kind needs at least one"),
    (("strangers.csv", *UNPAIRED), "there is no score of a member; each kind needs at least one"),
    (("two.csv", *UNPAIRED), "says neither member nor non-member; it must be 1 or 0, true or fal"),
    (("maybe.csv", *UNPAIRED), "says neither member nor non-member"),
    (("value.csv", *UNPAIRED), "has no column 'score'; it has 'value', 'member'. Name the columns"),
    (("member.csv", *UNPAIRED), "has no column 'member'; it has 'score'. Name the columns with"),
    (("wide.csv", *UNPAIRED), "has more fields than the first line names"),
    (("twice.csv", *UNPAIRED), "gives several columns one name (column 1 and 2)"),
    (("third.csv",), "is a second non-member trial of its pair; a pair has one."),
    (("alone.csv",), "1 of 2 pairs have one trial; each needs a member and a non-member."),
    (("blank.csv",), "'pair' of line 2 of 'blank.csv' is empty; name the pair of each trial."),
    (("member.csv", "other.csv", "good.csv"), "bounds got 3 files; give one, or two: members fir"),
    (("member.csv", "member.csv", *UNPAIRED), "'member.csv' is given for members and for non-mem"),
    (("member.csv", "good.csv", *UNPAIRED), "line 3 of 'good.csv' is not one of the non-members"),
    (("strangers.csv", "members.csv", *UNPAIRED), "is not one of the members, whose file it stan"),
    (("member.csv", "other.csv", "--design", "paired"), "paired trials have one of each per pair"),
    (("nowhere.csv",), "the data file 'nowhere.csv' does not exist"),
    (("x" * 300,), "a path is longer than the file system allows; name a shorter one."),
    ((), "Missing argument 'FILES...'. Try: leakbound bounds --help"),
]  # fmt: skip
OPTIONS: list[tuple[tuple[str, ...], str]] = [
    (("--seed", "-1"), "-1 is not in the range x>=0."),
    (("--delta", "1"), "delta is 1.0; it must be at least 0 and below 1."),
    (("--delta", "1e400"), "delta is inf; it must be at least 0 and below 1."),
    (("--confidence", "95"), "confidence is 95.0; it must be above 0 and below 1, such as 0.95."),
    (("--confidence", "nan"), "confidence is nan; it must be above 0 and below 1"),
    (("--threshold", "abc"), "the threshold is 'abc'; it must be a number, 'split', 'split:0.3'"),
    (("--threshold", "nan"), "and its value is NaN; it must be a number."),
    (("--threshold", "split:1"), "and its fraction is 1.0; it must be between 0.01 and 0.9."),
    (("--threshold", "0.5,"), "the threshold is '0.5,'; it must be numbers with commas."),
    (("--threshold", "rank"), "guesses by rank are for one run; use --threshold split, or a num"),
    (("--epsilon", "-1"), "epsilon is -1.0; it must be a number of at least 0."),
    (("--epsilon", "1", "--claim", "random-guessing"), "leave --epsilon and --delta out."),
    (("--estimator", "e_process"), "--estimator is for a verdict, and nothing is claimed; add"),
    (("--epsilon", "1", "--control-scores", "other.csv"), "has no column 'member'"),
    (
        ("--control-scores", "good.csv"),
        "--control-scores is for a verdict, and nothing is claimed; add --eps",
    ),
    (("--score-field", "member"), "the column 'member' is named for the scores and for something"),
    (("--score-field", "risk"), "has no column 'risk'; it has 'score', 'member'."),
]
LOGS: list[tuple[tuple[str, ...], str]] = [
    (("used.jsonl", "used.jsonl", "log.jsonl"), "every held-out record is a used record, too, so"),
    (("used.jsonl", "held.jsonl", "null-log.jsonl"), "the outputs hold no words; there must be at"),
    (("used.jsonl", "held.jsonl", "two-log.jsonl"), "name it with --answer. It must not be"),
    (("used.jsonl", "held.jsonl", "empty.jsonl"), "'empty.jsonl' holds no rows"),
    (("no-words.jsonl", "held.jsonl", "log.jsonl"), "the used records hold no words"),
    (("nowhere.jsonl", "held.jsonl", "log.jsonl"), "'nowhere.jsonl' does not exist"),
    (("used.jsonl", "held.jsonl", "log.jsonl", "--field", "body"), "has no field 'body'; it has"),
    (("used.jsonl", "held.jsonl", "log.jsonl", "--seed", "-1"), "-1 is not in the range x>=0."),
    (("used.jsonl", "held.jsonl", "log.jsonl", "--fdr", "10%"), "'10%' is not a number."),
    (("used.jsonl", "held.jsonl", "log.jsonl", "--fdr", "nan"), "fdr is nan; it must be between"),
    (("used.jsonl", "held.jsonl", "log.jsonl", "--confidence", "0,95"), "Did you mean 0.95?"),
]
GENERATIONS: list[tuple[tuple[str, ...], str]] = [
    (("wide-generations.csv",), "has more fields than the head; put fields with commas into quot"),
    (("head.csv",), "'head.csv' has no row; give a CSV file with a head and at least one row"),
    (("responses.csv",), "no column holds the context; the file has response. Name it with --con"),
    (("numbers.csv",), "no column holds the context; the file has a, b."),
    (("responses.csv", "--context", "used.jsonl"), "'used.jsonl' has 30 rows; they must be the s"),
    (("generations.csv", "--response-field", "context"), "is read as context and as response; na"),
    (("generations.csv", "--reference-field", "x"), "there is no column 'x'; the file has"),
    (("used.jsonl", "--context-field", "text"), "no column holds the response"),
]
CASES = [
    *[(("bounds", *args), said) for args, said in SCORES],
    *[((*WAYS, *args), said) for args, said in OPTIONS],
    *[(("audit-log", "--data", args[0], "--held-out", args[1], "--outputs", *args[2:]), said)
      for args, said in LOGS],
    *[(("score-generations", *args), said) for args, said in GENERATIONS],
]  # fmt: skip


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each mistake."""
    return written(tmp_path_factory.mktemp("scores"), FILES)


@pytest.mark.parametrize(("args", "sentence"), CASES, ids=[" ".join(a)[:50] for a, _ in CASES])
def test_files_that_show_nothing(
    desk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(desk)
    mistaken(capsys, args, 2, sentence)


@pytest.mark.parametrize("same", ["one text", ""])
def test_rows_that_no_output_could_disclose_show_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: str
) -> None:
    """Ends as inconclusive: all used rows are alike, so a passage of one says nothing of it."""
    rows = json.dumps({"text": same, "label": "work"}) + "\n"
    monkeypatch.chdir(written(tmp_path, {**FILES, "alike.jsonl": rows * 30}))
    with pytest.raises(SystemExit) as end:
        main(["audit-log", "--data", "alike.jsonl", "--held-out", "held.jsonl",
              "--outputs", "log.jsonl"])  # fmt: skip
    assert end.value.code == 3
