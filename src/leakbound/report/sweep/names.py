"""Keys and settings of a grid in few words."""

from __future__ import annotations

from collections.abc import Mapping


def setting_name(changes: Mapping[str, object], without: str | None = None) -> str:
    """A setting in few words.

    Examples:
        >>> setting_name({"epsilon": 4, "mechanism.partitions": 10})
        'ε=4, partitions=10'
    """
    shown = {key: value for key, value in changes.items() if key != without}
    return ", ".join(
        f"{'ε' if key == 'epsilon' else key_name(key)}={'none' if value is None else value}"
        for key, value in shown.items()
    )


def key_name(key: str) -> str:
    """A key of a grid in few words."""
    return key.removeprefix("mechanism.")
