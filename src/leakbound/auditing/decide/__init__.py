"""The verdict: bounds against the claim, and what keeps an audit from saying no_violation.

`decide` makes an `Assessment` of what a pass has seen.
"""
