"""Targets and compiled kernels: pure data that fusion and codegen read and the runtime executes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .tuples import NamedTuple


class Target(NamedTuple):
    """A kind of processor that kernels are made for."""

    kind: str  # "host", "interpret" or "null"
    arch: str  # processor name, part of every cache key
    features: str  # LLVM feature string
    vector: int  # bytes of a vector register


class Part(NamedTuple):
    """One launch of a call whose extents and strides are known."""

    start: Callable[[list[int]], None]  # with the words of all parameters
    words: tuple[int, ...]  # what follows the pointers, words, fault and scratch addresses
    values: tuple[int, ...]  # behind the words for all launches: byte offsets in scratch memory


class Fixed(NamedTuple):
    """A call on a device with all that its extents and strides decide worked out.

    The parameters of a launch: pointers, words, the address for faults, scratch memory; the launch's own words; the
    address of the states in scratch memory, that of the signals, the number of the launch; addresses in scratch memory.
    """

    parts: tuple[Part, ...]
    narrow: tuple[int, ...]  # words that hold a double and are passed as a 32-bit float
    scratch: int  # bytes of scratch memory
    states: int  # byte offset in it
    signals: int  # words through which blocks talk
    reports: int  # bytes in which the launch leaves word of faults; 0 if it has none
    again: Callable[[list[int]], bytes] | None  # finds the fault bytes afterwards, from pointers and words as they were


class Compiled(NamedTuple):
    """A kernel ready to launch.  `args` is the address of a row of 8-byte words (codegen/abi.py)."""

    target: Target
    key: str  # content hash
    body: Callable[[int, int, int], None]  # (args, first unit, last unit): any split into ranges gives the same bits
    finish: Callable[[int], None] | None  # (args): after every unit has run; None where nothing is left to combine
    units: Callable[[tuple[int, ...]], int]  # extents -> independent units of work
    scratch: Callable[[tuple[int, ...]], int]  # extents -> bytes of scratch memory the launch needs
    build_ms: float
    split: Callable[[Sequence[int]], Any] | None = None  # words behind the pointers -> codegen/split.py's `Cut`
    fixed: Callable[[list[int]], Fixed] | None = None  # pointers and words, as they may be -> the call
    # extents -> `body` and `finish` of a launch of these extents, without looking them up at each call
    at: Callable[[tuple[int, ...]], tuple[Any, Any]] | None = None
