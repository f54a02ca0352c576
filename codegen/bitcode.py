"""Parts of a library of bitcode: functions that are not wanted become declarations, so that LLVM does not read them.

in: a library of hundreds of functions; out: bitcode of the same library with the bodies of some.  Reading all of
libdevice takes LLVM fifty times as long as compiling the one function that a kernel calls.  In a module's record of a
function stands one bit that says whether a body follows; bodies are found by their places, which stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

_END, _BLOCK, _DEFINE, _RECORD = range(4)  # what abbreviations of their own number
_INFO, _MODULE, _NAMES = 0, 8, 14  # kinds of blocks
_GLOBAL, _FUNCTION, _ALIASES = 7, 8, (9, 14)  # records of a module that are values
_ENTRY, _BODY_ENTRY = 1, 3  # records of names: (value, name), (value, place of the body, name)
_FIXED, _VBR, _ARRAY, _CHAR, _BLOB = range(1, 6)  # how an operand is written
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"

Operand = tuple[int, int]  # (how, width), or (0, value)


class Unknown(ValueError):
    """Bitcode of another form than is understood here."""


class Reader:
    """A place in a stream of bits."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def fixed(self, width: int) -> int:
        """A number of so many bits."""
        first, self.at = self.at, self.at + width
        return int.from_bytes(self.data[first >> 3 : (self.at + 7) >> 3], "little") >> (first & 7) & ((1 << width) - 1)

    def vbr(self, width: int) -> int:
        """A number in pieces of so many bits, whose highest says whether another follows."""
        high, found, shift = 1 << (width - 1), 0, 0
        while True:
            piece = self.fixed(width)
            found |= (piece & (high - 1)) << shift
            if piece < high:
                return found
            shift += width - 1

    def many(self, count: int, width: int) -> list[int]:
        """So many numbers of so many bits."""
        together, mask = self.fixed(count * width), (1 << width) - 1
        return [together >> at & mask for at in range(0, count * width, width)]

    def vbrs(self, count: int) -> list[int]:
        """So many numbers in pieces of 6 bits: as `vbr`, but read all at once, with more than enough behind them."""
        begin, found, value, shift = self.at, list[int](), 0, 0
        for used, piece in enumerate(self.many(4 * count + 8, 6)):
            if len(found) == count:
                self.at = begin + 6 * used
                return found
            value |= (piece & 31) << shift
            shift += 5
            if piece < 32:
                found.append(value)
                value = shift = 0
        self.at = begin
        return [self.vbr(6) for _ in range(count)]

    def align(self) -> None:
        """To the next word."""
        self.at = (self.at + 31) // 32 * 32

    def define(self) -> list[Operand]:
        """The definition of an abbreviation."""
        found: list[Operand] = []
        for _ in range(self.vbr(5)):
            if self.fixed(1):
                found.append((0, self.vbr(8)))
            else:
                how = self.fixed(3)
                found.append((how, self.vbr(5) if how in (_FIXED, _VBR) else 6))
        return found

    def operand(self, how: int, width: int) -> int:
        """One operand of an abbreviated record."""
        if how == 0:
            return width
        if how == _VBR:
            return self.vbr(width)
        if how not in (_FIXED, _CHAR):
            raise Unknown(f"an operand of kind {how}")
        found = self.fixed(width) if width else 0
        return ord(_LETTERS[found]) if how == _CHAR else found

    def abbreviated(self, operands: list[Operand]) -> list[int]:
        """The code and the operands of an abbreviated record."""
        found: list[int] = []
        for number, (how, width) in enumerate(operands):
            if how == _ARRAY:
                inner, size = operands[number + 1]
                if inner not in (_FIXED, _CHAR):
                    return [*found, *(self.operand(inner, size) for _ in range(self.vbr(6)))]
                letters = self.many(self.vbr(6), size)
                return [*found, *(letters if inner == _FIXED else [ord(_LETTERS[n]) for n in letters])]
            found.append(self.operand(how, width))
        return found

    def items(self, width: int, known: list[list[Operand]]) -> Iterator[tuple[int, Any]]:
        """What a block holds: (_BLOCK, (kind, width, end)), (_DEFINE, definition), or (_RECORD, record).

        A record is its code, then its operands, and the bit at which its operands begin where it is not abbreviated.
        A block is passed over unless the reader is moved.
        """
        known = known[:]
        while True:
            kind = self.fixed(width)
            if kind == _END:
                return
            if kind == _BLOCK:
                block, inner = self.vbr(8), self.vbr(4)
                self.align()
                end = 32 * self.fixed(32) + self.at
                yield _BLOCK, (block, inner, end)
                self.at = end
            elif kind == _DEFINE:
                known.append(self.define())
                yield _DEFINE, known[-1]
            elif kind == _RECORD:
                code, count = self.vbrs(2)
                begin = self.at
                yield _RECORD, ([code, *self.vbrs(count)], begin)
            elif kind - 4 < len(known):
                yield _RECORD, (self.abbreviated(known[kind - 4]), 0)
            else:
                raise Unknown(f"no abbreviation {kind}")


