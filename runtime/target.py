"""Targets and compiled kernels: pure data that fusion and codegen read and the runtime executes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Target(NamedTuple):
    """A kind of processor that kernels are made for."""

    kind: str  # "host", "interpret" or "null"
    arch: str  # processor name, part of every cache key
    features: str  # LLVM feature string
    vector: int  # bytes of a vector register


class Compiled(NamedTuple):
    """A kernel ready to launch.  `args` is the address of a row of 8-byte words (codegen/abi.py)."""

    target: Target
    key: str  # content hash
    body: Callable[[int, int, int], None]  # (args, first unit, last unit): any split into ranges gives the same bits
    finish: Callable[[int], None] | None  # (args): after every unit has run; None where nothing is left to combine
    units: Callable[[tuple[int, ...]], int]  # extents -> independent units of work
    scratch: Callable[[tuple[int, ...]], int]  # extents -> bytes of scratch memory the launch needs
    build_ms: float
    source: str
    split: Callable[[Sequence[int]], Any] | None = None  # words behind the pointers -> codegen/split.py's `Cut`
