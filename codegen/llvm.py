"""LLVM, through the C functions of llvmlite's library.

in: IR text or bitcode; out: object code, assembly, bitcode.

llvmlite's Python layer takes longer to import than LLVM takes to compile a kernel, and a program whose kernels are on
disk needs neither.  The few functions needed here are therefore called directly.  Their types are those of the versions
`KNOWN`; of any other, llvmlite's own declarations are compared with them before anything is called.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

from . import mathlib

KNOWN = ("0.46", "0.47", "0.48", "0.49", "0.50")

_P, _S, _I, _OUT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)
# name -> (result, arguments)
SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "InitializeNativeTarget": (None, ()),
    "InitializeNativeAsmPrinter": (None, ()),
    "InitializeAllTargetInfos": (None, ()),
    "InitializeAllTargets": (None, ()),
    "InitializeAllTargetMCs": (None, ()),
    "InitializeAllAsmPrinters": (None, ()),
    "GetHostCPUName": (None, (_OUT,)),
    "GetHostCPUFeatures": (_I, (_OUT,)),
    "GetDefaultTargetTriple": (None, (_OUT,)),
    "GetTargetFromTriple": (_P, (_S, _OUT)),
    "CreateTargetMachine": (_P, (_P, _S, _S, _S, _I, _S, _S, _I, _I, _S)),
    "CreateTargetMachineData": (_P, (_P,)),
    "CopyStringRepOfTargetData": (None, (_P, _OUT)),
    "ContextCreate": (_P, ()),
    "ParseAssembly": (_P, (_P, _S, _OUT)),
    "ParseBitcode": (_P, (_P, _S, ctypes.c_size_t, _OUT)),
    "VerifyModule": (_I, (_P, _OUT)),
    "SetTarget": (None, (_P, _S)),
    "SetDataLayout": (None, (_P, _S)),
    "LinkModules": (_I, (_P, _P, _OUT)),
    "DisposeModule": (None, (_P,)),
    "WriteBitcodeToString": (None, (_P, _OUT, ctypes.POINTER(ctypes.c_size_t))),
    "ModuleFunctionsIter": (_P, (_P,)),
    "FunctionsIterNext": (_P, (_P,)),
    "DisposeFunctionsIter": (None, (_P,)),
    "GetValueName": (_S, (_P,)),
    "IsDeclaration": (_I, (_P,)),
    "SetLinkage": (None, (_P, _I)),
    "TargetMachineEmitToMemory": (_P, (_P, _P, _I, _OUT)),
    "GetBufferStart": (_P, (_P,)),
    "GetBufferSize": (ctypes.c_size_t, (_P,)),
    "DisposeMemoryBuffer": (None, (_P,)),
    "DisposeString": (None, (_S,)),
    "CreatePipelineTuningOptions": (_P, ()),
    "PTOSetLoopVectorization": (None, (_P, ctypes.c_bool)),
    "PTOSetSLPVectorization": (None, (_P, ctypes.c_bool)),
    "PTOSetLoopUnrolling": (None, (_P, ctypes.c_bool)),
    "CreatePassBuilder": (_P, (_P, _P)),
    "buildPerModuleDefaultPipeline": (_P, (_P, _I, _I)),  # (builder, speed, size); since 0.48 without the last
    "CreateNewModulePassManager": (_P, ()),
    "module_AddGlobalDCEPass": (None, (_P,)),
    "RunNewModulePassManager": (None, (_P, _P, _P)),
    "DisposeNewModulePassManger": (None, (_P,)),
    "DisposePassBuilder": (None, (_P,)),
    "DisposePipelineTuningOptions": (None, (_P,)),
}  # fmt: skip
_SHORTER = ("buildPerModuleDefaultPipeline",)  # an argument too many does no harm

_INTERNAL = 8  # LLVM's number of a linkage

_lock = threading.RLock()  # LLVM's objects are used by one thread at a time


class LLVMError(RuntimeError):
    """What LLVM says is wrong with a module."""


@cache
def version() -> str:
    """llvmlite's version."""
    from llvmlite import __version__

    return str(__version__)


