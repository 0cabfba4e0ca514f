"""Which contexts are compared: paired trials and control pairs, drawn from a seed.

Every random choice of an audit derives from a generator of `seeds`. Nothing here asks a model.
"""
