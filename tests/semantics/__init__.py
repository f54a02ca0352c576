"""Semantics: one program run with NumPy and with offarray has the same observable results."""
