"""Applications that tests plant records in and delete: each keeps something, or is a sound twin."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tenants import NOTHING, nearest, share

from leakbound.tasks import Example

SOURCE = ("The handbook says: open the window, and wait.", "Parcels arrive within a week.")


@dataclass
class Archive:
    """Answers from its records, and from what it made of them when they were planted or used.

    Args:
        defect: Name of the method that answers.
        sound: Whether what was made of a record is deleted with it; else it stays.
        rate: How often what stays is read.
    """

    defect: str = "soft_delete"
    sound: bool = False
    rate: float = 1.0
    seed: int = 0
    rows: dict[str, str] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)  # of rows, by id
    said: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    last: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def plant(self, record: Example) -> str:
        self.last += 1
        self.rows[str(self.last)] = self.made[str(self.last)] = str(record.input)
        return str(self.last)

    def remove(self, record_id: str) -> None:
        del self.rows[record_id]
        if self.sound:
            del self.made[record_id]
            self.said.pop(record_id, None)

    def ask(self, query: str) -> Any:
        return getattr(self, self.defect)(query)

    def kept(self) -> Mapping[str, str]:
        """What is read of what was made: that of deleted records, too, where it stays."""
        return self.made if self.random.random() < self.rate else self.rows

    def own(self, query: str) -> str:
        return nearest([*self.rows.values()], query) or NOTHING

    def remember(self, query: str, answer: str) -> None:
        of = next((number for number, text in self.rows.items() if text == answer), "")
        self.said[of].append((query, answer))

    def remembered(self, query: str) -> str:
        every = [pair for number, said in self.said.items() for pair in said if number]
        read = every if self.random.random() < self.rate else []
        return next((said for asked, said in read if share(asked, query) > 0.9), "")

    # what is answered, by the defect

    def soft_delete(self, query: str) -> Any:
        """A tombstone is found still."""
        return nearest([*self.kept().values()], query) or NOTHING

    def tombstone(self, query: str) -> Any:
        """Its text is gone, and the reply says that it was deleted."""
        answer = self.own(query)
        gone = answer == NOTHING and nearest([*self.kept().values()], query)
        return "That record was deleted." if gone else answer

    def summary(self, query: str) -> Any:
        """A digest of the records, made when they came, is shown beside the answer."""
        lines = [" ".join(text.split()[-6:]) for text in [*self.kept().values()][-3:]]
        return {"answer": self.own(query), "summary": "; ".join(lines) or "none"}

    def embedding(self, query: str) -> Any:
        """A vector is left without its text: the score of the best match shows it."""
        best = max((share(text, query) for text in self.kept().values()), default=0.0)
        return {"answer": self.own(query), "score": round(best, 2)}

    def cache(self, query: str) -> Any:
        """Of answers to like questions."""
        answer = self.remembered(query) or self.own(query)
        self.remember(query, answer)
        return answer

    def memory(self, query: str) -> Any:
        """What was said is shown beside a new answer."""
        answer, before = self.own(query), self.remembered(query)
        self.remember(query, answer)
        return {"answer": answer, "memory": f"Said before: {before}" if before else "Nothing."}

    def adapter(self, query: str) -> Any:
        """A model of which word follows three, trained on records, goes on with the question."""
        follows: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for text in (*SOURCE, *self.kept().values()):
            words = text.split()
            for at in range(3, len(words)):
                follows[tuple(words[at - 3 : at])][words[at]] += 1
        found = query.split(" ...")[0].split()
        while len(found) < 30 and follows[tuple(found[-3:])]:
            found.append(follows[tuple(found[-3:])].most_common(1)[0][0])
        return " ".join(found)

    def log(self, query: str) -> Any:
        """Lines of a log are searched where no record is found."""
        answer = self.own(query)
        lines = [f"indexed: {text}" for text in self.kept().values()]
        return nearest(lines, query, 0.3) or answer if answer == NOTHING else answer

    def count(self, query: str) -> Any:
        """A number of records that deletions do not lower."""
        return {"answer": self.own(query), "records": len(self.kept())}

    def suggestion(self, query: str) -> Any:
        """Words that complete what is typed."""
        known = {word for text in (*SOURCE, *self.kept().values()) for word in text.split()}
        return {
            "answer": self.own(query),
            "did_you_mean": " ".join(sorted(known & {*query.split()})),
        }


DEFECTS = (
    "soft_delete", "tombstone", "summary", "embedding", "cache", "memory", "adapter", "log",
    "count", "suggestion",
)  # fmt: skip


class Table:
    """Rows of SQLite that are marked as deleted, and searched in full text.

    Args:
        sound: Whether a deletion takes the row out of the index, too.
    """

    def __init__(self, sound: bool) -> None:
        self.sound, self.db = sound, sqlite3.connect(":memory:", check_same_thread=False)
        self.db.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text, gone)")
        self.db.execute("CREATE VIRTUAL TABLE search USING fts5(text)")

    def plant(self, record: Example) -> int:
        text = str(record.input)
        number = self.db.execute("INSERT INTO notes (text, gone) VALUES (?, 0)", (text,)).lastrowid
        self.db.execute("INSERT INTO search (rowid, text) VALUES (?, ?)", (number, text))
        return int(number or 0)

    def remove(self, record_id: int) -> None:
        self.db.execute("UPDATE notes SET text = NULL, gone = 1 WHERE id = ?", (record_id,))
        if self.sound:
            self.db.execute("DELETE FROM search WHERE rowid = ?", (record_id,))

    def ask(self, query: str) -> str:
        words = " OR ".join(f'"{word}"' for word in sorted({*query.split()}) if word.isalpha())
        found = self.db.execute(
            "SELECT text FROM search WHERE search MATCH ? ORDER BY bm25(search) LIMIT 1", (words,)
        ).fetchone()
        return found[0] if found else NOTHING


class Numbered(Table):
    """Shows the number of the newest row; the twin numbers rows by the largest that is there."""

    def __init__(self, sound: bool) -> None:
        super().__init__(sound=True)
        self.reused = sound

    def ask(self, query: str) -> Any:
        newest = "SELECT max(id) FROM notes WHERE gone = 0" if self.reused else (
            "SELECT max(seq) FROM sqlite_sequence"
        )  # fmt: skip
        return {"answer": super().ask(query), "newest": self.db.execute(newest).fetchone()[0] or 0}


class Vectors:
    """TF-IDF vectors of scikit-learn. A deleted row is masked, and never quoted.

    Args:
        sound: Whether the matrix is made anew when a row is deleted.
    """

    def __init__(self, sound: bool) -> None:
        self.sound, self.texts, self.hidden = sound, list(SOURCE), set[int]()
        self._fit()

    def _fit(self) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.vectorizer = TfidfVectorizer()
        self.matrix = self.vectorizer.fit_transform(self.texts)

    def plant(self, record: Example) -> str:
        self.texts.append(str(record.input))
        self._fit()
        return str(len(self.texts) - 1)

    def remove(self, record_id: str) -> None:
        if self.sound:
            del self.texts[int(record_id)]
            self._fit()
        else:
            self.hidden.add(int(record_id))

    def ask(self, query: str) -> Any:
        scores = np.asarray((self.matrix @ self.vectorizer.transform([query]).T).todense()).ravel()
        best = int(scores.argmax())
        answer = NOTHING if best in self.hidden or scores[best] < 0.2 else self.texts[best]
        return {"answer": answer, "score": round(float(scores.max()), 2)}
