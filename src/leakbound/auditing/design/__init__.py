"""Which contexts are compared: paired trials and control pairs, drawn from a seed.

Every random choice derives from a `generator` of a seed, so that order and resuming never
change a result. Nothing here asks a model.
"""
