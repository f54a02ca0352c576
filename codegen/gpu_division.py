"""Division of many numbers by one: by its reciprocal, with the same bits.

Let r be 1/s rounded, q = x*r rounded and e = x - q*s, which one fused operation gives exactly.  Then q + e*r, again by
one fused operation, is x/s rounded (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000",
1990), as long as nothing on the way leaves the range of normal numbers.  What could leave it is divided as usual.
"""

from __future__ import annotations

from collections.abc import Iterable

from .frame import branch, phi
from .text import Code

RANGE = 400  # least and greatest exponent of both numbers


def quick(code: Code, x: str, s: str) -> str:
    """x / s of doubles that are ordinary; the reciprocal of s is worked out once, wherever it is the same."""
    t = code.type("f8")
    r = code.op(f"fdiv {t} {code.const('f8', 1.0)}, {s}")
    q = code.op(f"fmul {t} {x}, {r}")
    e = code.intrinsic("fma", "f8", code.op(f"fneg {t} {q}"), s, x)
    return code.intrinsic("fma", "f8", e, r, q)


def quotient(code: Code, x: str, s: str) -> str:
    """x / s of any doubles."""
    t, fast, fits = code.type("f8"), quick(code, x, s), ordinary(code, (x, s))
    fast_block, slow, done = code.block, code.label("slow"), code.label("done")
    branch(code, fits, done, slow)
    code.start(slow)
    usual = divided(code, x, s)
    code.add(f"br label %{done}")
    code.start(done)
    return phi(code, t, (fast, fast_block), (usual, slow))


def ordinary(code: Code, numbers: Iterable[str]) -> str:
    """i1: whether all exponents are within the range; by integers, which cost less than comparisons."""
    high, wide, worst = code.type("i4"), code.type("i8"), ""
    for x in numbers:
        bits = code.op(f"bitcast {code.type('f8')} {x} to {wide}")
        bits = code.op(f"lshr {wide} {bits}, {code.const('i8', 32)}")
        word = code.op(f"trunc {wide} {bits} to {high}")
        word = code.op(f"and {high} {word}, {code.const('i4', 0x7FFFFFFF)}")  # without the sign
        word = code.op(f"add {high} {word}, {code.const('i4', -(1023 - RANGE << 20))}")
        worst = code.intrinsic("umax", "i4", worst, word) if worst else word
    if code.lanes > 1:
        worst = code.call("i32", f"llvm.vector.reduce.umax.v{code.lanes}i32", (high, worst))
    return code.op(f"icmp ult i32 {worst}, {2 * RANGE << 20}")


def divided(code: Code, x: str, s: str) -> str:
    """The processor's division, written so that no compiler moves it out of its block."""
    lanes, t = code.lanes, code.type("f8")
    result = "poison"
    for k in range(lanes):
        a, b = (v if lanes == 1 else code.op(f"extractelement {t} {v}, i64 {k}") for v in (x, s))
        one = code.op(f'call double asm sideeffect "div.rn.f64 $0, $1, $2;", "=d,d,d"(double {a}, double {b})')
        result = one if lanes == 1 else code.op(f"insertelement {t} {result}, double {one}, i64 {k}")
    return result
