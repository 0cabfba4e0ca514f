"""init, audit and gate of a retrieval application, without torch: one quotes, one does not.

Each is a function in a file and a service with a field `documents: list[str]`; each command runs
in a process of its own.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from commands import cli, without_torch

pytestmark = pytest.mark.process

RAG = '''
"""The two most similar documents by TF-IDF."""
import json, math, re, sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

def words(text):
    return re.findall(r"\\w+", text.lower())

def found(documents, question):
    counts = [Counter(words(one)) for one in documents]
    held = Counter(word for one in counts for word in one)
    weight = {word: math.log(len(documents) / n) + 1 for word, n in held.items()}
    asked = set(words(question))
    def score(one):
        size = math.sqrt(sum((n * weight[word]) ** 2 for word, n in one.items())) or 1
        return sum(n * weight[word] for word, n in one.items() if word in asked) / size
    best = sorted(zip(map(score, counts), range(len(documents))), reverse=True)[:2]
    return [documents[at] for _, at in best]

def quoted(documents, question):
    return "From the documents: " + " | ".join(found(documents, question))

def counted(documents, question):
    many = len(found(documents, question))
    return f"{many} documents are about {words(question)[0]}; ask the desk for them."

def leaky(context, query):
    return quoted([row.text for row in context], query)

def safe(context, query):
    return counted([row.text for row in context], query)

class Service(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        wrong = [{"type": "missing", "loc": ["body", one]}
                 for one in ("documents", "question") if one not in body]
        documents = body.get("documents", [])
        if not isinstance(documents, list):
            wrong.append({"type": "list_type", "loc": ["body", "documents"]})
        elif not all(isinstance(one, str) for one in documents):
            wrong.append({"type": "string_type", "loc": ["body", "documents", 0]})
        answer = {"/leaky": quoted, "/safe": counted}[self.path]
        reply = {"detail": wrong} if wrong else {"answer": answer(documents, body["question"])}
        content = json.dumps(reply).encode()
        self.send_response(422 if wrong else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
    def log_message(self, *args):
        pass

if __name__ == "__main__":
    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    print(server.server_address[1], flush=True)
    server.serve_forever()
'''
WORDS = [
    *("invoice", "printer", "router", "refund", "parcel", "delivery", "order", "account"),
    *("login", "meeting", "travel", "report", "budget", "contract", "server", "backup"),
]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "rag.py").write_text(RAG)
    rng = random.Random(3)
    texts = [" ".join(["the desk wrote about", *rng.sample(WORDS, 8)]) for _ in range(80)]
    rows = [f"{text},{('work', 'home')[n % 2]}" for n, text in enumerate(texts)]
    (tmp_path / "private.csv").write_text("\n".join(["text,label", *rows]))
    return tmp_path


@contextmanager
def serving(desk: Path) -> Iterator[str]:
    words = [sys.executable, desk / "rag.py"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(service.stdout.readline())}"
        finally:
            service.kill()


def ended(desk: Path, *words: str) -> tuple[int, str]:
    done = cli(*words, cwd=desk, PYTHONPATH=without_torch())
    return done.returncode, done.stdout + done.stderr


def decided(desk: Path, system: str) -> tuple[int, int, str]:
    """Exit codes of audit and gate after init, and what all of them said."""
    code, first = ended(desk, "init", "private.csv", system, "--epsilon", "1", "--pairs", "24")
    assert code == 0, first
    audit, second = ended(desk, "audit", "--config", "audit.yaml", "--out", "runs")
    gate, third = ended(desk, "gate", "runs", "--max-epsilon", "1")
    return audit, gate, first + second + third


@pytest.mark.slow
def test_a_function_that_quotes_documents_is_a_violation(desk: Path) -> None:
    audit, gate, said = decided(desk, "python:rag.py:leaky")
    assert (audit, gate) == (1, 1), said
    attack = yaml.safe_load((desk / "audit.yaml").read_text())["attack"]
    assert (attack["query"]["kind"], attack["canary"]["kind"]) == ("recall", "coded")


@pytest.mark.slow
def test_a_service_that_quotes_documents_is_a_violation(desk: Path) -> None:
    with serving(desk) as base:
        audit, gate, said = decided(desk, f"{base}/leaky")
    assert "Sent: 20 rows as 20 texts" in said
    assert (audit, gate) == (1, 1), said


@pytest.mark.slow
def test_documents_need_no_label(desk: Path) -> None:
    """A file of one column had a label asked for that it does not have, by init and by audit."""
    rows = (desk / "private.csv").read_text().splitlines()
    texts = [row.rpartition(",")[0] for row in rows]
    (desk / "private.csv").write_text("\n".join(texts))
    audit, gate, said = decided(desk, "python:rag.py:leaky")
    assert (audit, gate) == (1, 1), said
    given = ("--query", "recall", "--canary", "coded", "--pairs", "24", "--out", "other")
    code, told = ended(desk, "audit", "private.csv", "rag.py:leaky", *given)
    assert code == 1, told
    code, told = ended(desk, "init", "private.csv", "pocket", "--save", "model.yaml")
    assert (code, "--label-field" in told) == (2, True), told  # a model learns from labels


@pytest.mark.slow
@pytest.mark.parametrize("system", ["python:rag.py:safe", "{}/safe"])
def test_what_answers_without_quoting_is_not_accused(desk: Path, system: str) -> None:
    with serving(desk) as base:
        audit, gate, said = decided(desk, system.format(base))
    assert (audit, gate) in {(0, 0), (3, 3)}, said
