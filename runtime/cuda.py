"""NVIDIA's driver, through the package cuda-bindings: devices, memory, code, launches.

in: codegen/gpu.py launches, runtime/residency.py moves bytes; out: the driver.  Imported only when a device is used.
All work of a process goes to one stream of each device, in order; errors are `DeviceError`s that name the call.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from . import placement, pool, threads
from .errors import DeviceError, DeviceLostError, MemoryLimitError, NoDeviceError, answered

STAGE = 1 << 22  # bytes of each of the pieces in which large transfers go through pinned memory
STAGES = 24  # pieces under way at a time, two of each thread: more of them leave the processor's cache
EACH = 2
DIRECT = 1 << 16  # transfers up to this size go through the driver's own staging
PIECE = 1 << 22  # bytes that are worth a thread of their own when they are copied
COPIERS = 8  # threads that copy, at most
BLOCK = 1 << 20  # freed memory up to this size is kept for what comes next, as a call of the driver takes longer
LEAST = 512  # bytes of a block
KEPT = 1 << 26  # bytes of such memory, at most
_lock = threading.RLock()


@cache
def driver() -> Any:
    """The bindings' module."""
    try:
        from cuda.bindings import driver as found
    except ImportError:
        raise NoDeviceError(
            "device='cuda' needs the package cuda-bindings: install offarray[cuda], or set device='cpu'"
        ) from None
    return found


def call(name: str, *args: Any) -> Any:
    """Call a driver function; its result, or a tuple of results."""
    module = driver()
    try:
        error, *results = getattr(module, name)(*args)
    except RuntimeError as missing:  # the driver's library is not there
        raise NoDeviceError(f"{name}: {missing}; install NVIDIA's driver, or set device='cpu'") from missing
    if int(error):
        raise _failure(name, error)
    return results[0] if len(results) == 1 else tuple(results)


def _failure(name: str, error: Any) -> Exception:
    """What to raise where a driver function has answered with an error."""
    raised = answered(name, str(getattr(error, "name", error)), _text(driver(), error))
    return bury(raised) if isinstance(raised, DeviceLostError) else raised


# Functions that are called by their address, which takes a fifth of the time: the library's names, and their arguments.
_QUICK = {
    "cuMemcpyHtoDAsync": ("cuMemcpyHtoDAsync_v2", 4), "cuMemcpyDtoHAsync": ("cuMemcpyDtoHAsync_v2", 4),
    "cuMemcpyDtoDAsync": ("cuMemcpyDtoDAsync_v2", 4), "cuStreamSynchronize": ("cuStreamSynchronize", 1),
}  # fmt: skip


@cache
def _by_address(name: str) -> Callable[..., int]:
    library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    symbol, count = _QUICK[name]
    found = getattr(library, symbol)
    found.argtypes = [ctypes.c_size_t] * count
    found.restype = ctypes.c_int
    return found  # type: ignore[no-any-return]


def quick(name: str, *args: int) -> None:
    """Call a driver function of numbers alone that gives nothing back."""
    answer = _by_address(name)(*args)
    if answer:
        raise _failure(name, driver().CUresult(answer))


def _text(module: Any, error: Any) -> str:
    try:
        _, words = module.cuGetErrorString(error)
    except Exception:  # no words for it
        return ""
    return words.decode() if words else ""


@cache
def devices() -> int:
    """Number of devices, at least one.

    Raises
    ------
    NoDeviceError
        If there is none, or the driver does not suit.
    """
    call("cuInit", 0)
    version = int(call("cuDriverGetVersion"))
    if version < OLDEST:
        raise NoDeviceError(
            f"the driver speaks CUDA {version // 1000}.{version % 1000 // 10}, and {OLDEST // 1000}.0 is needed; "
            "update NVIDIA's driver on the host"
        )
    count = int(call("cuDeviceGetCount"))
    if not count:
        raise answered("cuDeviceGetCount", "CUDA_ERROR_NO_DEVICE", "")
    return count


def available() -> int:
    """Number of devices; 0 without bindings or driver."""
    try:
        return devices()
    except DeviceError:
        return 0


def bury(error: DeviceLostError) -> DeviceLostError:
    """The device of this thread's context has stopped working: the error, saying which one it is."""
    device = getattr(_current, "device", None)
    if device is None:
        return error
    if not device.lost:
        device.lost = str(error)
        if mourn is not None:
            mourn(device, device.lost)
    return DeviceLostError(f"cuda:{device.number}: {error}")


_current = threading.local()  # `device`: whose context a thread has
mourn: Callable[[Device, str], None] | None = None  # told of devices that are lost


