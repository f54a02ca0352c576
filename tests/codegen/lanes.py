"""Runs single operations of the numerics table over arrays: one small function each, many in a module."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy

from offarray.codegen import host, mathlib, numerics
from offarray.codegen.text import SIZES, Code, Reg
from offarray.runtime.target import Target

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

Emitter = Callable[[Code, tuple[Reg, ...]], Reg]
Function = Callable[..., numpy.ndarray[Any, Any]]


def dtype_of(name: str) -> numpy.dtype[Any]:
    """NumPy's dtype."""
    return numpy.dtype(name)


@functools.cache
def target() -> Target:
    """This processor."""
    features = llvm.get_host_cpu_features()
    vector = 64 if features.get("avx512f") else 32
    return Target("host", llvm.get_host_cpu_name(), features.flatten(), vector)


LEVELS = (host.OPT, 0)  # of LLVM's code generator: code that stays, and code that is made quickly


@functools.cache
def machine(level: int) -> llvm.TargetMachine:
    """A code generator for it."""
    kind = target()
    return llvm.Target.from_default_triple().create_target_machine(kind.arch, kind.features, opt=level, jit=True)


class Case(NamedTuple):
    """One operation: emitted over arrays of `srcs`, its result of dtype `out`."""

    srcs: tuple[str, ...]
    out: str
    lanes: int
    emit: Emitter


def operation(op: str, srcs: Sequence[str], out: str, lanes: int = 8) -> Case:
    """Case of `numerics.apply`."""
    types = tuple(srcs)
    return Case(types, out, lanes, lambda code, args: numerics.apply(code, op, types, out, args))


def fault_bits(op: str, srcs: Sequence[str], out: str, kinds: int, lanes: int = 8) -> Case:
    """Case of `numerics.faults`."""
    types = tuple(srcs)

    def emit(code: Code, args: tuple[Reg, ...]) -> Reg:
        result = numerics.apply(code, op, types, out, args)
        return numerics.faults(code, op, types, out, args, result, kinds)

    return Case(types, "u1", lanes, emit)


def suspicion(op: str, srcs: Sequence[str], out: str, kinds: int, lanes: int = 8) -> Case:
    """Case of `numerics.suspicious` (all false where it says that there is no fault)."""
    types = tuple(srcs)

    def emit(code: Code, args: tuple[Reg, ...]) -> Reg:
        result = numerics.apply(code, op, types, out, args)
        found = numerics.suspicious(code, op, types, out, args, result, kinds)
        return code.const("b1", 0) if found is None else found

    return Case(types, "b1", lanes, emit)


def _function(code: Code, name: str, case: Case) -> str:
    code.slots, code.lines, code.block, code.lanes = [], [], "entry", case.lanes
    pointers = [f"%p{k}" for k in range(len(case.srcs) + 1)]
    code.add("br label %loop")
    code.start("loop")
    index, after = code.temp(), code.temp()
    slot = len(code.lines)
    values = []
    for pointer, dtype in zip(pointers, case.srcs, strict=False):
        place = code.op(f"getelementptr [{SIZES[dtype]} x i8], ptr {pointer}, i64 {index}")
        values.append(code.read(dtype, place))
    result = case.emit(code, tuple(values))
    place = code.op(f"getelementptr [{SIZES[case.out]} x i8], ptr {pointers[-1]}, i64 {index}")
    code.write(case.out, result, place)
    code.add(f"{after} = add i64 {index}, {case.lanes}")
    more = code.op(f"icmp ult i64 {after}, %n")
    code.lines.insert(slot, f"  {index} = phi i64 [ 0, %entry ], [ {after}, %{code.block} ]")
    code.add(f"br i1 {more}, label %loop, label %done")
    code.start("done")
    code.add("ret void")
    return code.function(f"define void @{name}({', '.join('ptr ' + p for p in pointers)}, i64 %n) nounwind")


_serial = itertools.count()
_engines: dict[int, Any] = {}


def build(cases: Sequence[Case]) -> list[Function]:
    """Compiled functions: arrays of equal length -> array."""
    code = Code(target())
    first = next(_serial)
    names = [f"f{first}_{k}" for k in range(len(cases))]
    text = code.module(*(_function(code, n, c) for n, c in zip(names, cases, strict=True)))
    for symbol in code.externs:
        llvm.add_symbol(symbol, mathlib.resolve(symbol))
    found: list[list[int]] = []
    for level in LEVELS:
        module = llvm.parse_assembly(text)
        module.verify()
        if level not in _engines:
            _engines[level] = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine(level))
        _engines[level].add_module(module)
        _engines[level].finalize_object()
        found.append([_engines[level].get_function_address(n) for n in names])
    return [_both(_caller(a, c), _caller(b, c)) for a, b, c in zip(*found, cases, strict=True)]


def _both(usual: Function, quick: Function) -> Function:
    """The function of either level, which have to agree."""

    def call(*arrays: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        result, other = usual(*arrays), quick(*arrays)
        numpy.testing.assert_array_equal(other, result)
        if result.dtype.kind == "f":
            known = ~numpy.isnan(result)
            numpy.testing.assert_array_equal(numpy.signbit(other[known]), numpy.signbit(result[known]))
        return result

    return call


def _caller(address: int, case: Case) -> Function:
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(case.srcs) + 1), ctypes.c_int64)(address)

    def call(*arrays: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        size = len(arrays[0])
        padded = -(-size // case.lanes) * case.lanes
        inputs = []
        for array, dtype in zip(arrays, case.srcs, strict=True):
            assert array.dtype == dtype_of(dtype), (array.dtype, dtype)
            inputs.append(numpy.zeros(padded, array.dtype))
            inputs[-1][:size] = array
        result = numpy.zeros(padded, dtype_of(case.out))
        function(*(a.ctypes.data for a in inputs), result.ctypes.data, padded)
        return result[:size]

    return call
