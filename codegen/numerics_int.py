"""Bool and integer operations as LLVM IR.

Signed and unsigned arithmetic wraps; division by zero gives 0 and MIN // -1 gives MIN, without a trap.
"""

from __future__ import annotations

from .rules import Args, Rule, Rules, Srcs, any_lane, emit, same
from .text import SIZES, Code, Reg


def bits(dtype: str) -> int:
    """Width of an integer dtype."""
    return 8 * SIZES[dtype]


def minimum_of(dtype: str) -> int:
    """Least value."""
    return -(1 << bits(dtype) - 1) if dtype[0] == "i" else 0


def maximum_of(dtype: str) -> int:
    """Greatest value."""
    return (1 << bits(dtype) - (dtype[0] == "i")) - 1


def zero_divisor(code: Code, dtype: str, y: str) -> str:
    """Lanes that divide by zero."""
    return code.op(f"icmp eq {code.type(dtype)} {y}, {code.const(dtype, 0)}")


def overflowing(code: Code, dtype: str, x: str, y: str) -> str:
    """Lanes of MIN / -1."""
    t = code.type(dtype)
    low = code.op(f"icmp eq {t} {x}, {code.const(dtype, minimum_of(dtype))}")
    one = code.op(f"icmp eq {t} {y}, {code.const(dtype, -1)}")
    return code.op(f"and {code.type('b1')} {low}, {one}")


def _quotient(code: Code, dtype: str, x: str, y: str) -> str:
    """Quotient towards zero, of a divisor that neither is zero nor overflows."""
    t, signed = code.type(dtype), dtype[0] == "i"
    if SIZES[dtype] == 8:
        return code.op(f"{'s' if signed else 'u'}div {t} {x}, {y}")
    # There is no vector instruction for it; a float quotient with twice the bits is exact after truncation.
    wide = code.type("f8" if SIZES[dtype] == 4 else "f4")
    sign = "s" if signed else "u"
    parts = [code.op(f"{sign}itofp {t} {v} to {wide}") for v in (x, y)]
    ratio = code.op(f"fdiv {wide} {parts[0]}, {parts[1]}")
    return code.op(f"fpto{sign}i {wide} {ratio} to {t}")


def divide(code: Code, dtype: str, x: str, y: str, floor: bool) -> tuple[str, str]:
    """Quotient and remainder, rounding down (`floor`) or towards zero; both 0 where y is 0."""
    t, b = code.type(dtype), code.type("b1")
    zero = code.const(dtype, 0)
    absent = zero_divisor(code, dtype, y)
    bad = absent
    if dtype[0] == "i":
        bad = code.op(f"or {b} {bad}, {overflowing(code, dtype, x, y)}")
    safe = code.op(f"select {b} {bad}, {t} {code.const(dtype, 1)}, {t} {y}")
    quotient = _quotient(code, dtype, x, safe)
    product = code.op(f"mul {t} {quotient}, {safe}")
    rest = code.op(f"sub {t} {x}, {product}")
    if floor and dtype[0] == "i":
        differ = code.op(f"xor {t} {rest}, {safe}")
        negative = code.op(f"icmp slt {t} {differ}, {zero}")
        some = code.op(f"icmp ne {t} {rest}, {zero}")
        fix = code.op(f"and {b} {negative}, {some}")
        down = code.op(f"sext {b} {fix} to {t}")
        quotient = code.op(f"add {t} {quotient}, {down}")
        more = code.op(f"select {b} {fix}, {t} {safe}, {t} {zero}")
        rest = code.op(f"add {t} {rest}, {more}")
    quotient = code.op(f"select {b} {absent}, {t} {zero}, {t} {quotient}")
    return quotient, rest


