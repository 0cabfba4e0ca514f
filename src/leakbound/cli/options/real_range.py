"""A range of numbers that NaN is not in."""

from __future__ import annotations

import math
from typing import Any

import click


class RealRange(click.FloatRange):
    """As click's, which lets NaN pass: it is neither below nor above any number."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, which lies in the range."""
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return found
