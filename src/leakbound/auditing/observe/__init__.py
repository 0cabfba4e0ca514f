"""Each stored aggregate read once: released, scored, and observed by every estimator.

`OnePass` follows the stored batches in their order; controls, state check and the comparison of
whole replies see what it releases.
"""
