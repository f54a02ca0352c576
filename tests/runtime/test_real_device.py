"""What befalls a device that is really there: none to see, one that is shared, one without memory, one that dies.

Each case is a program of its own.  `OFFARRAY_ALONE=1` adds those that take the whole memory of the device.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from offarray.runtime import cuda

pytestmark = [
    pytest.mark.skipif(not cuda.available(), reason="there is no device here"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the programs are started as POSIX has it"),
]
alone = pytest.mark.skipif(
    os.environ.get("OFFARRAY_ALONE") != "1", reason="takes the device's memory from everybody: set OFFARRAY_ALONE=1"
)

WORK = """
    import sys, warnings
    import numpy
    import offarray as np
    from offarray.runtime import placement
    from offarray.runtime.errors import DeviceError, DeviceLostError, LostValueError, MemoryLimitError, NoDeviceError

    def same(found, want):
        return numpy.allclose(numpy.asarray(found), want, rtol=1e-10, atol=1e-10)
"""


def started(code: str, setting: str, **more: str) -> subprocess.Popen[str]:
    """A program under a setting of `device`."""
    environment = {**os.environ, "OFFARRAY_DEVICE": setting, **more}
    text = textwrap.dedent(WORK) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", text], env=environment, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(child: subprocess.Popen[str], right: bool = True) -> str:
    """What a program has said until its end, which must be in order."""
    out, err = child.communicate(timeout=120)
    assert "Exception ignored" not in err, err
    assert (child.returncode == 0) == right, (child.returncode, out, err)
    return out + err


def refused(child: subprocess.Popen[str], *words: str) -> None:
    """The program ends with one error that says what to do."""
    text = ended(child, right=False)
    assert text.count("Traceback") == 1, text
    last = text.strip().splitlines()[-1]
    assert "offarray.runtime.errors." in last and all(word in last for word in words), last


SUM = """
    x = np.array(numpy.arange(4e6))
    with np.config(eager_size=0):
        for _ in range(40):
            y = np.sqrt(x * 2.0 + 1.0) + x
            assert same(y[:1000], numpy.sqrt(numpy.arange(1000) * 2.0 + 1.0) + numpy.arange(1000))
            assert float(x.sum()) == 4e6 * (4e6 - 1) / 2
        assert same(np.sort(-x)[:3], [1 - 4e6, 2 - 4e6, 3 - 4e6])
        m = x.reshape(2000, 2000)
        assert same((m @ m[:, :3])[5], x.tolist()[10000:12000] @ numpy.arange(4e6).reshape(2000, 2000)[:, :3])
    print("right")
"""


@pytest.mark.parametrize("seen", ["", "99", "GPU-00000000-0000-0000-0000-000000000000"])
def test_no_device_to_see(seen: str) -> None:
    """As with a device that somebody else has for himself: the driver gives none."""
    refused(started(SUM, "cuda", CUDA_VISIBLE_DEVICES=seen), "CUDA_VISIBLE_DEVICES")
    assert "right" in ended(started(SUM, "auto", CUDA_VISIBLE_DEVICES=seen))


def test_a_number_that_no_device_has() -> None:
    refused(started(SUM, "cuda:7", CUDA_VISIBLE_DEVICES="0"), "no device cuda:7", "1 found")


@pytest.mark.parametrize("setting", ["cuda", "auto"])
def test_two_programs_at_once(setting: str) -> None:
    for child in [started(SUM, setting) for _ in range(2)]:
        assert "right" in ended(child)


# ---------------------------------------------------------------------- a device without memory
HOLDER = """
    from offarray.runtime import cuda
    device, taken = cuda.device(), []
    size = 1 << 36
    while size >= 1 << 16:
        if device.room()[0] - size < int(sys.argv[1]):
            size //= 2
            continue
        try:
            taken.append(cuda.call("cuMemAlloc", size))
        except MemoryLimitError:
            size //= 2
    print("taken", device.room(), flush=True)
    sys.stdin.readline()
"""


@contextlib.contextmanager
def crowded(left: int) -> Iterator[None]:
    """Within the block, another process has all but some bytes of the device's memory."""
    code = HOLDER.replace("int(sys.argv[1])", str(left))
    child = started(code, "cuda")
    assert child.stdout is not None
    try:
        text = child.stdout.readline()
        assert text.startswith("taken"), (text, child.communicate(timeout=60))
        print(text)
        yield
    finally:
        child.communicate("\n", timeout=60)


LARGE = """
    n = 1 << 27
    with np.config(eager_size=0):
        x = np.array(numpy.ones(n))
        y = np.evaluate(x * 2.0 + 1.0)
        z = np.evaluate(y + x * 3.0)
        assert float(z[5]) == 6 and float(z.sum()) == 6.0 * n and float(y.sum()) == 3.0 * n
        for _ in range(3):
            assert same(np.sort(-y)[:3], [-3, -3, -3])
            m = x[: 1 << 24].reshape(4096, 4096)
            assert float((m @ m)[7, 7]) == 4096
            assert abs(np.fft.rfft(x)[0] - n) < 1
    print("right")
"""


