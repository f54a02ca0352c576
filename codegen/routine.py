"""Routines: algorithms over whole arrays that no kernel can be, written as small Python functions and compiled.

in: a function of routines.py and the data types of its operands; out: `body(row, first, last)`, as of a kernel.

Every value of a kernel is computed by itself.  Sorting, compacting, counting and searching carry state from element to
element, or write where their data says.  The language: integers, floats and pointers to them, whose types stand in the
annotations; `for ... in range`, `while`, `if`, `break`, `continue`, `return`; arithmetic between equal types (a
literal takes the other's); `and` and `or` that stop early; casts named after types (`to_i8`); `bits` and `floats`,
the pattern of a float as an unsigned integer and back.  An annotation in capitals is a parameter of the routine, and so
is any other name in capitals: conditions on it are decided when the routine is compiled.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ..runtime import cache as disk
from ..runtime import trace
from ..runtime.tuples import NamedTuple
from . import host, llvm
from .text import SCALARS, SIZES, Code, literal

Value = tuple[str, str]  # dtype, or "*" and the dtype pointed to; register or literal

_ARITHMETIC = {
    ast.Add: ("add", "add", "fadd"), ast.Sub: ("sub", "sub", "fsub"), ast.Mult: ("mul", "mul", "fmul"),
    ast.FloorDiv: ("sdiv", "udiv", ""), ast.Mod: ("srem", "urem", ""), ast.Div: ("", "", "fdiv"),
    ast.LShift: ("shl", "shl", ""), ast.RShift: ("ashr", "lshr", ""), ast.BitAnd: ("and", "and", ""),
    ast.BitOr: ("or", "or", ""), ast.BitXor: ("xor", "xor", ""),
}  # fmt: skip
_COMPARE = {
    ast.Eq: ("eq", "eq", "oeq"), ast.NotEq: ("ne", "ne", "une"), ast.Lt: ("slt", "ult", "olt"),
    ast.LtE: ("sle", "ule", "ole"), ast.Gt: ("sgt", "ugt", "ogt"), ast.GtE: ("sge", "uge", "oge"),
}  # fmt: skip
WEAK = "literal"


def kind(dtype: str) -> int:
    """Column of a dtype in the tables: signed, unsigned (and bool), float."""
    return {"i": 0, "u": 1, "b": 1, "f": 2}[dtype[0]]


class Writer:
    """Writes one routine as LLVM IR; variables are stack slots, which LLVM turns into registers."""

    def __init__(self, source: Callable[..., Any], bindings: dict[str, Any]) -> None:
        self.tree: Any = ast.parse(textwrap.dedent(inspect.getsource(source))).body[0]
        self.bindings = {k: v for k, v in vars(inspect.getmodule(source)).items() if k.isupper()} | bindings
        self.code = Code(host.host_target())
        self.variables: dict[str, Value] = {}
        self.loops: list[tuple[str, str]] = []  # labels of `continue` and `break`
        self.open = True  # whether the present block still lacks its end

    # ------------------------------------------------------------------ frame
    def text(self, name: str) -> str:
        """The module's text."""
        arguments = self.tree.args.args
        for argument, register in zip(arguments[:2], ("%first", "%last"), strict=True):
            self.set(argument.arg, ("i8", register))
        for number, argument in enumerate(arguments[2:]):
            self.set(argument.arg, self.word(number, self.annotation(argument.annotation.id)))
        self.block(self.tree.body)
        if self.open:
            self.code.add("ret i32 0")
        head = f"define i32 @{name}_body(ptr %row, i64 %first, i64 %last) nounwind"
        return self.code.module(self.code.function(head))

    def annotation(self, name: str) -> str:
        """Dtype of an annotation: `i8`, `p_i8` (pointer), `T` or `p_T` (parameters)."""
        inner = name.removeprefix("p_")
        dtype = str(self.bindings.get(inner, inner))
        assert dtype in SCALARS, f"no dtype: {name}"
        return ("*" if inner != name else "") + dtype

    def word(self, number: int, dtype: str) -> Value:
        """One argument of the row: an address, an i8 or an f8."""
        where = self.code.op(f"getelementptr i64, ptr %row, i64 {number}")
        assert dtype[0] == "*" or dtype in ("i8", "u8", "f8"), f"no argument: {dtype}"
        return dtype, self.code.op(f"load {_ir(dtype)}, ptr {where}")

    def set(self, name: str, value: Value) -> None:
        """Give a variable a value; the first one decides its type."""
        if name not in self.variables:
            dtype = value[0] if value[0] != WEAK else "f8" if "." in value[1] else "i8"
            self.variables[name] = dtype, self.code.alloca(_ir(dtype), 8)
        dtype, slot = self.variables[name]
        self.code.add(f"store {_ir(dtype)} {self.fit(value, dtype)}, ptr {slot}")

    def fit(self, value: Value, dtype: str) -> str:
        """The register or literal of a value that must have `dtype`."""
        if value[0] == WEAK:
            return literal(dtype, float(value[1]) if dtype[0] == "f" else int(value[1]))
        assert value[0] == dtype, f"{value[0]} where {dtype} is needed, in {self.tree.name}"
        return value[1]

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End the block."""
        self.code.add(f"br i1 {condition}, label %{yes}, label %{no}")

    def jump(self, label: str) -> None:
        """End the block, unless it has ended."""
        if self.open:
            self.code.add(f"br label %{label}")
        self.open = False

    def start(self, label: str) -> None:
        """Begin a block, which the one before runs into."""
        self.jump(label)
        self.code.start(label)
        self.open = True

    # ------------------------------------------------------------------ statements
    def block(self, body: Sequence[ast.stmt]) -> None:
        """Statements one after the other."""
        for statement in body:
            if self.open:
                getattr(self, "s_" + type(statement).__name__)(statement)

    def s_Expr(self, node: ast.Expr) -> None:
        """The docstring, or `pack(...)`."""
        if isinstance(node.value, ast.Call):
            self.pack(*node.value.args)

    def pack(self, target: ast.expr, count: ast.expr, source: ast.expr, mask: ast.expr, at: ast.expr) -> None:
        """`pack(out, k, x, mask, i)`: eight elements of x from i on, those under the mask in front, to out from k on.

        All eight are written; `count` goes up by how many are meant.  x may be `i` itself: the positions.
        """
        code, number = self.code, self.fit(self.value(at), "i8")
        pointer, out = self.value(target)
        dtype = pointer[1:]
        where = code.op(f"getelementptr i8, ptr {self.value(mask)[1]}, i64 {number}")
        code.lanes = 8
        lanes = code.from_byte(code.op(f"load <8 x i8>, ptr {where}, align 1"))
        vector, own = code.type(dtype), self.value(source)
        if own[0][0] == "*":
            place = code.op(f"getelementptr {SCALARS[dtype]}, ptr {own[1]}, i64 {number}")
            value = code.op(f"load {vector}, ptr {place}, align {SIZES[dtype]}")
        else:
            first = code.op(f"insertelement {vector} poison, i64 {number}, i32 0")
            every = code.op(f"shufflevector {vector} {first}, {vector} poison, <8 x i32> zeroinitializer")
            value = code.op(f"add {vector} {every}, <{', '.join(f'i64 {n}' for n in range(8))}>")
        suffix = vector.strip("<>").replace(" x ", "").replace("8", "v8", 1)
        name = f"llvm.experimental.vector.compress.{suffix}"
        packed = code.call(vector, name, (vector, value), ("<8 x i1>", lanes), (vector, "poison"))
        code.lanes = 1
        k = self.fit(self.value(count), "i8")
        place = code.op(f"getelementptr {SCALARS[dtype]}, ptr {out}, i64 {k}")
        code.add(f"store {vector} {packed}, ptr {place}, align {SIZES[dtype]}")
        found = code.intrinsic("ctpop", "u1", code.op(f"bitcast <8 x i1> {lanes} to i8"))
        assert isinstance(count, ast.Name)
        self.set(count.id, ("i8", code.op(f"add i64 {k}, {code.op(f'zext i8 {found} to i64')}")))

    def s_Assign(self, node: ast.Assign) -> None:
        """`name = value` or `pointer[index] = value`."""
        (target,) = node.targets
        self.put(target, self.value(node.value))

    def s_AugAssign(self, node: ast.AugAssign) -> None:
        """`target op= value`."""
        self.put(node.target, self.arithmetic(type(node.op), self.value(node.target), self.value(node.value)))

    def put(self, target: Any, value: Value) -> None:
        """Store into a variable or through a pointer."""
        if isinstance(target, ast.Name):
            return self.set(target.id, value)
        dtype, where = self.place(target)
        self.code.write(dtype, self.fit(value, dtype), where)
        return None

    def s_If(self, node: ast.If) -> None:
        """A condition on parameters alone is decided now."""
        known = self.known(node.test)
        if known is not None:
            return self.block(node.body if known else node.orelse)
        yes, no, end = (self.code.label(hint) for hint in ("then", "else", "end"))
        self.branch(self.truth(node.test), yes, no if node.orelse else end)
        self.open = False
        for label, body in ((yes, node.body), (no, node.orelse)):
            if body:
                self.code.start(label)
                self.open = True
                self.block(body)
                self.jump(end)
        self.code.start(end)
        self.open = True
        return None

    def known(self, test: ast.expr) -> bool | None:
        """The value of a condition that holds nothing but parameters and literals."""
        names = [n.id for n in ast.walk(test) if isinstance(n, ast.Name)]
        if not all(n in self.bindings for n in names):
            return None
        return bool(eval(compile(ast.Expression(test), "", "eval"), dict(self.bindings)))

    def s_While(self, node: ast.While) -> None:
        """`while condition:`"""
        head, body, end = (self.code.label(hint) for hint in ("while", "do", "done"))
        self.start(head)
        self.branch(self.truth(node.test), body, end)
        self.open = False
        self.loop(body, node.body, head, end)
        self.start(end)

    def s_For(self, node: ast.For) -> None:
        """`for name in range(...)`: the bounds are taken once, ascending."""
        assert isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call)
        given = [self.value(v) for v in node.iter.args]
        start, stop = (((WEAK, "0"), given[0]) if len(given) == 1 else given[:2])  # fmt: skip
        step = given[2] if len(given) == 3 else (WEAK, "1")
        stop_register = self.fit(stop, "i8")
        if node.target.id not in self.variables:
            self.variables[node.target.id] = "i8", self.code.alloca("i64", 8)
        counter = self.code.alloca("i64", 8)
        self.code.add(f"store i64 {self.fit(start, 'i8')}, ptr {counter}")
        head, body, latch, end = (self.code.label(hint) for hint in ("for", "do", "next", "done"))
        self.start(head)
        now = self.code.op(f"load i64, ptr {counter}")
        self.code.add(f"store i64 {now}, ptr {self.variables[node.target.id][1]}")
        self.branch(self.code.op(f"icmp slt i64 {now}, {stop_register}"), body, end)
        self.open = False
        self.loop(body, node.body, latch, end)
        self.start(latch)
        following = self.code.op(f"add nsw i64 {now}, {self.fit(step, 'i8')}")
        self.code.add(f"store i64 {following}, ptr {counter}")
        self.jump(head)
        self.start(end)

    def loop(self, body: str, statements: Sequence[ast.stmt], again: str, end: str) -> None:
        """The body of a loop, which goes on at `again`."""
        self.code.start(body)
        self.open = True
        self.loops.append((again, end))
        self.block(statements)
        self.loops.pop()
        self.jump(again)

    def s_Break(self, node: ast.Break) -> None:
        """`break`"""
        self.jump(self.loops[-1][1])

    def s_Continue(self, node: ast.Continue) -> None:
        """`continue`"""
        self.jump(self.loops[-1][0])

    def s_Return(self, node: ast.Return) -> None:
        """`return` with nothing, or a small integer."""
        value = "0" if node.value is None else self.fit(self.value(node.value), "i4")
        self.code.add(f"ret i32 {value}")
        self.open = False

    # ------------------------------------------------------------------ expressions
    def value(self, node: ast.expr) -> Value:
        """Type and register of an expression."""
        found: Value = getattr(self, "e_" + type(node).__name__)(node)
        return found

    def truth(self, node: ast.expr) -> str:
        """Register of a condition."""
        return self.fit(self.value(node), "b1")

    def e_Constant(self, node: ast.Constant) -> Value:
        """A literal, which takes the type of what it meets."""
        return (WEAK, repr(node.value)) if not isinstance(node.value, bool) else (WEAK, str(int(node.value)))

    def e_Name(self, node: ast.Name) -> Value:
        """A variable, or a number among the parameters."""
        if node.id in self.bindings:
            return WEAK, repr(self.bindings[node.id])
        dtype, slot = self.variables[node.id]
        return dtype, self.code.op(f"load {_ir(dtype)}, ptr {slot}")

    def e_Subscript(self, node: ast.Subscript) -> Value:
        """`pointer[index]`"""
        dtype, where = self.place(node)
        register = self.code.read(dtype, where)
        assert isinstance(register, str)
        return dtype, register

    def place(self, node: ast.Subscript) -> Value:
        """Dtype and address of an element."""
        pointer, base = self.value(node.value)
        index = self.fit(self.value(node.slice), "i8")
        dtype = pointer[1:]
        memory = "i8" if dtype == "b1" else SCALARS[dtype]
        return dtype, self.code.op(f"getelementptr {memory}, ptr {base}, i64 {index}")

    def e_BinOp(self, node: ast.BinOp) -> Value:
        """Arithmetic."""
        return self.arithmetic(type(node.op), self.value(node.left), self.value(node.right))

    def arithmetic(self, op: Any, left: Value, right: Value) -> Value:
        """An operation on two values of one type."""
        if left[0] == WEAK == right[0]:
            made = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.LShift: "<<", ast.FloorDiv: "//"}[op]
            return WEAK, repr(eval(f"{left[1]}{made}{right[1]}"))
        if left[0][0] == "*":
            memory = "i8" if left[0] == "*b1" else SCALARS[left[0][1:]]
            return left[0], self.code.op(f"getelementptr {memory}, ptr {left[1]}, i64 {self.fit(right, 'i8')}")
        dtype = left[0] if left[0] != WEAK else right[0]
        a, b = self.fit(left, dtype), self.fit(right, dtype)
        return dtype, self.code.op(f"{_ARITHMETIC[op][kind(dtype)]} {SCALARS[dtype]} {a}, {b}")

    def e_UnaryOp(self, node: ast.UnaryOp) -> Value:
        """`-x`, `~x`, `not x`"""
        dtype, register = self.value(node.operand)
        if dtype == WEAK:
            return WEAK, repr(-float(register) if "." in register else -int(register))
        if isinstance(node.op, ast.USub):
            op = f"fneg {SCALARS[dtype]}" if dtype[0] == "f" else f"sub {SCALARS[dtype]} 0,"
            return dtype, self.code.op(f"{op} {register}")
        return dtype, self.code.op(f"xor {SCALARS[dtype]} {register}, {'true' if dtype == 'b1' else -1}")

    def e_Compare(self, node: ast.Compare) -> Value:
        """A single comparison."""
        (op,), (other,) = node.ops, node.comparators
        left, right = self.value(node.left), self.value(other)
        dtype = left[0] if left[0] != WEAK else right[0]
        a, b = self.fit(left, dtype), self.fit(right, dtype)
        test = _COMPARE[type(op)][kind(dtype)]  # type: ignore[index]
        return "b1", self.code.op(f"{'fcmp' if dtype[0] == 'f' else 'icmp'} {test} {SCALARS[dtype]} {a}, {b}")

    def e_BoolOp(self, node: ast.BoolOp) -> Value:
        """`and`, `or`: what follows is looked at only where it counts."""
        slot, end = self.code.alloca("i1", 1), self.code.label("known")
        for number, operand in enumerate(node.values):
            register = self.truth(operand)
            self.code.add(f"store i1 {register}, ptr {slot}")
            if number < len(node.values) - 1:
                more = self.code.label("more")
                self.branch(register, *((more, end) if isinstance(node.op, ast.And) else (end, more)))
                self.code.start(more)
        self.start(end)
        return "b1", self.code.op(f"load i1, ptr {slot}")

    def e_IfExp(self, node: ast.IfExp) -> Value:
        """`a if condition else b`, both computed."""
        known = self.known(node.test)
        if known is not None:
            return self.value(node.body if known else node.orelse)
        condition, left, right = self.truth(node.test), self.value(node.body), self.value(node.orelse)
        dtype = left[0] if left[0] != WEAK else right[0] if right[0] != WEAK else "i8"
        a, b = self.fit(left, dtype), self.fit(right, dtype)
        self.code.declare("!0 = !{}")
        t = _ir(dtype)  # no branch is to be made of it: the searches' answers cannot be foreseen
        return dtype, self.code.op(f"select i1 {condition}, {t} {a}, {t} {b}, !unpredictable !0")

    def e_Call(self, node: ast.Call) -> Value:
        """Casts, patterns and a few functions of one operand."""
        assert isinstance(node.func, ast.Name)
        name, given = node.func.id, self.value(node.args[0])
        if name.startswith("to_"):
            return self.cast(given, self.annotation(name[3:]))
        dtype, register = given
        if name in ("bits", "floats"):
            other = ("u" if name == "bits" else "f") + dtype[1:]
            if other == dtype or (name == "bits" and dtype[0] != "f"):
                return other, register
            return other, self.code.op(f"bitcast {SCALARS[dtype]} {register} to {SCALARS[other]}")
        return dtype, self.code.intrinsic({"sqrt": "sqrt", "floor": "floor", "fabs": "fabs"}[name], dtype, register)

    def cast(self, value: Value, dtype: str) -> Value:
        """C's conversion."""
        own, register = value
        if own in (WEAK, dtype):
            return dtype, self.fit(value, dtype)
        if dtype == "b1":
            test = "fcmp une" if own[0] == "f" else "icmp ne"
            return dtype, self.code.op(f"{test} {SCALARS[own]} {register}, {literal(own, 0)}")
        if own[0] == "f" or dtype[0] == "f":
            both = own[0] == dtype[0]
            wider = "fpext" if SIZES[dtype] > SIZES[own] else "fptrunc"
            into, out = ("fptosi", "sitofp") if (dtype if own[0] == "f" else own)[0] == "i" else ("fptoui", "uitofp")
            op = wider if both else into if own[0] == "f" else out
        else:
            wide = "sext" if own[0] == "i" else "zext"
            op = wide if SIZES[dtype] > SIZES[own] or own == "b1" else "trunc"
            if SIZES[dtype] == SIZES[own] and own != "b1":
                return dtype, register
        return dtype, self.code.op(f"{op} {SCALARS[own]} {register} to {SCALARS[dtype]}")


