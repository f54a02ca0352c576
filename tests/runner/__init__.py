"""The script runner: `python -m offarray`."""
