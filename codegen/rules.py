"""What a rule of the numerics tables is, and small pieces of IR that rules share."""

from __future__ import annotations

from collections.abc import Callable

from .text import Code, Reg

# A rule emits one operation: (code, dtypes of the sources, dtype of the result, sources) -> result.  A string is an
# instruction with {t}, the sources' type, {o}, the result's, and {0}, {1}, {2}, the sources.
Srcs = tuple[str, ...]
Args = tuple[Reg, ...]
Emit = Callable[[Code, Srcs, str, Args], Reg]
Rule = Emit | str
Rules = dict[tuple[str, str], Rule]  # (op, class of the sources) -> rule


def kind(dtype: str) -> str:
    """Class of a dtype: b(ool), i(nt), u(nsigned), h(alf), f(loat) or c(omplex)."""
    return "h" if dtype == "f2" else dtype[0]


def emit(code: Code, rule: Rule, srcs: Srcs, out: str, args: Args) -> Reg:
    """Apply a rule."""
    if isinstance(rule, str):
        return code.op(rule.format(*args, t=code.type(srcs[0]), o=code.type(out)))
    return rule(code, srcs, out, args)


def same(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """The source itself."""
    return args[0]


def any_lane(code: Code, condition: str) -> str:
    """i1: whether the condition holds in some lane."""
    if code.lanes == 1:
        return condition
    packed = code.op(f"bitcast {code.type('b1')} {condition} to i{code.lanes}")
    return code.op(f"icmp ne i{code.lanes} {packed}, 0")


def merge(code: Code, rare: str, usual: str, dtype: str, slow: Callable[[], str]) -> str:
    """`usual`, or in a block apart what `slow` emits, if `rare` holds in some lane."""
    some = any_lane(code, rare)
    before, apart, after = code.block, code.label("rare"), code.label("after")
    code.add(f"br i1 {some}, label %{apart}, label %{after}")
    code.start(apart)
    value = slow()
    end = code.block
    code.add(f"br label %{after}")
    code.start(after)
    return code.op(f"phi {code.type(dtype)} [ {usual}, %{before} ], [ {value}, %{end} ]")