def _ir(dtype: str) -> str:
    return "ptr" if dtype[0] == "*" else SCALARS[dtype]


def _object(text: str) -> bytes:
    """Object code of a routine, after LLVM's usual passes."""
    target = host.host_target()
    machine = host.machine(target.arch, target.features, 3)
    module = llvm.Module(text)
    module.verify()
    module.optimise(machine, 3, vectors=True)
    return machine.emit(module)


class Routine(NamedTuple):
    """A compiled routine."""

    key: str
    body: Callable[[int, int, int], int]


_lock = threading.RLock()
_known: dict[tuple[Any, ...], Routine] = {}


def compiled(source: Callable[..., Any], bindings: tuple[tuple[str, Any], ...]) -> Routine:
    """The routine for given parameters."""
    short = source.__name__ + "".join(f"_{value}" for _, value in bindings).replace("-", "m").replace(".", "p")
    text = Writer(source, dict(bindings)).text(short)
    key = disk.digest(text, repr(host.host_target()), llvm.version())
    code = disk.load(key)
    if code is None:
        code = host.pack(_object(text), ())
        disk.store(key, code)
        trace.count("compiles")
    body, _ = host.callables(code, short, False)
    return Routine(key, body)


def routine(source: Callable[..., Any], **bindings: Any) -> Routine:
    """The routine `source` for these parameters, compiled at the first call."""
    key = (source, *bindings.items())
    found = _known.get(key)
    if found is None:
        with _lock:  # one module for each name
            found = _known.get(key)
            if found is None:
                found = _known[key] = compiled(source, tuple(sorted(bindings.items())))
    return found
