"""AuditSpec: everything that decides an audit, and nothing else.

One YAML file, flags over environment over file.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leakbound.attacks import CANARIES, QUERIES, SCORES
from leakbound.auditing.estimate import threshold_rule
from leakbound.errors import UsageError, unknown_name
from leakbound.mechanisms import MECHANISMS
from leakbound.stats import Fixed
from leakbound.tasks.datasets import TASKS
from leakbound.tasks.named_tasks import NAMED_TASKS

__all__ = ["AuditSpec", "load_spec", "make_spec", "read_config"]


class AuditSpec(BaseModel):
    """The parameters of an audit. Unknown keys are errors; names are those of the catalogues."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str | None = Field(
        None,
        description="private examples: a .jsonl, .csv or .parquet file, a folder of images, or hf:<id or folder>[:split]; none: the bundled help-desk task",
    )
    rows: Any = Field(  # never dumped: a record must not hold them
        None,
        exclude=True,
        repr=False,
        description="the examples themselves, a list of objects (in a file only)",
    )
    data_dir: str | None = Field(
        None, description="folder of the rows of named tasks: <name>/train.jsonl; none: the hub"
    )
    input_field: str | None = Field(None, description="name of the field that holds the input")
    input_template: str | None = Field(
        None,
        description="an input made of several fields, such as '{title}\\n{text}', in the place of input_field",
    )
    label_field: str | None = Field(None, description="name of the field that holds the label")
    task: str | None = Field(
        None,
        description="classification, generation, or a task by name (list tasks); none: inferred from the data",
    )
    model: str = Field(
        "pocket", description="model address: pocket, hf/<folder or id>, or openai/<model>"
    )
    trust_remote_code: bool = Field(
        False, description="run Python code that a model's folder or repository brings"
    )
    embedder: str | None = Field(
        None,
        description="sentence-transformers id or folder for embeddings; none: the model's own mean hidden states",
    )
    system: str | None = Field(
        None,
        description="python:file.py:object or http:file.yaml, audited in the place of model and mechanism",
    )
    mechanism: str = Field("few_shot", description="how answers are made from the context")
    level: int = Field(1, ge=1, le=2, description="strength of prompt_defense")
    partitions: int = Field(
        10, ge=1, description="number of partitions T of a partitioned mechanism"
    )
    options: dict[str, str | int | float] = Field(
        {}, description="other options of the mechanism, NAME=VALUE"
    )
    calibration: Literal["analytic", "classical"] = Field(
        "analytic", description="formula for Gaussian noise"
    )
    attack: str = Field("membership", description="the audit query")
    query_text: str = Field(
        "", description="text of the attack 'given', with {canary}, {member} and {nonmember} in it"
    )
    query_labelled: bool = Field(
        False, description="the attack 'given' asks for labels of the data, not for yes and no"
    )
    canary: str = Field("hex", description="the kind of canary")
    canary_text: str = Field("", description="text of the canary 'given'")
    canary_image: str = Field(
        "", description="image file of the canary 'given', for rows that hold images"
    )
    canary_label: str = Field("", description="label of the canary 'given'")
    digits: int = Field(16, ge=4, description="length of the canary 'hex'")
    insertion: Literal["replace", "append", "add"] = Field(
        "replace",
        description="how the canary enters the context: in the place of an example, in its text, or as one more",
    )
    score: str | None = Field(
        None, description="how releases are scored; none: the strongest that the access allows"
    )
    access: Literal["black_box", "white_box"] | None = Field(
        None, description="what the attacker sees; none: all there is"
    )
    epsilon: float = Field(
        1.0, gt=0, description="the claim, and what a noisy mechanism is calibrated to"
    )
    delta: float = Field(1e-5, ge=0, lt=1, description="delta of the claim")
    answers: int = Field(
        1,
        ge=1,
        description="releases of one context that a trial sees; the claim is composed over them",
    )
    pairs: int = Field(100, ge=1, description="pairs of worlds (one with the canary, one without)")
    shots: int = Field(20, ge=1, description="examples in a context")
    confidence: float = Field(0.95, gt=0, lt=1, description="confidence of every bound")
    estimator: Literal["e_process", "clopper_pearson", "vote_band", "joint_votes"] = Field(
        "e_process",
        description="what decides: e_process (anytime-valid), clopper_pearson, vote_band or joint_votes",
    )
    stop_when_rejected: bool = Field(
        False, description="stop collecting once the e_process has refuted the promise"
    )
    threshold: str | float | None = Field(
        None,
        description="a number, split, split:0.3, bonferroni or best; none: the score's own rule",
    )
    seed: int = Field(0, ge=0, description="root of all randomness")
    store_text: Literal["none", "canary_only", "all"] = Field(
        "canary_only", description="which texts the run may keep"
    )
    simulations: int = Field(
        400_000, ge=0, description="simulated releases for the curves (they enter no bound)"
    )
    batch_pairs: int = Field(
        8, ge=1, description="pairs collected at once; what an interruption can lose"
    )

    def model_post_init(self, context: Any, /) -> None:
        """Names must be in their catalogues."""
        threshold_rule(self.threshold, Fixed())
        _known("the attack", self.attack, QUERIES)
        _known("the canary", self.canary, CANARIES)
        _known("the mechanism", self.mechanism, MECHANISMS)
        if self.score is not None:
            _known("the score", self.score, SCORES)
        if self.task is not None:
            _known(
                "the task",
                self.task,
                dict.fromkeys((*TASKS, "help_desk", "pseudo_names", *NAMED_TASKS)),
            )


def _known(what: str, name: str, catalogue: dict[str, Any]) -> None:
    if name not in catalogue:
        raise unknown_name(what, name, catalogue)


def make_spec(values: dict[str, Any]) -> AuditSpec:
    """A spec from plain values, with a sentence for whatever is wrong with them."""
    try:
        return AuditSpec(**values)
    except ValidationError as error:
        raise UsageError(" ".join(_sentence(problem) for problem in error.errors())) from None


def _sentence(problem: Any) -> str:
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, AuditSpec.model_fields, n=1)
        return f"the configuration key {key!r} is not known." + (
            f" Did you mean {near[0]!r}?" if near else ""
        )
    must = str(problem["msg"]).removeprefix("Input should be ")
    return f"{key} is {problem['input']!r}; it must be {must}."


def load_spec(path: str | None, overrides: dict[str, Any]) -> AuditSpec:
    """The file's values, overridden by flags."""
    return make_spec({**(read_config(Path(path)) if path else {}), **overrides})


def read_config(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file, unchecked.

    Raises UsageError with a sentence for what is none.
    """
    if not path.is_file():
        raise UsageError(f"the configuration file {str(path)!r} does not exist.")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UsageError(
            f"the configuration file {str(path)!r} is not YAML: {str(error).splitlines()[0]}."
        ) from None
    if not isinstance(values, dict):
        raise UsageError(
            f"the configuration file {str(path)!r} must hold keys and values, such as 'epsilon: 1'."
        )
    return values
