"""Machine code as images: object files laid out once, so that loading one is to copy it and to fill in addresses.

in: an ELF object; out: an `Image`, which goes to disk as bytes, and the addresses of its functions in this process.
Only what the code generator writes for x86-64 is understood: code and constants, with 64-bit addresses in them.  Of
anything else `laid_out` says so, and LLVM's own linker loads the object.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from ..runtime.tuples import NamedTuple

_HEAD = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MOVE = struct.Struct("<QQq")
_ADDRESS = struct.Struct("<Q")

_X86_64, _RELOCATABLE = 62, 1
_PROGBITS, _SYMBOLS, _MOVES, _UNWIND = 1, 2, 4, 0x70000001  # kinds of sections
_WRITE, _KEPT = 1, 2  # flags of sections
_ABSOLUTE = 1  # R_X86_64_64, the one relocation of the large code model

Functions = dict[str, int]


class Unknown(ValueError):
    """An object that is no image."""


class Refused(LookupError):
    """The system does not let memory become executable."""


class Image(NamedTuple):
    """Code and constants, with what is to be filled in."""

    code: bytes
    functions: Functions  # name -> offset
    inner: list[tuple[int, int]]  # (place, offset): addresses within the image
    outer: list[tuple[int, str, int]]  # (place, symbol, offset from it)


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def laid_out(data: bytes) -> Image:
    """The image of an object file.

    Raises
    ------
    Unknown
        If it is of another kind than those understood here.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise Unknown("not ELF of 64 bits")
    head = _HEAD.unpack_from(data)
    if head[1:3] != (_RELOCATABLE, _X86_64):
        raise Unknown("not relocatable code for x86-64")
    first, size, count = head[6], head[11], head[12]
    sections = [_Section(*_SECTION.unpack_from(data, first + size * n)) for n in range(count)]
    code, places = bytearray(), dict[int, int]()
    for number, section in enumerate(sections):
        if not section.flags & _KEPT or section.kind == _UNWIND or not section.size:
            continue
        if section.flags & _WRITE or section.kind != _PROGBITS:
            raise Unknown(f"a section of kind {section.kind} with flags {section.flags}")
        code += bytes(-len(code) % max(section.align, 1))
        places[number] = len(code)
        code += data[section.offset : section.offset + section.size]
    table = next(s for s in sections if s.kind == _SYMBOLS)
    names = sections[table.link].offset
    symbols = [_SYMBOL.unpack_from(data, table.offset + at) for at in range(0, table.size, _SYMBOL.size)]

    def name(symbol: Any) -> str:
        start = names + symbol[0]
        return data[start : data.index(b"\0", start)].decode()

    functions = {name(s): places[s[3]] + s[4] for s in symbols if s[1] == 0x12}  # global functions
    inner: list[tuple[int, int]] = []
    outer: list[tuple[int, str, int]] = []
    for section in sections:
        if section.kind != _MOVES or section.info not in places:
            continue
        for at in range(section.offset, section.offset + section.size, _MOVE.size):
            where, what, added = _MOVE.unpack_from(data, at)
            if what & 0xFFFFFFFF != _ABSOLUTE:
                raise Unknown(f"a relocation of kind {what & 0xFFFFFFFF}")
            symbol, place = symbols[what >> 32], places[section.info] + where
            if symbol[3] in places:
                inner.append((place, places[symbol[3]] + symbol[4] + added))
            elif symbol[3]:
                raise Unknown(f"a reference to section {symbol[3]}")
            else:
                outer.append((place, name(symbol), added))
    return Image(bytes(code), functions, inner, outer)


@cache
def _libc() -> Any:
    """The system's calls for memory; what they give stays for good.

    Callables of code may live as long as the process, and threads that look for work run it while the interpreter ends.
    """
    found = ctypes.CDLL(None)
    found.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *3 * (ctypes.c_int,), ctypes.c_long)
    found.mmap.restype = ctypes.c_void_p
    return found


@cache
def _protect() -> Any:
    found = _libc().mprotect
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


_refused = False


FAILED = (1 << 64) - 1  # what mmap gives instead of an address


def loadable() -> bool:
    """Whether this system's memory can be made executable as it is done here, as far as is known."""
    return sys.platform == "linux" and sys.maxsize > 1 << 32 and not _refused


def load(image: Image, resolve: Callable[[str], int]) -> Functions:
    """Addresses of the functions of an image.

    Raises
    ------
    LookupError
        If `resolve` does not know a symbol.
    Refused
        If the system does not let memory become executable.
    """
    global _refused
    size = -(-len(image.code) // mmap.PAGESIZE) * mmap.PAGESIZE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = _libc().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if base in (None, FAILED):
        raise MemoryError(f"no {size} bytes for machine code")
    code = bytearray(image.code)
    for place, offset in image.inner:
        _ADDRESS.pack_into(code, place, base + offset)
    for place, symbol, added in image.outer:
        _ADDRESS.pack_into(code, place, resolve(symbol) + added)
    ctypes.memmove(base, bytes(code), len(code))
    if _protect()(base, size, mmap.PROT_READ | mmap.PROT_EXEC):
        _refused = True
        raise Refused("memory cannot be made executable")
    return {name: base + offset for name, offset in image.functions.items()}


_kept: list[Any] = []  # what doors look at, as long as the process


def doors(functions: Functions) -> tuple[Functions, Callable[[Functions], None]]:
    """Addresses at which `functions` are called, and what has them lead to other functions of the same names.

    Each is a jump to the address in a word of its own, which is written at once: calls go the old way or the new one.
    """
    words = (ctypes.c_uint64 * len(functions))(*functions.values())
    _kept.append(words)
    code = b"".join(
        b"\x48\xb8"
        + _ADDRESS.pack(ctypes.addressof(words) + 8 * n)
        + b"\xff\x20"
        + bytes(4)  # mov rax, word; jmp [rax]
        for n in range(len(functions))
    )
    found = load(Image(code, {name: 16 * n for n, name in enumerate(functions)}, [], []), lambda name: 0)

    def lead(others: Functions) -> None:
        for n, name in enumerate(functions):
            words[n] = others[name]

    return found, lead
