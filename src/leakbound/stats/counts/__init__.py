"""From counts of right and wrong guesses to bounds on epsilon and mu.

Every bound is exact at any number of trials. `bounds.clopper_pearson` covers both error rates
separately, `unconditional.unconditional` both together, and `one_run.one_run` reads one system with
many canaries. `two_samples.rank_test` and `excess_test` compare two samples.
"""
