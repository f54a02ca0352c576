"""Accesses of the first few lanes of a vector where the processor has no masked ones.

in: the type of a vector, and how many of its lanes count; out: a call of a loop over these lanes, written once in the
module.  LLVM writes a masked access that the processor lacks as a branch for each lane: dozens for bytes, at each
access, which takes seconds to compile.
"""

from __future__ import annotations

from .text import Code, cut

_BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "float": 4, "double": 8}

_MOVE = """\
define internal {result} @{name}({parameters}, i64 %count) noinline #0 {{
entry:
  %room = alloca {vector}, align 64
  store {vector} {start}, ptr %room, align 64
{before}
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %next, label %done
next:
  %k = phi i64 [ 0, %entry ], [ %more, %next ]
  %inside = getelementptr {scalar}, ptr %room, i64 %k
{place}
  %x = load {scalar}, ptr {source}, align 1
  store {scalar} %x, ptr {target}, align 1
  %more = add i64 %k, 1
  %again = icmp slt i64 %more, %count
  br i1 %again, label %next, label %done
done:
{end}
}}
"""
_NEAR = "  %outside = getelementptr {scalar}, ptr %where, i64 %k"
_FAR = """\
  %at = getelementptr i64, ptr %far, i64 %k
  %offset = load i64, ptr %at, align 8
  %outside = getelementptr i8, ptr %where, i64 %offset"""
_KEPT = "  %far = alloca {offsets}, align 64\n  store {offsets} %offsets, ptr %far, align 64"


class Count(str):
    """Register of a mask whose lanes are the first of a vector; `left`: register of how many."""

    left: str

    def __new__(cls, mask: str, left: str) -> Count:
        """A mask and its count."""
        made = super().__new__(cls, mask)
        made.left = left
        return made


def masks(features: str, scalar: str) -> bool:
    """Whether a processor of these features has masked accesses of such elements."""
    names = features.split(",")
    return "+avx512bw" in names or ("+avx2" in names and _BYTES[scalar] >= 4)


def load(code: Code, type: str, where: str, count: str, offsets: str = "") -> str:
    """The first `count` lanes from `where` on, or at byte `offsets` from it; the others are zero."""
    name = _function(code, "load", type, offsets != "")
    more = f", {_far(type)} {offsets}" if offsets else ""
    return code.op(f"call {type} @{name}(ptr {where}{more}, i64 {count})")


def store(code: Code, type: str, where: str, count: str, value: str, offsets: str = "") -> None:
    """Write the first `count` lanes of `value` from `where` on, or at byte `offsets` from it."""
    name = _function(code, "store", type, offsets != "")
    more = f", {_far(type)} {offsets}" if offsets else ""
    code.add(f"call void @{name}(ptr {where}{more}, {type} {value}, i64 {count})")


def _far(type: str) -> str:
    return f"<{cut(type)[0]} x i64>"


def _function(code: Code, what: str, type: str, far: bool) -> str:
    """Have the loop in the module; gives its name."""
    lanes, scalar = cut(type)
    name = f"{what}.{'some' if far else 'first'}.v{lanes}{scalar}"
    parameters = "ptr %where" + (f", {_far(type)} %offsets" if far else "")
    loads = what == "load"
    text = _MOVE.format(
        result=type if loads else "void", name=name, vector=type, scalar=scalar,
        parameters=parameters if loads else f"{parameters}, {type} %value",
        start="zeroinitializer" if loads else "%value",
        before=_KEPT.format(offsets=_far(type)) if far else "", place=_FAR if far else _NEAR.format(scalar=scalar),
        source="%outside" if loads else "%inside", target="%inside" if loads else "%outside",
        end=f"  %all = load {type}, ptr %room, align 64\n  ret {type} %all" if loads else "  ret void",
    )  # fmt: skip
    code.declare(text)
    return name
