"""The cache of model calls: keys hold the draw, nothing is readable without the request, and
finished calls are never repeated.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbound._install import install_hint
from leakbound.errors import StoreError, TargetError, UsageError
from leakbound.models import (
    Answers,
    Cached,
    Complete,
    Counted,
    Embed,
    NextLogits,
    Request,
    ScoreLabels,
    Scripted,
    Unopened,
)

SECRET = "Mr Featherstone owes nine pounds"


class Drawing(Scripted):
    """A sampling model: every draw has an answer of its own."""

    def _one(self, request: Request[Any]) -> Any:
        return (
            f"{request.prompt} at draw {request.draw}"
            if isinstance(request, Complete)
            else super()._one(request)
        )


def model() -> Drawing:
    return Drawing(
        complete=str,
        embed=lambda text: [len(text), 0.1],
        label_scores=lambda prompt, labels: [-float(len(label)) for label in labels],
        next_logits=lambda prompt, response: [[1.0, 2.0]] * (len(response) + 1),
    )


def test_a_repeated_trial_is_never_answered_from_another_draw(tmp_path: Path) -> None:
    cached = Cached(model(), Answers(tmp_path / "c"))
    for draw in range(5):
        assert cached.answer([Complete("p", temperature=1.0, draw=draw)]) == [f"p at draw {draw}"]


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.text(max_size=5), st.integers(0, 3), st.sampled_from([0.0, 1.0])), max_size=12
    )
)
def test_answers_are_those_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, asked: list[Any]
) -> None:
    requests = [Complete(prompt, temperature=t, draw=draw) for prompt, draw, t in asked]
    file = tmp_path_factory.mktemp("cache") / "c"
    for _ in range(2):
        assert Cached(model(), Answers(file)).answer(requests) == model().answer(requests)


def test_every_parameter_of_a_request_and_the_model_decide(tmp_path: Path) -> None:
    counted = Counted(model())
    cached = Cached(counted, Answers(tmp_path / "c"))
    requests = [
        Complete("p"), Complete("p", max_tokens=3), Complete("p", stop=()),
        Complete("p", temperature=0.5), Complete("p", draw=1), Complete((1, 2)), Complete("[1, 2]"),
        Complete("(1, 2)"),
    ]  # fmt: skip
    cached.answer(requests)
    cached.answer(requests)
    assert counted.calls == len(requests)
    other = Counted(Drawing(complete=str, name="other"))
    Cached(other, Answers(tmp_path / "c")).answer(requests)
    assert other.calls == len(requests)


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    requests: list[Any] = [
        Embed("a"),
        ScoreLabels("p", ("x", "yy")),
        NextLogits("p", (1, 2)),
        Embed(""),
        ScoreLabels("p", ()),
    ]
    counted = Counted(model())
    for _ in range(2):
        for found, wanted in zip(
            Cached(counted, Answers(tmp_path / "c")).answer(requests),
            model().answer(requests),
            strict=True,
        ):
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype
    assert counted.calls == len(requests)


def test_the_file_shows_nothing_without_the_request(tmp_path: Path) -> None:
    """No text of prompt or answer, and no hash of a prompt that one could try."""
    requests = [Complete(f"{SECRET}. {i}", draw=i) for i in range(40)]
    Cached(model(), Answers(tmp_path / "c")).answer(requests)
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        for word in (*SECRET.split(), "draw"):
            assert len(word) < 5 or word.encode() not in content
        assert hashlib.sha256(str(requests[0].prompt).encode()).digest() not in content
    assert SECRET not in repr(requests[0])


def test_another_key_reads_nothing(tmp_path: Path) -> None:
    Cached(model(), Answers(tmp_path / "c")).answer([Complete("p")])
    (tmp_path / "c.key").write_bytes(bytes(32))
    assert Answers(tmp_path / "c").find(model().fingerprint, [Complete("p")]) == {}


def test_a_changed_row_is_refused(tmp_path: Path) -> None:
    """Encryption is authenticated: no changed answer is read, and none moved to another row."""
    requests = [Complete("p"), Complete("q")]
    for damage in (
        "UPDATE calls SET answer = zeroblob(length(answer))",
        "UPDATE calls SET answer = (SELECT max(answer) FROM calls),"
        " nonce = (SELECT nonce FROM calls ORDER BY answer DESC LIMIT 1)",
    ):
        file = tmp_path / f"cache {len(damage)}"
        Cached(model(), Answers(file)).answer(requests)
        with closing(sqlite3.connect(file)) as db, db:
            db.execute(damage)
        with pytest.raises(StoreError, match="the file was changed after it was written"):
            Answers(file).find(model().fingerprint, requests)


def test_the_same_answer_is_never_written_as_the_same_bytes(tmp_path: Path) -> None:
    constant = Scripted(complete=lambda prompt: "yes")
    Cached(constant, Answers(tmp_path / "c")).answer([Complete("p"), Complete("q")])
    with closing(sqlite3.connect(tmp_path / "c")) as db:
        rows = db.execute("SELECT nonce, answer FROM calls").fetchall()
    assert len({nonce for nonce, _ in rows}) == len({answer for _, answer in rows}) == 2


def test_without_the_extra_a_cache_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(UsageError, match=re.escape(install_hint("cache"))):
        Answers(tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_a_broken_cache_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"not a database, and longer than a header would be " * 9)
    with pytest.raises(StoreError, match="cannot be read or written"):
        Answers(tmp_path / "c")
    with pytest.raises(StoreError, match="cannot be used"):
        Answers(tmp_path / "c" / "below")


def test_an_unopened_model_answers_nothing(tmp_path: Path) -> None:
    real = model()
    Cached(real, Answers(tmp_path / "c")).answer([Complete("p")])
    replayed = Cached(Unopened(real.name, real.fingerprint), Answers(tmp_path / "c"))
    assert replayed.answer([Complete("p")]) == real.answer([Complete("p")])
    with pytest.raises(TargetError, match="2 answers of scripted are not kept"):
        replayed.answer([Complete("p"), Complete("q"), Complete("r")])


KILLED = """
import os, signal, sys
from pathlib import Path
from leakbound.models import Answers, Cached, Complete, Scripted

def reply(prompt):
    with open("calls.txt", "a") as file:
        file.write(prompt + "\\n")
    if prompt == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
    return prompt

Cached(Scripted(complete=reply), Answers(Path("c"))).answer([Complete(str(i)) for i in range(300)])
"""


@pytest.mark.process
def test_a_crash_within_a_batch_repeats_no_finished_call(tmp_path: Path) -> None:
    """Calls that were written down are not made again; a kill repeats at most the few dozen that
    were not.
    """
    for last in ("150", "290", "none"):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, last], cwd=tmp_path, env={**os.environ}
        )
        assert done.returncode == (0 if last == "none" else -signal.SIGKILL)
    calls = (tmp_path / "calls.txt").read_text().split()
    assert set(calls) == {str(i) for i in range(300)}
    assert len(calls) <= 300 + 2 * 64
    assert len(calls) < 150 + 290 + 300
    assert all(calls.count(str(i)) == 1 for i in range(128)), (
        "the first two parts were written down before the first kill"
    )
