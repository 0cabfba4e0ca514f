"""ProbeRecord: the versioned findings about what a model at an address really supports."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from leakbound._version import __version__
from leakbound.errors import UsageError
from leakbound.models.openai.dialect import Dialect

__all__ = ["CheckName", "ProbeFinding", "ProbeRecord", "load_probe"]

CheckName = Literal[
    "completions", "chat", "batches", "token_ids", "embeddings", "logprobs", "chat_logprobs",
    "logprobs_valid", "top_k", "echo", "echo_aligned", "echo_length", "prompt_logprobs",
    "prompt_logprobs_aligned", "vocabulary", "repeats", "temperature", "seed", "parameters",
    "reasoning", "echo_scored", "prompt_logprobs_scored",
]  # fmt: skip


class ProbeFinding(BaseModel):
    """One check.

    Attributes:
        check: What was checked.
        holds: Whether it holds; None if that could not be determined.
        detail: What was seen (`told` in records of schema version 1).
        value: The number, if there is one: the most alternatives of a token, the most tokens
            echoed, the largest change of ln p between equal questions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    check: CheckName
    holds: bool | None
    detail: str = Field(validation_alias=AliasChoices("detail", "told"))
    value: float | None = None


class ProbeRecord(BaseModel):
    """The findings at an address. Holds no key.

    Attributes:
        schema_version: Schema version of this record.
        version: Version of the package that wrote it.
        address: Address of the model.
        base_url: Base URL of the endpoint; None for a local model.
        requests: Number of requests sent, all of them about public texts.
        findings: One for each check that was made.
        supports: Names of the kinds of requests that the model answers.
        dialect: How the endpoint accepts parameters (since schema version 3).
    """

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
        """The finding of a check.

        Args:
            check: Its name.

        Returns:
            The finding; if the check was not made, a finding that says so.
        """
        missing = ProbeFinding(
            check=check, holds=None, detail="not checked: nothing to check it on"
        )
        return next((finding for finding in self.findings if finding.check == check), missing)

    def holds(self, check: CheckName) -> bool:
        """Whether a check was made and holds.

        Args:
            check: Its name.

        Returns:
            True if it holds.
        """
        return self.finding(check).holds is True


def load_probe(path: Path) -> ProbeRecord:
    """Read a record that `leakbound probe --json` wrote.

    Args:
        path: The file.

    Returns:
        The record.

    Raises:
        UsageError: If the file cannot be read or is not such a record.
    """
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
