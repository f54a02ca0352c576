"""States of folds and scans: how they start, take elements, join and end.

A fold whose order matters (sums and products of floats) is associated the same way in every schedule.  Along the
vector axis, in blocks of 512 elements, 32 lanes each take every 32nd element and are then combined by halves; along any
other axis a block is 16 elements.  Blocks are combined pairwise by a binary counter.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..runtime.tuples import NamedTuple
from . import numerics
from .frame import State, begin, branch, lanes_of, parts, phi, repeat, whole
from .kernel import Fold, Kernel
from .text import PARTS, SCALARS, Code, Reg, vtype

LANES = 32  # of an ordered fold over the vector axis
BLOCK = 16  # steps that an ordered fold takes in sequence
DEPTH = 32  # levels of the counter: more than 2**32 blocks never come
LAST = str((1 << 63) - 1)


class Kind(NamedTuple):
    """What a fold's state is made of."""

    monoid: str
    dtype: str  # of the value that is combined
    ordered: bool  # whether the association changes the result
    position: bool  # whether the state holds a position too
    keep: str = "last"

    def scalars(self) -> list[str]:
        """LLVM scalar types of the state's registers."""
        part = PARTS.get(self.dtype)
        types = [SCALARS[part]] * 2 if part else [SCALARS[self.dtype]]
        return [*types, "i64"] if self.position else types

    def types(self, lanes: int) -> list[str]:
        """LLVM types of the state's registers."""
        return [t if lanes == 1 else f"<{lanes} x {t}>" for t in self.scalars()]

    def identity(self, lanes: int) -> State:
        """The state before the first element."""
        texts = parts(numerics.identity(self.monoid, self.dtype, self.keep))
        if self.position:
            texts.append(LAST)
        if lanes == 1:
            return texts
        return [f"splat ({t} {x})" for t, x in zip(self.scalars(), texts, strict=True)]


def kind_of(kernel: Kernel, n: int) -> Kind:
    """The kind of fold or scan `n`."""
    value = kernel.values[n]
    assert isinstance(value.arg, Fold)
    monoid, dtype = value.arg.monoid, kernel.values[value.src[0]].dtype
    position = monoid in ("argmin", "argmax")
    if monoid.startswith("logical"):
        dtype = "b1"
    elif not position:
        dtype = value.dtype
    return Kind(monoid, dtype, monoid in ("add", "multiply") and dtype[0] in "fc", position, value.arg.keep)


def lift(code: Code, kind: Kind, dtype: str, x: Reg) -> Reg:
    """An element of `dtype` as the fold combines it."""
    if dtype == kind.dtype:
        return x
    return numerics.apply(code, "cast", (dtype,), kind.dtype, (x,))


def join(code: Code, kind: Kind, lanes: int, a: State, b: State) -> State:
    """Combine two states, the earlier one first."""
    former, code.lanes = code.lanes, lanes
    if kind.position:
        first, second = ((whole(s[:-1]), s[-1]) for s in (a, b))
        value, place = numerics.combine_arg(code, kind.monoid, kind.dtype, first, second)
        result = [*parts(value), place]
    else:
        result = parts(numerics.combine(code, kind.monoid, kind.dtype, whole(a), whole(b)))
    code.lanes = former
    return result


def better(code: Code, kind: Kind, lanes: int, a: State, b: State) -> State:
    """The better of two (value, position) states, of which the second has the greater position: NaN, then the best."""
    t, boolean = kind.types(lanes)[0], vtype("b1", lanes)
    less = kind.monoid == "argmax"
    if kind.dtype[0] == "f":
        first = code.op(f"fcmp {'ult' if less else 'ugt'} {t} {a[0]}, {b[0]}")
        second = code.op(f"and {boolean} {first}, {code.op(f'fcmp ord {t} {a[0]}, {a[0]}')}")
    else:
        sign = "u" if kind.dtype[0] == "u" else "s"
        second = code.op(f"icmp {sign}{'lt' if less else 'gt'} {t} {a[0]}, {b[0]}")
    return choose(code, lanes, second, kind.types(lanes), b, a)


def choose(code: Code, lanes: int, mask: str, types: Sequence[str], a: State, b: State) -> State:
    """a where the mask holds, else b."""
    boolean = vtype("b1", lanes)
    return [code.op(f"select {boolean} {mask}, {t} {x}, {t} {y}") for t, x, y in zip(types, a, b, strict=True)]