@alone
@pytest.mark.parametrize("left", [0, 300 << 20, 700 << 20, 3 << 30])
def test_memory_that_another_process_has(left: int) -> None:
    """Named, the device says who has the memory, or does the work with what is left; under `auto` the work is done."""
    with crowded(left):
        child = started(LARGE, "cuda")
        text = child.communicate(timeout=120)
        print(text[1][-600:])
        if child.returncode:
            last = text[1].strip().splitlines()[-1]
            assert text[1].count("Traceback") == 1 and "Exception ignored" not in text[1], text[1]
            assert "nvidia-smi" in last and "offarray.runtime.errors." in last, last
        else:
            assert left and "right" in text[0]
        assert "right" in ended(started(LARGE, "auto"))


# ---------------------------------------------------------------------- a device that dies
BROKEN = {
    "trap": "trap;",
    "address": "mov.u64 %a, 8; st.global.u32 [%a], 1;",
    "misaligned": "mov.u64 %a, 0x7f0000000001; st.global.u32 [%a], 1;",
}
DYING = """
    from offarray.runtime import cuda

    ptx = ".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry broken()\\n{ .reg .u64 %a; BODY ret; }\\n"
    n = 1 << 20
    one = numpy.arange(float(n))
    np.config(eager_size=0)
    warnings.simplefilter("ignore", RuntimeWarning)  # as the program's first word: warnings wait all the same
    host = np.array(one)
    there = np.to_device(np.array(one + 1))  # on both sides
    with np.device("cuda"):  # where `auto` would put some of it on the host
        seen = np.evaluate(np.to_device(np.array(one)) * 2.0)
        seen.tolist()  # computed there, and fetched
        only = np.evaluate(np.to_device(np.array(one)) * 3.0)  # there alone
        part = np.evaluate(np.to_device(np.array(one)) * 5.0)
        assert part[7] == 35  # there alone, but for a look
        home = np.to_host(np.evaluate(np.to_device(np.array(one)) * 7.0))  # it has made room
    later = only + 1.0  # pending
    source = np.to_device(np.array(one))
    waiting = np.log(source)  # it warns, later
    square = np.to_device(np.array(one)).reshape(1024, 1024)

    device = cuda.device()
    broken = device.load(device.assemble(ptx), "broken")
    device.launch(broken, (1, 1), 32, [])

    told = 0
    try:
        FIRST
        np.synchronize()  # what is asked of a device may fail later
    except (DeviceLostError, LostValueError) as error:
        told += 1
        assert "CUDA_ERROR" in str(error) or "stopped working" in str(error), error
    if SETTING == "cuda":
        assert told, "nothing was said of it"
    for gone in (only, later, part):
        try:
            gone.tolist()
        except (DeviceLostError, LostValueError) as error:
            assert "cuda:0" in str(error), error
        else:
            raise AssertionError("a value that is lost")
    assert placement.where() in ("cpu", "auto") and placement.lost
    assert (numpy.asarray(host) == one).all() and (numpy.asarray(there) == one + 1).all()
    assert (numpy.asarray(seen) == one * 2).all() and (numpy.asarray(home) == one * 7).all()
    assert same(np.evaluate(host * 2.0 + there), 3 * one + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert same(np.exp(np.log(host[1:])), one[1:])
        assert same(waiting[1:], numpy.log(one[1:]))
    assert same(np.sort(-host)[:2], [1 - n, 2 - n])
    assert same((square @ square[:, :2])[0, 0], (one[:1024] * one[::1024]).sum())
    try:
        np.to_device(host)
    except DeviceError as error:
        assert "does not work any more" in str(error), error
    else:
        raise AssertionError("the device is there again")
    del there, seen, only, part, later, square, waiting, source
    print("right")
"""
FIRST = {
    "kernel": "np.evaluate(only + 1.0)",
    "look": "only.tolist()",
    "element": "float(only[3])",
    "transfer": "np.to_device(host)",
    "product": "np.evaluate(square @ square)",
    "transform": "np.evaluate(np.fft.fft(there))",
    "sort": "np.evaluate(np.sort(only))",
    "mask": "np.evaluate(only[only > 3.0])",
    "text": "repr(only)",
    "wait": "np.synchronize()",
}


@pytest.mark.parametrize("setting", ["cuda", "auto"])
@pytest.mark.parametrize("first", FIRST)
def test_a_device_dies(first: str, setting: str) -> None:
    """Whatever finds out: a clear error, what the host has stays, and work goes on there."""
    code = DYING.replace("BODY", BROKEN["address"]).replace("FIRST", FIRST[first]).replace("SETTING", repr(setting))
    assert "right" in ended(started(code, setting))


@pytest.mark.parametrize("way", BROKEN)
def test_ways_to_die(way: str) -> None:
    code = DYING.replace("BODY", BROKEN[way]).replace("FIRST", FIRST["kernel"]).replace("SETTING", "'cuda'")
    assert "right" in ended(started(code, "cuda"))


def test_the_error_of_a_dead_device_is_the_only_one() -> None:
    """A program that does not catch it ends with that error and its line."""
    code: Any = DYING.split("told = 0")[0] + "\n    print(only.tolist()[:3])\n"
    refused(started(code.replace("BODY", BROKEN["trap"]), "cuda"), "cuda:0", "CUDA_ERROR")
