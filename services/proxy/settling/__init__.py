"""Settles a request once its answer ended: what was measured, why, what it cost, and its row."""
