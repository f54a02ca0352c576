"""How kernels report floating-point faults without paying for them in every build.

A kernel that overwrites none of its sources only notices that something is suspicious.  Then a second kernel, built
when it is first needed, goes over the same data, stores nothing and works out the exact kinds.  A kernel in place
reports by itself, in blocks apart.
"""

from __future__ import annotations

from .folds import kind_of
from .frame import parts
from .kernel import ABSENT, INVALID, OVER, UNDER, Fold, Kernel, Store, Value
from .mathlib import VECTOR
from .text import PARTS, Code, Reg

# float operations whose faults other than UNDER show in a result that is not finite
_SHOWN = frozenset(VECTOR) | {"add", "subtract", "multiply", "divide", "sqrt", "square"}
# float operations that give nothing finite where a source is not finite
_PASSING = frozenset(["add", "subtract", "multiply", "negative", "positive", "absolute", "square", "sqrt"])

SINK = -1  # operand of a store that only makes sure that its value is computed


def checked(kernel: Kernel, exact: bool) -> set[int]:
    """The faulting values that must be looked at: the others' faults show in a later one among them.

    Where kinds are not reported exactly, what goes into a sum shows in the sum, which is looked at when it is complete.
    """
    values = kernel.values
    found: set[int] = set()
    shown: set[int] = set()
    for n in range(len(values) - 1, -1, -1):
        value = values[n]
        plain = value.dtype in ("f4", "f8") and not value.fault & UNDER
        if value.fault and not (n in shown and plain and value.op in _SHOWN):
            found.add(n)
        visible = n in shown or (n in found and value.op in _SHOWN and bool(value.fault & (OVER | INVALID)))
        if not exact and is_summed(kernel, n) and values[value.src[0]].dtype == value.dtype:
            shown.add(value.src[0])
        if visible and value.op in _PASSING:
            shown.update(s for s in value.src if values[s].dtype == value.dtype and values[s].dom == value.dom)
    return found


def is_summed(kernel: Kernel, n: int) -> bool:
    """Whether value `n` is a sum or product that reports faults."""
    value = kernel.values[n]
    return bool(value.fault) and isinstance(value.arg, Fold) and value.arg.keep == "last" and kind_of(kernel, n).ordered


def with_checks(kernel: Kernel) -> Kernel:
    """The kernel, in which sums and products also learn whether an element was not finite.

    The argument row stays the same: values are added behind the others, and stores that write nothing.
    """
    values, stores = list(kernel.values), list(kernel.stores)
    used = {store.value for store in stores}
    for n in range(len(values) - 1, -1, -1):
        used.update(values[n].src if n in used else ())
    for n, value in enumerate(kernel.values):
        if n not in used or not is_summed(kernel, n):
            continue
        assert isinstance(value.arg, Fold)
        source = value.src[0]
        found = [n]
        for test in ("isinf", "isnan"):
            values.append(Value(test, "b1", (source,), None, kernel.values[source].dom))
            fold = Fold(value.arg.axes, "logical_or")
            values.append(Value("fold", "b1", (len(values) - 1,), fold, value.dom))
            found.append(len(values) - 1)
        values.append(Value("fold_fault", "u1", tuple(found), n, value.dom))
        stores.append(Store(SINK, (ABSENT,) * kernel.rank, len(values) - 1, value.dom))
    return kernel._replace(values=tuple(values), stores=tuple(stores))


def _either(code: Code, conditions: list[str]) -> str:
    result = conditions[0]
    for other in conditions[1:]:
        result = code.op(f"or {code.type('b1')} {result}, {other}")
    return result


def not_finite(code: Code, dtype: str, x: Reg) -> str:
    """Lanes in which a sum is infinite or NaN."""
    t = code.type(PARTS.get(dtype, dtype))
    differences = [code.op(f"fsub {t} {r}, {r}") for r in parts(x)]
    return _either(code, [code.op(f"fcmp uno {t} {d}, {d}") for d in differences])


def fold_fault(code: Code, dtype: str, x: Reg, infinite: str, nan: str, kinds: int) -> str:
    """Fault bits of a sum or product, from its value and from whether an element was infinite or NaN."""
    t, b, byte = code.type(PARTS.get(dtype, dtype)), code.type("b1"), code.type("u1")
    is_nan = _either(code, [code.op(f"fcmp uno {t} {r}, {r}") for r in parts(x)])
    unknown = not_finite(code, dtype, x)
    yes = code.const("b1", 1)
    new_nan = code.op(f"and {b} {is_nan}, {code.op(f'xor {b} {nan}, {yes}')}")
    some = code.op(f"or {b} {infinite}, {nan}")
    over = code.op(f"and {b} {unknown}, {code.op(f'xor {b} {some}, {yes}')}")
    zero = code.const("u1", 0)
    high = code.op(f"select {b} {over}, {byte} {code.const('u1', OVER & kinds)}, {byte} {zero}")
    low = code.op(f"select {b} {new_nan}, {byte} {code.const('u1', INVALID & kinds)}, {byte} {zero}")
    return code.op(f"or {byte} {high}, {low}")
