"""Three groups of keys of an audit: system, attack, design. `audit_spec` has the fourth."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationInfo, field_validator

from leakbound._catalogue import Component
from leakbound.tasks import Access
from leakbound.tasks.rows.row_files import DELIMITERS, known_encoding

MOST = 10_000_000  # of trials and outputs: more would take years


class FrozenSpec(BaseModel):
    """Values that never change; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean(cls, value: object, info: ValidationInfo) -> object:
        """YAML reads yes, no, on and off as true or false, which is not a number."""
        kind = cls.model_fields[info.field_name or ""].annotation
        if not isinstance(value, bool) or kind not in (int, float):
            return value
        shown = f"{info.field_name} is {str(value).lower()} (in YAML also yes, on)"
        raise ValueError(f"{shown}; it must be a number.")


class SystemSpec(FrozenSpec):
    """What is audited: a mechanism over a model, or an application at an address."""

    mechanism: Component = Field(
        default=Component(kind="few_shot"), description="how answers are made from the context"
    )
    address: str | None = Field(
        default=None,
        description="application to audit in place of a mechanism and model: "
        "python:file.py:object, python:package.module:object or http:file.yaml",
    )
    system_options: dict[str, JsonValue] = Field(
        default={}, description="arguments of the application's class, factory or function"
    )
    answers_independent: bool | None = Field(
        default=None,
        description="declares whether answers to different contexts are independent of each other, "
        "given what was asked before (no draw, value or seed in common); none: assumed for claims "
        "of 1 and more",
    )
    model: str = Field(
        default="pocket", description="model address: pocket, hf/<folder or id>, or openai/<model>"
    )
    embedder: str | None = Field(
        default=None,
        description="sentence-transformers id or folder for embeddings; "
        "none: the model's own mean hidden states",
    )
    judge_model: str | None = Field(
        default=None,
        description="model that judges answers (mechanism judge_defense); none: the model itself",
    )
    trust_remote_code: bool = Field(
        default=False, description="run Python code that a model's folder or repository brings"
    )


class AttackSpec(FrozenSpec):
    """What the attacker inserts, asks and reads."""

    query: Component = Field(
        default=Component(kind="membership"), description="what the attacker asks"
    )
    canary: Component = Field(
        default=Component(kind="hex"), description="the record that is inserted"
    )
    score: Component | None = Field(
        default=None,
        description="how outputs are scored; none: the strongest that the access allows",
    )
    insertion: Literal["replace", "append", "add"] = Field(
        default="replace",
        description="how the canary enters the context: in place of an example, "
        "in its text, or as one more",
    )
    access: Access | None = Field(
        default=None, description="what the attacker sees; none: everything that is released"
    )
    channels: tuple[str, ...] | None = Field(
        default=None,
        description="channels of a system to test, separately and together: answer, "
        "seconds, tool_calls, names that its replies use, such as logs, or all; none: its replies "
        "as a whole",
    )

    @field_validator("channels", mode="before")
    @classmethod
    def _channels(cls, value: object) -> object:
        """A text is split at its commas."""
        parts = value.split(",") if isinstance(value, str) else value
        if parts is None or parts in ([], ()):
            return None
        if not isinstance(parts, list | tuple) or not all(isinstance(one, str) for one in parts):
            raise ValueError(f"channels is {value!r}; it must be names, such as answer,logs.")
        names = tuple(name.strip() for part in parts for name in part.split(","))
        from leakbound.systems.channels import require_channels  # not for help

        require_channels(names)
        return names


