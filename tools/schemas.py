"""Write the JSON Schema of each kind of record into the packages: python tools/schemas.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import leakbound_lab
from leakbound_lab.studies.record import StudyRecord

import leakbound
from leakbound.attribution import InfluenceRecord
from leakbound.auditing import AuditResult
from leakbound.sweeping import SweepRecord

CORE = Path(leakbound.__file__).parent
SHIPPED: dict[Path, Any] = {
    CORE / "auditing" / "record-2.schema.json": AuditResult,
    CORE / "attribution" / "record-2.schema.json": InfluenceRecord,
    CORE / "sweeping" / "record-2.schema.json": SweepRecord,
    Path(leakbound_lab.__file__).parent / "studies" / "study-1.schema.json": StudyRecord,
}


def schema_text(model: Any) -> str:
    return json.dumps(model.model_json_schema(mode="serialization"), indent=2) + "\n"


if __name__ == "__main__":
    for file, model in SHIPPED.items():
        file.write_text(schema_text(model))
