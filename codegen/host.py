"""Machine code for the processor that runs this program.

in: the text of a module; out: object code that any process can keep on disk, and callables of it.
One engine holds all code of the process; calls release the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from ..runtime.target import Target
from . import mathlib

OPT = 1  # of instruction selection; the vectors are explicit, and no pass pipeline runs

_lock = threading.RLock()
_BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_FINISH = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)

Functions = tuple[Callable[[int, int, int], int], Callable[[int], int] | None]


@cache
def _native() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


@cache
def _machine(arch: str, features: str) -> Any:
    return _native().create_target_machine(cpu=arch, features=features, opt=OPT)


@cache
def _engine() -> Any:
    machine = _native().create_target_machine(opt=OPT)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


@cache
def host_target(features: str | None = None) -> Target:
    """The host's processor.

    Parameters
    ----------
    features : str, optional
        LLVM feature string instead of the processor's own; such as one without AVX-512.
    """
    _native()
    if features is None:
        found = llvm.get_host_cpu_features()
        features = found.flatten()
    names = set(features.split(","))
    vector = 64 if "+avx512f" in names else 32 if "+avx2" in names or "+avx" in names else 16
    return Target("host", llvm.get_host_cpu_name(), features, vector)


def build(text: str, target: Target, verify: bool = False) -> bytes:
    """Object code of a module."""
    with _lock:
        module = llvm.parse_assembly(text)
        if verify:
            module.verify()
        found: bytes = _machine(target.arch, target.features).emit_object(module)
        return found


def assembly(text: str, target: Target) -> str:
    """The processor's instructions for a module, to be read."""
    with _lock:
        found: str = _machine(target.arch, target.features).emit_assembly(llvm.parse_assembly(text))
        return found


def link(code: bytes, externs: Iterable[str], name: str, finish: bool) -> Functions:
    """Load object code: the callables of its `name`_body and `name`_finish.

    Raises
    ------
    LookupError
        If this process lacks a symbol that the code calls.
    """
    with _lock:
        for symbol in externs:
            llvm.add_symbol(symbol, mathlib.resolve(symbol))
        engine = _engine()
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        body = _BODY(engine.get_function_address(f"{name}_body"))
        rest = _FINISH(engine.get_function_address(f"{name}_finish")) if finish else None
    return body, rest
