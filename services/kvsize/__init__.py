"""How much memory the key-value cache of a model takes: from its shape, a GGUF file or a running server."""
