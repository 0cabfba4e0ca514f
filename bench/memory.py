"""Memory and time a batch of an audit, by the number of its pairs: both should stay as they are.

A trivial Python system, so that nothing but the audit itself is measured; each size in a process of
its own. Resident memory is the
most that the process ever held (ru_maxrss), to the finished record; seconds are those of the whole
run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile

ONE = """
import json, resource, sys, time, zlib
from pathlib import Path
import leakbound
pairs, options, out = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
begin = time.perf_counter()
canary = lambda query: query.split('"')[1]
found = lambda context, query: any(canary(query) == e.input for e in context)
heard = lambda query: zlib.crc32(query.encode()) % 8
system = lambda context, query: "yes" if found(context, query) and heard(query) else "no"
options = {"epsilon": 4, "pairs": pairs, "batch_pairs": 100, **options}
record = leakbound.audit(system=system, out=out, **options)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([record.counts["pairs"], peak, time.perf_counter() - begin, record.verdict]))
"""


def measured(pairs: int, options: dict[str, object]) -> tuple[float, float]:
    """(MiB, seconds)."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-c", ONE, str(pairs), json.dumps(options), out]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found, peak, seconds, _ = json.loads(done.stdout)
    assert found == pairs, (found, pairs)
    return peak, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[1000, 10_000, 100_000])
    sizes = parser.parse_args().pairs
    print("an audit of a trivial system, batches of 100 pairs, from the first pair to the record")
    print(f"{'pairs':>8} {'early stop':>10} {'peak MiB':>9} {'seconds':>8} {'ms a batch':>10}")
    peaks = []
    for early in (False, True):
        options = {"stop_when_rejected": True, "epsilon": 12} if early else {}
        for pairs in sizes:
            peak, seconds = measured(pairs, options)
            peaks.append(peak)
            print(
                (
                    f"{pairs:8d} {'yes' if early else 'no':>10} {peak:9.0f} {seconds:8.1f} "
                    f"{1e5 * seconds / pairs:10.1f}"
                ),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
