"""Commands that this package brings: one file a verb, registered as `leakbound.verbs`."""
