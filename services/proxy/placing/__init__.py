"""Places a request among earlier ones: what it continues, where it breaks, what may be reused."""
