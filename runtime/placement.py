"""Where work runs: a model of what it costs on the host and on the device, and the choice that follows.

in: bytes, operations and where the operands are now (`Work`); out: host or device. The model's rates are measured once
for each machine and kept on disk. Nothing here loads a driver before much work has been seen.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from . import trace
from .buffer import Buffer
from .config import settings
from .tuples import NamedTuple

SMALL = 1 << 20  # bytes up to which work stays where it is without a question
STARTUP = 0.25  # seconds of work that has to be seen before a driver is loaded: what loading one takes
MARGIN = 0.2  # part by which the other side has to be quicker before data moves for a single step
GROWTH = 2.0  # after each move that was paid in advance, the next takes so many times the credit
KEPT = 4096  # lines of code that are remembered

_here = threading.local()
_overrides = 0  # how many `on` blocks are open, in all threads


class Rates(NamedTuple):
    """What a machine does in a second; and the seconds that things take whatever their size."""

    h2d: float = 20e9  # bytes to the device
    d2h: float = 15e9  # bytes back
    host: float = 10e9  # bytes read and written by the host's kernels
    device: float = 1e12  # the same of the device's
    host_flops: float = 2e10  # multiplications and additions of matrix products, float64
    device_flops: float = 2e12
    launch: float = 1e-4  # seconds that an evaluation on the device takes beyond one on the host
    transfer: float = 2e-5  # seconds that a transfer takes beyond its bytes


class Work(NamedTuple):
    """What one evaluation or library step does."""

    nbytes: int  # that kernels read and write
    up: int = 0  # bytes that only the host has
    down: int = 0  # bytes that only the device has
    each: int = 0  # of `up`, bytes that would have to be sent again the next time, as others may write them
    flops: float = 0.0
    looked: int = 0  # bytes that the host looks at right afterwards


class Costs(NamedTuple):
    """Seconds on each side, without the transfers that happen once, and the seconds of these."""

    host: float
    device: float
    to_host: float
    to_device: float


def costs(work: Work, rates: Rates) -> Costs:
    """What `work` costs on each side."""
    host = max(work.nbytes / rates.host, work.flops / rates.host_flops)
    device = rates.launch + max(work.nbytes / rates.device, work.flops / rates.device_flops)
    for nbytes, rate in ((work.each, rates.h2d), (work.looked, rates.d2h)):
        if nbytes:
            device += rates.transfer + nbytes / rate
    down = rates.transfer + work.down / rates.d2h if work.down else 0.0
    once = work.up - work.each
    up = rates.transfer + once / rates.h2d if once > 0 else 0.0
    return Costs(host, device, down, up)


class Ledger:
    """Choices between two places, made so that data neither stays for ever on the wrong side nor moves to and fro.

    A side that is cheaper with all transfers is taken at once.  A side that would be cheaper once the data were there
    earns what it would have saved, for the line of code that asks; when that pays the transfer, the data moves.  Each
    such move makes the next one of that line twice as dear.
    """

    def __init__(self) -> None:
        self.credit: dict[Hashable, float] = {}
        self.price: dict[Hashable, float] = {}

    def choose(self, key: Hashable, cost: Costs) -> bool:
        """Whether the work named `key` runs on the device."""
        host, device = cost.host + cost.to_host, cost.device + cost.to_device
        if not cost.to_host and not cost.to_device:
            return device < host
        stay = cost.to_host > cost.to_device  # most of what is read is on the device
        if stay:
            here, there, once, gain = device, host, cost.to_host, cost.device - cost.host
        else:
            here, there, once, gain = host, device, cost.to_device, cost.host - cost.device
        if there < here * (1 - MARGIN):
            return not stay
        if gain <= 0:
            return stay
        name = key, stay
        saved = self.credit.get(name, 0.0) + gain
        if saved < once * self.price.get(name, 1.0):
            self._keep(self.credit, name, saved)
            return stay
        self.credit.pop(name, None)
        self._keep(self.price, name, self.price.get(name, 1.0) * GROWTH)
        return not stay

    @staticmethod
    def _keep(table: dict[Hashable, float], name: Hashable, value: float) -> None:
        if len(table) >= KEPT:
            table.clear()
        table[name] = value


ledger = Ledger()
rates: Rates | None = None  # of the device, once it is in use under `auto`
aim = "cpu"  # where the evaluation under way runs; its lock guards it
_seen = 0.0  # seconds of large work on the host so far
_absent = False  # there is no device, or it does not work


# ---------------------------------------------------------------------- settings
def where() -> str:
    """The device that work of this thread goes to: "auto", "cpu", "cuda", "cuda:N" ..."""
    name = settings.device
    if _overrides:
        name = getattr(_here, "name", None) or name
    if lost and name.startswith("cuda") and int(name[5:] or 0) in lost:
        return "cpu"
    return name


lost: dict[int, str] = {}  # devices that do not work any more, and why


@contextmanager
def on(name: str) -> Iterator[None]:
    """Within the block, work of this thread goes to the device named."""
    global _overrides
    former = getattr(_here, "name", None)
    _here.name = name
    _overrides += 1
    try:
        yield
    finally:
        _overrides -= 1
        _here.name = former


# ---------------------------------------------------------------------- decisions
def held(buffers: Iterable[Buffer]) -> tuple[int, int, int]:
    """(up, down, each) of `Work` for steps that read these buffers, each counted once."""
    up = down = each = 0
    for buffer in {id(b): b for b in buffers}.values():
        copy = buffer.device
        if copy is None:
            up += buffer.nbytes
            each += buffer.nbytes if buffer.shared else 0
        elif buffer.shared and copy.host:
            up += buffer.nbytes
            each += buffer.nbytes
        elif not copy.valid:
            up += buffer.nbytes if copy.host else 0
        elif not copy.host:
            down += buffer.nbytes
    return up, down, each


def absent() -> bool:
    """Whether there is no device to choose."""
    global _absent
    if rates is None and not _absent and not plausible():
        _absent = True
    return _absent


def decide(key: Hashable, work: Work) -> bool:
    """Under `auto`: whether work runs on the device.

    Parameters
    ----------
    key
        What recurs when the same work comes again, such as its line.
    work
        What it does.
    """
    global _seen
    if absent():
        return False
    if rates is None:
        if work.nbytes <= SMALL and work.flops <= 1e7:
            return False
        _seen += costs(work, Rates()).host
        if _seen < STARTUP or not start():
            return False
    assert rates is not None
    return ledger.choose(key, costs(work, rates))


def on_device(buffers: Sequence[Buffer], nbytes: int, flops: float = 0.0, key: Hashable = None) -> bool:
    """Whether a step that no kernel does (a product of matrices, a sort ...) should run on the device now.

    Parameters
    ----------
    buffers
        What it reads.
    nbytes
        Bytes that it makes.
    flops
        Its arithmetic, as multiplications and additions; 0 where the bytes decide.
    key
        What recurs when the same step comes again, such as its name or line.
    """
    name = where()
    if name != "auto":
        return name.startswith("cuda")
    if absent():
        return False
    if any(b.device is not None and b.device.outside for b in buffers):
        return True  # others use it there; the host would have to fetch it each time
    total = nbytes + sum(b.nbytes for b in buffers)
    up, down, each = held(buffers)
    if not down and total <= SMALL and flops <= 1e7:
        return False
    return decide((key, total.bit_length()), Work(total, up, down, each, flops))


# ---------------------------------------------------------------------- start
@cache
def plausible() -> bool:
    """Whether there may be a device that works, found out without a driver."""
    if sys.platform == "linux":
        return any(os.path.exists(p) for p in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"))
    return sys.platform == "win32"


def start() -> bool:
    """Load the driver and learn the machine's rates; False, and never asked again, where there is no device."""
    global rates, _absent
    if rates is not None:
        return True
    if absent():
        return False
    from . import cuda, residency
    from .errors import OffarrayError

    try:
        if cuda.available():
            residency.guard_forks()
            rates = known(cuda.device())
            return True
        reason = "none found"
    except (OffarrayError, MemoryError) as error:
        reason = str(error)
    _absent = True
    trace.log(1, f"no device is used: {reason}")
    return False


