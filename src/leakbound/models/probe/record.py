"""ProbeRecord: the versioned finding of what a model at an address really supports."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from leakbound._version import __version__
from leakbound.errors import UsageError

__all__ = ["Check", "Finding", "ProbeRecord", "load_probe"]

Check = Literal[
    "completions", "chat", "batches", "token_ids", "embeddings", "logprobs", "chat_logprobs", "logprobs_valid", "top_k",
    "echo", "echo_aligned", "echo_length", "prompt_logprobs", "prompt_logprobs_aligned", "vocabulary", "repeats",
    "temperature", "seed",
]  # fmt: skip


class Finding(BaseModel):
    """One check: whether it holds, None where that could not be told, and what was seen. `value` is
    the number, if it is one:
    the most alternatives a token came with, the most tokens echoed, the largest change of ln p
    between equal questions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    check: Check
    holds: bool | None
    told: str
    value: float | None = None


class ProbeRecord(BaseModel):
    """What was found at an address with so many requests, all of them on public texts.

    Holds no key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    schema_version: Literal[1] = 1
    version: str = __version__
    address: str
    base_url: str | None = None
    requests: int
    findings: tuple[Finding, ...]
    supports: tuple[str, ...]

    def finding(self, check: Check) -> Finding:
        """The finding of a check; a check that was not made says so."""
        missing = Finding(check=check, holds=None, told="not checked: nothing to check it on")
        return next((finding for finding in self.findings if finding.check == check), missing)

    def holds(self, check: Check) -> bool:
        """Whether a check was made and holds."""
        return self.finding(check).holds is True


def load_probe(path: Path) -> ProbeRecord:
    """Read a record that `leakbound probe --json` wrote.

    Raises UsageError with what is wrong with the file.
    """
    try:
        return ProbeRecord.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError:
        raise UsageError(
            f"the capabilities file {str(path)!r} cannot be read; make it with leakbound probe."
        ) from None
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole"
        raise UsageError(
            f"the capabilities file {str(path)!r} is no probe record of this version (at "
            f"{where}); make it again with "
            "leakbound probe ADDRESS --json."
        ) from None
