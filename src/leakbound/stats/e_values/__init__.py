"""Evidence against a claim that may be read after any pair.

`e_process.EProcess` bets on paired scores, with the stakes of `stakes.StakeRule`, and
`anytime.MixedEProcess` takes the weighted mean of several tests over the same pairs. Both are
`anytime.AnytimeTest`s, whose bounds come from a scan of nested claims.
"""
