"""Device kernels run by the host: the code that a device would get, with its threads taking turns.

What differs from a device: blocks run one after the other, and the library of mathematics is the C library.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from offarray import _evaluate
from offarray.codegen import gpu
from offarray.codegen.compile import host_target
from offarray.codegen.nvptx import device_target
from offarray.fusion import replay
from offarray.runtime import buffer as buffers
from offarray.runtime import cuda, residency
from offarray.runtime.config import config

from ..runtime.fakedevice import FakeDevice

SPECIAL = {
    "llvm.nvvm.read.ptx.sreg.": "sim_", "llvm.nvvm.barrier0": "sim_barrier", "llvm.nvvm.bar.warp.sync": "sim_warp",
    "llvm.nvvm.shfl.sync.down.i32": "sim_shfl_down", "llvm.nvvm.shfl.sync.up.i32": "sim_shfl_up",
    "llvm.nvvm.shfl.sync.idx.i32": "sim_shfl_idx", "llvm.nvvm.nanosleep": "sim_pause",
    "llvm.nvvm.rsqrt.approx.ftz.f": "sim_rsqrt_f", "llvm.nvvm.sqrt.approx.ftz.f": "llvm.sqrt.f32",
}  # fmt: skip
FEATURES = llvm.get_host_cpu_features().flatten()  # half precision needs what the processor has
_numbers = iter(range(1 << 40))


def possible() -> bool:
    """Whether this machine can: a C compiler, and the processor whose stacks are known."""
    return platform.machine() in ("x86_64", "AMD64") and shutil.which("cc") is not None


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled scheduler of threads."""
    source = pathlib.Path(__file__).with_name("emulate.c")
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "emulate.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(target), "-lm"], check=True)
        found = ctypes.CDLL(str(target))
    for name in ("tid_x", "ctaid_x", "ctaid_y", "ctaid_z", "nctaid_x", "nctaid_y", "barrier", "warp", "pause",
                 "shfl_down", "shfl_up", "shfl_idx", "rsqrt", "rsqrt_f"):  # fmt: skip
        llvm.add_symbol(f"sim_{name}", ctypes.cast(getattr(found, f"sim_{name}"), ctypes.c_void_p).value)
    return found


def hosted(text: str) -> str:
    """The module as the host can run it, with an entry for each kernel that takes its parameters from a row."""
    for name, mine in SPECIAL.items():
        text = text.replace(f"@{name}", f"@{mine}")
    text = re.sub(r"@sim_(n?\w+)\.([xyz])", r"@sim_\1_\2", text)
    text = re.sub(r"declare void @sim_pause\(i32\)", "declare void @sim_pause()", text)
    text = re.sub(r"@sim_pause\(i32 \d+\)", "@sim_pause()", text)
    text = text.replace(" addrspace(3)", "").replace("] undef, align", "] zeroinitializer, align")
    text = text.replace("@__nv_", "@").replace("ptx_kernel ", "").replace(' syncscope("device")', "")
    text = re.sub(r"call i32 asm sideeffect \"prmt[^\"]*\", \"[^\"]*\"\(i32 (\S+)\)", r"or i32 \1, 0", text)
    text = re.sub(
        r"call double asm sideeffect \"div[^\"]*\", \"[^\"]*\"\(double (\S+), double (\S+)\)",
        r"fdiv double \1, \2",
        text,
    )
    text, roots = re.subn(
        r"call double asm \"rsqrt[^\"]*\", \"[^\"]*\"\(double (\S+)\)", r"call double @sim_rsqrt(double \1)", text
    )
    text += "\ndeclare double @sim_rsqrt(double)\n" if roots else ""
    text = re.sub(r"attributes #0 = .*", "attributes #0 = { nounwind }", text)
    entries = []
    for name, inside in re.findall(r"^define void @(\w+)\((.*)\) #0", text, re.MULTILINE):
        lines, passed = [], []
        for n, parameter in enumerate(inside.split(", ")):
            t = parameter.split()[0]
            lines += [f"  %q{n} = getelementptr i64, ptr %row, i64 {n}", f"  %v{n} = load {t}, ptr %q{n}"]
            passed.append(f"{t} %v{n}")
        body = "\n".join(lines)
        entries.append(
            f"define void @row_{name}(ptr %row) {{\n{body}\n  call void @{name}({', '.join(passed)})\n  ret void\n}}"
        )
    return "\n".join([text, *entries])


LAUNCHER = ctypes.CFUNCTYPE(
    ctypes.c_int, *[ctypes.c_size_t, *[ctypes.c_uint] * 7, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t]
)


class Entry(NamedTuple):
    """An entry of a device's code."""

    name: str
    address: int
    words: int  # parameters
    handle: int

    def __int__(self) -> int:
        return self.handle


