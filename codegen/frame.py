"""Building blocks of emitted loops: what is known at a point of the code, counted loops, flattened states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .partial import Count
from .text import Code, Reg, mask

State = list[str]  # registers of a fold's or a scan's state, complex parts and positions side by side


class Frame:
    """What the code at one place can use.

    Attributes
    ----------
    regs : dict
        Registers of the values computed so far: vectors where the value varies over the open vector axis.
    wide : dict
        The scalar ones among them, repeated in every lane.
    places : dict
        For each access its pointer, with the axes (mask) that are added already.
    index : dict
        Register of the index along each open axis; along the vector axis that of the first lane.
    lanes : int
        Lanes of the open vector loop, 1 if none is open.
    mask : Count or None
        Register of the lanes inside the extent; None if all are.
    entry, carry : dict
        States of the scans that open loops carry: when the present index began, and now.
    """

    def __init__(self) -> None:
        self.regs: dict[int, Reg] = {}
        self.wide: dict[int, Reg] = {}
        self.places: dict[tuple[str, int], tuple[str, int]] = {}
        self.index: dict[int, str] = {}
        self.lanes = 1
        self.mask: Count | None = None
        self.entry: dict[int, State] = {}
        self.carry: dict[int, State] = {}

    def enter(self, axis: int, index: str, lanes: int | None = None) -> Frame:
        """A copy in which `axis` is open as well."""
        inner = Frame()
        inner.regs, inner.wide, inner.places = dict(self.regs), dict(self.wide), dict(self.places)
        inner.index = {**self.index, axis: index}
        inner.lanes = self.lanes if lanes is None else lanes
        inner.mask, inner.entry, inner.carry = self.mask, dict(self.entry), dict(self.carry)
        return inner


def parts(reg: Reg) -> State:
    """The registers of a value."""
    return [reg] if isinstance(reg, str) else list(reg)


def whole(regs: State) -> Reg:
    """The value of such registers."""
    return regs[0] if len(regs) == 1 else (regs[0], regs[1])


def name(code: Code, fresh: str, type: str, register: str) -> None:
    """Give a register the name that an earlier phi knows it by."""
    code.add(f"{fresh} = bitcast {type} {register} to {type}")


def phi(code: Code, type: str, *incoming: tuple[str, str]) -> str:
    """A phi of (register, block) pairs."""
    return code.op(f"phi {type} " + ", ".join(f"[ {r}, %{b} ]" for r, b in incoming))


def branch(code: Code, condition: str, yes: str, no: str) -> None:
    """End the block with a conditional branch."""
    code.add(f"br i1 {condition}, label %{yes}, label %{no}")


def begin(code: Code, label: str) -> None:
    """Fall through into a new block."""
    code.add(f"br label %{label}")
    code.start(label)


def counted(
    code: Code, start: str, stop: str, step: int | str, types: Sequence[str], state: State,
    body: Callable[[str, State], State], unroll: int = 0,
) -> State:  # fmt: skip
    """A loop from `start` while below `stop`; `body` maps the index and the state to the next state.

    With `unroll` the compiler is told to write out so many steps.
    """
    head, latch, leave = code.label("head"), code.label("latch"), code.label("leave")
    before = code.block
    branch(code, code.op(f"icmp slt i64 {start}, {stop}"), head, leave)
    code.start(head)
    fresh = [code.temp() for _ in types]
    next_index = code.temp()
    index = phi(code, "i64", (start, before), (next_index, latch))
    inside = [phi(code, t, (s, before), (f, latch)) for t, s, f in zip(types, state, fresh, strict=True)]
    result = body(index, inside)
    begin(code, latch)
    for f, t, r in zip(fresh, types, result, strict=True):
        name(code, f, t, r)
    code.add(f"{next_index} = add nsw i64 {index}, {step}")
    branch(code, code.op(f"icmp slt i64 {next_index}, {stop}"), head, leave)
    if unroll:
        code.lines[-1] += f", !llvm.loop !{_loop(code, unroll)}"
    code.start(leave)
    return [phi(code, t, (s, before), (f, latch)) for t, s, f in zip(types, state, fresh, strict=True)]


def _loop(code: Code, count: int) -> int:
    """Metadata of a loop of which `count` steps are to be written out."""
    number = len(code.declarations)
    code.declare(f'!{2 * number + 1} = !{{!"llvm.loop.unroll.count", i32 {count}}}')
    code.declare(f"!{2 * number} = distinct !{{!{2 * number}, !{2 * number + 1}}}")
    return 2 * number


def lesser(code: Code, a: str, b: str) -> str:
    """The smaller of two i64."""
    return code.call("i64", "llvm.smin.i64", ("i64", a), ("i64", b))


def repeat(code: Code, type: str, lanes: int, register: str) -> str:
    """A scalar of `type` in every lane of a vector."""
    vector = f"<{lanes} x {type}>"
    first = code.op(f"insertelement {vector} poison, {type} {register}, i64 0")
    return code.op(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")


def lanes_of(code: Code, type: str, lanes: int, register: str, first: int, count: int) -> str:
    """`count` lanes of a vector from lane `first` on, as a vector, or a scalar if it is one lane."""
    vector = f"<{lanes} x {type}>"
    if count == lanes:
        return register
    if count == 1:
        return code.op(f"extractelement {vector} {register}, i64 {first}")
    return code.op(f"shufflevector {vector} {register}, {vector} poison, {mask(range(first, first + count))}")
