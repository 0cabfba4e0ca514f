"""AuditSpec: everything that decides an audit, in four frozen values.

A file may group its keys by these four or write them flat; each key stands once. Keys of one
component are written `canary: {kind: hex, digits: 8}` or `canary.digits: 8`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leakbound._catalogue import Catalogue, Component
from leakbound.attacks import CANARIES, QUERIES, SCORES
from leakbound.auditing.config_file import read_config
from leakbound.errors import UsageError, unknown_name
from leakbound.estimators import ESTIMATORS, threshold_rule
from leakbound.mechanisms import MECHANISMS
from leakbound.stats import Fixed
from leakbound.tasks.datasets import TASKS
from leakbound.tasks.named_tasks import NAMED_TASKS

__all__ = [
    "COMPONENTS", "GROUPS", "KEYS", "AttackSpec", "AuditSpec", "Decision", "Design", "SystemSpec",
    "flat_keys",    "load_spec", "make_spec", "merge_keys",
]  # fmt: skip

Settings = dict[str, Any]
ALIASES = {"system": "address"}  # the flat key of an address; nested, `system` is the group


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SystemSpec(_Spec):
    """What is audited: a mechanism over a model, or an application at an address."""

    mechanism: Component = Field(
        default=Component(kind="few_shot"), description="how answers are made from the context"
    )
    address: str | None = Field(
        default=None,
        description="application to audit in place of a mechanism and model: "
        "python:file.py:object or http:file.yaml",
    )
    model: str = Field(
        default="pocket", description="model address: pocket, hf/<folder or id>, or openai/<model>"
    )
    embedder: str | None = Field(
        default=None,
        description="sentence-transformers id or folder for embeddings; "
        "none: the model's own mean hidden states",
    )
    trust_remote_code: bool = Field(
        default=False, description="run Python code that a model's folder or repository brings"
    )


class AttackSpec(_Spec):
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
    access: Literal["black_box", "white_box"] | None = Field(
        default=None, description="what the attacker sees; none: all there is"
    )


class Design(_Spec):
    """Which contexts are compared: the rows, their number, and the seed of every choice."""

    data: str | None = Field(
        default=None,
        description="private examples: a .jsonl, .csv or .parquet file, a folder of images, "
        "or hf:<id or folder>[:split]; none: the bundled help-desk task",
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
    input_field: str | None = Field(
        default=None, description="name of the field that holds the input"
    )
    input_template: str | None = Field(
        default=None,
        description="an input made of several fields, such as '{title}\\n{text}', "
        "in place of input_field",
    )
    label_field: str | None = Field(
        default=None, description="name of the field that holds the label"
    )
    task: str | None = Field(
        default=None,
        description="classification, generation, or a task by name (list tasks); "
        "none: inferred from the data",
    )
    pairs: int = Field(default=100, ge=1, description="paired trials (canary in, canary out)")
    shots: int = Field(default=20, ge=1, description="examples in a context")
    answers: int = Field(
        default=1,
        ge=1,
        description="outputs of one context that a trial sees; the claim is composed over them",
    )
    seed: int = Field(default=0, ge=0, description="root of all randomness")
    store_text: Literal["none", "canary_only", "all"] = Field(
        default="canary_only", description="which texts the run may keep"
    )
    batch_pairs: int = Field(
        default=8,
        ge=1,
        description="paired trials collected at once; what an interruption can lose",
    )


class Decision(_Spec):
    """What decides: the claim, and how it is tested."""

    epsilon: float = Field(
        default=1.0, gt=0, description="the claim, and what a noisy mechanism is calibrated to"
    )
    delta: float = Field(default=1e-5, ge=0, lt=1, description="delta of the claim")
    confidence: float = Field(default=0.95, gt=0, lt=1, description="confidence of every bound")
    estimator: Component = Field(default=Component(kind="e_process"), description="what decides")
    threshold: str | float | None = Field(
        default=None,
        description="a number, split, split:0.3, bonferroni or best; none: the score's own rule",
    )
    stop_when_rejected: bool = Field(
        default=False, description="stop collecting once the e-process has rejected the claim"
    )
    simulations: int = Field(
        default=400_000, ge=0, description="simulated outputs for the curves (they enter no bound)"
    )


GROUPS: dict[str, type[_Spec]] = {
    "system": SystemSpec, "attack": AttackSpec, "design": Design, "decision": Decision,
}  # fmt: skip
COMPONENTS: dict[str, Catalogue[Any]] = {
    "mechanism": MECHANISMS, "query": QUERIES, "canary": CANARIES, "score": SCORES,
    "estimator": ESTIMATORS,
}  # fmt: skip
KEYS: dict[str, str] = {key: group for group, kind in GROUPS.items() for key in kind.model_fields}


class AuditSpec(_Spec):
    """The parameters of an audit. Unknown keys are errors; names are those of the catalogues."""

    system: SystemSpec = SystemSpec()
    attack: AttackSpec = AttackSpec()
    design: Design = Design()
    decision: Decision = Decision()

    def model_post_init(self, context: Any, /) -> None:
        """Names must be in their catalogues, unless an object was handed over."""
        threshold_rule(self.decision.threshold, Fixed())
        for key, catalogue in COMPONENTS.items():
            named: Component | None = getattr(getattr(self, KEYS[key]), key)
            if named is not None and named.python is None and named.kind not in catalogue:
                raise unknown_name(catalogue.what, named.kind, catalogue)
        task, tasks = self.design.task, (*TASKS, "help_desk", "pseudo_names", *NAMED_TASKS)
        if task is not None and task not in tasks:
            raise unknown_name("the task", task, tasks)

    def flat(self) -> Settings:
        """Every key with its plain value, without the groups; components as {kind, options}."""
        found: Settings = {}
        for group in GROUPS:
            part: _Spec = getattr(self, group)
            found.update(
                {k: _plain(getattr(part, k)) for k in type(part).model_fields if k != "rows"}
            )
        return found

    def nested(self) -> Settings:
        """The same in their groups, without keys at None, as a configuration file holds them."""
        values = self.flat()
        return {
            group: {key: values[key] for key in kind.model_fields if values.get(key) is not None}
            for group, kind in GROUPS.items()
        }


def _plain(value: Any) -> Any:
    return value.to_config() if isinstance(value, Component) else value


def make_spec(values: Mapping[str, Any]) -> AuditSpec:
    """A spec from plain values, flat or in groups.

    Args:
        values: Keys of the four groups, or keys by themselves.

    Returns:
        The spec.

    Raises:
        UsageError: With a sentence for whatever is wrong with the values.
    """
    flat = {key: _with_kind(key, value) for key, value in flat_keys(values).items()}
    parts: Settings = {group: {} for group in GROUPS}
    for key, value in flat.items():
        if key not in KEYS:
            raise _unknown_key(key)
        parts[KEYS[key]][key] = value
    try:
        return AuditSpec(**parts)
    except ValidationError as error:
        raise UsageError(" ".join(_sentence(problem) for problem in error.errors())) from None


def flat_keys(values: Mapping[str, Any], source: str = "the configuration") -> Settings:
    """One flat mapping: groups opened, and dotted options put into their components.

    Args:
        values: Keys as a file, `--set` or a caller writes them.
        source: Where they come from, for error messages.

    Returns:
        Values by flat key; components as {kind, option: value}, without kind where none is given.

    Raises:
        UsageError: If a key or an option is given twice.
    """
    found: Settings = {}
    for key, value in values.items():
        if key in GROUPS and isinstance(value, Mapping):
            for inner, one in value.items():
                _put(found, _inner(key, str(inner)), one, source)
        else:
            _put(found, ALIASES.get(str(key), str(key)), value, source)
    return found


def _inner(group: str, key: str) -> str:
    """A key of a group; one that is no key of it is named with its group in the error."""
    plain = key.partition(".")[0]
    if plain not in GROUPS[group].model_fields:
        raise _unknown_key(plain, group)
    return key


def _put(found: Settings, key: str, value: Any, source: str) -> None:
    name, dot, option = key.partition(".")
    if name in COMPONENTS and (dot or not isinstance(value, Component)):
        given = {option: value} if dot else _component(name, value)
        twice = sorted(set(given or ()) & set(found.get(name) or ()))
        if twice or (given is None and name in found):
            what = f"{name}.{twice[0]}" if twice and twice[0] != "kind" else name
            raise UsageError(f"{source} gives {what} twice; leave it out once.")
        found[name] = None if given is None else {**(found.get(name) or {}), **given}
        return
    if key in found:
        raise UsageError(f"{source} gives {key} twice; leave it out once.")
    found[key] = value


def _component(name: str, value: Any) -> Settings | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {str(key): one for key, one in value.items()}
    if not isinstance(value, str):
        raise UsageError(
            f"{name} is {value!r}; it must be a name or {{kind: NAME, option: value}}."
        )
    return {"kind": value}


def merge_keys(base: Mapping[str, Any], over: Mapping[str, Any]) -> Settings:
    """Flat keys of `base`, overridden by those of `over`.

    Options of a component are merged, unless `over` names another kind.

    Args:
        base: Flat keys, as `flat_keys` returns them.
        over: Flat keys that win.

    Returns:
        Flat keys.
    """
    found = dict(base)
    for key, value in over.items():
        old = found.get(key)
        if key in COMPONENTS and isinstance(value, Mapping) and isinstance(old, Mapping):
            same = value.get("kind", old.get("kind")) == old.get("kind")
            value = {**old, **value} if same else dict(value)
        found[key] = value
    return found


def _with_kind(key: str, value: Any) -> Any:
    """Options without a kind are those of the default."""
    if key in COMPONENTS and isinstance(value, Mapping) and "kind" not in value:
        default = GROUPS[KEYS[key]].model_fields[key].default
        if default is None:
            raise UsageError(
                f"{key} has options and no kind; name it, such as {key}: {{kind: NAME}}."
            )
        return {"kind": default.kind, **value}
    return value


def _unknown_key(key: str, group: str = "") -> UsageError:
    known = GROUPS[group].model_fields if group else KEYS
    near = difflib.get_close_matches(key, known, n=1)
    where = f" in {group}" if group else ""
    return UsageError(
        f"the configuration key {key!r} is not known{where}."
        + (f" Did you mean {near[0]!r}?" if near else f" Known keys: {', '.join(known)}.")
    )


def _sentence(problem: Any) -> str:
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    key = str(problem["loc"][1] if len(problem["loc"]) > 1 else problem["loc"][0])
    must = str(problem["msg"]).removeprefix("Input should be ")
    return f"{key} is {problem['input']!r}; it must be {must}."


def load_spec(path: str | None, overrides: Mapping[str, Any]) -> AuditSpec:
    """The file's values, overridden by those given.

    Args:
        path: A YAML file, or None.
        overrides: Flat keys that win over the file.

    Returns:
        The spec.

    Raises:
        UsageError: With a sentence for whatever is wrong with file or values.
    """
    base = flat_keys(read_config(Path(path)), f"the file {path}") if path else {}
    return make_spec(merge_keys(base, flat_keys(overrides, "the command line")))