class EmulatedDevice(FakeDevice):
    """A device whose code the host runs; what launches is called by its address, as the driver's function is."""

    arch = "sm_90"
    processors = 132

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[tuple[str, tuple[int, int], int]] = []
        self.lazy = False  # whether work waits until somebody waits for it
        self.queue: list[Callable[[], None]] = []
        self.engines: list[Any] = []
        self.entries: list[Entry] = []
        self.stream = 0
        self.calls = 0  # of the function that launches
        self._launcher = LAUNCHER(self._called)
        self.launcher = ctypes.cast(self._launcher, ctypes.c_void_p).value
        self.refuses = False  # whether that function answers with an error

    def _here(self) -> None:
        pass

    def _called(self, handle: int, x: int, y: int, z: int, block: int, *rest: int) -> int:
        """As cuLaunchKernel."""
        self.calls += 1
        if self.refuses:
            return 1
        entry = self.entries[handle - 1]
        places = (ctypes.c_size_t * entry.words).from_address(rest[4])
        self._run(entry, (x, y), block, [ctypes.c_uint64.from_address(place).value for place in places])
        return 0

    def assemble(self, text: str) -> bytes:
        return text.encode()

    def load(self, code: bytes, name: str) -> Any:
        library()
        host_target()  # the host's code generator is ready
        module = llvm.parse_assembly(hosted(code.decode()))
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=FEATURES, opt=1
        )
        options = llvm.create_pipeline_tuning_options(speed_level=1)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        self.engines.append(engine)
        inside = re.search(rf"^define (?:ptx_kernel )?void @{name}\((.*)\) #0", code.decode(), re.MULTILINE)
        assert inside is not None
        made = Entry(name, engine.get_function_address(f"row_{name}"), inside[1].count(",") + 1, len(self.entries) + 1)
        self.entries.append(made)
        return made

    def launch(self, function: Any, grid: tuple[int, int], block: int, words: Sequence[int]) -> None:
        self.run()
        self._run(function, grid, block, words)

    def _run(self, entry: Entry, grid: tuple[int, int], block: int, words: Sequence[int]) -> None:
        self.ran.append((entry.name, grid, block))
        row = (ctypes.c_uint64 * len(words))(*[w & (1 << 64) - 1 for w in words])
        self._then(lambda: self._launch(entry.name, entry.address, grid, block, row))

    def _launch(self, name: str, address: int, grid: tuple[int, int], block: int, row: Any) -> None:
        if library().sim_launch(ctypes.c_void_p(address), grid[0], grid[1], block, row):
            raise AssertionError(f"the threads of {name} wait for each other")

    def mapped(self, nbytes: int) -> tuple[int, int]:
        self.room = (ctypes.c_uint8 * nbytes)()
        return ctypes.addressof(self.room), ctypes.addressof(self.room)

    def _then(self, work: Callable[[], None]) -> None:
        """Do something when everything before is done."""
        if self.lazy:
            self.queue.append(work)
        else:
            work()

    def clear(self, pointer: int, nbytes: int) -> None:
        self._then(lambda: ctypes.memset(pointer, 0, nbytes) and None)

    def free(self, pointer: int) -> None:
        self._then(lambda: FakeDevice.free(self, pointer))

    def upload(self, pointer: int, host: int, nbytes: int, *rest: Any) -> None:
        data = ctypes.string_at(host, nbytes)
        self._then(lambda: ctypes.memmove(pointer, data, nbytes) and None)

    def move(self, target: int, source: int, nbytes: int) -> None:
        self._then(lambda: FakeDevice.move(self, target, source, nbytes))

    def rows(self, *args: int) -> None:
        self._then(lambda: FakeDevice.rows(self, *args))

    def download(self, host: int, pointer: int, nbytes: int) -> None:
        self.synchronize()
        super().download(host, pointer, nbytes)

    def synchronize(self) -> None:
        while self.queue:
            self.queue.pop(0)()

    def flag(self) -> Flag:
        return Flag(self)


class Flag:
    """As the driver's."""

    def __init__(self, device: EmulatedDevice) -> None:
        self.device = device
        self.byte = (ctypes.c_uint8 * 8)()
        self.pointer = ctypes.addressof(self.byte)

    def __enter__(self) -> Flag:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def wait(self) -> bool:
        self.device.synchronize()
        return bool(self.byte[0])


@contextmanager
def installed() -> Iterator[EmulatedDevice]:
    """The setting device="cuda" means an emulated device."""
    fake = EmulatedDevice()
    target = device_target("sm_90")._replace(features=f"+fma,emulated{next(_numbers)}")
    former = cuda.device, gpu.nvptx.ptx, gpu.disk.load, gpu.disk.store, buffers.fresh, _evaluate._targets.get("cuda")
    cuda.device = lambda: fake  # type: ignore[assignment,return-value]
    gpu.nvptx.ptx = lambda text, arch: text
    gpu.disk.load, gpu.disk.store = lambda key, counted=True: None, lambda key, data: None  # type: ignore[assignment]
    _evaluate._targets["cuda"] = target
    replay.recipes.clear()  # they hold kernels of other devices
    try:
        with config(device="cuda", bound_bytes=config.get("bound_bytes")):
            residency.start()
            yield fake
    finally:
        replay.recipes.clear()
        cuda.device, gpu.nvptx.ptx, gpu.disk.load, gpu.disk.store, buffers.fresh = former[:5]
        if former[5] is None:
            _evaluate._targets.pop("cuda", None)
        else:
            _evaluate._targets["cuda"] = former[5]
