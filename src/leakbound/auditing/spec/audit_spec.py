"""AuditSpec: everything that decides an audit, in four frozen values.

A file may group its keys by these four or write them flat; each key stands once. Keys of one
component are written `canary: {kind: hex, digits: 8}`, `canary.digits: 8` or
`canary: hex:digits=8`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import yaml
from pydantic import Field, ValidationError, ValidationInfo, field_validator

from leakbound._catalogue import Catalogue, Component, is_told, option_types
from leakbound.auditing.spec.groups import MOST, AttackSpec, Design, FrozenSpec, SystemSpec
from leakbound.auditing.spec.staged import STAGED, Staged
from leakbound.errors import UsageError, reason_of, unknown_name, why_no_file

if TYPE_CHECKING:
    from leakbound.attacks import AuditQuery
    from leakbound.tasks import Mechanism, Query, Task

Settings = dict[str, Any]
SECOND = "expected a single document in the stream"  # as yaml says it
MOST_DIGITS = 40  # of a whole number
MERGE = "tag:yaml.org,2002:merge"  # of the key <<, which puts in the keys of another mapping


class _UniqueKeys(yaml.SafeLoader):
    """A YAML loader that refuses a key that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep) for key, _ in node.value if key.tag != MERGE]
        twice = [key for at, key in enumerate(keys) if key in keys[:at]]
        if twice:
            line = node.start_mark.line + 1
            raise UsageError(
                f"the configuration gives {twice[0]!r} twice (in the part that begins on line "
                f"{line}); give it once."
            )
        return super().construct_mapping(node, deep)


def _whole_number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    """Refuses 1:30, which YAML reads as 90, and numbers that no setting needs."""
    text = loader.construct_scalar(node)
    if ":" in text or len(text) > MOST_DIGITS:
        shown = text if len(text) <= MOST_DIGITS else f"{text[:MOST_DIGITS]}..."
        raise UsageError(f"a value is {shown}; it must be one number, or a text in quotes.")
    return loader.construct_yaml_int(node)


_UniqueKeys.add_constructor("tag:yaml.org,2002:int", _whole_number)


def yaml_value(text: str) -> Any:
    """The value that a text stands for, as in a configuration file."""
    try:
        return _UniqueKeys(text).get_single_data()
    except RecursionError:
        raise UsageError("a value is nested too deeply; write it with fewer brackets.") from None


def load_config(path: Path) -> Settings:
    """The keys and values of a YAML file, unchecked."""
    return {key: value for key, value in _load_mapping(path).items() if key != "endpoint"}


def load_endpoint(path: Path) -> Settings:
    """What a YAML file says under `endpoint`, unchecked."""
    found = _load_mapping(path).get("endpoint", {})
    if not isinstance(found, dict):
        raise UsageError(
            f"endpoint in the configuration file {str(path)!r} must hold keys and values, such as "
            "'base_url: http://127.0.0.1:8000/v1'."
        )
    return found


def _problem(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error).splitlines()[0]
    what = "a second document begins there" if error.context == SECOND else error.problem
    return f"line {error.problem_mark.line + 1}: {what}"


