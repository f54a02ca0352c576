"""Programs: what each instruction does, the argument row, threads, faults, checks, and failures in the middle."""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

from offarray.runtime import pool, program, threads, trace
from offarray.runtime.buffer import Buffer, adopt, allocate
from offarray.runtime.config import config
from offarray.runtime.errors import CheckError
from offarray.runtime.program import Alloc, Copy, Free, Host, Launch, Program, execute
from offarray.runtime.target import Compiled, Target

from . import fakedevice

F8 = numpy.dtype("f8")
HOST = Target("host", "any", "", 32)
_serial = itertools.count()


@pytest.fixture(autouse=True, params=["no device", "a device"])
def _in_use(request: pytest.FixtureRequest) -> Iterator[None]:
    """Programs of the host are the same once a device is in use, which then holds what `allocate` makes."""
    if request.param == "no device":
        yield
    else:
        with fakedevice.installed():
            yield


def words(address: int, count: int) -> list[int]:
    """The first words of an argument row."""
    return list((ctypes.c_uint64 * count).from_address(address))


def array(address: int, count: int) -> numpy.ndarray:
    """Doubles at an address."""
    return numpy.frombuffer((ctypes.c_double * count).from_address(address), F8)


def kernel(body: Callable[[int, int, int], None], finish: Any = None, units: int = 1, scratch: int = 0) -> Compiled:
    """A Python function in the place of compiled code."""
    return Compiled(HOST, f"kernel{next(_serial)}", body, finish, lambda e: units, lambda e: scratch, 0.0)


def step(compiled: Compiled, pointers: Any, tail: Any = (), access: str = "rw", **more: Any) -> Launch:
    """A launch over 1-d arrays of doubles: pointers are (slot, byte offset), the first two of them "r" and "w"."""
    fields = {"extents": (8,), "spans": (), "faults": 0, "nbytes": 128, **more}
    return Launch(compiled, pointers, tail, access=tuple(access)[: len(pointers)], **fields)


def doubles(*values: float) -> Buffer:
    """A private buffer that holds `values`."""
    buffer = allocate(8 * len(values))
    buffer.view(F8, (len(values),))[:] = values
    return buffer


def double(row: int, first: int, last: int) -> None:
    """y[u] = 2 x[u] for each unit."""
    x, y = words(row, 2)
    array(y, 8)[first:last] = 2 * array(x, 8)[first:last]


def test_a_row_of_words() -> None:
    values = (3, -1, 2**63, -(2**63), 1.5, -0.0, True, numpy.int32(-7), float("inf"))
    row = program.pack(values)
    assert row.itemsize == 8
    want = struct.pack("<qqQqddqqd", 3, -1, 2**63, -(2**63), 1.5, -0.0, 1, -7, float("inf"))
    assert row.tobytes() == want
    assert program.pack((1, 2**64 - 1)).tolist() == [1, 2**64 - 1]
    assert program.pack((2**64 + 5,)).tolist() == [5]


def test_instructions(counters: dict[str, int]) -> None:
    seen: list[Any] = []

    def look(x: Buffer, y: Buffer) -> None:
        seen.append((x.view(F8, (8,)).tolist(), y.view(F8, (8,)).tolist()))
        y.view(F8, (8,))[0] = -1

    code = (
        Alloc(1, 64),
        step(kernel(double, units=8), ((0, 0), (1, 0)), (8,), ("r", "w")),  # type: ignore[arg-type]
        Host(look, (0,), (1,)),
        Copy(1, 0, F8, (2, 2), 0, (32, 8), 56, (-32, -8)),
        Free(1),
    )
    x = doubles(*range(8))
    bind: list[Buffer | None] = [x]
    slots, faults = execute(Program(2, code), bind)
    assert slots is bind
    assert slots == [x, None]
    assert faults == [b""]
    assert seen == [([0, 1, 2, 3, 4, 5, 6, 7], [0, 2, 4, 6, 8, 10, 12, 14])]
    assert x.view(F8, (8,)).tolist() == [0, 1, 10, 8, 4, 5, 2, -1]
    assert (counters["kernels"], counters["kernel_bytes"], counters["host_bytes"]) == (1, 128, 64 + 128)