class Stage:
    """A piece of pinned memory, and the event after which it is free."""

    __slots__ = ("address", "event", "marked")

    def __init__(self, address: int, event: Any) -> None:
        self.address, self.event, self.marked = address, event, False

    def mark(self, stream: Any) -> None:
        """A transfer of it has been started."""
        self.marked = True
        call("cuEventRecord", self.event, stream)

    def wait(self) -> None:
        """Wait until the transfer has ended."""
        if self.marked:
            call("cuEventSynchronize", self.event)
            self.marked = False


Piece = Callable[[Stage, int, int], None]  # (stage, first byte, bytes)


class Flag:
    """A byte of host memory that kernels can set."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.host = device.pinned(64, mapped=True)
        self.pointer = int(call("cuMemHostGetDevicePointer", self.host, 0))
        self.byte = ctypes.c_uint8.from_address(self.host)

    def __enter__(self) -> Flag:
        self.device.lock.acquire()
        self.byte.value = 0
        return self

    def __exit__(self, *exception: object) -> None:
        self.device.lock.release()

    def wait(self) -> bool:
        """Whether a kernel has set it, after all work is done."""
        self.device.synchronize()
        return bool(self.byte.value)


class Device:
    """One device with its context, stream and memory pool."""

    def __init__(self, number: int) -> None:
        if number >= devices():
            raise NoDeviceError(f"there is no device cuda:{number}: {devices()} found")
        self.lock = threading.RLock()
        self.number = number
        self.lost = ""  # why it does not work any more
        self.launches = self.done = 0  # and those of them that have been waited for
        self.handle = call("cuDeviceGet", number)
        try:
            self.context = call("cuDevicePrimaryCtxRetain", self.handle)
            self.enter()
            self.stream = call("cuStreamCreate", 1)  # does not wait for the default stream
        except MemoryLimitError as error:
            raise NoDeviceError(
                f"cuda:{number} has no memory left for this program ({error}): others have taken it; end them "
                "(nvidia-smi lists them), choose another device, or set device='cpu'"
            ) from None
        self.queue = int(self.stream)  # its address
        kinds = driver().CUdevice_attribute
        major, minor = (
            call("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"), self.handle)
            for part in ("MAJOR", "MINOR")
        )
        self.arch = f"sm_{major}{minor}"
        self.name = call("cuDeviceGetName", 100, self.handle).split(b"\0")[0].decode()
        self.memory = int(call("cuDeviceTotalMem", self.handle))
        self.pool = pool = call("cuDeviceGetDefaultMemPool", self.handle)
        keep = driver().CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        call("cuMemPoolSetAttribute", pool, keep, driver().cuuint64_t(1 << 62))
        self.held = self.peak = 0  # bytes of buffers, now and at most
        self._sizes: dict[int, int] = {}  # of the blocks that may be kept: address -> bytes
        self._free: dict[int, list[int]] = {}  # those that are: bytes -> addresses
        self._kept = 0
        self._flag: Flag | None = None
        self._stages: list[Stage] = []
        self.registered: dict[int, int] = {}  # host memory that transfers reach directly: address -> bytes

    def driver_version(self) -> int:
        """Version of the driver, as 1000 * major + 10 * minor of what it implements."""
        return int(call("cuDriverGetVersion"))

    def flops(self) -> float:
        """Multiplications and additions of float64 that it does in a second, at most."""
        kinds = driver().CUdevice_attribute
        count, kilohertz = (
            call("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}"), self.handle)
            for name in ("MULTIPROCESSOR_COUNT", "CLOCK_RATE")
        )
        ratio = call(
            "cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, self.handle
        )
        return 2.0 * 128 / max(int(ratio), 1) * int(count) * int(kilohertz) * 1e3

    def enter(self) -> None:
        """Make the context current in this thread."""
        _current.device = self
        call("cuCtxSetCurrent", self.context)

    def _here(self) -> None:
        if getattr(_current, "device", None) is not self:
            self.enter()

    # ------------------------------------------------------------------ memory
    def allocate(self, nbytes: int) -> int:
        """Device memory, in the order of the stream."""
        if nbytes > BLOCK:
            self._here()
            return int(call("cuMemAllocAsync", nbytes, self.stream))
        size = pool.capacity(max(nbytes, LEAST))
        try:
            pointer = self._free[size].pop()
        except (KeyError, IndexError):
            self._here()
            pointer = int(call("cuMemAllocAsync", size, self.stream))
            self._sizes[pointer] = size
        else:
            self._kept -= size
        return pointer

    def free(self, pointer: int) -> None:
        """Give memory back, when everything launched before has run."""
        size = self._sizes.get(pointer)
        if size is not None:
            if self._kept + size <= KEPT:  # whoever gets it works in the same stream
                self._kept += size
                self._free.setdefault(size, []).append(pointer)
                return
            del self._sizes[pointer]
        self._here()
        call("cuMemFreeAsync", pointer, self.stream)

    def trim(self) -> None:
        """Give freed memory back to the driver."""
        self._here()
        for blocks in list(self._free.values()):
            while blocks:
                pointer = blocks.pop()
                self._kept -= self._sizes.pop(pointer)
                call("cuMemFreeAsync", pointer, self.stream)
        self.synchronize()
        call("cuMemPoolTrimTo", self.pool, 0)

    def room(self) -> tuple[int, int]:
        """Free memory, and all of it."""
        self._here()
        free, total = call("cuMemGetInfo")
        return int(free), int(total)

    def clear(self, pointer: int, nbytes: int) -> None:
        """Set memory to zero."""
        self._here()
        call("cuMemsetD8Async", pointer, 0, nbytes, self.stream)

    def pinned(self, nbytes: int, mapped: bool = False) -> int:
        """Host memory that the device reaches directly."""
        self._here()
        return int(call("cuMemHostAlloc", nbytes, 2 if mapped else 0))

    def register(self, address: int, nbytes: int) -> None:
        """Let the device reach host memory directly."""
        self._here()
        call("cuMemHostRegister", address, nbytes, 0)
        self.registered[address] = nbytes

    def unregister(self, address: int) -> None:
        """Undo `register`, once nothing moves any more."""
        self.synchronize()
        self.registered.pop(address, None)
        call("cuMemHostUnregister", address)

    def _direct(self, host: int, nbytes: int) -> bool:
        """Whether a transfer needs no staging of ours."""
        if nbytes <= DIRECT:
            return True
        return any(first <= host and host + nbytes <= first + size for first, size in self.registered.items())

    def stages(self) -> list[Stage]:
        """Pinned memory that large transfers go through, in pieces."""
        if not self._stages:
            start = self.pinned(STAGES * STAGE)
            self._stages = [Stage(start + k * STAGE, call("cuEventCreate", 2)) for k in range(STAGES)]
        return self._stages

    def upload(self, pointer: int, host: int, nbytes: int, wait: bool = True) -> None:
        """Copy host memory to the device; with `wait` the host memory may be written again at once."""
        self._here()
        with self.lock:
            if self._direct(host, nbytes):
                quick("cuMemcpyHtoDAsync", pointer, host, nbytes, self.queue)
                if nbytes > DIRECT and wait:
                    self.synchronize()
                return

            def piece(stage: Stage, first: int, size: int) -> None:
                stage.wait()
                ctypes.memmove(stage.address, host + first, size)
                call("cuMemcpyHtoDAsync", pointer + first, stage.address, size, self.stream)
                stage.mark(self.stream)

            self._pump(nbytes, piece, None)

    def download(self, host: int, pointer: int, nbytes: int) -> None:
        """Copy device memory to the host, after everything launched before."""
        self._here()
        with self.lock:
            if self._direct(host, nbytes):
                quick("cuMemcpyDtoHAsync", host, pointer, nbytes, self.queue)
                self.synchronize()
                return

            def piece(stage: Stage, first: int, size: int) -> None:
                stage.wait()
                call("cuMemcpyDtoHAsync", stage.address, pointer + first, size, self.stream)
                stage.mark(self.stream)

            def after(stage: Stage, first: int, size: int) -> None:
                stage.wait()
                ctypes.memmove(host + first, stage.address, size)

            self._pump(nbytes, piece, after)

    def _pump(self, nbytes: int, piece: Piece, after: Piece | None) -> None:
        """Move a large range in pieces, each thread by stages of its own; `after` follows the next `piece`."""
        starts = range(0, nbytes, STAGE)
        stages = self.stages()
        shares = max(1, min(3 * threads.count() // 4, STAGES // EACH, (len(starts) + 1) // 2))  # some for the others
        each = EACH

        def part(number: int, low: int, high: int) -> None:
            self._here()
            mine = stages[number * each : (number + 1) * each]
            under: list[tuple[Stage, int, int]] = []
            for turn, k in enumerate(range(number, len(starts), shares)):
                if after is not None and len(under) == each:
                    after(*under.pop(0))
                step = mine[turn % each], starts[k], min(STAGE, nbytes - starts[k])
                piece(*step)
                under.append(step)
            if after is not None:
                for step in under:
                    after(*step)

        threads.run(part, range(shares), [(0, 1)] * shares)

    def rows(self, target: int, room: int, source: int, step: int, width: int, count: int) -> None:
        """Copy `count` runs of `width` bytes within the device; they begin `step` bytes apart, and then `room`."""
        self._here()
        module = driver()
        plan = module.CUDA_MEMCPY2D()
        plan.srcMemoryType = plan.dstMemoryType = module.CUmemorytype.CU_MEMORYTYPE_DEVICE
        plan.srcDevice, plan.srcPitch = module.CUdeviceptr(source), step
        plan.dstDevice, plan.dstPitch = module.CUdeviceptr(target), room
        plan.WidthInBytes, plan.Height = width, count
        call("cuMemcpy2DAsync", plan, self.stream)

    def move(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""
        self._here()
        quick("cuMemcpyDtoDAsync", target, source, nbytes, self.queue)

    # ------------------------------------------------------------------ code
    def assemble(self, ptx: str) -> bytes:
        """Machine code of PTX."""
        self._here()
        module = driver()
        log = bytes(8192)  # the driver writes into it
        options = [module.CUjit_option.CU_JIT_ERROR_LOG_BUFFER, module.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        state = call("cuLinkCreate", len(options), options, [log, len(log)])
        try:
            data = ptx.encode() + b"\0"
            kind = module.CUjitInputType.CU_JIT_INPUT_PTX
            try:
                call("cuLinkAddData", state, kind, data, len(data), b"kernel", 0, [], [])
                address, size = call("cuLinkComplete", state)
            except DeviceError as error:
                words = log.split(b"\0")[0].decode(errors="replace").strip()
                raise DeviceError(f"{error} {words}".strip()) from None
            return ctypes.string_at(int(address), int(size))
        finally:
            call("cuLinkDestroy", state)

    def load(self, code: bytes, name: str) -> Any:
        """The entry `name` of machine code."""
        self._here()
        library = call("cuModuleLoadData", code)
        return call("cuModuleGetFunction", library, name.encode())

    def launch(self, function: Any, grid: tuple[int, int], block: int, words: Sequence[int]) -> None:
        """Run an entry whose parameters are all 8 bytes wide."""
        self._here()
        row = array("Q", words)
        first = row.buffer_info()[0]
        pointers = array("Q", range(first, first + 8 * len(row), 8))
        place = pointers.buffer_info()[0]
        call("cuLaunchKernel", function, grid[0], grid[1], 1, block, 1, 1, 0, self.stream, place, 0)
        self.launches += 1

    def flag(self) -> Flag:
        """The byte through which kernels tell of suspicions."""
        if self._flag is None:
            self._flag = Flag(self)
        return self._flag

    def synchronize(self) -> None:
        """Wait for everything launched."""
        self._here()
        before = self.launches
        quick("cuStreamSynchronize", self.queue)
        self.done = before

    def wait(self) -> None:
        """Wait for everything on the device, the work of others in this process too."""
        self._here()
        call("cuCtxSynchronize")


def ordinal(pointer: int) -> int:
    """Number of the device that memory lies on."""
    available()  # starts the driver
    return int(call("cuPointerGetAttribute", driver().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer))


def copy(target: int, source: int, nbytes: int) -> None:
    """Copy host memory; large parts by several threads."""
    shares = min(threads.count(), COPIERS, nbytes // PIECE)
    if shares < 2:
        ctypes.memmove(target, source, nbytes)
        return

    def part(_: int, low: int, high: int) -> None:
        ctypes.memmove(target + low, source + low, high - low)

    threads.run(part, [0] * shares, threads.parts(nbytes, shares))


OLDEST = 12000  # the CUDA version that a driver must speak
_devices: dict[int, Device] = {}
_gone = False


def lost() -> None:
    """Forget all devices, in a forked child."""
    global _gone
    _gone = bool(_devices)
    _devices.clear()


def device() -> Device:
    """The device that work of this thread goes to."""
    if _gone:
        raise DeviceError("the parent process has used a device, which a forked child cannot: start it by spawn")
    _, _, number = placement.where().partition(":")
    key = int(number or 0)
    found = _devices.get(key)
    if found is None:
        with _lock:
            found = _devices.get(key)
            if found is None:
                found = _devices[key] = Device(key)
    if found.lost:
        raise DeviceLostError(f"cuda:{key} does not work any more: {found.lost}")
    return found
