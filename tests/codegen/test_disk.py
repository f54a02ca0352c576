"""Kernels on disk: damaged, foreign, of another processor, in places that cannot be written, by several processes."""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from offarray.codegen import bitcode, host, image, llvm, nvptx
from offarray.codegen import compile as front
from offarray.codegen.compile import host_target
from offarray.runtime import cache, trace
from offarray.runtime.config import config

from .kernels import Builder

OLDER = "+sse2,+sse4.1,-avx,-avx2,-avx512f"  # no AVX at all


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and no kernels in memory."""
    host_target()  # known by now
    monkeypatch.setattr(front, "_known", {})
    monkeypatch.setattr(cache, "_told", set())
    config(cache=True, cache_dir=tmp_path / "code", cache_size=1 << 24)
    return tmp_path / "code"


def counted(name: str, action: Callable[[], object]) -> int:
    """How often `action` made something happen."""
    before = trace.counters[name]
    action()
    return trace.counters[name] - before


def check(features: str | None = None) -> None:
    """A kernel that calls the C library and NumPy's loops, not from memory, gives what NumPy gives."""
    front._known.clear()
    x = numpy.linspace(0.5, 3.0, 1003)
    out, odd = numpy.zeros(1003), numpy.zeros(1003)
    k = Builder(1003)
    load = k.load(x, 0)
    k.store(out, k.op("add", "f8", k.op("exp", "f8", load), k.arg(1.0, "f8")), 0)
    k.store(odd, k.op("cbrt", "f8", load), 0)
    k.run(host_target(features))
    assert numpy.allclose(out, numpy.exp(x) + 1, rtol=1e-14)
    assert numpy.allclose(odd, numpy.cbrt(x), rtol=1e-14)


def stored(place: Path) -> dict[Path, bytes]:
    """The files and what they hold."""
    return {path: path.read_bytes() for path in place.iterdir()}


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda b: b"", "truncated": lambda b: b[: len(b) // 2], "header alone": lambda b: b[:48],
    "one bit": lambda b: b[:-9] + bytes([b[-9] ^ 4]) + b[-8:], "longer": lambda b: b + b"\0" * 100,
    "another version": lambda b: b"offarray code 1\n" + b[16:], "no file of ours": lambda b: b"\x7fELF" * 100,
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_made_anew(place: Path, damage: str) -> None:
    assert counted("compiles", check) == 1
    good = stored(place)
    for path, data in good.items():
        path.write_bytes(DAMAGES[damage](data))
    assert counted("compiles", check) == 1
    assert {p: good[p] for p in good} == {p: d for p, d in stored(place).items() if p in good}
    assert counted("compiles", check) == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"junk", marshal.dumps(None), marshal.dumps((1, 2, 3)), marshal.dumps(((0, (0,), False, 8, 0), b"no code")),
     marshal.dumps(((0, (0,), False, 8, 0, None, False), marshal.dumps(("image", b"\xc3", {}, [], []))))],
)  # fmt: skip
def test_sound_files_that_hold_something_else_are_made_anew(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    check()
    key = next(iter(front._known.values())).key
    cache.store(key, content)
    assert counted("compiles", check) == 1
    assert counted("compiles", check) == 0


def test_processors_do_not_share_code(place: Path) -> None:
    assert counted("compiles", check) == 1
    assert counted("compiles", lambda: check(OLDER)) == 1
    assert counted("compiles", check) == 0
    assert counted("compiles", lambda: check(OLDER)) == 0


def forget() -> None:
    """What is known of this processor."""
    for known in (host._place, host._noted, host._known):
        known.cache_clear()


def test_another_processor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    if host._processor() is None:
        pytest.skip("only LLVM tells processors apart here")
    cache.store(host._place() or "", b"some other\n+sse2")  # of this processor
    forget()
    assert host._known() == ("some other", "+sse2")
    monkeypatch.setattr(host, "_processor", lambda: b"flags\t: another")
    forget()
    assert host._known() == llvm.host()[:2]
    monkeypatch.undo()
    forget()


def test_places_that_cannot_be_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = os.open

    def refuse(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return plain(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    assert counted("compiles", check) == 1
    assert counted("compiles", check) == 1
    assert not list(place.iterdir())
    monkeypatch.setattr(os, "open", plain)
    check()
    kept = stored(place)
    monkeypatch.setattr(os, "open", refuse)
    assert counted("compiles", check) == 0  # a read-only cache still serves
    assert stored(place) == kept


def test_a_full_disk_leaves_no_half_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = os.fdopen

    class Full:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.file, self.room = plain(*args, **kwargs), 20

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *exception: object) -> None:
            self.file.close()

        def write(self, data: Any) -> int:
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.room = 0
            return int(self.file.write(data[:20]))

    monkeypatch.setattr(os, "fdopen", Full)
    assert counted("compiles", check) == 1
    assert not list(place.iterdir())
    monkeypatch.setattr(os, "fdopen", plain)
    assert counted("compiles", check) == 1
    assert counted("compiles", check) == 0


def test_processes_that_write_at_once(place: Path) -> None:
    script = (
        "import numpy, offarray as np\n"
        "np.config(device='cpu', eager_size=0)\n"
        "x = numpy.linspace(0.0, 1.0, 40_000)\n"
        "for k in range(4):\n"
        "    a = np.array(x)\n"
        "    assert numpy.array_equal(numpy.asarray(a * 2.0 + float(k) if k % 2 else (a + a) - a * 0.5),\n"
        "                             x * 2.0 + float(k) if k % 2 else (x + x) - x * 0.5)\n"
    )
    environment = {**os.environ, "OFFARRAY_CACHE_DIR": str(place)}
    run = [subprocess.Popen([sys.executable, "-c", script], env=environment) for _ in range(4)]
    assert [process.wait(120) for process in run] == [0, 0, 0, 0]
    assert not list(place.glob("*.tmp"))
    for path in place.iterdir():
        assert path.read_bytes().startswith(cache.MAGIC)


def test_what_is_no_image_is_linked_by_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    read = "%v = load i64, ptr @there\n %w = trunc i64 %v to i32\n ret i32 %w"
    text = "@there = global i64 41\n" + _BODY.replace("ret i32 7", read)
    code = host.build(text, host_target())
    with pytest.raises(image.Unknown):
        image.laid_out(code)
    packed = host.pack(code, ())
    made: list[Any] = []
    assert counted("engine_links", lambda: made.extend(host.callables(packed, "made", False))) == 1
    assert made[0](0, 0, 0) == 41


_BODY = "define i32 @made_body(ptr %a, i64 %b, i64 %c) {\n ret i32 7\n}\n"


def test_memory_that_may_not_become_executable(monkeypatch: pytest.MonkeyPatch) -> None:
    if not image.loadable():
        pytest.skip("images are not loaded here")
    check()  # an image is on disk
    monkeypatch.setattr(image, "_protect", lambda: lambda *args: -1)
    monkeypatch.setattr(image, "_refused", False)
    assert counted("engine_links", check) == 1
    assert not image.loadable()
    monkeypatch.undo()


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "nvptx64-nvidia-cuda", ""])
def test_other_objects_are_refused(triple: str) -> None:
    data = b"\x7fELF\x01\x01" + bytes(100)
    if triple.startswith("aarch64"):
        llvm.start(everything=True)
        try:
            data = llvm.Machine(triple, "", "", 1).emit(llvm.Module(_BODY))
        except llvm.LLVMError:
            pytest.skip("this LLVM makes no such code")
    elif triple:
        data = b"//\n.version 8.0\n"
    with pytest.raises(image.Unknown):
        image.laid_out(data)


