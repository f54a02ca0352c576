"""Roots and quotients by what is right for ordinary numbers alone, many at a time: whether they all were is asked once.

The assembler's own root asks for each number by itself, and calls a function where one is not ordinary; so roots wait
for each other.  Here the same steps are written out without the question (`root`; quotients: gpu_division.py),
everything that makes use of them is computed, and where a number was not ordinary all of it is computed once more as
usual (`attempted`).  The bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .frame import State, branch, phi
from .text import SCALARS, Code

if TYPE_CHECKING:
    from .gpu_emit import DeviceEmitter

# dtype -> (least word of an ordinary number, how many words follow): of the 32 high bits, as unsigned integers
ORDINARY = {"f4": (0x0D000000, 0x72800000), "f8": (0x03500000, 0x7CA00000)}


class Trial:
    """Whether the shortcuts of some code hold.

    Attributes
    ----------
    usual : str
        Label of the block that does everything over.
    left : bool
        Whether the code has left for it already.
    fits : list of str
        Conditions (i1) that are asked in the end.
    """

    def __init__(self, usual: str) -> None:
        self.usual, self.left = usual, False
        self.fits: list[str] = []

    def all(self, code: Code) -> str:
        """All conditions."""
        fits = self.fits[0]
        for other in self.fits[1:]:
            fits = code.op(f"and i1 {fits}, {other}")
        return fits

    def leave(self, code: Code, fits: str) -> None:
        """Ask at once: what is computed then needs no room beside what it is computed from."""
        self.left, ordinary = True, code.label("ordinary")
        branch(code, fits, ordinary, self.usual)
        code.start(ordinary)


def root(code: Code, dtype: str, x: str) -> tuple[str, str]:
    """(the root of an ordinary number rounded to nearest, i1: whether the number is ordinary)."""
    if code.lanes == 1:
        return _root(code, dtype, x)
    lanes, t, scalar = code.lanes, code.type(dtype), SCALARS[dtype]
    roots, every = "poison", ""
    code.lanes = 1
    for k in range(lanes):
        one, fits = _root(code, dtype, code.op(f"extractelement {t} {x}, i64 {k}"))
        roots = code.op(f"insertelement {t} {roots}, {scalar} {one}, i64 {k}")
        every = code.op(f"and i1 {every}, {fits}") if every else fits
    code.lanes = lanes
    return roots, every


def _root(code: Code, dtype: str, x: str) -> tuple[str, str]:
    least, count = ORDINARY[dtype]
    if dtype == "f4":
        word = code.op(f"bitcast float {x} to i32")
        guess = code.call("float", "llvm.nvvm.rsqrt.approx.ftz.f", ("float", x))
        close, half = code.op(f"fmul float {x}, {guess}"), code.op(f"fmul float {guess}, 0.5")
    else:
        bits = code.op(f"bitcast double {x} to i64")
        word = code.op(f"trunc i64 {code.op(f'lshr i64 {bits}, 32')} to i32")
        guess = code.op(f'call double asm "rsqrt.approx.ftz.f64 $0, $1;", "=d,d"(double {x})')
        e = code.op(f"fneg double {code.op(f'fmul double {guess}, {guess}')}")
        e = code.intrinsic("fma", "f8", x, e, "1.0")
        p = code.intrinsic("fma", "f8", e, "0.375", "0.5")
        guess = code.intrinsic("fma", "f8", p, code.op(f"fmul double {guess}, {e}"), guess)
        close = code.op(f"fmul double {x}, {guess}")
        bits = code.op(f"sub i64 {code.op(f'bitcast double {guess} to i64')}, {1 << 52}")  # a half of it
        half = code.op(f"bitcast i64 {bits} to double")
    far = code.op(f"fneg {SCALARS[dtype]} {close}")
    rest = code.intrinsic("fma", dtype, far, close, x)
    found = code.intrinsic("fma", dtype, rest, half, close)
    return found, code.op(f"icmp ult i32 {code.op(f'sub i32 {word}, {least}')}, {count}")


def attempted(emitter: DeviceEmitter, make: Callable[[], list[tuple[str, str]]]) -> State:
    """The registers of (type, register) that `make` writes by shortcuts, or as usual where they do not hold.

    Notes of faults are those that hold; where faults are told apart there are no shortcuts.
    """
    code = emitter.code
    if emitter.exact:
        return [register for _, register in make()]
    noted = [(t, where, code.op(f"load {t}, ptr {where}")) for t, where in emitter.notes()]
    former, trial = emitter.trial, Trial(code.label("usual"))
    emitter.trial = trial
    quick = make()
    emitter.trial = former
    if not trial.left and not trial.fits:
        return [register for _, register in quick]
    done, before = code.label("done"), code.block
    if trial.fits:
        branch(code, trial.all(code), done, trial.usual)
    else:
        code.add(f"br label %{done}")
    code.start(trial.usual)
    known = {where for _, where, _ in noted}
    for t, where, word in [*noted, *((t, w, "0") for t, w in emitter.notes() if w not in known)]:
        code.add(f"store {t} {word}, ptr {where}")
    emitter.usual = True
    slow, after = make(), code.block
    emitter.usual = False
    code.add(f"br label %{done}")
    code.start(done)
    return [phi(code, t, (a, before), (b, after)) for (t, a), (_, b) in zip(quick, slow, strict=True)]
