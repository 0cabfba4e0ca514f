"""Is a finished run what its audit wrote: loaded, verified by digests, and computed again."""
