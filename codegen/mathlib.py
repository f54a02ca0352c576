"""Where scalar functions come from: libmvec's vector functions, and the inner loops of NumPy's ufuncs.

in: numerics asks for a call; out: `resolve` gives linkers the address of every symbol such a call names.

libmvec is looked up symbol by symbol in the running process.  A ufunc's inner loop is reached through the public
head of `PyUFuncObject`, whose offsets are verified against the attributes that Python shows before any is trusted.
A loop is named "npy:<ufunc>:<types>", its data pointer "npy:<ufunc>:<types>:data": both mean the same in every process
that runs the same NumPy.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

import numpy

from .text import PARTS, SIZES, Code, Reg, mask, mtype, vtype

# ufunc -> name in the C library; cbrt is missing because libmvec's is inexact for cubes
VECTOR = {name: name for name in "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh hypot".split()} | {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2", "power": "pow", "float_power": "pow",
}  # fmt: skip

DTYPES = {  # NumPy's type characters -> our names
    c: {"b": "b1"}.get(numpy.dtype(c).kind, numpy.dtype(c).kind + str(numpy.dtype(c).itemsize))
    for c in "?bBhHiIlLqQefdFD"
}

_CHARS = {name: c for c, name in reversed(DTYPES.items())}  # the first of several

_umath: Any = numpy._core.umath  # type: ignore[attr-defined]
_HEAD = ctypes.c_int * 4  # nin, nout, nargs, identity at offset 16
_FUNCTIONS, _DATA, _COUNT, _TYPES = 32, 40, 48, 64


def ufunc(name: str) -> numpy.ufunc | None:
    """The elementwise ufunc of that name (its own name, no alias), or None."""
    found: Any = getattr(_umath, name, None)
    if isinstance(found, numpy.ufunc) and found.signature is None and found.__name__ == name:
        return found
    return None


@cache
def signatures(name: str) -> dict[tuple[str, ...], int]:
    """Types (sources, then results, as our dtype names) of a ufunc's loops -> number of the first such loop."""
    table: dict[tuple[str, ...], int] = {}
    found = ufunc(name)
    for index, types in enumerate(found.types if found is not None else ()):
        try:
            table.setdefault(tuple(map(DTYPES.__getitem__, types.replace("->", ""))), index)
        except KeyError:
            continue  # objects, times
    return table


def listed(name: str, types: tuple[str, ...]) -> bool:
    """Whether a ufunc of one result has a loop for these types; where NumPy lists it by its usual characters."""
    found = ufunc(name)
    *sources, result = [_CHARS.get(t, "") for t in types]
    return found is not None and f"{''.join(sources)}->{result}" in found.types


@cache
def _loops(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Addresses of a ufunc's inner loops and of their data; empty where the object is not laid out as expected."""
    found = ufunc(name)
    if found is None:
        return (), ()
    base = id(found)
    try:
        if list(_HEAD.from_address(base + 16))[:3] != [found.nin, found.nout, found.nargs]:
            return (), ()
        if ctypes.c_int.from_address(base + _COUNT).value != found.ntypes:
            return (), ()
        numbers = [numpy.dtype(c).num for types in found.types for c in types.replace("->", "")]
        where = ctypes.c_void_p.from_address(base + _TYPES).value or 0
        if list(ctypes.string_at(where, len(numbers))) != numbers:
            return (), ()
    except (TypeError, ValueError):
        return (), ()
    table = ctypes.c_void_p * found.ntypes
    functions = table.from_address(ctypes.c_void_p.from_address(base + _FUNCTIONS).value or 0)
    where = ctypes.c_void_p.from_address(base + _DATA).value or 0
    data = list(table.from_address(where)) if where else [None] * found.ntypes
    return tuple(f or 0 for f in functions), tuple(d or 0 for d in data)


def has_loop(name: str, types: tuple[str, ...]) -> bool:
    """Whether the ufunc's inner loop for these types (sources, then results) can be called."""
    index = signatures(name).get(types)
    functions = _loops(name)[0]
    return index is not None and index < len(functions) and functions[index] != 0


_LIBRARIES = (None, "libm.so.6", "libmvec.so.1", "libgcc_s.so.1")  # that hold functions of C: the process first


@cache
def _library(name: str | None) -> Any:
    try:
        return ctypes.CDLL(name)
    except (OSError, TypeError):  # not glibc, or older: symbols are looked up one by one
        return None


def opened(path: bytes) -> None:
    """Have a library in memory, where that can be done without Python's lock; what is wrong with it, its user meets."""
    if hasattr(os, "RTLD_NOW"):
        opener = ctypes.CDLL(None).dlopen
        opener.restype, opener.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_int)
        opener(path, os.RTLD_NOW)


def load() -> None:
    """Have the vector functions in memory."""
    opened(b"libmvec.so.1")


@cache
def symbol(name: str) -> int:
    """Address of a C library function in this process, 0 if there is none."""
    places = (None, "libmvec.so.1", *_LIBRARIES[1:]) if name.startswith("_ZGV") else _LIBRARIES
    for place in places:
        found = getattr(_library(place), name, None)
        if found is not None:
            return ctypes.c_size_t.from_address(ctypes.addressof(found)).value
    return 0