def test_host_steps_may_bring_their_own_buffers(counters: dict[str, int]) -> None:
    def two(x: Buffer, *absent: None) -> tuple[Buffer, Buffer]:
        assert absent == (None, None)
        a = x.view(F8, (3,))
        return adopt(numpy.sort(a), False), adopt(numpy.argsort(a), False)

    def one(x: Buffer, absent: None) -> Buffer:
        return adopt(x.view(F8, (3,))[::-1], True)

    code = (Host(two, (0,), (1, 2), "library_bytes"), Host(one, (1,), (3,)))
    slots, _ = execute(Program(4, code), [doubles(3, 1, 2)])
    assert [b.nbytes for b in slots if b] == [24, 24, 24, 24]
    assert slots[1] is not None
    assert slots[1].view(F8, (3,)).tolist() == [1, 2, 3]
    assert (counters["library_bytes"], counters["host_bytes"]) == (72, 48)
    with pytest.raises(ValueError, match="zip"):
        execute(Program(3, (Host(lambda x, *_: (x,), (0,), (1, 2)),)), [doubles(1)])


def test_arguments_of_a_launch() -> None:
    rows: list[list[int]] = []

    def body(row: int, first: int, last: int) -> None:
        rows.append([*words(row, 7), first, last])
        array(words(row, 7)[6], 5)[:] = 1  # the scratch memory can be written

    x, y = doubles(*range(8)), doubles(*range(8))
    launch = step(kernel(body, units=3, scratch=40), ((0, 8), (1, 0)), (8, -16, 2.5), faults=9)
    _, faults = execute(Program(2, (launch,)), [x, y])
    ((p, q, extent, stride, scalar, fault, scratch, first, last),) = rows
    assert (p, q, extent, stride - 2**64, first, last) == (x.address + 8, y.address, 8, -16, 0, 3)
    assert struct.unpack("d", struct.pack("Q", scalar)) == (2.5,)
    assert fault
    assert scratch % 64 == 0
    assert faults == [bytes(9)]


def test_no_units_still_finish() -> None:
    calls: list[str] = []
    empty = kernel(lambda *a: calls.append("body"), lambda row: calls.append("finish"), units=0)
    execute(Program(0, (step(empty, ()),)), [])
    assert calls == ["finish"]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 40])
@pytest.mark.parametrize("units", [1, 2, 7, 8, 1000])
def test_ranges_cover_every_unit_once(count: int, units: int) -> None:
    ranges = threads.parts(units, count)
    assert len(ranges) == min(count, units)
    assert [u for first, last in ranges for u in range(first, last)] == list(range(units))
    lengths = [last - first for first, last in ranges]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_threads_share_units_and_keep_faults_apart(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "SHARE", 1e-15)
    monkeypatch.setattr(program, "QUICK", 1e-15)
    names: set[str] = set()
    order: list[str] = []

    def body(row: int, first: int, last: int) -> None:
        names.add(threading.current_thread().name)
        double(row, first, last)
        fault = (ctypes.c_uint8 * 10).from_address(words(row, 4)[2])
        for unit in range(first, last):
            fault[unit] |= 1 << unit % 4
            fault[9] |= 1 << unit
        order.append("body")

    launch = step(kernel(body, lambda row: order.append("finish"), units=8), ((0, 0), (1, 0)), faults=10)
    with config(threads=count):
        slots, faults = execute(Program(2, (Alloc(1, 64), launch)), [doubles(*range(8))])
    assert slots[1] is not None
    assert slots[1].view(F8, (8,)).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert faults == [bytes([1, 2, 4, 8, 1, 2, 4, 8, 0, 255])]
    assert order == ["body"] * count + ["finish"]
    assert len(names) <= count


def test_small_launches_and_other_targets_stay_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = kernel(double, units=8)
    with config(threads=4):
        assert program._shares(compiled, 8, 1000) == 1
        assert program._shares(compiled, 8, 1 << 30) == 4
        assert program._shares(compiled, 3, 1 << 30) == 3
        other = compiled._replace(target=HOST._replace(kind="interpret"))
        assert program._shares(other, 8, 1 << 30) == 1
        monkeypatch.setitem(program._pace, compiled.key, 1e-3)
        assert program._shares(compiled, 8, 1000) == 4
    with config(threads=1):
        assert program._shares(compiled, 8, 1 << 30) == 1


def test_launches_one_after_the_other_are_shared_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = kernel(double, units=8)
    monkeypatch.setitem(program._pace, compiled.key, 1e-8)  # 30 microseconds for 3000 bytes
    monkeypatch.setattr(threads, "started", lambda: 3)
    with config(threads=4):
        monkeypatch.setattr(program, "_last", -1.0)
        assert program._shares(compiled, 8, 3000) == 1
        monkeypatch.setattr(program, "_last", float("inf"))
        assert program._shares(compiled, 8, 3000) == 3


