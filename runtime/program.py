"""Programs: what one evaluation does, as a list of instructions over numbered buffers, and how they are executed."""

from __future__ import annotations

import struct
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from . import buffer as buffers
from . import threads, trace
from .buffer import Buffer, Memory, allocate
from .config import settings
from .errors import CheckError, OffarrayError
from .late import Faults
from .target import Compiled
from .tuples import NamedTuple

Shape = tuple[int, ...]

POISON = 0xFD  # what `check` writes over memory that must not be read any more, or not yet


class Alloc(NamedTuple):
    """Put a new buffer of `nbytes` into `slot`."""

    slot: int
    nbytes: int


class Grid(NamedTuple):
    """The elements that a pointer touches, from the lowest byte of its span on; strides are not negative."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int


class Launch(NamedTuple):
    """Run a kernel."""

    compiled: Compiled
    pointers: tuple[tuple[int, int], ...]  # (slot, byte offset) of each pointer argument
    words: tuple[int | float, ...]  # what follows the pointers, up to the fault pointer
    extents: tuple[int, ...]
    access: tuple[str, ...]  # "r", "w" or "rw" for each pointer
    spans: tuple[tuple[int, int], ...]  # bytes that each pointer may touch, from the pointer on; () if not known
    faults: int  # number of values that report faults
    nbytes: int  # array bytes that the kernel reads and writes
    grids: tuple[Grid | None, ...] = ()  # the elements of each pointer, None where gathered; () if not known
    # whether a pointer touches every byte of its span, or the (width, step, number) of runs that it reads
    dense: tuple[bool | tuple[int, int, int], ...] = ()


class Copy(NamedTuple):
    """Copy an array from one slot's buffer to another's."""

    source: int
    target: int
    dtype: numpy.dtype[Any]
    shape: Shape
    source_offset: int
    source_strides: Shape
    target_offset: int
    target_strides: Shape


class Host(NamedTuple):
    """Call `fn(*buffers of reads, *buffers of writes)`.

    A slot of `writes` that has no buffer yet is passed as None; `fn` then gives back the buffers of all of `writes`
    (a single one bare).  If it gives back None, it has written in place.
    """

    fn: Callable[..., Any]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    counter: str = "host_bytes"  # where the bytes of its buffers are counted


class Free(NamedTuple):
    """Let go of the buffer in `slot`."""

    slot: int


Instruction = Alloc | Launch | Copy | Host | Free
Slots = list[Buffer | None]


class Program(NamedTuple):
    """Instructions over `slots` buffers."""

    slots: int
    code: tuple[Instruction, ...]


def execute(program: Program, bind: Slots) -> tuple[Slots, list[Faults]]:
    """Run `program` on the buffers in `bind`.

    Parameters
    ----------
    program : Program
    bind : list
        Buffers by slot, None where the program makes one.  The list is lengthened to the program's slots and changed in
        place, so that a buffer freed here can really go.

    Returns
    -------
    bind : list
        The same list: the buffers by slot.
    faults : list of bytes
        For each launch, in order, one byte of fault bits for each value that reports them.
    """
    bind.extend([None] * (program.slots - len(bind)))
    faults: list[Faults] = []
    for instruction in program.code:
        kind = type(instruction)
        if kind is Launch:
            faults.append(launch(instruction, bind))  # type: ignore[arg-type]
        else:
            _RUN[kind](instruction, bind)
    return bind, faults


def _buffer(slots: Slots, slot: int) -> Buffer:
    found = slots[slot]
    if found is None:
        raise CheckError(f"the program uses slot {slot}, which holds no buffer")
    return found


def _alloc(step: Alloc, slots: Slots) -> None:
    fresh = allocate(step.nbytes)
    if settings.check:
        fresh.raw.fill(POISON)
    slots[step.slot] = fresh


def _references(value: Any) -> int:
    return sys.getrefcount(value)


def _alone() -> int:
    value = array("Q")
    return _references(value)


_ALONE = _alone()  # what is counted where one variable and nothing else holds a value


def _free(step: Free, slots: Slots) -> None:
    gone = slots[step.slot]
    slots[step.slot] = None
    if settings.check and gone is not None and not gone.shared and _references(gone) <= _ALONE:
        gone.poison(POISON)


def _copy(step: Copy, slots: Slots) -> None:
    source = _buffer(slots, step.source).view(step.dtype, step.shape, step.source_offset, step.source_strides)
    target = _buffer(slots, step.target).view(step.dtype, step.shape, step.target_offset, step.target_strides)
    numpy.copyto(target, source)
    trace.count("host_bytes", 2 * target.nbytes)


def _host(step: Host, slots: Slots) -> None:
    result = step.fn(*[_buffer(slots, slot) for slot in step.reads], *[slots[slot] for slot in step.writes])
    if result is not None:
        made = (result,) if isinstance(result, Buffer) else result
        for slot, buffer in zip(step.writes, made, strict=True):
            slots[slot] = buffer
    trace.count(step.counter, sum(_buffer(slots, slot).nbytes for slot in (*step.reads, *step.writes)))


_RUN: dict[type, Callable[[Any, Slots], None]] = {Alloc: _alloc, Free: _free, Copy: _copy, Host: _host}

_MASK = (1 << 64) - 1
_float_to_word = struct.Struct("d").pack
_word = struct.Struct("Q").unpack


def pack(words: Sequence[int | float]) -> array[int]:
    """A row of 8-byte words: floats as f64, integers as their low 64 bits."""
    try:
        return array("Q", words)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return array("Q", [w if type(w) is int and 0 <= w <= _MASK else _bits(w) for w in words])


def _bits(word: int | float) -> int:
    return int(_word(_float_to_word(word))[0]) if isinstance(word, float) else int(word) & _MASK


class Prepared:
    """A launch with all that its extents decide worked out: what is left are addresses and scalars."""

    __slots__ = ("step", "row", "fault", "units", "scratch", "words", "body", "finish", "shot")

    def __init__(self, step: Launch) -> None:
        self.step = step
        self.fault = len(step.pointers) + len(step.words)
        self.words = (step.faults + 7) // 8  # of fault bytes: they stand right behind the row
        self.row = pack((*[0] * len(step.pointers), *step.words, 0, 0, *[0] * self.words))
        self.units = step.compiled.units(step.extents)
        self.scratch = step.compiled.scratch(step.extents)
        self.body, self.finish = step.compiled.body, step.compiled.finish
        if step.compiled.at is not None:
            self.body, self.finish = step.compiled.at(step.extents)
        self.shot: Any = None  # for a device: shot.py's form of the launch, or False where there is none


def shot_of(step: Prepared) -> Any:
    """What repeats the launch on a device; False on the host, and where it is done anew each time."""
    if step.shot is None:
        step.shot = False
        if step.step.compiled.target.kind == "cuda":
            from . import cuda, shot  # need a driver

            try:
                step.shot = shot.ready(cuda.device(), step) or False
            except OffarrayError as error:  # the launch itself will say so
                trace.log(1, f"no launch is kept: {error}")
    return step.shot


def room(step: Prepared, nbytes: int) -> Buffer:
    """Memory for a value that the launch makes, where it makes it."""
    shot = step.shot
    if shot is None:
        shot = shot_of(step)
    made: Buffer = shot.blank(nbytes) if shot else allocate(nbytes)
    return made


def launch(step: Launch | Prepared, slots: Slots, scalars: Sequence[tuple[int, int]] = ()) -> Faults:
    """Run one kernel, and give its fault bytes.

    Parameters
    ----------
    step, slots
        What to run, and the buffers that its pointers name.
    scalars
        (number, bits) of the words behind the pointers that differ from those of `step`.
    """
    if type(step) is Launch:
        step = Prepared(step)
    elif step.shot:  # type: ignore[union-attr]
        found: Faults | None = step.shot.fire(slots, scalars)  # type: ignore[union-attr]
        if found is not None:
            return found
    assert type(step) is Prepared
    plain, row, fault = step.step, step.row[:], step.fault
    pointers = plain.pointers
    for number, bits in scalars:
        row[len(pointers) + number] = bits
    if settings.check:
        verify(plain, slots)
    compiled = plain.compiled
    if buffers.fresh is not None:  # a device is in use
        if compiled.target.kind == "cuda":
            return _on_device(plain, slots, row[len(pointers) : fault])
        _look(plain, slots)
    number = 0
    for slot, offset in pointers:
        row[number] = (slots[slot] or _buffer(slots, slot)).address + offset
        number += 1
    address = row.buffer_info()[0]
    row[fault] = address + 8 * (fault + 2)
    scratch = None
    if step.scratch:
        scratch = allocate(step.scratch)
        if scratch.device is not None:
            scratch.device.look(scratch)
        row[fault + 1] = scratch.address
    _run(compiled, row, address, step, plain.nbytes)
    return row[fault + 2 :].tobytes()[: plain.faults] if plain.faults else b""


def _look(step: Launch, slots: Slots) -> None:
    """Bring to the host what a kernel of the host touches, but for what it overwrites."""
    used = [slot for slot, _ in step.pointers]
    for number, ((slot, offset), access) in enumerate(zip(step.pointers, step.access, strict=True)):
        buffer = _buffer(slots, slot)
        if buffer.device is not None:
            low, high = step.spans[number] if step.spans else (-offset, buffer.nbytes - offset)
            alone = access == "w" and bool(step.dense) and step.dense[number] is True and used.count(slot) == 1
            whole = alone and high - low >= buffer.nbytes
            buffer.device.look(buffer, "w" in access, offset + low, offset + high, whole)


def _run(compiled: Compiled, row: array[int], address: int, step: Prepared, nbytes: int) -> None:
    """Call the kernel on its row, by as many threads as it is worth, and note how fast it was."""
    global _last
    key, units = compiled.key, step.units
    shares = 1
    if units > 1 and _pace.get(key, _GUESS) * nbytes >= 2 * QUICK:
        shares = _shares(compiled, units, nbytes)
    start = _clock()
    if shares > 1:
        _shared(step.body, row, step.fault, threads.parts(units, shares))
    elif units:
        step.body(address, 0, units)
    if step.finish is not None:
        step.finish(address)
    _last = _clock()
    seconds = _last - start
    counters = trace.counters
    counters["kernels"] += 1
    counters["kernel_bytes"] += nbytes
    if nbytes:
        _learn(key, seconds * shares / nbytes, shares)
    if settings.debug >= 2 or trace.events is not None:
        _tell(step.step, seconds, shares)


def _on_device(step: Launch, slots: Slots, words: array[int]) -> Faults:
    """Run one kernel on a device, and give its fault bytes; without such it may still be running."""
    from . import residency  # needs a driver

    pointers = [(_buffer(slots, slot), offset) for slot, offset in step.pointers]
    start = _clock()
    found = residency.launch(step.compiled, pointers, words, step.access, step.faults, step.spans, step.dense)
    trace.counters["kernels"] += 1
    trace.counters["kernel_bytes"] += step.nbytes
    if settings.debug >= 2 or trace.events is not None:
        _tell(step, _clock() - start, 1)
    return found


def _shared(body: threads.Body, row: array[int], fault: int, ranges: list[tuple[int, int]]) -> None:
    """Run a kernel's ranges of units at the same time, and gather their fault bytes in `row`."""
    # Every part has its own row, and with it fault bytes that no other thread writes.
    rows = [row, *(row[:] for _ in ranges[1:])]
    for copy in rows[1:]:
        copy[fault] = copy.buffer_info()[0] + 8 * (fault + 2)
    threads.run(body, [r.buffer_info()[0] for r in rows], ranges)
    for copy in rows[1:]:
        for word in range(fault + 2, len(row)):
            row[word] |= copy[word]


