"""`verify`: is a finished run what its audit wrote?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leakbound.api.kinds import require_path
from leakbound.auditing.receipts.verify import Verification, verify_run


def verify(run: str | Path, *, anchors: Sequence[str] = ()) -> Verification:
    """Compute every digest of a finished run again; no model is asked.

    Whoever owns a run can rebuild its digests: against that, keep the commitment and the anchor
    elsewhere. The command `leakbound verify` also computes the bounds again.

    Args:
        run: The run folder.
        anchors: Digests that were kept elsewhere, of the commitment or of the finished run.

    Returns:
        What was found: `problems` is empty where everything is as the audit wrote it.

    Raises:
        StoreError: If the folder holds no trials, or they cannot be read.
        UsageError: If an anchor is none.

    Example:
        >>> import tempfile, leakbound
        >>> rows = [(f"message {i}", "ab"[i % 2]) for i in range(40)]
        >>> out = tempfile.mkdtemp()
        >>> result = leakbound.audit(rows, system=lambda context, query: "no", pairs=4, out=out)
        >>> leakbound.verify(f"{out}/{result.name}").problems
        ()
    """
    return verify_run(require_path("run", run, "the folder of a run"), anchors)
