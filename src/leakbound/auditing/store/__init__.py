"""The run folder: manifest, trials chained by hashes, key, commitment.

`RunStore.open` verifies what is stored and hands on the results that came before; a batch is stored
whole or not at all.
"""
