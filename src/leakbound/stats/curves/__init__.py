"""From scores to ROC curves, and how a threshold of a score is chosen.

`curves.roc` is the curve of every threshold, `curves.rate_at_fpr` one point of it with an
interval, and a `curves.ThresholdRule` decides whether a bound at a threshold is valid.
"""
