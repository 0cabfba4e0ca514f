"""Which channels of an agent leak: one leak planted in each, found by channel or by the answer.

    python bench/agent_channels.py [--seeds 3] [--pairs 80] [--leak logs] [--write PAGE]

The agent is that of examples/agent_system.py, which leaks a document in one place with probability
0.8 (for the seconds: its cache is hit). Each row is audited at claim 1 and 95 % confidence with all
eight channels, and with the answer alone. Rejected at: the pair at which the e-value of all
channels together reaches 20. Model calls: two for each pair up to there; those of the controls come
on top, and the state check, which would ask again, is left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import leakbound
from leakbound.auditing import AuditResult

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from agent_system import LEAKS, AgentSystem  # a file beside this folder

BEGIN, END = "<!-- bench/agent_channels.py -->", "<!-- end -->"
HEAD = (
    "leak in", "accused", "channels named", "rejected at pair", "model calls", "by the answer alone"
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """The audits of one leak, one for each seed."""

    leak: str
    every: tuple[AuditResult, ...]
    answer: tuple[AuditResult, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """Under HEAD."""
        paths = [one.e_values for one in self.every]
        at = [path.rejected_at for path in paths if path and path.rejected_at]
        named = {
            channel.name
            for one in self.every
            for channel in one.channels
            if channel.verdict == "violation"
        }
        calls = [2 * pair for pair in at]
        return (
            self.leak, _accused(self.every), ", ".join(sorted(named)) or "none", _spread(at),
            _spread(calls), _accused(self.answer),
        )  # fmt: skip


def audited(
    leak: str, seed: int, pairs: int, channels: tuple[str, ...], real_time: bool
) -> AuditResult:
    """One audit."""
    system = AgentSystem(leak=leak, seed=seed, real_time=real_time)
    with tempfile.TemporaryDirectory() as out:
        return leakbound.audit(
            system=system, query="recall", canary="coded", channels=channels, pairs=pairs,
            seed=seed, state_check=0.0, simulations=0, batch_pairs=pairs, out=out,
        )  # fmt: skip


def rows(seeds: range, pairs: int, only: str | None) -> Iterator[Row]:
    """A row for each leak, one without a leak, and one for a cache in real time."""
    scenes = [*((leak, False) for leak in LEAKS), ("none", False), ("seconds", True)]
    for leak, real_time in (one for one in scenes if only in (None, one[0])):
        every = [audited(leak, seed, pairs, tuple(LEAKS), real_time) for seed in seeds]
        answer = [audited(leak, seed, pairs, ("answer",), real_time) for seed in seeds]
        name = f"{leak} (cache), real time" if real_time else leak
        name = f"{leak} (cache)" if name == "seconds" else name
        yield Row(name, tuple(every), tuple(answer))


def _accused(results: Iterable[AuditResult]) -> str:
    found = [one.verdict == "violation" for one in results]
    return f"{sum(found)} of {len(found)}"


def _spread(values: list[int]) -> str:
    return f"{median(values):g} ({min(values)}–{max(values)})" if values else "–"


def main() -> None:
    """Run all rows, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=80)
    parser.add_argument("--leak", help="only the rows of this leak")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    lines = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
    print(*lines, sep="\n", flush=True)
    for row in rows(range(1, given.seeds + 1), given.pairs, given.leak):
        lines.append(f"| {' | '.join(row.cells)} |")
        print(lines[-1], flush=True)
    if given.write is not None:
        text = given.write.read_text(encoding="utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        table = "\n".join(lines)
        given.write.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