# Seconds for each byte that a kernel took when it last ran, and the least time worth a thread of its own.
_pace: dict[str, float] = {}
_GUESS = 2e-10  # for a kernel not seen yet: 5 GB/s
SHARE = 20e-6  # handing over costs a few microseconds, to a worker that sleeps too
QUICK = 8e-6  # where another launch has just ended: workers still look for work
START = 15  # shares, of one launch or of several, that are worth starting another worker
_owed = 0.0  # seconds of launches that were worth sharing since a worker was last started
_last = 0.0  # when the last launch ended
_clock = time.perf_counter


def _shares(compiled: Compiled, units: int, nbytes: int) -> int:
    """How many threads a launch is worth; any number gives the same bits."""
    global _owed
    if compiled.target.kind != "host":
        return 1
    known = _pace.get(compiled.key)
    work = (_GUESS if known is None else known) * nbytes
    share = QUICK if _clock() - _last < threads.NEAR else SHARE
    if work < 2 * share:
        return 1
    if known is not None:  # starting a worker for a guess would make a process' first launch several times as long
        _owed += work
    ready = max(threads.started() + 1, int(work / (START * SHARE)))
    if ready <= threads.started() + 1 and _owed >= START * SHARE:
        ready, _owed = threads.started() + 2, 0.0
    return max(1, min(units, threads.count(), int(work / share), ready))