class Library:
    """A module of bitcode, of which parts can be taken.

    Raises
    ------
    Unknown
        If it is of another form.
    """

    def __init__(self, data: bytes) -> None:
        if data[:4] != b"BC\xc0\xde":
            raise Unknown("no bitcode")
        self.bodies: dict[int, int] = {}  # value -> bit at which it says that a body follows
        self.bare = bytearray(data)  # with no bodies
        self.names: dict[str, int] = {}  # of the values with bodies
        reader = Reader(data, 32)
        while reader.at < 8 * len(data):
            if reader.fixed(2) != _BLOCK:
                raise Unknown("no block")
            block, width = reader.vbr(8), reader.vbr(4)
            reader.align()
            end = 32 * reader.fixed(32) + reader.at
            if block == _MODULE:
                try:
                    self._module(reader, width)
                except (IndexError, KeyError, UnicodeError) as error:
                    raise Unknown(f"a broken module: {error!r}") from error
            reader.at = end
        if not self.names or set(self.names.values()) != set(self.bodies):
            raise Unknown("names stand elsewhere")

    def _module(self, reader: Reader, width: int) -> None:
        value, abbreviations = 0, list[list[Operand]]()
        for kind, item in reader.items(width, []):
            if kind == _BLOCK:
                block, inner, _ = item
                if block == _INFO:
                    abbreviations = self._info(reader, inner)
                elif block == _NAMES:
                    self._names(reader, inner, abbreviations)
            elif kind == _RECORD:
                record, begin = item
                if record[0] == _FUNCTION:
                    self._function(value, record, begin)
                value += record[0] in (_GLOBAL, _FUNCTION, *_ALIASES)

    def _function(self, value: int, record: list[int], begin: int) -> None:
        """Note where a function's record [type, convention, is declared, linkage, ...] says what is changed."""
        if not begin or max(record[3], record[4]) > 31:
            raise Unknown("a record of a function with other widths")
        at = begin + sum(6 * (1 + (max(n, 1).bit_length() - 1) // 5) for n in record[1:3])
        if not record[3]:
            self.bodies[value] = at
            self.bare[at >> 3] |= 1 << (at & 7)
        first = (at + 6) >> 3  # all are seen from outside, as parts refer to each other: linkage 0
        word = int.from_bytes(self.bare[first : first + 2], "little") & ~(63 << (at + 6 & 7))
        self.bare[first : first + 2] = word.to_bytes(2, "little")

    @staticmethod
    def _info(reader: Reader, width: int) -> list[list[Operand]]:
        """The abbreviations that all blocks of names share."""
        found, block = list[list[Operand]](), -1
        for kind, item in reader.items(width, []):
            if kind == _RECORD:
                block = item[0][1]
            elif kind == _DEFINE and block == _NAMES:
                found.append(item)
        return found

    def _names(self, reader: Reader, width: int, abbreviations: list[list[Operand]]) -> None:
        for kind, item in reader.items(width, abbreviations):
            if kind == _RECORD and item[0][0] == _BODY_ENTRY:
                _, value, _, *letters = item[0]
                self.names[bytes(letters).decode()] = value

    def part(self, names: Iterable[str]) -> bytes:
        """The library with no bodies but those of `names` and of its first function, by which readers count."""
        data = self.bare[:]
        for value in {min(self.bodies), *(self.names[name] for name in names)}:
            at = self.bodies[value]
            data[at >> 3] &= ~(1 << (at & 7))
        return bytes(data)
