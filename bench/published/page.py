"""docs/measured/published.md, from the results of `make published`.

Needs no package that is audited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Rows = Sequence[Mapping[str, Any]]

INTRO = """# Packages on the index

Written by `make published`: packages for private inference, and libraries for noise and accounting
that such packages use, as they install from the index, unmodified, on Python {python}. Each row
holds one statement of a package against what leakbound computes for a constructed input. It is
about this version and this input, and about nothing else that the package does.

!!! note "Authors first"
    Where the computed ε is the larger one, the authors of the package are to be informed, with the
    input and the command, before this page is announced anywhere. Corrections are welcome.

- **Stated ε**: what the package computes or is given. **Computed ε**: the exact privacy loss of the
  two output distributions, or the exact ε of a composition, at the same δ. A bold number exceeds
  the stated one by more than rounding.
- The distributions are those that the package draws from: the probabilities that it hands to a
  sampler, or the result of its own functions. Inputs are chosen to show the difference, so most are
  rare. An exact loss needs [internal access](../threat-models.md): it is no attack. That of an
  *encoder output* is of what a package adds noise to; the text that it makes of it may show less.
- **Correct reference**: the same computation for a mechanism that satisfies its statement.
  References that exceed what they guarantee: {accused} of {findings}.

"""
AUDITS = """## Whole audits

Each row is `leakbound.audit` of a system that answers whether any row matches a query, from one
noisy count or vote: 100 paired trials, 40 controls, ε = 1, δ = 1e-5, another seed for each audit.
"Inconclusive" means that the controls did not show the attack at work. At 95 % confidence, an
audit of a system that satisfies its claim may report a violation with up to 5 % of seeds, so a few
reports in a row of many say nothing about a package. `Geometric` and randomized response lie on the
boundary of the claim, where most of them are to be expected. `diffprivlib`, `opendp` and
`python-dp` draw from the operating system, so their counts change a little from run to run.

"""
REFERENCES = """## False findings

The same audits of correct references: {violations} of {audits} report a violation ({rate:.1f} %).
Up to 5 % may.

"""
FOOT = """## Do it again

```text
make published
```

It needs Python 3.12 (`invink` does) and the index, and makes an environment of its own from
`bench/published/requirements.txt`: 6 GB with a GPU build of PyTorch. `make published-page` writes
this page from `bench/results/published.json`, which holds every number. The licence of
`dp-fusion-lib` allows use for no commercial purpose. scikit-learn is held at 1.6 for `diffprivlib`.

Not tried: `dpmlm` and `dpst`, which need data sets or model weights when they are imported or made,
`tmlt-core`, which needs Spark and another numpy, and public code that is no package.
"""


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def head(*names: str) -> str:
    return row(*names) + row(*["---"] * len(names))


def number(value: float | str) -> str:
    """ε, which may be infinite."""
    return "∞" if value == "inf" else short(float(value))


def short(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}".replace("e-0", "e-")


def overview(findings: Rows) -> str:
    """One row for each package."""
    rows = head("package", "version", "statements", "computed ε exceeds the stated one")
    for package in dict.fromkeys(found["package"] for found in findings):
        own = [found for found in findings if found["package"] == package]
        rows += row(f"[`{package}`](#{package})", own[0]["version"], len(own),
                    sum(found["exceeds"] for found in own))  # fmt: skip
    return rows + "\n"


def section(package: str, findings: Rows) -> str:
    """A table of numbers, then what each row is about."""
    table = head("subject", "δ", "stated ε", "computed ε", "by", "correct reference: stated",
                 "computed")  # fmt: skip
    notes = ""
    for found in findings:
        mark = "**" if found["exceeds"] else ""
        table += row(
            found["what"], short(found["delta"]), number(found["claimed"]),
            f"{mark}{number(found['found'])}{mark}", found["how"],
            number(found["reference_claimed"]), number(found["reference_found"]),
        )  # fmt: skip
        holds = found["holds_if"]
        holds = "" if holds.startswith("as tested") else f"*The statement holds if*: {holds}. "
        notes += (
            f"**{found['what']}.** *Stated*: {found['states']} *Input*: {found['contexts']} {holds}"
            f"*Correct reference*: {found['reference']}.\n\n"
        )
    version = findings[0]["version"]
    return f"## {package}\n\nVersion {version}.\n\n{table}\n{notes}"


def audits(rows: Rows) -> str:
    """Verdicts."""
    table = head("what", "version", "audits", "violation", "no violation", "inconclusive",
                 "pairs until rejected (median)")  # fmt: skip
    for one in rows:
        package = f"`{one['package']}`: " if one["package"] else ""
        table += row(
            package + one["name"], one["version"] or "–", one["audits"], one["violation"],
            one["no_violation"], one["inconclusive"], one["rejected_after"] or "–",
        )  # fmt: skip
    return table + "\n"


def page(results: Mapping[str, Any]) -> str:
    """The whole page.

    Args:
        results: As in bench/results/published.json.

    Returns:
        Markdown.
    """
    findings, references = results["findings"], results["references"]
    violations, total = (sum(one[key] for one in references) for key in ("violation", "audits"))
    packages = dict.fromkeys(found["package"] for found in findings)
    accused = sum(found["reference_exceeds"] for found in findings)
    return (
        INTRO.format(python=results["python"], findings=len(findings), accused=accused)
        + overview(findings)
        + "".join(
            section(name, [found for found in findings if found["package"] == name])
            for name in packages
        )
        + AUDITS
        + audits(results["audits"])
        + REFERENCES.format(violations=violations, audits=total, rate=100 * violations / total)
        + audits(references)
        + FOOT
    )
