"""LLVM IR to PTX: the code generator for NVIDIA's processors, and libdevice, their library of mathematics.

in: the text of a module; out: PTX, which the driver or `ptxas` assembles.
Floating-point operations are rounded one by one (".rn" forms, nothing contracted), denormals are kept.
"""

from __future__ import annotations

import importlib.util
import os
import re
import threading
from functools import cache

from ..runtime import cache as disk
from ..runtime import trace
from ..runtime.errors import CompileError, DeviceError
from ..runtime.target import Target
from . import bitcode, llvm

TRIPLE = "nvptx64-nvidia-cuda"
_OWN = ("__nv_", "__internal_")  # how libdevice's functions are called
LIBDEVICE = "nvvm/libdevice/libdevice.10.bc"

_lock = threading.RLock()


@cache
def _machine(arch: str) -> llvm.Machine:
    llvm.start(everything=True)
    return llvm.Machine(TRIPLE, arch, "", 3)


ARCHITECTURES = (70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121)


@cache
def reached(arch: str) -> str | None:
    """The architecture to make code for, so that a device of `arch` runs it: itself, or the next older known one.

    None for devices older than all of them.
    """
    key = disk.digest("architecture", arch, llvm.version())
    stored = disk.load(key, counted=False)
    if stored is not None:
        return stored.decode() or None
    number = int(re.sub(r"\D", "", arch))
    known = (n for n in sorted({number, *ARCHITECTURES}, reverse=True) if ARCHITECTURES[0] <= n <= number)
    found = next((f"sm_{n}" for n in known if _makes(f"sm_{n}")), None)
    disk.store(key, (found or "").encode())
    return found


def _makes(arch: str) -> bool:
    """Whether LLVM knows the architecture; of any other it makes code for its oldest, with words on stderr."""
    with _lock:
        llvm.start(everything=True)
        kept = os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 2)
            module = llvm.Module(f'target triple = "{TRIPLE}"\n')
            text = llvm.Machine(TRIPLE, arch, "", 0).emit(module, assembly=True)
            return b".version 3." not in text  # the oldest version of the language
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(nowhere)


def device_target(arch: str) -> Target:
    """Target of a device such as "sm_90"; 16 bytes are the widest access of a thread.

    Raises
    ------
    DeviceError
        If no code is made for it.
    """
    found = reached(arch)
    if found is None:
        raise DeviceError(f"no kernels are made for devices of {arch}, which is older than sm_{ARCHITECTURES[0]}")
    if found != arch:
        trace.log(
            1, f"kernels for {arch} are made for {found}, and translated by the driver: a newer llvmlite may know it"
        )
    arch = found
    # "+fma" speaks to the numerics: NumPy's loops fuse complex products, and so do all these processors.
    return Target("cuda", arch, "+fma", 16)


@cache
def libdevice_path() -> str | None:
    """Where libdevice is: in the `nvidia-nvvm` package, a CUDA toolkit, or CUDA_HOME; None if nowhere."""
    places: list[str] = []
    nvidia = importlib.util.find_spec("nvidia")
    for root in (nvidia.submodule_search_locations or ()) if nvidia is not None else ():
        packages = sorted(os.listdir(root), reverse=True) if os.path.isdir(root) else []
        places += [os.path.join(root, package, LIBDEVICE) for package in packages if package != "cuda_nvcc"]
        places.append(os.path.join(root, "cuda_nvcc", LIBDEVICE))
    places += [os.path.join(os.environ[v], LIBDEVICE) for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    places.append(os.path.join("/usr/local/cuda", LIBDEVICE))
    for place in places:
        if os.path.isfile(place):
            return place
    try:
        from cuda.pathfinder import find_nvvm_path  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        return None
    try:
        near = os.path.join(os.path.dirname(os.path.dirname(find_nvvm_path())), "libdevice/libdevice.10.bc")
    except Exception:  # whatever it raises, there is none
        return None
    return near if os.path.isfile(near) else None


@cache
def _libdevice() -> tuple[bytes, bitcode.Library | None]:
    """The library, and how parts of it are taken, if its form is known."""
    path = libdevice_path()
    if path is None:
        raise CompileError("libdevice.10.bc is missing: install the package nvidia-nvvm, or set CUDA_HOME")
    with open(path, "rb") as file:
        data = file.read()
    try:
        return data, bitcode.Library(data)
    except bitcode.Unknown as reason:
        trace.log(1, f"libdevice is read as a whole: {reason}")
        return data, None


def _part(names: set[str], machine: llvm.Machine) -> llvm.Module | None:
    """A module with those of the functions `names` that libdevice has; None if it has none of them."""
    data, library = _libdevice()
    if library is not None:
        names = names & library.names.keys()
        found = llvm.Module(library.part(names)) if names else None
    else:
        found = llvm.Module(data)
        names = {name for name, declared in found.functions().items() if not declared and name in names}
    if found is None or not names:
        return None
    found.keep(names)
    if library is None:
        found.drop_unused(machine)
    return found


def _complete(module: llvm.Module, machine: llvm.Machine) -> None:
    """Link what a module calls of libdevice, and what that calls."""
    while True:
        missing = {name for name, declared in module.functions().items() if declared and name.startswith(_OWN)}
        part = _part(missing, machine) if missing else None
        if part is None:
            return
        part.place(TRIPLE, machine.layout)
        module.link(part)


def module_of(text: str, arch: str) -> llvm.Module:
    """The module of an IR text, linked with libdevice if it calls it, and optimised."""
    machine = _machine(arch)
    module = llvm.Module(f'target triple = "{TRIPLE}"\n{text}')
    module.place(TRIPLE, machine.layout)
    functions = module.functions()
    _complete(module, machine)
    module.keep({name for name, declared in functions.items() if not declared})
    module.verify()
    module.optimise(machine, 3, vectors=False)  # lanes are explicit
    return module


_SMALL = """
define ptx_kernel void @small(ptr %p, double %x) {
  %a = load double, ptr %p
  %b = fmul double %a, %x
  store double %b, ptr %p
  ret void
}
"""


def small() -> str:
    """PTX of next to nothing: whoever needs a kernel later finds LLVM ready, and libdevice read."""
    llvm.load()
    if libdevice_path() is not None:
        with _lock:
            _libdevice()
    return ptx(_SMALL, f"sm_{ARCHITECTURES[0]}")


def ptx(text: str, arch: str) -> str:
    """PTX of a module."""
    with _lock:
        try:
            found = _machine(arch).emit(module_of(text, arch), assembly=True).decode()
        except llvm.LLVMError as error:
            raise CompileError(f"LLVM refuses a device kernel: {error}") from error
    trace.log(4, f"LLVM IR\n{text}")
    trace.log(7, f"PTX\n{found}")
    missing = re.findall(r"^\s*\.extern \.func.*?(\w+)\s*$", found, re.MULTILINE)
    if missing:
        raise CompileError(f"device code calls {', '.join(missing)}, which no library holds")
    return found
