"""LLVM IR to PTX: the code generator for NVIDIA's processors, and libdevice, their library of mathematics.

in: the text of a module; out: PTX, which the driver or `ptxas` assembles.
Floating-point operations are rounded one by one (".rn" forms, nothing contracted), denormals are kept.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pathlib
import re
import threading
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from ..runtime import cache as disk
from ..runtime import trace
from ..runtime.errors import CompileError, DeviceError
from ..runtime.target import Target

TRIPLE = "nvptx64-nvidia-cuda"
LIBDEVICE = "nvvm/libdevice/libdevice.10.bc"

_lock = threading.RLock()


@cache
def _llvm() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE)


@cache
def _machine(arch: str) -> Any:
    return _llvm().create_target_machine(cpu=arch, features="", opt=3)


ARCHITECTURES = (70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121)


@cache
def reached(arch: str) -> str | None:
    """The architecture to make code for, so that a device of `arch` runs it: itself, or the next older known one.

    None for devices older than all of them.
    """
    number = int(re.sub(r"\D", "", arch))
    for candidate in sorted({number, *ARCHITECTURES}, reverse=True):
        if ARCHITECTURES[0] <= candidate <= number and _makes(f"sm_{candidate}"):
            return f"sm_{candidate}"
    return None


def _makes(arch: str) -> bool:
    """Whether LLVM knows the architecture; of any other it makes code for its oldest, with words on stderr."""
    with _lock:
        kept = os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 2)
            module = llvm.parse_assembly(f'target triple = "{TRIPLE}"\n')
            text = _llvm().create_target_machine(cpu=arch, opt=0).emit_assembly(module)
            return ".version 3." not in text  # the oldest version of the language
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
    places: list[pathlib.Path] = []
    if importlib.util.find_spec("nvidia") is not None:
        found = importlib.util.find_spec("nvidia")
        roots = found.submodule_search_locations if found is not None else None
        for root in roots or ():
            places += sorted(pathlib.Path(root).glob(f"*/{LIBDEVICE}"), reverse=True)
            places += sorted(pathlib.Path(root).glob("cuda_nvcc/nvvm/libdevice/libdevice.10.bc"))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            places.append(pathlib.Path(os.environ[variable]) / LIBDEVICE)
    places.append(pathlib.Path("/usr/local/cuda") / LIBDEVICE)
    for place in places:
        if place.is_file():
            return str(place)
    try:
        from cuda.pathfinder import find_nvvm_path  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        return None
    try:
        near = pathlib.Path(find_nvvm_path()).parents[1] / "libdevice/libdevice.10.bc"
    except Exception:  # whatever it raises, there is none
        return None
    return str(near) if near.is_file() else None


@cache
def _libdevice() -> bytes:
    path = libdevice_path()
    if path is None:
        raise CompileError("libdevice.10.bc is missing: install the package nvidia-nvvm, or set CUDA_HOME")
    with open(path, "rb") as file:
        return file.read()


@cache
def _function(name: str, arch: str) -> bytes:
    """Bitcode of one function and of what that calls: going through the whole library takes 100 times as long."""
    digest = hashlib.sha256(_libdevice())
    digest.update(f"{name} {llvmlite.__version__}".encode())
    key = digest.hexdigest()
    found = disk.load(key, counted=False)
    if found is None:
        library = llvm.parse_bitcode(_libdevice())
        for function in library.functions:
            if not function.is_declaration and function.name != name:
                function.linkage = "internal"
        manager = llvm.create_new_module_pass_manager()
        manager.add_global_dead_code_eliminate_pass()
        options = llvm.create_pipeline_tuning_options(speed_level=0)
        manager.run(library, llvm.create_pass_builder(_machine(arch), options))
        found = library.as_bitcode()
        disk.store(key, found)
    return found


def _optimise(module: Any, machine: Any) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.slp_vectorization = False  # lanes are explicit
    options.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def module_of(text: str, arch: str) -> Any:
    """The module of an IR text, linked with libdevice if it calls it, and optimised."""
    machine = _machine(arch)
    module = llvm.parse_assembly(f'target triple = "{TRIPLE}"\n{text}')
    module.data_layout = str(machine.target_data)
    kernels = {f.name for f in module.functions if not f.is_declaration}
    for name in [f.name for f in module.functions if f.is_declaration and f.name.startswith("__nv_")]:
        library = llvm.parse_bitcode(_function(name, arch))
        library.triple, library.data_layout = TRIPLE, module.data_layout
        module.link_in(library)
    for function in module.functions:
        if not function.is_declaration and function.name not in kernels:
            function.linkage = "internal"
    module.verify()
    _optimise(module, machine)
    return module


def ptx(text: str, arch: str) -> str:
    """PTX of a module."""
    with _lock:
        _llvm()
        try:
            found: str = _machine(arch).emit_assembly(module_of(text, arch))
        except RuntimeError as error:
            raise CompileError(f"LLVM refuses a device kernel: {error}") from error
    missing = re.findall(r"^\s*\.extern \.func.*?(\w+)\s*$", found, re.MULTILINE)
    if missing:
        raise CompileError(f"device code calls {', '.join(missing)}, which no library holds")
    return found
