"""ProbeRecord: the versioned findings about what a model at an address really supports."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from leakbound._version import __version__
from leakbound.errors import UsageError
from leakbound.models.openai.wire.dialect import Dialect

CheckName = Literal[
    "completions", "chat", "batches", "token_ids", "embeddings", "logprobs", "chat_logprobs",
    "logprobs_valid", "top_k", "echo", "echo_aligned", "echo_length", "prompt_logprobs",
    "prompt_logprobs_aligned", "vocabulary", "repeats", "temperature", "seed", "parameters",
    "reasoning", "echo_scored", "prompt_logprobs_scored",
]  # fmt: skip


class ProbeFinding(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    check: CheckName
    holds: bool | None
    detail: str = Field(validation_alias=AliasChoices("detail", "told"))
    value: float | None = None


class ProbeRecord(BaseModel):
    """The findings at an address. Holds no key."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    schema_version: Literal[1, 2, 3] = 3
    version: str = __version__
    address: str
    base_url: str | None = None
    requests: int
    findings: tuple[ProbeFinding, ...]
    supports: tuple[str, ...]
    dialect: Dialect = Dialect()

    def finding(self, check: CheckName) -> ProbeFinding:
        missing = ProbeFinding(
            check=check, holds=None, detail="not checked: nothing to check it on"
        )
        return next((finding for finding in self.findings if finding.check == check), missing)

    def holds(self, check: CheckName) -> bool:
        return self.finding(check).holds is True


def load_probe(path: Path) -> ProbeRecord:
    """Read a record that `leakbound probe --json` wrote."""
    try:
        return ProbeRecord.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            f"the capabilities file {str(path)!r} cannot be read; write it with leakbound probe "
            "ADDRESS --json."
        ) from None
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UsageError(
            f"the capabilities file {str(path)!r} is not a probe record of this version"
            f"{f' (see {where})' if where else ''}; write it again with leakbound probe ADDRESS "
            "--json."
        ) from None
