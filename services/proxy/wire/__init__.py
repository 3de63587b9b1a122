"""Carries one request over the wire: in, on to the backend, and back to its client."""