def _floor_divide(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return divide(code, out, str(args[0]), str(args[1]), floor=True)[0]


def _remainder(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return divide(code, out, str(args[0]), str(args[1]), floor=True)[1]


def _fmod(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return divide(code, out, str(args[0]), str(args[1]), floor=False)[1]


def _shift(instruction: str) -> Rule:
    """Shift; a count outside the width (negative ones too) leaves only copies of the sign, or zeros."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        t, b, width = code.type(out), code.type("b1"), bits(out)
        fits = code.op(f"icmp ult {t} {args[1]}, {code.const(out, width)}")
        if instruction == "ashr":
            count = code.op(f"select {b} {fits}, {t} {args[1]}, {t} {code.const(out, width - 1)}")
            return code.op(f"ashr {t} {args[0]}, {count}")
        count = code.op(f"select {b} {fits}, {t} {args[1]}, {t} {code.const(out, 0)}")
        shifted = code.op(f"{instruction} {t} {args[0]}, {count}")
        return code.op(f"select {b} {fits}, {t} {shifted}, {t} {code.const(out, 0)}")

    return rule


def _choose(condition: str) -> Rule:
    """First source where the comparison holds, else the second."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        t = code.type(out)
        holds = code.op(f"icmp {condition} {t} {args[0]}, {args[1]}")
        return code.op(f"select {code.type('b1')} {holds}, {t} {args[0]}, {t} {args[1]}")

    return rule


def _clip(less: str) -> Rule:
    low, high = _choose(less.replace("lt", "gt")), _choose(less)

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        return emit(code, high, srcs, out, (emit(code, low, srcs, out, args[:2]), args[2]))

    return rule


def _absolute(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    t = code.type(out)
    minus = code.op(f"sub {t} {code.const(out, 0)}, {args[0]}")
    below = code.op(f"icmp slt {t} {args[0]}, {code.const(out, 0)}")
    return code.op(f"select {code.type('b1')} {below}, {t} {minus}, {t} {args[0]}")


def _negative(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return code.op(f"sub {code.type(out)} {code.const(out, 0)}, {args[0]}")


def _sign(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    t, b, zero = code.type(out), code.type("b1"), code.const(out, 0)
    some = code.op(f"icmp ne {t} {args[0]}, {zero}")
    one = code.op(f"zext {b} {some} to {t}")
    if out[0] == "u":
        return one
    below = code.op(f"icmp slt {t} {args[0]}, {zero}")
    return code.op(f"select {b} {below}, {t} {code.const(out, -1)}, {t} {one}")


def _invert(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return code.op(f"xor {code.type(out)} {args[0]}, {code.const(out, 1 if out == 'b1' else -1)}")


def _count(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    dtype = srcs[0]
    value = args[0] if dtype[0] == "u" else _absolute(code, srcs, dtype, args)
    total = code.intrinsic("ctpop", dtype, str(value))
    if SIZES[dtype] == 1:
        return total
    return code.op(f"trunc {code.type(dtype)} {total} to {code.type('u1')}")


def _power(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """By squaring, until every lane's exponent is used up.  Negative exponents are the caller's to refuse."""
    t, b = code.type(out), code.type("b1")
    before, head, done = code.block, code.label("power"), code.label("powered")
    code.add(f"br label %{head}")
    code.start(head)
    acc, base, left, acc2, base2, left2 = (code.temp() for _ in range(6))
    code.add(f"{acc} = phi {t} [ {code.const(out, 1)}, %{before} ], [ {acc2}, %{head} ]")
    code.add(f"{base} = phi {t} [ {args[0]}, %{before} ], [ {base2}, %{head} ]")
    code.add(f"{left} = phi {t} [ {args[1]}, %{before} ], [ {left2}, %{head} ]")
    odd = code.op(f"trunc {t} {left} to {b}")
    product = code.op(f"mul {t} {acc}, {base}")
    code.add(f"{acc2} = select {b} {odd}, {t} {product}, {t} {acc}")
    code.add(f"{base2} = mul {t} {base}, {base}")
    code.add(f"{left2} = lshr {t} {left}, {code.const(out, 1)}")
    more = any_lane(code, code.op(f"icmp ne {t} {left2}, {code.const(out, 0)}"))
    code.add(f"br i1 {more}, label %{head}, label %{done}")
    code.start(done)
    return acc2


def _always(value: bool) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        return code.const(out, value)

    return rule


def _truth(connective: str) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        t = code.type(srcs[0])
        x, y = (code.op(f"icmp ne {t} {a}, {code.const(srcs[0], 0)}") for a in args)
        return code.op(f"{connective} {code.type('b1')} {x}, {y}")

    return rule


def _not(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return code.op(f"icmp eq {code.type(srcs[0])} {args[0]}, {code.const(srcs[0], 0)}")


def _compare(condition: str) -> Rule:
    """Comparison; a signed and an unsigned source compare by value."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        t, b = code.type(srcs[0]), code.type("b1")
        prefix = "" if condition in ("eq", "ne") else "s" if srcs[0][0] == srcs[1][0] == "i" else "u"
        plain = code.op(f"icmp {prefix}{condition} {t} {args[0]}, {args[1]}")
        if srcs[0][0] == srcs[1][0]:
            return plain
        left = srcs[0][0] == "i"  # a negative number lies below every unsigned one
        below = code.op(f"icmp slt {t} {args[0] if left else args[1]}, {code.const(srcs[0], 0)}")
        answer = condition in (("lt", "le", "ne") if left else ("gt", "ge", "ne"))
        return code.op(f"select {b} {below}, {b} {code.const('b1', answer)}, {b} {plain}")

    return rule


def _either(first: str, second: str) -> Rule:
    """Bool x first (second y): `xor true` of y, then the connective."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        b = code.type("b1")
        turned = code.op(f"xor {b} {args[0 if second == 'x' else 1]}, {code.const('b1', 1)}")
        return code.op(f"{first} {b} {turned}, {args[1 if second == 'x' else 0]}")

    return rule


COMPARISONS = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}  # fmt: skip

BOTH: dict[str, Rule] = {
    "add": "add {t} {0}, {1}", "subtract": "sub {t} {0}, {1}", "multiply": "mul {t} {0}, {1}",
    "bitwise_and": "and {t} {0}, {1}", "bitwise_or": "or {t} {0}, {1}", "bitwise_xor": "xor {t} {0}, {1}",
    "square": "mul {t} {0}, {0}", "negative": _negative, "invert": _invert, "sign": _sign,
    "floor_divide": _floor_divide, "remainder": _remainder, "fmod": _fmod, "power": _power,
    "left_shift": _shift("shl"), "bitwise_count": _count,
    "logical_and": _truth("and"), "logical_or": _truth("or"), "logical_xor": _truth("xor"), "logical_not": _not,
    "isnan": _always(False), "isinf": _always(False), "isfinite": _always(True),
    **{op: _compare(condition) for op, condition in COMPARISONS.items()},
    **dict.fromkeys(("positive", "conjugate", "floor", "ceil", "trunc"), same),
}  # fmt: skip

SIGNED: dict[str, Rule] = {
    "absolute": _absolute, "right_shift": _shift("ashr"), "clip": _clip("slt"),
    "maximum": _choose("sgt"), "minimum": _choose("slt"), "fmax": _choose("sgt"), "fmin": _choose("slt"),
}  # fmt: skip

UNSIGNED: dict[str, Rule] = {
    "absolute": same, "right_shift": _shift("lshr"), "clip": _clip("ult"),
    "maximum": _choose("ugt"), "minimum": _choose("ult"), "fmax": _choose("ugt"), "fmin": _choose("ult"),
}  # fmt: skip

_AND, _OR, _XOR = "and {t} {0}, {1}", "or {t} {0}, {1}", "xor {t} {0}, {1}"

BOOL: dict[str, Rule] = {
    **dict.fromkeys(("add", "logical_or", "bitwise_or", "maximum", "fmax"), _OR),
    **dict.fromkeys(("multiply", "logical_and", "bitwise_and", "minimum", "fmin"), _AND),
    **dict.fromkeys(("logical_xor", "bitwise_xor", "not_equal"), _XOR),
    **dict.fromkeys(("invert", "logical_not"), _invert),
    **dict.fromkeys(("absolute", "floor", "ceil", "trunc"), same),
    "less": _either("and", "x"), "less_equal": _either("or", "x"), "greater": _either("and", "y"),
    "greater_equal": _either("or", "y"), "equal": "icmp eq {t} {0}, {1}", "clip": _clip("ult"),
    "isnan": _always(False), "isinf": _always(False), "isfinite": _always(True),
}  # fmt: skip

RULES: Rules = {
    **{(op, kind): rule for op, rule in BOTH.items() for kind in "iu"},
    **{(op, "i"): rule for op, rule in SIGNED.items()},
    **{(op, "u"): rule for op, rule in UNSIGNED.items()},
    **{(op, "b"): rule for op, rule in BOOL.items()},
}
