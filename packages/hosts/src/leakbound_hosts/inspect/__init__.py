"""inspect_ai: audits as tasks, early stopping by e-value, anytime-valid rates, model addresses.

`inspect_ai` finds it by its entry point; importing this package imports no part of `inspect_ai`.
"""
