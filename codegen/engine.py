"""Objects that are no image (image.py), loaded by LLVM's own linker: other processors, other systems.

in: an object file; out: the addresses of its functions.  One engine holds all such code of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from ..runtime import trace
from . import llvm


@cache
def _engine() -> Any:
    import llvmlite.binding as package  # large, and on most machines not needed

    llvm.start()
    machine = package.Target.from_default_triple().create_target_machine(opt=1)
    return package.create_mcjit_compiler(package.parse_assembly(""), machine)


def load(
    code: bytes, functions: Iterable[str], symbols: Iterable[str], resolve: Callable[[str], int]
) -> dict[str, int]:
    """Addresses of `functions` of an object that calls `symbols`.

    Raises
    ------
    LookupError
        If `resolve` does not know a symbol.
    """
    import llvmlite.binding as package

    with llvm.held():
        for symbol in symbols:
            package.add_symbol(symbol, resolve(symbol))
        engine = _engine()
        engine.add_object_file(package.ObjectFileRef.from_data(code))
        engine.finalize_object()
        trace.count("engine_links")
        return {name: engine.get_function_address(name) for name in functions}
