"""Local models beside the engine: `load_embedder` for sentence embeddings."""
