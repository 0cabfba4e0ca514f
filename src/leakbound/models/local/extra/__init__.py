"""Local models beside the engine: `load_embedder` for sentence embeddings, `load_classifier` for
classifiers of pairs of texts.
"""