def across(code: Code, kind: Kind, lanes: int, state: State) -> State:
    """Combine all lanes, by halves."""
    if kind.position and lanes > 1 and kind.dtype[0] in "iuf":
        return _extreme(code, kind, lanes, state)
    while lanes > 1:
        half = lanes // 2
        low, high = (
            [lanes_of(code, t, lanes, r, first, half) for t, r in zip(kind.scalars(), state, strict=True)]
            for first in (0, half)
        )
        state = join(code, kind, half, low, high)
        lanes = half
    return state


def _extreme(code: Code, kind: Kind, lanes: int, state: State) -> State:
    """The best number of all lanes, and the smallest position that holds it."""
    monoid = "maximum" if kind.monoid == "argmax" else "minimum"
    best = across(code, Kind(monoid, kind.dtype, False, False), lanes, state[:1])
    wide, scalar, boolean = kind.types(lanes)[0], kind.scalars()[0], vtype("b1", lanes)
    every = repeat(code, scalar, lanes, best[0])
    if kind.dtype[0] == "f":  # if the best is NaN it equals none: then the lanes that hold NaN count
        equal = code.op(f"fcmp oeq {wide} {state[0]}, {every}")
        found = code.op(f"or {boolean} {equal}, {code.op(f'fcmp uno {wide} {state[0]}, {state[0]}')}")
    else:
        found = code.op(f"icmp eq {wide} {state[0]}, {every}")
    integers = f"<{lanes} x i64>"
    places = code.op(f"select {boolean} {found}, {integers} {state[1]}, {integers} splat (i64 {LAST})")
    return [*best, code.call("i64", f"llvm.vector.reduce.smin.v{lanes}i64", (integers, places))]


class Slots:
    """Memory on the stack for states of one fold."""

    def __init__(self, code: Code, kind: Kind, lanes: int, count: int) -> None:
        self.code, self.kind, self.lanes = code, kind, lanes
        # A bool's vectors would be packed bits, so that memory holds bytes.
        self.memory = [("i8" if t == "i1" else t) for t in kind.scalars()]
        self.arrays = [code.alloca(f"[{count * lanes} x {t}]") for t in self.memory]

    def _at(self, k: int, first: str) -> str:
        return self.code.op(f"getelementptr {self.memory[k]}, ptr {self.arrays[k]}, i64 {first}")

    def load(self, first: str, lanes: int) -> State:
        """The state from lane `first` of the memory on."""
        code, state = self.code, []
        for k, t in enumerate(self.kind.scalars()):
            wide = self.memory[k] if lanes == 1 else f"<{lanes} x {self.memory[k]}>"
            register = code.op(f"load {wide}, ptr {self._at(k, first)}, align 1")
            if t == "i1":
                register = code.op(f"trunc {wide} {register} to {vtype('b1', lanes)}")
            state.append(register)
        return state

    def store(self, first: str, lanes: int, state: State) -> None:
        """Keep a state from lane `first` of the memory on."""
        code = self.code
        for k, (t, register) in enumerate(zip(self.kind.scalars(), state, strict=True)):
            wide = self.memory[k] if lanes == 1 else f"<{lanes} x {self.memory[k]}>"
            if t == "i1":
                register = code.op(f"zext {vtype('b1', lanes)} {register} to {wide}")
            code.add(f"store {wide} {register}, ptr {self._at(k, first)}, align 1")


