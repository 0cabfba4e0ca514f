"""What known noise says: nothing is sampled, because the noise is integrated out.

`votes.VoteScores` and `best_votes.BestVotes` give exact probabilities of scores of noisy votes, and
`output_distributions.exact_privacy_loss` the loss between two output distributions.
`noise_fit.noise_goodness_of_fit` tests whether the noise that a mechanism adds is the declared one.
"""
