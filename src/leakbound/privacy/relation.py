"""Neighbouring relations: which data sets differ in one record."""

from __future__ import annotations

from typing import Literal

Relation = Literal["replace_one", "add_remove"]