def test_functions_are_called_as_llvmlite_declares_them() -> None:
    import llvmlite.binding as package

    llvm._compare()
    for name, (result, arguments) in llvm.SIGNATURES.items():
        declared = getattr(package.ffi.lib, "LLVMPY_" + name)
        if declared.argtypes is not None and name not in llvm._SHORTER:
            assert len(declared.argtypes) == len(arguments), name
            assert (result is None) == (declared.restype in (None, ctypes.c_int)) or result is ctypes.c_int, name
    broken = {**llvm.SIGNATURES, "ParseAssembly": (None, ())}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ImportError, match="ParseAssembly"):
        patch.setattr(llvm, "SIGNATURES", broken)
        llvm._compare()


needs_library = pytest.mark.skipif(nvptx.libdevice_path() is None, reason="no libdevice installed (nvidia-nvvm has it)")
CALL = """declare double @{0}(double)
define double @use(double %x) {{
  %y = call double @{0}(double %x)
  ret double %y
}}
"""


@needs_library
@pytest.mark.parametrize("name", ["__nv_log", "__nv_sin", "__nv_tgamma", "__nv_lgamma", "__nv_clz", "__nv_j0"])
def test_parts_of_libdevice_are_as_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CALL.format(name) if name != "__nv_clz" else (
        "declare i32 @__nv_clz(i32)\ndefine i32 @use(i32 %x) {\n %y = call i32 @__nv_clz(i32 %x)\n ret i32 %y\n}\n"
    )  # fmt: skip
    part = nvptx.ptx(text, "sm_80")
    data, library = nvptx._libdevice()
    assert library is not None
    monkeypatch.setattr(nvptx, "_libdevice", lambda: (data, None))
    whole = nvptx.ptx(text, "sm_80")
    assert _instructions(part) == _instructions(whole)


def _instructions(text: str) -> list[str]:
    """What is done, by the number of each instruction: names of labels and registers depend on what else there was."""
    return sorted(line.split()[0] for line in text.splitlines() if line.startswith("\t") and line.split())


@needs_library
def test_bitcode_of_another_form_is_refused() -> None:
    data = nvptx._libdevice()[0]
    for wrong in (b"", data[4:], llvm.Module(_BODY).bitcode(), data[:8]):
        with pytest.raises(bitcode.Unknown):
            bitcode.Library(wrong)
