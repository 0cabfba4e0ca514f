"""A system that no single example decides: it says yes where two examples hold the quoted text.

leakbound audit --system python:examples/careful_system.py:answer --pairs 40
"""

from __future__ import annotations

from leakbound import Example


def answer(context: tuple[Example, ...], query: str) -> str:
    """Yes or no to a query with a quoted text: is it in at least two examples?"""
    quoted = query.split('"')[1::2]
    return "yes" if any(sum(text in row.text for row in context) > 1 for text in quoted) else "no"
