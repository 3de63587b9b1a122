"""Cuts a received body into chunks and hashes them, without reading again what is known."""
