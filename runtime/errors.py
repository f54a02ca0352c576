"""Exceptions of the package: every one is an `OffarrayError`, and also the built-in kind that a caller may expect."""

from __future__ import annotations


class OffarrayError(Exception):
    """Base of all errors that are offarray's own (NumPy's errors keep NumPy's classes)."""


class MovedError(OffarrayError, RuntimeError):
    """A value was used after `move` took it away."""


class BorrowError(OffarrayError, RuntimeError):
    """A borrowed value was written, or one that others look at was moved."""


class FallbackError(OffarrayError, RuntimeError):
    """NumPy would have had to run a step on the host while `fallback="raise"`."""


class CompileError(OffarrayError, RuntimeError):
    """A kernel could not be built."""


class DeviceError(OffarrayError, RuntimeError):
    """A device is missing or does not work."""


class CheckError(OffarrayError, RuntimeError):
    """`check` found a kernel launch that breaks the rules of aliasing or bounds: a defect of offarray itself."""


class MemoryLimitError(OffarrayError, MemoryError):
    """An allocation would pass the setting `memory_limit`."""


class TransferError(OffarrayError, RuntimeError):
    """Data would have moved between host and device while `transfer_guard="disallow"`."""