@cache
def path() -> str:
    """Where the library is; its functions are as they are called here."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("offarray needs the package llvmlite")
    if version().rpartition(".")[0] not in KNOWN:
        _compare()
    name = {"win32": "llvmlite.dll", "cygwin": "llvmlite.dll", "darwin": "libllvmlite.dylib"}
    folder = os.path.join(spec.submodule_search_locations[0], "binding")
    return os.path.join(folder, name.get(sys.platform, "libllvmlite.so"))


def load() -> None:
    """Load the library; where that can be done without Python's lock, other threads run on meanwhile."""
    where = os.fsencode(path())
    with _lock:
        mathlib.opened(where)
        _library()


@cache
def _library() -> Any:
    with _lock:
        return ctypes.CDLL(path())


def loaded() -> bool:
    """Whether the library is there already."""
    return _library.cache_info().currsize > 0


def _compare() -> None:
    """Raise ImportError if llvmlite declares a function otherwise than it is called here."""
    import llvmlite.binding as package

    for name, (_, arguments) in SIGNATURES.items():
        declared = getattr(package.ffi.lib, "LLVMPY_" + name).argtypes
        allowed = {len(arguments), len(arguments) - (name in _SHORTER)}
        if declared is not None and len(declared) not in allowed:
            raise ImportError(
                f"llvmlite {version()} declares LLVMPY_{name} with {len(declared)} arguments in place of "
                f"{len(arguments)}: install llvmlite=={KNOWN[-1]}.*"
            )


@cache
def _function(name: str) -> Any:
    found = getattr(_library(), "LLVMPY_" + name)
    found.restype, found.argtypes = SIGNATURES[name]
    return found


def call(name: str, *args: Any) -> Any:
    """Call one of the library's functions."""
    return _function(name)(*args)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """LLVM's objects are ours; llvmlite's own users wait, if there are any."""
    others: Any = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    with _lock, others._lock if others is not None else contextlib.nullcontext():
        yield


def _told(name: str, *args: Any) -> tuple[Any, str]:
    """Call a function whose last argument takes a text; its result and the text."""
    text = ctypes.c_char_p()
    result = call(name, *args, ctypes.byref(text))
    words = (text.value or b"").decode(errors="replace")
    if text:
        call("DisposeString", text)
    return result, words


@cache
def _context() -> int:
    """A context of our own: what else uses llvmlite in this process has another."""
    return int(call("ContextCreate"))


@cache
def start(everything: bool = False) -> None:
    """Make the processor's target known, or all targets."""
    with held():
        if everything:
            for name in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
                call(f"InitializeAll{name}")
        else:
            call("InitializeNativeTarget")
            call("InitializeNativeAsmPrinter")


@cache
def host() -> tuple[str, str, str]:
    """Name and features of this processor, and the triple of its system."""
    start()
    with held():
        features = _told("GetHostCPUFeatures")[1]
        parts = sorted((f for f in features.split(",") if f), key=lambda f: f[1:])
        return _told("GetHostCPUName")[1], ",".join(parts), _told("GetDefaultTargetTriple")[1]


class Machine:
    """A code generator; made once for each processor and level."""

    def __init__(self, triple: str, arch: str, features: str, level: int) -> None:
        with held():
            target, words = _told("GetTargetFromTriple", triple.encode())
            if not target:
                raise LLVMError(words)
            if os.name == "nt" and not triple.startswith("nvptx"):
                triple += "-elf"  # what is linked in memory is ELF everywhere
            self.pointer = call(
                "CreateTargetMachine", target, triple.encode(), arch.encode(), features.encode(), level,
                b"default", b"jitdefault", 0, 0, b"",
            )  # fmt: skip
            if not self.pointer:
                raise LLVMError(f"no code is made for {arch} of {triple}")

    @property
    def layout(self) -> str:
        """Sizes and alignments of types, as modules say them."""
        with held():
            return _told("CopyStringRepOfTargetData", call("CreateTargetMachineData", self.pointer))[1]

    def emit(self, module: Module, assembly: bool = False) -> bytes:
        """Object code of a module, or its assembly."""
        with held():
            buffer, words = _told("TargetMachineEmitToMemory", self.pointer, module.pointer, int(not assembly))
            if not buffer:
                raise LLVMError(words)
            try:
                return ctypes.string_at(call("GetBufferStart", buffer), call("GetBufferSize", buffer))
            finally:
                call("DisposeMemoryBuffer", buffer)


