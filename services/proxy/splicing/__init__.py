"""Fixes that the user switched on: bytes put into a received body at known offsets, and nothing else."""
