"""Callables of machine code that cost a tenth of ctypes': Python builtins whose body is itself compiled here.

in: addresses of a kernel's functions; out: `body(args, first, last)` and `finish(args)`, which release Python's lock.
Where the interpreter is not CPython with its lock, ctypes calls the code.

`text` says in LLVM IR what the bodies are.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

_BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_FINISH = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_FASTCALL = 0x0080
_API = (
    "PyLong_AsVoidPtr", "PyLong_AsLongLong", "PyLong_FromLong", "PyErr_BadArgument", "PyErr_Occurred",
    "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip

# A method under the convention METH_FASTCALL; `self` is the code's address as a Python integer.
_TEXT = """
declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLong(i64)
declare i32 @PyErr_BadArgument()
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
"""
_METHOD = """
define ptr @{name}(ptr %self, ptr %args, i64 %count) {{
  %fits = icmp eq i64 %count, {count}
  br i1 %fits, label %read, label %refuse
refuse:
  call i32 @PyErr_BadArgument()
  ret ptr null
read:
  %code = call ptr @PyLong_AsVoidPtr(ptr %self)
{reads}
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %run, label %fail
fail:
  ret ptr null
run:
  %thread = call ptr @PyEval_SaveThread()
  %answer = call i32 %code({passed})
  call void @PyEval_RestoreThread(ptr %thread)
  %wide = sext i32 %answer to i64
  %object = call ptr @PyLong_FromLong(i64 %wide)
  ret ptr %object
}}
"""
# The first argument is an address, the others are numbers.
_READS = """
  %p0 = load ptr, ptr %args
  %a0 = call ptr @PyLong_AsVoidPtr(ptr %p0)"""
_READ = """
  %s{n} = getelementptr ptr, ptr %args, i64 {n}
  %p{n} = load ptr, ptr %s{n}
  %a{n} = call i64 @PyLong_AsLongLong(ptr %p{n})"""

NAMES = {3: "offarray_call_body", 1: "offarray_call_finish"}
LAUNCH = "offarray_launch_body"

# A body that calls cuLaunchKernel: reads its address and then its arguments from a row.
_LAUNCH = """
define i32 @offarray_launch_body(ptr %row, i64 %first, i64 %last) {
  %function = load ptr, ptr %row
  %a1 = getelementptr i64, ptr %row, i64 1
  %entry = load ptr, ptr %a1
  %a2 = getelementptr i64, ptr %row, i64 2
  %x = load i32, ptr %a2
  %a3 = getelementptr i64, ptr %row, i64 3
  %y = load i32, ptr %a3
  %a4 = getelementptr i64, ptr %row, i64 4
  %block = load i32, ptr %a4
  %a5 = getelementptr i64, ptr %row, i64 5
  %stream = load ptr, ptr %a5
  %a6 = getelementptr i64, ptr %row, i64 6
  %parameters = load ptr, ptr %a6
  %answer = call i32 %function(ptr %entry, i32 %x, i32 %y, i32 1, i32 %block, i32 1, i32 1, i32 0, ptr %stream,
                               ptr %parameters, ptr null)
  ret i32 %answer
}
"""


def text() -> str:
    """LLVM IR of the methods, and of the launch."""
    made = [_TEXT, _LAUNCH]
    for count, name in NAMES.items():
        reads = _READS + "".join(_READ.format(n=n) for n in range(1, count))
        passed = ", ".join(["ptr %a0", *(f"i64 %a{n}" for n in range(1, count))])
        made.append(_METHOD.format(name=name, count=count, reads=reads, passed=passed))
    return "".join(made)


def usable() -> bool:
    """Whether this interpreter's objects and lock are as the methods take them to be."""
    free = getattr(sys, "_is_gil_enabled", lambda: True)
    return sys.implementation.name == "cpython" and free() and hasattr(ctypes.pythonapi, _API[0])


def symbols() -> dict[str, int]:
    """Addresses of the interpreter's functions that the methods call."""
    holders = {name: getattr(ctypes.pythonapi, name) for name in _API}  # each holds the address that it calls
    return {name: ctypes.c_size_t.from_address(ctypes.addressof(held)).value for name, held in holders.items()}


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("method", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


@cache
def _definition(count: int, method: int) -> _Definition:
    return _Definition(b"kernel", method, _FASTCALL, None)  # kept for good: the builtins point to it


def through(count: int, method: int, address: int) -> Callable[..., int]:
    """A builtin of `count` arguments that calls the code at `address`, by the compiled `method`."""
    made: Callable[..., int] = _new()(ctypes.addressof(_definition(count, method)), address, None)
    return made


@cache
def _new() -> Any:
    found: Any = ctypes.pythonapi.PyCFunction_NewEx
    found.restype = ctypes.py_object
    found.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return found


def by_ctypes(count: int, address: int) -> Callable[..., int]:
    """The same by ctypes, anywhere."""
    made: Callable[..., int] = (_BODY if count == 3 else _FINISH)(address)
    return made
