"""Checked as the examples are: in strict mode alone, its last line is an error."""


def untyped(value): ...