class Module:
    """A module of IR, from text or bitcode."""

    def __init__(self, source: str | bytes) -> None:
        self.pointer = None
        with held():
            if isinstance(source, str):
                self.pointer, words = _told("ParseAssembly", _context(), source.encode())
            else:
                self.pointer, words = _told("ParseBitcode", _context(), source, len(source))
        if not self.pointer or words:
            raise LLVMError(words)

    def __del__(self) -> None:
        if self.pointer and not sys.is_finalizing():
            with held():
                call("DisposeModule", self.pointer)

    def verify(self) -> None:
        """Raise LLVMError if the module breaks LLVM's rules."""
        with held():
            bad, words = _told("VerifyModule", self.pointer)
        if bad:
            raise LLVMError(words)

    def place(self, triple: str, layout: str) -> None:
        """Say what the module is made for."""
        with held():
            call("SetTarget", self.pointer, triple.encode())
            call("SetDataLayout", self.pointer, layout.encode())

    def link(self, other: Module) -> None:
        """Take in all of another module, which is used up."""
        with held():
            pointer, other.pointer = other.pointer, None
            bad, words = _told("LinkModules", self.pointer, pointer)
        if bad:
            raise LLVMError(words)

    def _functions(self) -> Iterator[tuple[str, bool, int]]:
        """Name, whether it is only declared, and pointer of every function."""
        walk = call("ModuleFunctionsIter", self.pointer)
        try:
            while value := call("FunctionsIterNext", walk):
                yield call("GetValueName", value).decode(), bool(call("IsDeclaration", value)), value
        finally:
            call("DisposeFunctionsIter", walk)

    def functions(self) -> dict[str, bool]:
        """Names of the functions, and whether they are only declared."""
        with held():
            return {name: declared for name, declared, _ in self._functions()}

    def keep(self, names: set[str]) -> None:
        """Nothing but the functions `names` is seen from outside."""
        with held():
            for name, declared, value in list(self._functions()):
                if not declared and name not in names:
                    call("SetLinkage", value, _INTERNAL)

    def bitcode(self) -> bytes:
        """The module as bitcode."""
        text, size = ctypes.c_char_p(), ctypes.c_size_t()
        with held():
            call("WriteBitcodeToString", self.pointer, ctypes.byref(text), ctypes.byref(size))
            found = ctypes.string_at(text, size.value)
            call("DisposeString", text)
        return found

    def drop_unused(self, machine: Machine) -> None:
        """Remove functions that nothing calls."""
        with held(), _builder(machine, {}) as builder:
            passes = call("CreateNewModulePassManager")
            call("module_AddGlobalDCEPass", passes)
            self._run(passes, builder)

    def optimise(self, machine: Machine, level: int, vectors: bool, unroll: bool = True) -> None:
        """Run LLVM's usual passes; with `vectors` loops become vectors too."""
        chosen = {"LoopVectorization": vectors, "SLPVectorization": vectors, "LoopUnrolling": unroll}
        with held(), _builder(machine, chosen) as builder:
            self._run(call("buildPerModuleDefaultPipeline", builder, level, 0), builder)

    def _run(self, passes: int, builder: int) -> None:
        call("RunNewModulePassManager", passes, self.pointer, builder)
        call("DisposeNewModulePassManger", passes)


@contextlib.contextmanager
def _builder(machine: Machine, chosen: dict[str, bool]) -> Iterator[int]:
    """What makes passes, with the options that are `chosen`."""
    options = call("CreatePipelineTuningOptions")
    for name, value in chosen.items():
        call(f"PTOSet{name}", options, value)
    builder = call("CreatePassBuilder", machine.pointer, options)
    try:
        yield builder
    finally:
        call("DisposePassBuilder", builder)
        call("DisposePipelineTuningOptions", options)
