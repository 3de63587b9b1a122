"""The response cache: complete answers of the backend, kept in Redis and given again to equal requests."""
