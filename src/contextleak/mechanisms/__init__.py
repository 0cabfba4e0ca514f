"""Mechanisms: how an answer is made from a private context. `MECHANISMS` is the catalogue by name."""

from __future__ import annotations

from contextleak.icl import Mechanism
from contextleak.mechanisms.few_shot import FewShot, ZeroShot
from contextleak.mechanisms.prompt_defense import PromptDefense
from contextleak.mechanisms.report_noisy_max import ReportNoisyMax
from contextleak.mechanisms.user import UserSystem, load_callable

__all__ = [
    "MECHANISMS",
    "FewShot",
    "Mechanism",
    "PromptDefense",
    "ReportNoisyMax",
    "UserSystem",
    "ZeroShot",
    "load_callable",
]

MECHANISMS: dict[str, type] = {kind.name: kind for kind in (ZeroShot, FewShot, PromptDefense, ReportNoisyMax)}