def _load_mapping(path: Path) -> Settings:
    if not path.is_file():
        why = "is a folder; name a file" if path.is_dir() else why_no_file(path)
        raise UsageError(f"the configuration file {str(path)!r} {why}.")
    try:
        values = yaml_value(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UsageError(
            f"the configuration file {str(path)!r} is not YAML: {_problem(error)}."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the configuration file {str(path)!r} cannot be read ({reason_of(error)}); save it as "
            "UTF-8 text."
        ) from None
    if not isinstance(values, dict):
        raise UsageError(
            f"the configuration file {str(path)!r} must hold keys and values, such as 'epsilon: 1'."
        )
    return values


LIKELY = 0.8  # a confidence that somebody may have meant


class Decision(FrozenSpec):
    """What decides: the claim, and how it is tested."""

    epsilon: float = Field(
        default=1.0,
        gt=0,
        description="epsilon of one answer: the claim, a limit on its leak; sets the noise too",
    )
    delta: float = Field(default=1e-5, ge=0, lt=1, description="delta of that epsilon")
    confidence: float = Field(default=0.95, ge=0.5, lt=1, description="confidence: of every bound")
    claim: Literal["random-guessing"] | None = Field(
        default=None,
        description="claim by its name, in place of epsilon and delta; random-guessing: epsilon "
        "0 at delta 0, tested on both sides",
    )
    claim_for: Literal["answer", "run"] = Field(
        default="answer",
        description="what epsilon and delta are claimed for: each answer, so that the claim is "
        "composed over the answers of a one_run design, or its whole run",
    )
    estimator: Component = Field(
        default=Component(kind="e_process"), description="bound that the verdict rests on"
    )
    threshold: str | float | None = Field(
        default=None,
        description="threshold of the score: a number, split, split:0.3, bonferroni or best; in a "
        "one_run design a number, rank or rank:0.5; none: the score's own rule",
    )
    stop_when_rejected: bool = Field(
        default=False, description="stop collecting once the e-process has rejected the claim"
    )
    simulations: int = Field(
        default=400_000,
        ge=0,
        le=MOST,
        description="simulated outputs, for the curves and for what the e-process learns about the "
        "scale of the noise",
    )
    assume_hit: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="for the power: probability that the model notices a canary in its context",
    )
    assume_false_alarm: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="for the power: probability that it reports a canary that is not there",
    )

    @property
    def each(self) -> tuple[float, float]:
        """(epsilon, delta) that are claimed for one answer."""
        return (self.epsilon, self.delta) if self.claim is None else (0.0, 0.0)

    @field_validator("assume_hit", "assume_false_alarm", mode="before")
    @classmethod
    def _probability(cls, value: object, info: ValidationInfo) -> object:
        """A number from 0 to 1: no boolean, and no NaN."""
        if isinstance(value, bool | str) or (
            isinstance(value, int | float) and not 0 <= value <= 1
        ):
            raise ValueError(
                f"{info.field_name} is {value!r}; it must be a probability from 0 to 1."
            )
        return value

    @field_validator("confidence", mode="before")
    @classmethod
    def _confidence(cls, value: object) -> object:
        """A percentage is not a probability, and an error probability no confidence."""
        if not isinstance(value, int | float) or 0.5 <= value <= 1 or not 0 < value < 100:
            return value
        meant = value / 100 if value >= 50 else 1 - value / (100 if value > 1 else 1)
        hint = f" Did you mean {meant:g}?" if meant >= LIKELY else ""
        raise ValueError(f"confidence is {value!r}; it must be at least 0.5 and below 1.{hint}")


class _StagedDecision(Decision):  # the claim is 0, unless a budget is stated
    epsilon: float = Field(default=0.0, ge=0)
    delta: float = Field(default=0.0, ge=0, lt=1)


# flat keys of values that have the name of a group: nested, `system` and `design` are the groups
ALIASES = {"system": "address", "design": "layout"}
MOST_KEYS = 20  # of a longer list, an error says where to find it
NAMES = {key: f"{alias} (the key {key})" for alias, key in ALIASES.items()}
STORES = frozenset({"session", "one_run", *STAGED})  # layouts with one store
# what such a layout asks by default: a store answers from what it finds, so a canary looks like the
# other records and leads to itself, and is one record more
OF_STORES = {"query": {"kind": "recall"}, "canary": {"kind": "coded"}, "insertion": "add"}
GROUPS: dict[str, type[FrozenSpec]] = {
    "system": SystemSpec, "attack": AttackSpec, "design": Design, "decision": Decision,
}  # fmt: skip
COMPONENTS = ("mechanism", "query", "canary", "score", "estimator")