def forget() -> None:
    """Know of no device any more, and never again: in a forked child."""
    global rates, _absent
    rates, _absent = None, True


# ---------------------------------------------------------------------- calibration
def processor() -> str:
    """The processor's name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for text in file:
                if text.startswith("model name"):
                    return text.partition(":")[2].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine()


def key_of(device: Any) -> str:
    """What the rates of this machine with a device depend on."""
    from . import threads

    return f"placement 2 {device.driver_version()} {device.name} {processor()} {threads.count()}"


def known(device: Any) -> Rates:
    """The rates of this machine with a device: read from disk, or measured and kept there."""
    import json

    from . import cache

    key = key_of(device)
    data = cache.load(key, counted=False)
    if data is not None:
        try:
            return Rates(**json.loads(data))
        except (ValueError, TypeError):
            pass
    found = measure(device)
    trace.log(1, f"rates of this machine: {found}")
    cache.store(key, json.dumps(found._asdict()).encode())
    return found


def measure(device: Any) -> Rates:
    """Measure the rates, in a small part of a second."""
    from time import perf_counter

    import numpy

    from . import cuda

    size = 1 << 25
    block = numpy.empty(2 * size, numpy.uint8)
    block.fill(1)
    first = block.ctypes.data
    pointer = device.allocate(2 * size)

    def best(run: Any, count: int = 3) -> float:
        found = []
        for _ in range(count):
            begin = perf_counter()
            run()
            device.synchronize()
            found.append(perf_counter() - begin)
        return max(min(found), 1e-7)

    try:
        up = best(lambda: device.upload(pointer, first, 2 * size), 5)
        down = best(lambda: device.download(first, pointer, 2 * size), 5)
        inside = best(lambda: device.move(pointer + size, pointer, size))
        host = best(lambda: cuda.copy(first + size, first, size))
        empty = best(lambda: device.clear(pointer, 64), 5)
    finally:
        device.free(pointer)
    a = numpy.ones((512, 512))
    product = best(lambda: a @ a, 3)
    usual = Rates()
    return Rates(
        h2d=2 * size / up, d2h=2 * size / down, host=2 * size / host,
        device=max(2 * size / (inside - empty / 2), usual.device), host_flops=2 * 512**3 / product,
        device_flops=device.flops(), launch=usual.launch + empty, transfer=usual.transfer,
    )  # fmt: skip
