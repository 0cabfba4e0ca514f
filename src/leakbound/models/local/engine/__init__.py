"""Forward passes that change no answer: `Passes` runs groups of rows with a common prefix through a
model, within a `Budget`, as `check_sharing` found to be exact.
"""