class Design(FrozenSpec):
    """Which contexts are compared: the rows, their number, and the seed of every choice."""

    data: str | None = Field(
        default=None,
        description="private rows: a .jsonl, .json, .csv, .tsv or .parquet file, a folder of "
        "images, or hf:<id or folder>[:split] [default: the bundled help-desk task]",
    )
    rows: Any = Field(  # never dumped: a result must not hold them
        default=None,
        exclude=True,
        repr=False,
        description="the examples themselves (in a file only)",
    )
    data_dir: str | None = Field(
        default=None,
        description="folder of the rows of named tasks: <name>/train.jsonl; none: the hub",
    )
    input_field: str | None = Field(default=None, description="field that holds the input")
    input_template: str | None = Field(
        default=None,
        description="an input made of several fields, such as '{title}\\n{text}', "
        "in place of input_field",
    )
    label_field: str | None = Field(default=None, description="field that holds the label")
    delimiter: str | None = Field(
        default=None,
        description="delimiter of a CSV file: comma, semicolon, tab, pipe or a character; none: "
        "detected from its first line",
    )
    encoding: str | None = Field(
        default=None,
        description="encoding of a file of rows, such as cp1252; none: UTF-8, or what its byte "
        "order mark says",
    )
    drop_empty: bool = Field(
        default=False,
        description="leave out rows with an empty input or label, or a label such as NaN",
    )
    task: str | None = Field(
        default=None,
        description="task: classification, generation, or one by name (list tasks); "
        "none: classification with --labels, else inferred from the data",
    )
    labels: str | tuple[str, ...] | None = Field(
        default=None,
        description="public labels, such as work,home [default: those of the "
        "task, or of the rows if the mechanism gives no guarantee]",
    )
    system_message: Literal["instruction", "examples"] | None = Field(
        default=None,
        description="what goes into the system message of an instruct model: the instruction, or "
        "the examples as well; none: all of a prompt is one text",
    )
    layout: Literal["paired", "session", "one_run", "tenants", "deletion"] = Field(
        default="paired",
        description="how trials are made: paired: a context of its own for each; session: one "
        "store, into which the canary of each is put and taken out; one_run: many canaries in one "
        "store, each in or out by a fair coin; tenants: one plants the canary, another one asks; "
        "deletion: it is planted, used and deleted before the question",
    )
    pairs: int = Field(
        default=100, ge=1, le=MOST, description="paired trials (canary in, canary out)"
    )
    canaries: int = Field(default=100, ge=2, le=MOST, description="canaries of a one_run design")
    documents: int | None = Field(
        default=None,
        ge=0,
        description="rows that a session or one_run design puts into the store; 0: the store has "
        "its own; none: all that no canary is made from",
    )
    clients: int = Field(
        default=1, ge=1, le=100, description="clients of each of two tenants, who ask together"
    )
    shots: int = Field(default=20, ge=1, description="rows in a context")
    answers: int = Field(
        default=1,
        ge=1,
        le=MOST,
        description="outputs of one context that a trial sees; the claim is composed over them",
    )
    background_copies: int | str | None = Field(
        default=None,
        description="other partitions that show the canary's text in both contexts, so that one "
        "vote decides: a number, or auto; none: auto where only answers are seen, else 0",
    )
    controls: int = Field(
        default=8,
        ge=0,
        le=MOST,
        description="control pairs (canary everywhere, canary nowhere) that show whether the "
        "attack sees anything, and as many with one canary; 0: none, and then the verdict is never "
        "no_violation",
    )
    detect_change: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="change of a rate that has to be seen before replies are said not to depend on "
        "the canary: where the attack shows nothing, other attacks are asked so often that each "
        "would show it with probability 0.9; none: tanh(epsilon/2), at least 0.2; 0: no other "
        "attack is asked",
    )
    state_check: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of the pairs whose first query is repeated, to detect a system that "
        "remembers; none: all, or a quarter if the system declares that it keeps no state",
    )
    seed: int = Field(default=0, ge=0, description="seed of random choices")
    store_text: Literal["none", "canary_only", "all"] = Field(
        default="canary_only", description="which texts the run may keep"
    )
    batch_pairs: int = Field(
        default=8,
        ge=1,
        description="paired trials collected at once; an interruption loses at most these",
    )

    @field_validator("labels", mode="before")
    @classmethod
    def _labels(cls, value: object) -> object:
        """A text is split at its commas; a list may hold labels with commas."""
        if value is None:
            return None
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise ValueError(
                f"labels is {value!r}; it must be a list of texts, such as [work, home]; put yes, "
                "no and numbers into quotes."
            )
        found = tuple(dict.fromkeys(part.strip() for part in parts))
        if len(found) < 2 or "" in found:
            same = len(parts) > 1 and len(found) == 1 and "" not in found
            raise ValueError(
                f"labels is {value!r}{', the same label twice' if same else ''}; it must name at "
                "least two labels, such as work,home, none of them empty."
            )
        return found

    @field_validator("delimiter")
    @classmethod
    def _delimiter(cls, value: str | None) -> str | None:
        mark = DELIMITERS.get(value, value) if value is not None else None
        if mark is None or (len(mark) == 1 and mark not in '"\r\n'):
            return mark
        raise ValueError(
            f"delimiter is {value!r}; it must be {', '.join(DELIMITERS)}, or one character."
        )

    @field_validator("encoding")
    @classmethod
    def _encoding(cls, value: str | None) -> str | None:
        return value if not value else known_encoding(value)

    @field_validator("background_copies", mode="before")
    @classmethod
    def _copies(cls, value: object) -> object:
        if value in (None, "auto") or (type(value) is int and value >= 0):
            return value
        raise ValueError(
            f"background_copies is {value!r}; it must be a whole number from 0 on, or auto."
        )
