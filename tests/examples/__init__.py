"""The examples, in a small size, give NumPy's numbers."""
