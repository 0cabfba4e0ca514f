"""`audit_log`: what outputs that exist already disclose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from leakbound.auditing.logs import LogAudit, audit_logs, load_outputs, load_texts
from leakbound.errors import UsageError

TextSource = str | Path | Iterable[str]


def audit_log(
    used: TextSource, held_out: TextSource, outputs: TextSource, *,
    fields: Sequence[str] = (), output_field: str | None = None, confidence: float = 0.95,
    fdr: float = 0.1, seed: int = 0, show: bool = False,
) -> LogAudit:  # fmt: skip
    """Test whether outputs of an application disclose the records that it was shown.

    No model is asked. The test compares the records that were used with records like them that were
    set aside: what outputs share with the used records beyond that comes from the application.

    Args:
        used: Records that the application was shown (PRIVATE): a file of rows, or texts.
        held_out: Records like them that it was never shown (PRIVATE), of the same kind.
        outputs: What it answered (PRIVATE): a file of rows, or texts.
        fields: Fields of the records that are looked for; none for all that hold text.
        output_field: Field of the outputs; None for the only one, or one with a usual name.
        confidence: 1 minus the error of the verdict, above 0 and below 1.
        fdr: False discovery rate of the records that stand out, from 0 to 1.
        seed: Of the random divisions that the test draws.
        show: Whether the findings hold the passages that were disclosed.

    Returns:
        The verdict, its p-value, and the records that stand out, by their numbers.

    Raises:
        DataError: If a file cannot be read, or holds no text.
        UsageError: For a confidence or a false discovery rate that cannot be one.

    Example:
        >>> import leakbound
        >>> used = [f"patient {i} takes {i + 100} mg" for i in range(40)]
        >>> held_out = [f"patient {i} takes {i + 100} mg" for i in range(40, 80)]
        >>> said = ["I recall that patient 7 takes 107 mg.", *used[10:20]]
        >>> found = leakbound.audit_log(used, held_out, said)
        >>> found.verdict, len(found.disclosed)
        ('disclosure', 11)
    """
    records = [
        load_texts(Path(one), fields)
        if isinstance(one, str | Path)
        else [(text,) for text in _texts(one, name)]
        for name, one in (("used", used), ("held_out", held_out))
    ]
    if isinstance(outputs, str | Path):
        said = load_outputs(Path(outputs), output_field)
    else:
        said = _texts(outputs, "outputs")
    return audit_logs(records[0], records[1], said, confidence, fdr, seed, show)


def _texts(given: object, name: str) -> list[str]:
    """Refuses anything else than texts, without showing it."""
    texts = list(given) if isinstance(given, Iterable) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        got = f"a {type(given).__name__}" if texts is None else "not of texts alone"
        raise UsageError(f"{name} is {got}; it must be a file of rows, or a list of texts.")
    return texts
