"""Upgrade records of earlier schema versions. The only module that knows their keys."""

from __future__ import annotations

Json = dict[str, object]
STATISTICS = {"hottest": "top_attributed"}  # names of means over a data set in version 1


def upgraded(record: object) -> object:
    """Upgrade an influence record of any version to the keys of version 2."""
    if not isinstance(record, dict) or record.get("schema_version") != 1:
        return record
    found: Json = dict(record)
    found["schema_version"] = 2
    found["notes"] = found.pop("promise", ())
    found["attributions"] = [_attribution(one) for one in _items(found.get("attributions"))]
    found["expected"] = [
        {**one, "of": STATISTICS.get(str(one.get("of")), one.get("of"))}
        for one in _items(found.get("expected"))
    ]
    return found


def _attribution(one: Json) -> Json:
    return {**one, "readings": [_reading(reading) for reading in _items(one.get("readings"))]}


def _reading(one: Json) -> Json:
    found = dict(one)
    if "floor" in found:
        found["tolerance"] = found.pop("floor")
    return found


def _items(values: object) -> list[Json]:
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []
