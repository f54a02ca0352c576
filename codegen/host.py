"""Machine code for the processor that runs this program.

in: the text of a module; out: code that any process can keep on disk, and callables of it.
Calls release the interpreter's lock.
"""

from __future__ import annotations

import marshal
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from ..runtime import cache as disk
from ..runtime import trace
from ..runtime.target import Target
from . import builtin, engine, image, llvm, mathlib, ready

OPT = 1  # of instruction selection; the vectors are explicit, and no pass pipeline runs
QUICK = 0  # takes half the time, and its code up to half as long again

_lock = threading.RLock()

Functions = tuple[Callable[[int, int, int], int], Callable[[int], int] | None]

_ABOUT = (b"vendor_id", b"cpu family", b"model", b"stepping", b"flags")  # lines that tell processors apart


def _processor() -> bytes | None:
    """What tells this processor from others, at no cost; None where only LLVM knows."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return None
    try:
        descriptor = os.open("/proc/cpuinfo", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = b""
            while b"\n\n" not in text and len(text) < 1 << 16:
                piece = os.read(descriptor, 4096)
                if not piece:
                    break
                text += piece
        finally:
            os.close(descriptor)
    except OSError:
        return None
    lines = text.partition(b"\n\n")[0].split(b"\n")
    found = [line for line in lines if line.partition(b"\t")[0] in _ABOUT or line.startswith(b"flags")]
    return b"\n".join(found) if len(found) == len(_ABOUT) else None


@cache
def _place() -> str | None:
    """Where on disk it stands how LLVM calls this processor."""
    about = _processor()
    return None if about is None else disk.digest("processor", about, llvm.version())


@cache
def _noted() -> tuple[str, str] | None:
    """Name and features of the processor, if they are on disk."""
    key = _place()
    stored = None if key is None else disk.load(key, counted=False)
    if stored is None:
        return None
    arch, _, features = stored.decode().partition("\n")
    return arch, features


def known() -> bool:
    """Whether a process has asked LLVM about this processor before."""
    return _noted() is not None


@cache
def _known() -> tuple[str, str]:
    """Name and features of the processor as LLVM calls them, from disk if a process has asked LLVM before."""
    noted = _noted()
    if noted is not None:
        return noted
    arch, features, _ = llvm.host()
    key = _place()
    if key is not None:
        disk.store(key, f"{arch}\n{features}".encode())
    return arch, features


@cache
def host_target(features: str | None = None) -> Target:
    """The host's processor.

    Parameters
    ----------
    features : str, optional
        LLVM feature string instead of the processor's own; such as one without AVX-512.
    """
    arch, own = _known()
    if features is None:
        features = own
    names = set(features.split(","))
    vector = 64 if "+avx512f" in names else 32 if "+avx2" in names or "+avx" in names else 16
    return Target("host", arch, features, vector)


@cache
def machine(arch: str, features: str, level: int = OPT) -> llvm.Machine:
    """The code generator for a processor."""
    return llvm.Machine(llvm.host()[2], arch, features, level)


def build(text: str, target: Target, verify: bool = False, level: int = OPT) -> bytes:
    """Object code of a module."""
    with _lock:
        generator = machine(target.arch, target.features, level)
        module = llvm.Module(text)
        if verify:
            module.verify()
        return generator.emit(module)


def assembly(text: str, target: Target) -> str:
    """The processor's instructions for a module, to be read."""
    with _lock:
        return machine(target.arch, target.features).emit(llvm.Module(text), assembly=True).decode()


def pack(code: bytes, externs: Iterable[str]) -> bytes:
    """Object code as it is kept on disk: as an image, or as it is where this process could load no image.

    Parameters
    ----------
    externs
        Symbols that the code may call.
    """
    if image.loadable():
        try:
            return marshal.dumps(("image", *image.laid_out(code)), _MARSHAL)
        except image.Unknown as reason:
            trace.log(2, f"LLVM's linker loads this code: {reason}")
    return marshal.dumps(("object", code, sorted(externs)), _MARSHAL)


_MARSHAL = 2  # a version of the format that every Python reads


def link(packed: bytes, names: Sequence[str], resolve: Callable[[str], int] = mathlib.resolve) -> dict[str, int]:
    """Load code: the addresses of the functions `names`.

    Raises
    ------
    LookupError
        If this process lacks a symbol that the code calls, or the code lacks a function.
    """
    kind, code, *rest = marshal.loads(packed)
    with _lock:
        if kind == "image":
            if not image.loadable():
                raise image.Refused("code on disk is an image")
            found = image.load(image.Image(code, *rest), resolve)
        else:
            found = engine.load(code, names, rest[0], resolve)
    return {name: found[name] for name in names}


def callables(packed: bytes, name: str, finish: bool) -> Functions:
    """Load code: the callables of its `name`_body and `name`_finish."""
    return _callables(link(packed, names_of(name, finish)))


def passing(packed: bytes, name: str, finish: bool) -> tuple[Functions, Callable[[bytes], None]]:
    """The same, and what has them run better code of the same functions from then on."""
    names = names_of(name, finish)
    found, lead = image.doors(link(packed, names))
    return _callables(found), lambda better: lead(link(better, names))


def names_of(name: str, finish: bool) -> list[str]:
    """The functions of a kernel's code."""
    return [f"{name}_body", *([f"{name}_finish"] if finish else [])]


def _callables(found: dict[str, int]) -> Functions:
    body, *rest = (callable_at(count, address) for count, address in zip((3, 1), found.values(), strict=False))
    return body, rest[0] if rest else None


@cache
def methods() -> dict[str, int]:
    """Addresses of the functions of builtin.py; none where ctypes must do."""
    if not builtin.usable():
        return {}
    symbols = builtin.symbols()
    return common(builtin.text(), [*builtin.NAMES.values(), builtin.LAUNCH], symbols, symbols.__getitem__)


def common(text: str, names: Sequence[str], symbols: Iterable[str], resolve: Callable[[str], int]) -> dict[str, int]:
    """Addresses of functions that every process needs; ready made, from disk, or compiled.

    Parameters
    ----------
    names, symbols
        The functions, and what they call, whose addresses `resolve` gives.
    """
    found = ready.find(text) if image.loadable() else None
    if found is not None:
        try:
            return image.load(found, resolve)
        except image.Refused as error:
            trace.log(1, f"LLVM's linker loads all code: {error}")
    target = host_target()
    key = disk.digest(text, repr(target), llvm.version())
    packed = disk.load(key, counted=False)
    if packed is None:
        packed = pack(build(text, target), symbols)
        disk.store(key, packed)
    try:
        return link(packed, names, resolve)
    except image.Refused:
        return link(pack(build(text, target), symbols), names, resolve)


def callable_at(count: int, address: int) -> Callable[..., int]:
    method = methods().get(builtin.NAMES[count])
    return builtin.by_ctypes(count, address) if method is None else builtin.through(count, method, address)
