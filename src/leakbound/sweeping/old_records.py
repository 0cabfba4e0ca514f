"""Sweeps of schema version 1, which the package wrote under its former name, read as version 2."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

Values = dict[str, JsonValue]

KEYS = {
    "attack": "query", "query_text": "query.text", "query_labelled": "query.labelled",
    "canary_text": "canary.text", "canary_image": "canary.image", "canary_label": "canary.label",
    "digits": "canary.digits", "partitions": "mechanism.partitions", "level": "mechanism.level",
    "calibration": "mechanism.calibration", "stop_when_refuted": "stop_when_rejected",
    "system": "address",
}  # fmt: skip  # of settings
NAMES = {
    "inquiry": "membership", "said_member": "predicted_member", "consistent": "no_violation",
}  # fmt: skip  # of queries, scores and verdicts
OPTIONS_OF = {
    "mechanism.level": ("mechanism", ("prompt_defense",)),
    "canary.digits": ("canary", ("hex",)),
    "mechanism.partitions": (
        "mechanism", ("report_noisy_max", "embedding_mean", "keyword_mean", "synthetic_shots"),
    ),
    "mechanism.calibration": (
        "mechanism", ("report_noisy_max", "embedding_mean", "keyword_mean", "synthetic_shots"),
    ),
}  # fmt: skip  # version 1 noted every option with every component
POINT = {"reasons": "sentences", "mu": "mu_bound", "exact": "exact_epsilon"}
UTILITY = {
    "floor": "zero_shot", "ceiling": "non_private", "calls": "model_calls",
    "held_out": "references", "reference_calls": "reference_model_calls", "missing": "note",
}  # fmt: skip


def upgraded(found: JsonValue) -> JsonValue:
    """A sweep as version 2 holds it."""
    if not isinstance(found, dict) or found.get("schema_version") != 1:
        return found
    return {
        "schema_version": 2,
        "base": _base(_object(found["base"])),
        "grid": _settings(_object(found["grid"])),
        "repeats": found["repeats"],
        "points": [_point(_object(one)) for one in _list(found["points"])],
        "missing": [_missing(_object(one)) for one in _list(found["unmade"])],
        "provenance": found["provenance"],
    }


def _object(value: JsonValue) -> Values:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not an object")
    return value


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list")
    return value


def _renamed(values: Values, names: Mapping[str, str]) -> Values:
    return {names.get(key, key): value for key, value in values.items()}


def _named(value: JsonValue) -> JsonValue:
    """A value with the present names in it, alone or in a list."""
    if isinstance(value, list):
        return [_named(one) for one in value]
    return NAMES.get(value, value) if isinstance(value, str) else value


def _settings(old: Values) -> Values:
    """Flat keys; an option stands with its component."""
    found: Values = {}
    for key, value in old.items():
        name = KEYS.get(key, key).replace("option.", "mechanism.")
        found[name] = _named(value) if name in ("query", "score") else value
    return found


def _base(old: Values) -> Values:
    """Settings without options of components that have no such option."""
    options = _object(old.get("options", {}))
    flat = _settings({key: value for key, value in old.items() if key != "options"})
    kept = {key: value for key, value in flat.items() if value != "" and _fits(key, flat)}
    return {**kept, **{f"mechanism.{key}": value for key, value in options.items()}}


def _fits(key: str, flat: Values) -> bool:
    if key == "query.labelled":
        return flat.get("query") == "given"
    component, kinds = OPTIONS_OF.get(key, ("", ()))
    return not component or component not in flat or flat[component] in kinds


def _point(old: Values) -> Values:
    found = {**_renamed(old, POINT), "verdict": _named(old["verdict"])}
    attack = _object(old["attack"])
    found["attack"] = {key: _named(value) for key, value in attack.items()}
    found["changes"] = _settings(_object(old["changes"]))
    found["reason"] = "too_few_trials" if old["verdict"] == "inconclusive" else None
    if old.get("utility") is not None:
        found["utility"] = _renamed(_object(old["utility"]), UTILITY)
    return found


def _missing(old: Values) -> Values:
    cause = str(old["why"]).replace(" ", "_")
    changes = _settings(_object(old["changes"]))
    return {"changes": changes, "seed": old["seed"], "cause": cause, "reason": old["reason"]}
