"""The commented configuration that leakbound init writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.spec.groups import Design

COMMENTS = {
    "mechanism": "how answers are made from the context (leakbound list mechanisms)",
    "address": "the application that is audited",
    "model": "the model that is asked (leakbound list models)",
    "query": "what the attacker asks (leakbound list queries)",
    "channels": "parts of a reply, tested separately and together (docs/agents.md)",
    "data": "private rows",
    "labels": "public labels, taken from the rows: check that they are public",
    "pairs": "paired trials; more of them certify more",
    "shots": "examples in a context",
    "epsilon": "YOUR CLAIM: what you say that one answer leaks at most",
    "delta": "of the claim",
    "base_url": "the server of the model; it gets prompts with private rows",
    "key_env": "environment variable that holds its key",
    "insecure": "prompts and key may go over plain http to another machine",
}
DESIGN = [
    "data", "encoding", "input_field", "input_template", "label_field", "drop_empty", "task",
    "labels", "pairs", "shots",
]  # fmt: skip
TODO = "YOUR SYSTEM: python:app.py:answer, http:FILE.yaml, or `model: openai/NAME` in its place"
GUESSED = "GUESSED ({}): change it if it is wrong"


def config_text(
    prepared: Prepared, kind: str | None, guessed: Mapping[str, str], endpoint: Mapping[str, Any]
) -> str:
    """The configuration, with a comment behind each key that a reader may want to change."""
    todo = {"address": TODO} if kind == "todo" else {}
    comments = COMMENTS | todo | {key: GUESSED.format(why) for key, why in guessed.items()}
    lines = [
        "# Written by `leakbound init`. Run it with: leakbound audit --config THIS_FILE",
        "# All keys: leakbound audit --help-all, docs/audit.md",
    ]
    for group, keys in kept_settings(prepared, kind, endpoint).items():
        lines.append(f"{group}:")
        for key, value in keys.items():
            text = yaml.safe_dump({key: value}, default_flow_style=True).strip()[1:-1]
            comment = f"  # {comments[key]}" if key in comments else ""
            unstated = key == "epsilon" and prepared.spec.claim_source == "default"
            lines.append(f"  {'# ' * unstated}{text}{comment}")
    return "\n".join(lines) + "\n"


def kept_settings(
    prepared: Prepared, kind: str | None, endpoint: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """The keys that a first audit is about."""
    nested = prepared.spec.nested()
    if kind == "todo":
        nested["system"]["address"] = "TODO"
    asks = ["mechanism", "model"] if kind is None else ["address"]
    wanted = {
        "system": asks,
        "attack": [
            "query",
            *(["canary"] if kind in ("labels", "text", "words") else []),
            "channels",
        ],
        "design": DESIGN,
        "decision": ["epsilon", "delta"],
    }
    if nested["design"]["shots"] == Design.model_fields["shots"].default:
        del nested["design"]["shots"]
    if prepared.task.labels and not nested["design"].get("labels"):
        nested["design"]["labels"] = list(prepared.task.labels)
    groups = {
        group: {
            key: nested[group][key]
            for key in keys
            if nested[group].get(key) is not None and nested[group][key] is not False
        }
        for group, keys in wanted.items()
    }
    return groups | ({"endpoint": dict(endpoint)} if endpoint else {})