def catalogues() -> dict[str, Catalogue[Any]]:
    """The catalogue of each component. Help, which only names their keys, imports no class."""
    from leakbound.attacks import CANARIES, QUERIES, SCORES
    from leakbound.estimators import ESTIMATORS
    from leakbound.mechanisms import MECHANISMS

    return dict(zip(COMPONENTS, (MECHANISMS, QUERIES, CANARIES, SCORES, ESTIMATORS), strict=True))


KEYS: dict[str, str] = {key: group for group, kind in GROUPS.items() for key in kind.model_fields}


class AuditSpec(FrozenSpec):
    """The parameters of an audit. Unknown keys are errors; names are those of the catalogues."""

    system: SystemSpec = SystemSpec()
    attack: AttackSpec = AttackSpec()
    design: Design = Design()
    decision: Decision = Decision()

    def model_post_init(self, context: Any, /) -> None:
        """Refuse names that stand in no catalogue, unless an object was handed over."""
        from leakbound.estimators import threshold_rule  # here and below: not for help
        from leakbound.stats import Fixed
        from leakbound.stats.counts.one_run import Ranked
        from leakbound.tasks.named_tasks import task_by_name, tasks_by_name
        from leakbound.tasks.rows.datasets import TASKS

        if self.design.layout != "one_run" or Ranked.named(self.decision.threshold) is None:
            threshold_rule(self.decision.threshold, Fixed())
        if self.attack.channels and self.design.layout == "one_run":
            raise UsageError(
                "channels are tested on paired trials, and a one_run design has none; use --design "
                "paired or session, or leave --channels out."
            )
        if (staged := STAGED.get(self.design.layout)) is not None:
            self._require_staged(staged)
        elif self.design.clients > 1:
            raise UsageError(
                f"clients is {self.design.clients}, and a {self.design.layout} design has one; "
                "leave it out, or add --between tenants."
            )
        for key, catalogue in catalogues().items():
            named: Component | None = getattr(getattr(self, KEYS[key]), key)
            if named is not None and named.python is None and named.kind not in catalogue:
                raise unknown_name(catalogue.what, named.kind, catalogue)
        task, own = self.design.task, (*TASKS, "help_desk", "pseudo_names")
        if task is not None and task not in own and task_by_name(task) is None:
            raise unknown_name("the task", task, (*own, *tasks_by_name()))

    def _require_staged(self, staged: Staged) -> None:
        found = {"insertion": self.attack.insertion, **self.design.model_dump()}
        for key, (allowed, why) in staged.keys.items():
            if found[key] not in allowed:
                raise UsageError(
                    f"{key} is {found[key]}, and in a {self.design.layout} design {why}; leave it "
                    "out."
                )

    @property
    def claim_source(self) -> Literal["stated", "default"]:
        """Whether somebody stated the claim."""
        decision = self.decision
        stated = decision.claim is not None or "epsilon" in decision.model_fields_set
        return "stated" if stated else "default"

    def flat(self) -> Settings:
        """Every key with its plain value, without the groups; components as {kind, options}."""
        found: Settings = {}
        for group in GROUPS:
            part: FrozenSpec = getattr(self, group)
            found.update(
                {k: _plain(getattr(part, k)) for k in type(part).model_fields if k != "rows"}
            )
        if self.decision.claim is not None:  # it takes the place of epsilon and delta
            found |= dict.fromkeys({"epsilon", "delta"} - self.decision.model_fields_set)
        return found

    def nested(self) -> Settings:
        """The same in their groups, without keys at None and empty ones, as in a file."""
        values = {key: value for key, value in self.flat().items() if value not in (None, {})}
        return {
            group: {key: values[key] for key in kind.model_fields if key in values}
            for group, kind in GROUPS.items()
        }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value.to_config() if isinstance(value, Component) else value


