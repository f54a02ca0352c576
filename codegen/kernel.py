"""Kernel IR: what one launch computes, without saying how.

in: fusion/lower.py builds a `Kernel`; out: codegen/interpret.py and codegen/emit.py run or compile it.

There are no loop nests here.  A kernel is a list of values in topological order, each with a *domain*: the
set of axes that it varies over.  A fold removes axes from a domain (or keeps them, for a scan); a store
writes a value over the axes of its own domain.  Extents, strides and scalars are arguments, so one kernel
serves every size.
"""

from __future__ import annotations

from ..runtime.tuples import NamedTuple

ABSENT, UNIT, STRIDED = 0, 1, 2  # class of an operand's stride along an axis: 0, the item size, an argument
DIVIDE, OVER, UNDER, INVALID = 1, 2, 4, 8  # floating-point fault bits, NumPy's own numbers


class Load(NamedTuple):
    """Where a "load" reads: operand pointer + sum(axis index * stride) + sum(gather value * stride), in bytes."""

    operand: int
    strides: tuple[int, ...]  # ABSENT | UNIT | STRIDED for each kernel axis
    # The sources of the load value are gather indices (i8, proved to lie in bounds); each has a stride argument, which
    # is the item size where the class here, one for each index or none at all, is UNIT.
    picks: tuple[int, ...] = ()


class Fold(NamedTuple):
    """Reduction (`keep="last"`) or scan (`keep="prefix"`) of the source over `axes`.

    Axes are listed in the order in which elements are combined, slowest first; "argmin" and "argmax" give
    the position (i8) in that order.  The association is fixed by the monoid and the extents alone.
    """

    axes: tuple[int, ...]
    monoid: str  # a key of MONOIDS
    keep: str = "last"


class Value(NamedTuple):
    """One scalar operation at every point of its domain.

    op is "load" (arg Load), "iota" (arg axis; i8, the index along it), "arg" (arg number of a scalar
    argument), "cast" (to `dtype`), "select" (b1, x, y), "fold" (arg Fold), or the name of a NumPy ufunc
    (two-result ufuncs split: "modf_frac", "modf_int", "frexp_mantissa", "frexp_exponent").
    `src` are positions of earlier values; `dom` is a bit mask of axes; `fault` the fault bits to report.
    """

    op: str
    dtype: str  # b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16: of the result
    src: tuple[int, ...] = ()
    arg: Load | Fold | int | None = None
    dom: int = 0
    fault: int = 0


class Store(NamedTuple):
    """Write `value` to operand pointer + sum(axis index * stride) for every point of `dom`."""

    operand: int
    strides: tuple[int, ...]
    value: int
    dom: int


class Operand(NamedTuple):
    """A pointer argument.  `noalias`: nothing else this kernel touches overlaps it, unless both are only read."""

    dtype: str
    access: str  # "r", "w", or "rw": read and written at the same index by every lane
    noalias: bool = True


class Kernel(NamedTuple):
    """One launch.  Axis 0 is the slowest in memory, as far as the operands agree; the last one the fastest."""

    rank: int
    values: tuple[Value, ...]
    stores: tuple[Store, ...]
    operands: tuple[Operand, ...]
    scalars: tuple[str, ...] = ()  # dtypes of the scalar arguments

    @property
    def faults(self) -> tuple[int, ...]:
        """Positions of the values that report faults; the n-th of them owns byte n of the fault operand."""
        return tuple(i for i, v in enumerate(self.values) if v.fault)

    @property
    def parallel(self) -> int:
        """Axes (bit mask) that every store iterates over: no fold crosses them at the outermost level."""
        mask = (1 << self.rank) - 1
        for store in self.stores:
            mask &= store.dom
        return mask


# monoid -> dtype of its result ("" the source's)
MONOIDS = {
    "add": "", "multiply": "", "minimum": "", "maximum": "", "fmin": "", "fmax": "",
    "logical_and": "b1", "logical_or": "b1", "bitwise_and": "", "bitwise_or": "", "bitwise_xor": "",
    "argmin": "i8", "argmax": "i8",
}  # fmt: skip


def can_rerun(kernel: Kernel) -> bool:
    """Whether the kernel's sources are as they were after it has run."""
    written = [kernel.operands[s.operand] for s in kernel.stores]
    return all(o.access == "w" and o.noalias for o in written)


def text(kernel: Kernel) -> str:
    """The kernel as a stable, readable listing: one line for each operand, value and store."""
    names = "ijklmnpqrstuvw"

    def axes(mask: int) -> str:
        return "{" + ",".join(names[a] for a in range(kernel.rank) if mask >> a & 1) + "}"

    def place(strides: tuple[int, ...]) -> str:
        return "[" + ", ".join(names[a] + "*s" * (c == STRIDED) for a, c in enumerate(strides) if c) + "]"

    lines = [f"axes {', '.join(names[: kernel.rank]) or '-'}"]
    for n, o in enumerate(kernel.operands):
        lines.append(f"operand p{n} {o.dtype} {o.access}{' noalias' if o.noalias else ''}")
    for n, v in enumerate(kernel.values):
        args = ", ".join(f"v{s}" for s in v.src)
        if isinstance(v.arg, Load):
            what = f"load p{v.arg.operand}{place(v.arg.strides)}" + (f" at ({args})" if args else "")
        elif isinstance(v.arg, Fold):
            over = "".join(names[a] for a in v.arg.axes)
            what = f"{'scan' if v.arg.keep == 'prefix' else 'fold'} {v.arg.monoid} over {over} ({args})"
        elif v.op == "iota":
            what = f"iota {names[int(v.arg or 0)]}"
        elif v.op == "arg":
            what = f"arg {v.arg}"
        else:
            what = f"{v.op}({args})"
        lines.append(f"v{n} {v.dtype} {axes(v.dom)} = {what}" + (f" faults {v.fault}" if v.fault else ""))
    for s in kernel.stores:
        lines.append(f"store p{s.operand}{place(s.strides)} {axes(s.dom)} = v{s.value}")
    return "\n".join(lines)