def _learn(key: str, pace: float, shares: int) -> None:
    if shares > 1:  # a bound from above: lets a kernel that was slow only once go back to one thread
        pace = min(pace, _pace.get(key, pace))
    if len(_pace) > 10_000:
        _pace.clear()
    _pace[key] = pace


def _tell(step: Launch, seconds: float, shares: int) -> None:
    key = step.compiled.key
    speed = step.nbytes / max(seconds, 1e-9) / 1e9
    extents = "x".join(map(str, step.extents)) or "scalar"
    text = f"kernel {key[:12]} {extents} {step.nbytes} bytes {seconds * 1e3:.3f} ms {speed:.2f} GB/s"
    trace.log(2, f"{text} {shares} threads" if shares > 1 else text)
    trace.emit("kernel", None, key=key, nbytes=step.nbytes, seconds=seconds, threads=shares)


class _Range(NamedTuple):
    """Memory that a pointer of a launch touches."""

    number: int
    slot: int
    pointer: int
    low: int
    high: int
    access: str
    grid: Grid | None


def verify(step: Launch, slots: Slots) -> None:
    """Raise CheckError if a pointer leaves its buffer, writes what is read-only, or overlaps another's memory.

    Operands that are only read may overlap, and so may accesses through one pointer that are at the same index.  Within
    one buffer, spans may interleave as long as no element is in both; that is known only from the grids.
    """
    ranges: list[_Range] = []
    for n, (slot, offset) in enumerate(step.pointers):
        buffer = _buffer(slots, slot)
        if buffer.array is None:
            buffer.device.look(buffer, False)  # so that it has an address
        low, high = step.spans[n] if step.spans else (0, buffer.nbytes - offset)
        if high <= low:
            continue
        if offset + low < 0 or offset + high > buffer.nbytes:
            where = f"bytes {offset + low} to {offset + high} of a buffer of {buffer.nbytes}"
            raise CheckError(f"pointer {n} of kernel {step.compiled.key[:12]} reaches {where}")
        access = step.access[n]
        if "w" in access and not buffer.writeable:
            raise CheckError(f"pointer {n} of kernel {step.compiled.key[:12]} writes read-only memory")
        pointer = buffer.address + offset
        mine = _Range(n, slot, pointer, pointer + low, pointer + high, access, step.grids[n] if step.grids else None)
        for other in ranges:
            if _clash(mine, other):
                pair = f"pointers {other.number} ({other.access}) and {n} ({access})"
                raise CheckError(f"{pair} of kernel {step.compiled.key[:12]} overlap")
        ranges.append(mine)


_WORK: Any = 1_000_000  # steps that the exact comparison of two grids may take


def _clash(a: _Range, b: _Range) -> bool:
    if a.access == b.access == "r" or a.high <= b.low or b.high <= a.low:
        return False
    if a.access == b.access == "rw" and a.pointer == b.pointer:
        return False
    if a.grid is None or b.grid is None:
        return a.slot != b.slot or a.pointer == b.pointer  # within a buffer, who made the program has looked
    try:
        return numpy.shares_memory(_shadow(a.low, a.grid), _shadow(b.low, b.grid), max_work=_WORK)
    except numpy.exceptions.TooHardError:
        return False  # not proved


def _shadow(address: int, grid: Grid) -> numpy.ndarray[Any, Any]:
    """An array that is never looked into, only compared."""
    interface = {
        "data": (address, True), "shape": grid.extents, "strides": grid.strides, "typestr": f"|V{grid.itemsize}",
        "version": 3,
    }  # fmt: skip
    return numpy.asarray(Memory(None, interface))