def resolve(name: str) -> int:
    """Address of a symbol that `Code.extern` noted, in this process.

    Raises
    ------
    LookupError
        If this process has no such symbol.
    """
    if name.startswith("npy:"):
        _, op, types, *data = name.split(":")
        index = signatures(op).get(tuple(types.split(",")))
        functions, pointers = _loops(op)
        address = 0 if index is None or not functions else (pointers if data else functions)[index]
    else:
        address = symbol(name)
    if not address:
        raise LookupError(f"no symbol {name!r} in this process")
    return address


def vector_function(code: Code, op: str, dtype: str) -> tuple[str, int] | None:
    """Name and width of libmvec's function for the target; always the same one, so that lanes do not change bits."""
    if op not in VECTOR or dtype not in ("f4", "f8") or not code.target.arch:
        return None
    features = code.target.features
    wide = "+avx512f" in features and code.target.vector >= 64
    letter, size = ("e", 64) if wide else ("d", 32) if "+avx2" in features else ("b", 16)
    args = "vv" if VECTOR[op] in ("pow", "atan2", "hypot") else "v"
    width = size // SIZES[dtype]
    name = f"_ZGV{letter}N{width}{args}_{VECTOR[op]}{'f' if dtype == 'f4' else ''}"
    return (name, width) if symbol(name) else None


def call_vector(code: Code, name: str, width: int, dtype: str, args: tuple[str, ...]) -> str:
    """Call a function of `width` lanes for the present number of lanes: in pieces, or with lanes repeated."""
    lanes, t = code.lanes, vtype(dtype, width)
    code.extern(name, symbol(name))
    pieces = []
    for first in range(0, lanes, width):
        taken = [_piece(code, a, dtype, [(first + k) % lanes for k in range(width)]) for a in args]
        pieces.append(code.call(t, name, *((t, a) for a in taken)))
    if lanes == 1:
        return code.op(f"extractelement {t} {pieces[0]}, i32 0")
    while len(pieces) > 1:  # lanes and widths are powers of two
        size = len(pieces)
        t = vtype(dtype, lanes // size)
        both = mask(range(2 * lanes // size))
        pieces = [code.op(f"shufflevector {t} {pieces[k]}, {t} {pieces[k + 1]}, {both}") for k in range(0, size, 2)]
    if lanes < width:
        return code.op(f"shufflevector {t} {pieces[0]}, {t} poison, {mask(range(lanes))}")
    return pieces[0]


def _piece(code: Code, value: str, dtype: str, order: list[int]) -> str:
    if code.lanes == 1:
        t = vtype(dtype, len(order))
        first = code.op(f"insertelement {t} poison, {vtype(dtype, 1)} {value}, i32 0")
        return code.op(f"shufflevector {t} {first}, {t} poison, {mask(order)}")
    if order == list(range(code.lanes)):
        return value
    t = code.type(dtype)
    return code.op(f"shufflevector {t} {value}, {t} poison, {mask(order)}")


def _constant(code: Code, name: str, numbers: list[int]) -> str:
    items = ", ".join(f"i64 {n}" for n in numbers)
    code.declare(f"@{name} = private unnamed_addr constant [{len(numbers)} x i64] [{items}]")
    return f"@{name}"


def call_loop(code: Code, op: str, types: tuple[str, ...], args: tuple[Reg, ...], result: int = 0) -> Reg:
    """Run NumPy's own inner loop over the lanes, through memory on the stack.

    Parameters
    ----------
    types
        Of the sources, then of the results.
    result
        Which of the results is wanted.
    """
    index = signatures(op)[types]
    name = f"npy:{op}:{','.join(types)}"
    code.extern(name, _loops(op)[0][index])
    data = "null"
    if _loops(op)[1][index]:
        code.extern(name + ":data", _loops(op)[1][index])
        code.declare(f'@"{name}:data" = external global i8')
        data = f'@"{name}:data"'
    slots = []
    for k, dtype in enumerate(types):
        part = PARTS.get(dtype)
        slot = code.alloca(vtype(part, 2 * code.lanes) if part else mtype(dtype, code.lanes))
        slots.append(slot)
        if k < len(args):
            code.write(dtype, args[k], slot)
    row = code.alloca(f"[{len(types)} x ptr]")
    for k, slot in enumerate(slots):
        place = code.op(f"getelementptr ptr, ptr {row}, i64 {k}")
        code.add(f"store ptr {slot}, ptr {place}")
    sizes = [SIZES[dtype] for dtype in types]
    steps = _constant(code, "steps_" + "_".join(map(str, sizes)), sizes)
    count = _constant(code, f"count_{code.lanes}", [code.lanes])
    code.declare(f'declare void @"{name}"(ptr, ptr, ptr, ptr)')
    code.add(f'call void @"{name}"(ptr {row}, ptr {count}, ptr {steps}, ptr {data})')
    return code.read(types[len(args) + result], slots[len(args) + result])
