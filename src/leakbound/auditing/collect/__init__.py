"""The slow side: who asks the missing batches, and in what order they are stored.

`collect` alone writes the store; what a batch holds does not depend on who asks it.
"""
