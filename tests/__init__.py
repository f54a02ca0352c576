"""Tests: the oracle is real NumPy everywhere."""