class Counter:
    """Pairwise combination of a stream of states: slot k holds 2**k of them together.

    Parameters
    ----------
    code : Code
    kinds : list of (Kind, int)
        The folds, with the lanes of a slot.  Fewer lanes may be pushed and taken at a time, from `lane` on.
    """

    def __init__(self, code: Code, kinds: list[tuple[Kind, int]]) -> None:
        self.code, self.kinds = code, kinds
        self.slots = [Slots(code, kind, lanes, DEPTH) for kind, lanes in kinds]

    def _types(self, lanes: int) -> list[str]:
        return [t for kind, _ in self.kinds for t in kind.types(lanes)]

    def _place(self, level: str, size: int, lane: str) -> str:
        first = self.code.op(f"mul i64 {level}, {size}")
        return first if lane == "0" else self.code.op(f"add i64 {first}, {lane}")

    def _cut(self, flat: State) -> list[State]:
        result, at = [], 0
        for kind, _ in self.kinds:
            size = len(kind.scalars())
            result.append(flat[at : at + size])
            at += size
        return result

    def _merge(self, level: str, states: State, lanes: int, lane: str) -> State:
        joined: State = []
        for slot, (kind, size), state in zip(self.slots, self.kinds, self._cut(states), strict=True):
            joined += join(self.code, kind, lanes, slot.load(self._place(level, size, lane), lanes), state)
        return joined

    def push(self, count: str, states: State, lanes: int = 1, lane: str = "0") -> None:
        """Add the states (of all folds, side by side); `count` came before."""
        code = self.code
        head, again, place = code.label("push"), code.label("again"), code.label("place")
        types, before = self._types(lanes), code.block
        code.add(f"br label %{head}")
        code.start(head)
        fresh, up = [code.temp() for _ in types], code.temp()
        level = phi(code, "i64", ("0", before), (up, again + "x"))
        now = [phi(code, t, (s, before), (f, again + "x")) for t, s, f in zip(types, states, fresh, strict=True)]
        bit = code.op(f"and i64 {code.op(f'lshr i64 {count}, {level}')}, 1")
        branch(code, code.op(f"icmp ne i64 {bit}, 0"), again, place)
        code.start(again)
        joined = self._merge(level, now, lanes, lane)
        begin(code, again + "x")
        for f, t, r in zip(fresh, types, joined, strict=True):
            code.add(f"{f} = bitcast {t} {r} to {t}")
        code.add(f"{up} = add i64 {level}, 1")
        code.add(f"br label %{head}")
        code.start(place)
        for slot, (_, size), state in zip(self.slots, self.kinds, self._cut(now), strict=True):
            slot.store(self._place(level, size, lane), lanes, state)

    def total(self, count: str, lanes: int = 1, lane: str = "0") -> State:
        """Everything pushed, combined; `count` (not 0) states were."""
        code, types = self.code, self._types(lanes)
        low = code.call("i64", "llvm.cttz.i64", ("i64", count), ("i1", "true"))
        first: State = []
        for slot, (_, size) in zip(self.slots, self.kinds, strict=True):
            first += slot.load(self._place(low, size, lane), lanes)
        head, more, leave = code.label("total"), code.label("more"), code.label("leave")
        rest = self._drop(count)
        before = code.block
        code.add(f"br label %{head}")
        code.start(head)
        fresh, left = [code.temp() for _ in types], code.temp()
        bits = phi(code, "i64", (rest, before), (left, more + "x"))
        now = [phi(code, t, (s, before), (f, more + "x")) for t, s, f in zip(types, first, fresh, strict=True)]
        branch(code, code.op(f"icmp ne i64 {bits}, 0"), more, leave)
        code.start(more)
        level = code.call("i64", "llvm.cttz.i64", ("i64", bits), ("i1", "true"))
        joined = self._merge(level, now, lanes, lane)
        begin(code, more + "x")
        for f, t, r in zip(fresh, types, joined, strict=True):
            code.add(f"{f} = bitcast {t} {r} to {t}")
        code.add(f"{left} = and i64 {bits}, {code.op(f'sub i64 {bits}, 1')}")
        code.add(f"br label %{head}")
        code.start(leave)
        return now

    def _drop(self, bits: str) -> str:
        less = self.code.op(f"sub i64 {bits}, 1")
        return self.code.op(f"and i64 {bits}, {less}")


def scan_lanes(code: Code, kind: Kind, lanes: int, carry: State, x: State, mask: str | None) -> tuple[State, State]:
    """Scan over the lanes of a vector one after the other: (the new carry, every lane's prefix)."""
    types = kind.types(lanes)
    if mask is not None:
        x = choose(code, lanes, mask, types, x, kind.identity(lanes))
    result = ["poison"] * len(types)
    for k in range(lanes):
        element = [lanes_of(code, t, lanes, r, k, 1) for t, r in zip(kind.scalars(), x, strict=True)]
        carry = join(code, kind, 1, carry, element)
        result = [
            code.op(f"insertelement {wide} {r}, {t} {c}, i64 {k}")
            for wide, t, r, c in zip(types, kind.scalars(), result, carry, strict=True)
        ]
    return carry, result


def positions(code: Code, lanes: int, first: str) -> str:
    """first, first + 1, ... in the lanes."""
    steps = ", ".join(f"i64 {k}" for k in range(lanes))
    return code.op(f"add <{lanes} x i64> {repeat(code, 'i64', lanes, first)}, <{steps}>")


def size_of(kind: Kind) -> int:
    """Bytes of one lane's state, every register in 8-byte words."""
    return 8 * len(kind.scalars())