def make_spec(
    values: Mapping[str, Any],
    query: AuditQuery | None = None,  # that is handed over, and names its usual canary
) -> AuditSpec:
    """A spec from plain values: keys of the four groups, or keys by themselves.

    Raises:
        UsageError: With a sentence for whatever is wrong with the values.
    """
    given = flat_keys(values)
    given = merge_keys(_usual(given, query), given)
    if given.get("claim") is not None:  # as `flat` writes them
        given = {k: v for k, v in given.items() if v is not None or k not in ("epsilon", "delta")}
    flat = {key: _with_kind(key, value) for key, value in given.items()}
    parts: Settings = {group: {} for group in GROUPS}
    for key, value in flat.items():
        if key not in KEYS:
            raise _unknown_key(key)
        parts[KEYS[key]][key] = value
    try:
        if str(parts["design"].get("layout")) in STAGED:
            parts["decision"] = _StagedDecision(**parts["decision"])
        return AuditSpec(**parts)
    except ValidationError as error:
        raise UsageError(_sentences(error.errors())) from None


def _usual(given: Settings, handed: AuditQuery | None) -> Settings:
    """The attack that fits the layout, and the canary that fits a query about documents."""
    from leakbound.attacks import QUERIES, AuditQuery

    layout = given.get("layout")
    found: Settings = dict(OF_STORES) if isinstance(layout, str) and layout in STORES else {}
    if isinstance(layout, str) and layout in STAGED:
        found |= {key: allowed[0] for key, (allowed, _) in STAGED[layout].keys.items()}
    query = given.get("query")
    told = query.to_config() if isinstance(query, Component) else dict(query or {})
    known = "python" not in told and told.get("kind") in QUERIES
    named = QUERIES[str(told["kind"])] if known else AuditQuery
    canary = (named if handed is None else handed).canary
    return found | {"canary": {"kind": canary}} if canary else found


def flat_keys(values: Mapping[str, Any], source: str = "the configuration") -> Settings:
    """One flat mapping: groups opened, and dotted options put into their components."""
    found: Settings = {}
    for key, value in values.items():
        if key in GROUPS and isinstance(value, Mapping):
            for inner, one in value.items():
                _enter(found, _inner(key, str(inner)), one, source)
        else:
            _enter(found, ALIASES.get(str(key), str(key)), value, source)
    return found


def _inner(group: str, key: str) -> str:
    """A key of a group; one that is not a key of it is named with its group in the error."""
    plain = key.partition(".")[0]
    if plain not in GROUPS[group].model_fields:
        raise _unknown_key(plain, group)
    return key


def _enter(found: Settings, key: str, value: Any, source: str) -> None:
    name, dot, option = key.partition(".")
    if name in COMPONENTS and (dot or not isinstance(value, Component)):
        given = {option: value} if dot else _component(name, value)
        twice = sorted(set(given or ()) & set(found.get(name) or ()))
        if twice or (given is None and name in found):
            what = f"{name}.{twice[0]}" if twice and twice[0] != "kind" else name
            raise UsageError(f"{source} gives {what} twice; give it once.")
        found[name] = None if given is None else {**(found.get(name) or {}), **given}
        return
    if key in found:
        raise UsageError(f"{source} gives {key} twice; give it once.")
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
    return _parse(name, value)


def _parse(name: str, text: str) -> Settings:
    """`NAME:option=value,option=value`; what is no text in the class is read as in a file."""
    kind, colon, rest = text.partition(":")
    options = [one.partition("=") for one in re.split(r",(?=\w+=)", rest)] if colon else []
    known = catalogues()[name]
    types = option_types(known[kind]) if kind in known else {}
    texts = {key for key, one in types.items() if str in (one, *get_args(one))}
    texts -= {key for key, one in types.items() if get_origin(one) is tuple}
    try:
        found = {key: value if key in texts else yaml_value(value) for key, _, value in options}
    except yaml.YAMLError:
        found = {}
    if len(found) < len(options) or not all(equals for _, equals, _ in options):
        raise UsageError(
            f"{name} is {text!r}; it must be NAME:option=value,option=value, such as hex:digits=8, "
            "each option once and its value as in YAML."
        )
    return {"kind": kind, **found}


