"""A help desk of two customers: each reads its own notes, and one cache keeps all answers."""

import json
import os
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TENANTS = {f"Bearer {os.environ[name]}": name for name in ("ACME_KEY", "GLOBEX_KEY")}
NOTES, CACHE = {}, {}  # tenant and text by id, answer by question


def answer(tenant, question):
    key = question
    if key not in CACHE:
        asked = set(question.lower().split())
        mine = [text for owner, text in NOTES.values() if owner == tenant]
        best = max(mine, key=lambda text: len(asked & set(text.lower().split())), default="")
        close = len(asked & set(best.lower().split())) > 4
        CACHE[key] = best if close else "No note says anything about that."
    return CACHE[key]


class Desk(BaseHTTPRequestHandler):
    def do_POST(self):
        tenant = TENANTS.get(self.headers["Authorization"])
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
        if tenant is None:
            return self.reply(401, {"error": "unknown key"})
        if self.path == "/ask":
            return self.reply(200, {"answer": answer(tenant, body["question"])})
        NOTES[found := str(uuid.uuid4())] = tenant, body["text"]
        self.reply(201, {"id": found})

    def do_DELETE(self):
        self.reply(200, {"deleted": NOTES.pop(self.path.split("/")[-1], None) is not None})

    def reply(self, status, body):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *args): ...


ThreadingHTTPServer(("127.0.0.1", 8000), Desk).serve_forever()