def test_many_launches_are_worth_a_worker_too(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = kernel(double, units=8)
    monkeypatch.setitem(program._pace, compiled.key, 1e-7)  # 100 microseconds for 1000 bytes
    monkeypatch.setattr(threads, "started", lambda: 0)
    monkeypatch.setattr(program, "_owed", 0.0)
    with config(threads=4):
        assert [program._shares(compiled, 8, 1001) for _ in range(7)] == [1, 1, 2, 1, 1, 2, 1]


def test_a_guess_is_worth_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = kernel(double, units=8)
    monkeypatch.setattr(program, "_pace", {})
    monkeypatch.setattr(threads, "started", lambda: 0)
    monkeypatch.setattr(program, "_owed", 0.0)
    with config(threads=4):
        assert [program._shares(compiled, 8, 2_400_000) for _ in range(7)] == [1] * 7
        program._pace[compiled.key] = 2e-10
        assert program._shares(compiled, 8, 2_400_000) == 2


def test_a_kernel_that_was_slow_once_goes_back_to_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_pace", {})
    program._learn("k", 1e-6, 1)
    program._learn("k", 2e-6, 2)
    assert program._pace["k"] == 1e-6
    program._learn("k", 1e-9, 2)
    assert program._pace["k"] == 1e-9
    program._learn("k", 1e-8, 1)
    assert program._pace["k"] == 1e-8


@pytest.mark.parametrize("where", [0, 1])
def test_an_error_in_a_part_is_raised_when_all_parts_have_ended(where: int) -> None:
    ended: list[int] = []
    gate = threading.Event()

    def body(row: int, first: int, last: int) -> None:
        if first == where:
            gate.set()
            raise ArithmeticError(first)
        gate.wait(60)
        ended.append(first)

    for _ in range(3):
        ended.clear()
        gate.clear()
        with pytest.raises(ArithmeticError):
            threads.run(body, [0, 0], [(0, 1), (1, 2)])
        assert ended == [1 - where]


def test_launches_from_many_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "SHARE", 1e-15)
    monkeypatch.setattr(program, "QUICK", 1e-15)
    wrong: list[int] = []
    code = (Alloc(1, 64), step(kernel(double, units=8), ((0, 0), (1, 0))), Free(0))

    def work(number: int) -> None:
        for _ in range(50):
            slots, _ = execute(Program(2, code), [doubles(*range(number, number + 8))])
            if slots[1] is None or slots[1].view(F8, (8,)).tolist() != [2 * (number + n) for n in range(8)]:
                wrong.append(number)

    with config(threads=3):
        workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "SHARE", 1e-15)
    monkeypatch.setattr(program, "QUICK", 1e-15)
    code = (Alloc(1, 64), step(kernel(double, units=8), ((0, 0), (1, 0))))
    with config(threads=2):
        execute(Program(2, code), [doubles(*range(8))])
        with threads._busy:
            child = os.fork()
            if not child:
                status = 1
                try:
                    names = len(threads._workers)
                    slots, _ = execute(Program(2, code), [doubles(*range(8))])
                    done = slots[1] is not None and slots[1].view(F8, (8,))[7] == 14
                    status = 0 if done and not names and threads._workers else 2
                finally:
                    os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ZeroDivisionError, MemoryError])
def test_a_failure_leaves_what_was_done_and_nothing_else(kind: type[BaseException]) -> None:
    def fail(row: int, first: int, last: int) -> None:
        raise kind

    live = pool.stats()["live"]
    bind: list[Buffer | None] = [doubles(*range(8))]
    good = step(kernel(double, units=8), ((0, 0), (1, 0)))
    bad = step(kernel(fail, scratch=1000), ((1, 0), (2, 0)))
    with pytest.raises(kind):
        execute(Program(3, (Alloc(1, 64), good, Alloc(2, 64), bad, Free(0))), bind)
    assert bind[0] is not None
    assert bind[1] is not None
    assert bind[0].view(F8, (8,)).tolist() == list(range(8))
    assert bind[1].view(F8, (8,)).tolist() == list(range(0, 16, 2))
    bind.clear()
    assert pool.stats()["live"] == live


def test_a_slot_without_a_buffer_is_an_error() -> None:
    with pytest.raises(CheckError, match="slot 1"):
        execute(Program(2, (step(kernel(double), ((0, 0), (1, 0))),)), [doubles(1)])


FULL = ((0, 64), (0, 64))


