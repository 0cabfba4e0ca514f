"""Configuration files: YAML mappings in which each key stands once."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from leakbound.errors import UsageError, reason_of, why_no_file

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
