"""Machine code for the processor that runs this program.

in: the text of a module; out: object code that any process can keep on disk, and callables of it.
One engine holds all code of the process; calls release the interpreter's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from ..runtime import cache as disk
from ..runtime.target import Target
from . import builtin, mathlib

OPT = 1  # of instruction selection; the vectors are explicit, and no pass pipeline runs

_lock = threading.RLock()

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
        body = _callable(3, engine.get_function_address(f"{name}_body"))
        rest = _callable(1, engine.get_function_address(f"{name}_finish")) if finish else None
    return body, rest


@cache
def _methods() -> dict[int, int]:
    """Addresses of the builtins' methods by their number of arguments; none where ctypes must do."""
    if not builtin.usable():
        return {}
    target, text = host_target(), builtin.text()
    key = f"{text} {target!r} {llvm.llvm_version_info}"
    code = disk.load(key, counted=False)
    if code is None:
        code = build(text, target)
        disk.store(key, code)
    for name, address in builtin.symbols().items():
        llvm.add_symbol(name, address)
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return {count: engine.get_function_address(name) for count, name in builtin.NAMES.items()}


def _callable(count: int, address: int) -> Callable[..., int]:
    method = _methods().get(count)
    return builtin.by_ctypes(count, address) if method is None else builtin.through(count, method, address)