@pytest.mark.parametrize(
    ("pointers", "access", "spans", "problem"),
    [
        (((0, 0), (1, 0)), ("r", "w"), FULL, ""),
        (((0, 0), (0, 0)), ("r", "r"), FULL, ""),
        (((0, 0), (0, 0)), ("rw", "rw"), FULL, ""),
        (((0, 0), (0, 0)), ("r", "w"), FULL, "overlap"),
        (((0, 0), (0, 0)), ("rw", "w"), ((0, 32), (0, 32)), "overlap"),
        (((0, 0), (3, 0)), ("r", "w"), FULL, "overlap"),
        (((0, 0), (3, 0)), ("r", "r"), FULL, ""),
        (((0, 0), (0, 32)), ("w", "w"), ((0, 32), (0, 32)), ""),
        (((0, 56), (1, 0)), ("r", "w"), ((-56, 8), (0, 64)), ""),
        (((0, 8), (1, 0)), ("r", "w"), FULL, "reaches bytes 8 to 72"),
        (((0, 0), (1, 0)), ("r", "w"), ((-8, 8), (0, 64)), "reaches bytes -8 to 8"),
        (((0, 0), (0, 0)), ("r", "w"), ((0, 64), (0, 0)), ""),
        (((0, 0), (2, 0)), ("r", "r"), ((0, 64), (0, 8)), ""),
        (((0, 0), (2, 0)), ("r", "w"), ((0, 64), (0, 8)), "read-only"),
        (((0, 0), (0, 0)), ("r", "w"), (), "overlap"),
    ],
)  # fmt: skip
def test_check_of_operands(pointers: Any, access: Any, spans: Any, problem: str) -> None:
    ran: list[int] = []
    fixed = numpy.zeros(1)
    fixed.flags.writeable = False
    first = doubles(*range(8))
    again = adopt(first.view(F8, (8,)), True)  # the same memory, come in by another door
    bind: list[Buffer | None] = [first, doubles(*range(8)), adopt(fixed, True), again]
    code = (step(kernel(lambda *a: ran.append(1)), pointers, (), access, spans=spans),)
    with config(check=1):
        if problem:
            with pytest.raises(CheckError, match=problem):
                execute(Program(4, code), bind)
            assert not ran
        else:
            execute(Program(4, code), bind)
            assert ran
    execute(Program(4, code), bind)
    assert ran[-1:] == [1]


@pytest.mark.parametrize("seed", range(40))
def test_check_tells_interleaved_elements_from_shared_ones(seed: int) -> None:
    random = numpy.random.default_rng(seed)
    buffer = allocate(4096)
    arrays = []
    for _ in range(2):
        array = buffer.view(F8, (8, 8, 8))[:, : random.integers(1, 9), : random.integers(1, 9)]
        step_ = tuple(slice(int(random.integers(0, 2)), None, int(random.integers(1, 4))) for _ in range(3))
        arrays.append(array[step_])
    extents, low = [a.shape for a in arrays], [a.__array_interface__["data"][0] - buffer.address for a in arrays]
    spans = [numpy.lib.array_utils.byte_bounds(a) if a.size else (buffer.address,) * 2 for a in arrays]
    launch = step(
        kernel(lambda *a: None), ((0, low[0]), (0, low[1])), (), ("r", "w"),  # type: ignore[arg-type]
        spans=tuple((a - buffer.address - n, b - buffer.address - n) for (a, b), n in zip(spans, low, strict=True)),
        grids=tuple(program.Grid(e, a.strides, 8) for e, a in zip(extents, arrays, strict=True)),
    )  # fmt: skip
    if numpy.shares_memory(*arrays):
        with pytest.raises(CheckError, match="overlap"):
            program.verify(launch, [buffer])
    else:
        program.verify(launch, [buffer])


def test_check_poisons_new_and_freed_memory() -> None:
    poison = numpy.frombuffer(bytes([program.POISON]) * 8, F8)[0]
    kept, shared = doubles(1), doubles(2)
    out = shared.export(F8, (1,))
    slots: list[Buffer | None] = [doubles(3), kept, shared]
    assert slots[0] is not None
    dead = slots[0].view(F8, (1,))
    del shared
    with config(check=1):
        execute(Program(4, (Free(0), Free(1), Free(2), Alloc(3, 8))), slots)
    assert slots[:3] == [None, None, None]
    assert slots[3] is not None
    assert slots[3].view(F8, (1,)).tobytes() == dead.tobytes() == poison.tobytes()
    assert (kept.view(F8, (1,))[0], out[0]) == (1, 2)


def test_a_launch_is_told_and_recorded(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = kernel(double, units=8)
    trace.record()
    with config(debug=2):
        execute(Program(2, (Alloc(1, 64), step(compiled, ((0, 0), (1, 0))))), [doubles(*range(8))])
    events = trace.record(False)
    assert events is not None
    assert [(e.kind, e.fields["key"], e.fields["nbytes"]) for e in events] == [("kernel", compiled.key, 128)]
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"offarray 2: kernel {compiled.key[:12]} 8 128 bytes ")
    assert line.endswith(" GB/s")
