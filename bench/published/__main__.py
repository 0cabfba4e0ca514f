"""Audit packages of the index as installed: `make published`.

`python bench/published RESULTS.json PAGE.md` measures and writes both; with `--page` it makes the
page of the results that are there, without the packages.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from page import page

TARGETS = ("dp_fusion_lib", "invink", "privfill", "diffpriv_pure", "libraries")


def measured() -> dict[str, Any]:
    """Every finding and every audit."""
    findings = []
    for name in TARGETS:
        for find in import_module(f"target_{name}").FINDINGS:
            findings.append(find().record())
            print(json.dumps(findings[-1], ensure_ascii=False), flush=True)
    audits = import_module("whole_audits")
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "findings": findings,
        "audits": [one.record() for one in audits.of_packages()],
        "references": [one.record() for one in audits.references()],
    }


def main(arguments: list[str]) -> None:
    results, target = (Path(name) for name in arguments if name != "--page")
    if "--page" not in arguments:
        text = json.dumps(measured(), ensure_ascii=False, indent=1) + "\n"
        results.write_text(text, encoding="utf-8")
    target.write_text(page(json.loads(results.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
