"""The tasks of the four papers by name: their rows, their examples, and the words of the prompt.

Rows are found under a data folder as `<name>/train.jsonl`, or on the hub; no row comes with this
package. Label sets and what is counted follow the papers (PoE, Appendix E, for the classification
tasks); the words of the prompts are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from leakbound.errors import DataError
from leakbound.tasks.example import Context, Example
from leakbound.tasks.rows.datasets import examples_of
from leakbound.tasks.rows.fields import FieldMap
from leakbound.tasks.rows.sources import SourceRow, SourceRows, hub_rows, source_rows
from leakbound.tasks.task import Task


@dataclass(frozen=True, slots=True)
class _PaperTask:
    """A task with its sources."""

    task: Task
    about: str
    fields: tuple[FieldMap, ...]
    answer: Callable[[str], str | None]
    hub: tuple[str, str | None] | None = None

    def examples(self, rows: SourceRows, drop_empty: bool = False) -> Context:
        fit, *others = {self._layout(row) for row in rows}
        forms = " or ".join(", ".join(fields.names) for fields in self.fields)
        if others:
            raise DataError(
                f"the rows of {self.task.name} are in more than one layout; all of them must have "
                f"the fields {forms}. Write them in one layout."
            )
        if fit is None:
            place, first = next(iter(rows))
            raise DataError(
                f"{place} has the fields {', '.join(map(str, first))}; rows of "
                f"{self.task.name} must have {forms}."
            )
        where = f"the source of {self.task.name}"
        return examples_of(where, rows, partial(self._example, fit), drop_empty)

    def _layout(self, row: SourceRow) -> FieldMap | None:
        """The first layout that a row fits; the rows must agree, so that no row decides for all."""
        return next(
            (one for one in self.fields if all(name in row.fields for name in one.names)), None
        )

    def _example(self, fields: FieldMap, row: SourceRow) -> Example:
        found = fields.example(row)
        label = self.answer(found.label)
        if label is None or (self.task.labels and label not in self.task.labels):
            raise DataError(
                f"{row.place} has no label of {self.task.name} in the field {fields.label!r}; "
                f"labels are {', '.join(self.task.labels)}."
            )
        return Example(found.input, label)

    def rows(
        self, data: str | None, folder: str | None, delimiter: str | None = None,
        drop_empty: bool = False, encoding: str | None = None,
    ) -> Context:  # fmt: skip
        if data is not None:
            return self.examples(source_rows(data, delimiter, encoding), drop_empty)
        if folder is not None:
            file = Path(folder) / self.task.name / "train.jsonl"
            return self.examples(source_rows(str(file)), drop_empty)
        if self.hub is None:
            raise DataError(
                f"no public copy of the rows of {self.task.name} is known on the hub; give a "
                f"folder that holds {self.task.name}/train.jsonl with --data-dir, or the rows "
                "themselves with --data."
            )
        return self.examples(hub_rows(*self.hub), drop_empty)


def _classes(
    name: str,
    about: str,
    labels: dict[str, str],
    fields: tuple[FieldMap, ...],
    words: tuple[str, str, str],
    hub: tuple[str, str | None] | None = None,
) -> _PaperTask:
    """A classification task.

    labels: every spelling of a label in the data, with the word that the prompt uses. words: of
    input and label, and what to do.
    """
    shown = tuple(dict.fromkeys(labels.values()))
    task = Task(name, shown, words[0], words[1], f"{words[2]} Choose one of: {', '.join(shown)}.")
    return _PaperTask(task, about, fields, labels.get, hub)


def _texts(
    name: str,
    about: str,
    fields: tuple[FieldMap, ...],
    words: tuple[str, str, str],
    hub: tuple[str, str | None] | None = None,
) -> _PaperTask:
    return _PaperTask(
        Task(name, (), words[0], words[1], words[2]),
        about,
        fields,
        lambda text: " ".join(text.split()),
        hub,
    )


def _same(*labels: str) -> dict[str, str]:
    return dict(zip(labels, labels, strict=True))


PLAIN = FieldMap("{text}", "label")
SUMMARY = FieldMap("{document}", "summary")
QUESTION = FieldMap("{context}\nQuestion: {question}", "answer")
TOPICS = {**_same("World", "Sports", "Business"), "Sci/Tech": "Technology"}
KINDS = {
    **_same("Abbreviation", "Entity", "Description", "Person", "Location", "Number"),
    "ABBR": "Abbreviation", "ENTY": "Entity", "DESC": "Description", "HUM": "Person",
    "LOC": "Location", "NUM": "Number",
}  # fmt: skip
ONTOLOGY = {
    **_same("Company", "Artist", "Athlete", "Building", "Village"),
    **_same("Animal", "Plant", "Album", "Film"),
    "EducationalInstitution": "School", "OfficeHolder": "Politician",
    "MeanOfTransportation": "Transportation", "NaturalPlace": "Nature", "WrittenWork": "Book",
}  # fmt: skip
TONES = {"sarcastic": "sarcastic", "not_sarcastic": "sincere"}
DECISION = FieldMap("{context.contexts}\nQuestion: {question}", "final_decision")
LONG_ANSWER = FieldMap(DECISION.template, "long_answer")
PUBMED_QA = ("qiaojin/PubMedQA", "pqa_labeled")
FROM_TEXT = "Answer the question about each document from its text."

_ALL = (
    _classes(
        "subj", "sentences of film pages, objective or subjective",
        _same("objective", "subjective"), (FieldMap("{text}", "label_text"), PLAIN),
        ("Sentence", "Kind", "Decide whether each sentence tells facts or an opinion."),
        ("SetFit/subj", None),
    ),
    _classes(
        "sarcasm", "Reddit replies, sarcastic or not", TONES, (PLAIN,),
        ("Reply", "Tone", "Decide in what tone each reply was meant."),
    ),
    _classes(
        "agnews", "news items in four sections", TOPICS, (PLAIN,),
        ("News", "Section", "Sort each news item into its section."), ("fancyzhx/ag_news", None),
    ),
    _classes(
        "trec", "questions by the kind of answer they ask for", KINDS,
        (PLAIN, FieldMap("{text}", "coarse_label")),
        ("Question", "Asks for", "Say what kind of answer each question asks for."),
        ("CogComp/trec", None),
    ),
    _classes(
        "dbpedia14", "encyclopedia abstracts in 14 classes", ONTOLOGY,
        (PLAIN, FieldMap("{content}", "label")),
        ("Article", "About", "Say what each article is about."), ("fancyzhx/dbpedia_14", None),
    ),
    _PaperTask(
        Task(
            "gsm8k", tuple("0123456789"), "Problem", "First digit",
            "Solve each problem and give the first digit of the result.",
        ),
        "school mathematics, first digit of the result", (FieldMap("{question}", "answer"),),
        # the first digit of the result, which stands behind "####"
        lambda solution: next(iter(re.findall(r"\d", solution.rpartition("####")[2])), None),
        ("openai/gsm8k", "main"),
    ),
    _classes(
        "pubmedqa_yesno", "medical abstracts with a question, yes, no or maybe",
        _same("yes", "no", "maybe"), (QUESTION, DECISION),
        ("Abstract", "Answer", "Answer the question about each abstract."), PUBMED_QA,
    ),
    _texts(
        "pubmedqa", "medical abstracts with a question, answered in a sentence or more",
        (QUESTION, LONG_ANSWER),
        ("Abstract", "Conclusion", "Answer the question about each abstract in full."), PUBMED_QA,
    ),
    _texts(
        "samsum", "chats and their summaries", (SUMMARY, FieldMap("{dialogue}", "summary")),
        ("Chat", "Summary", "Sum up each chat in a sentence or two."), ("knkarthick/samsum", None),
    ),
    _texts(
        "xsum", "news articles in one sentence", (SUMMARY,),
        ("Article", "In one sentence", "Say in one sentence what each article reports."),
        ("EdinburghNLP/xsum", None),
    ),
    _texts(
        "cnn_dailymail", "news articles and their highlights",
        (SUMMARY, FieldMap("{article}", "highlights")),
        ("Article", "Highlights", "Give the highlights of each article."),
        ("abisee/cnn_dailymail", "3.0.0"),
    ),
    _texts(
        "pfl_docvqa", "questions about scanned invoices (PFL-DocVQA)", (QUESTION,),
        ("Document", "Answer", FROM_TEXT),
    ),
    _texts(
        "sroie_receipts_qa", "questions about scanned receipts, a stand-in for PFL-DocVQA",
        (QUESTION,), ("Document", "Answer", FROM_TEXT),
    ),
)  # fmt: skip
NAMED_TASKS: dict[str, _PaperTask] = {one.task.name: one for one in _ALL}
