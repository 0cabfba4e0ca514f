"""Everything that decides an audit, as four frozen values: system, attack, design, decision.

Read from a file, flags or keywords by `make_spec`; which keys ask nothing new is here too.
"""