def merge_keys(base: Mapping[str, Any], over: Mapping[str, Any]) -> Settings:
    """Flat keys of `base` under those of `over`; options of a component of one kind are merged."""
    found = dict(base)
    for key, value in over.items():
        old = found.get(key)
        if key in COMPONENTS and isinstance(value, Mapping) and isinstance(old, Mapping):
            same = "kind" not in old or value.get("kind", old["kind"]) == old["kind"]
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
    if key == "grid":
        return UsageError("a grid belongs to a sweep; run leakbound sweep, or leave grid out.")
    outer, dot, inner = key.partition(".")
    plain = inner if dot and outer in GROUPS else key
    near = difflib.get_close_matches(plain, known, n=1)
    where = f" in {group}" if group else ""
    hint = "`leakbound audit --help-all` shows all keys, as options."
    if near:
        hint = f"Did you mean {near[0]!r}?"
    elif len(known) <= MOST_KEYS:
        hint = f"Known keys: {', '.join(known)}."
    return UsageError(f"the configuration key {key!r} is not known{where}. {hint}")


def _sentences(problems: Sequence[Any]) -> str:
    """One sentence for each key, whose value may fail each type of a union."""
    own = [str(one["ctx"]["error"]) for one in problems if one["type"] == "value_error"]
    others = [one for one in problems if one["type"] != "value_error"]
    must: dict[str, list[str]] = {}
    for one in others:
        must.setdefault(_start(one), []).append(_must(one))
    return " ".join(own + [f"{start} it must be {' or '.join(m)}." for start, m in must.items()])


MOST_SHOWN = 60  # characters of a value


def _start(problem: Any) -> str:
    """The key as its option calls it, and its value; dates of YAML as they were written."""
    where = [str(part) for part in problem["loc"][:3]]
    key = where[1] if len(where) > 1 else where[0]
    key += ".kind" if where[2:] == ["kind"] else ""
    value, name = problem["input"], NAMES.get(key, key)
    shown = str(value) if isinstance(value, date) else repr(value)
    shown = shown if len(shown) <= MOST_SHOWN else type(value).__name__  # it may hold rows
    return f"{name} is {'empty' if value is None else shown};"


def _must(problem: Any) -> str:
    must = str(problem["msg"]).removeprefix("Input should be ").partition(", unable to")[0]
    must = must.partition(", got ")[0]
    must = must.replace("a valid ", "a ").replace("a integer", "a whole number")
    return must.replace("a dictionary or instance of Component", "a name or {kind: NAME, ...}")


POST_HOC = frozenset(
    {
        "answers", "claim", "epsilon", "delta", "confidence", "estimator", "threshold", "score",
        "access", "detect_change", "simulations", "stop_when_rejected", "pairs", "assume_hit",
        "assume_false_alarm",
    }
)  # change no request to the model, and nothing of what is stored  # fmt: skip
ANY = (1.0, 1e-5)  # a claim that stands for all: what is collected does not depend on it
CLAIM = frozenset({"epsilon", "delta"})


def collection_settings(
    settings: Settings, mechanism: Mechanism, task: Task, query: Query
) -> Settings:
    """The keys that change what is collected."""
    from leakbound.tasks.facts import draws_early

    early = draws_early(mechanism, task, query)
    free = POST_HOC - CLAIM if early else POST_HOC
    found = {key: value for key, value in settings.items() if key not in free}
    told = (mechanism if early else mechanism.recalibrated(*ANY)).to_config()
    if mechanism.application is None and not is_told(mechanism):  # the options say more
        told = {"told": told, "options": found["mechanism"]}
    return found | {"mechanism": told}
