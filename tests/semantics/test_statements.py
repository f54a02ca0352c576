"""Small work that waits for the operation that uses it: the values, the order of effects and the warnings are NumPy's.

Every program runs with NumPy and with offarray.  `wait_size=0` lets everything wait that can, where the front end is
compiled; elsewhere the same programs run at once.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from hypothesis import given, strategies

import offarray
from offarray._handle import COMPILED
from offarray.runtime import trace


@pytest.fixture(autouse=True)
def _all_wait() -> Iterator[None]:
    # "auto" would have everything done at its statement, as pytest watches warnings
    with offarray.config(eager_size=4096, wait_size=0, device="cpu", faults="deferred"):
        yield


def same(program: Callable[[Any], Any]) -> None:
    """A program gives what it gives with NumPy, to the bit."""
    want, got = program(numpy), program(offarray)
    assert len(want) == len(got)
    for w, g in zip(want, got, strict=True):
        g = numpy.asarray(g)
        assert (w.dtype, w.shape) == (g.dtype, g.shape)
        numpy.testing.assert_array_equal(g, w)


def operands(np: Any, shape: tuple[int, ...] = (6, 7), dtype: str = "f8") -> Any:
    size = int(numpy.prod(shape))
    made = (numpy.arange(size) * 7 % 11 + 1).astype(dtype).reshape(shape)
    return np.array(made), np.array(made[::-1] + 1 if shape else made)


def kernels(program: Callable[[], Any]) -> int:
    before = trace.stats()["kernels"]
    program()
    return trace.stats()["kernels"] - before


compiled = pytest.mark.skipif(not COMPILED, reason="only the compiled front end lets work wait")


# ---------------------------------------------------------------------- how many kernels
@compiled
def test_a_window_is_written_by_one_kernel() -> None:
    u = offarray.zeros((8, 8))

    def sweep() -> None:
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])

    sweep()
    assert kernels(sweep) == 1


@compiled
def test_nothing_waits_that_the_program_was_not_seen_to_use() -> None:
    a, b = operands(offarray)
    with offarray.config(wait_size=1):
        assert kernels(lambda: [a + b for _ in range(20)]) == 0

        def chain() -> Any:
            return [offarray.evaluate((a + b) * 2 - a) for _ in range(10)]

        assert 0 < kernels(chain) < 10
        assert kernels(chain) == 10


@compiled
def test_what_has_a_name_is_computed_once() -> None:
    a, b = operands(offarray)

    def program() -> Any:
        t = a + b
        u = t * t
        return offarray.evaluate(u - a), offarray.evaluate(t)

    program()
    assert kernels(program) == 3


@compiled
@pytest.mark.parametrize("setting", [{"check": 1}, {"device": "interpret"}, {"faults": "statement"}])
def test_settings_under_which_nothing_waits(setting: dict[str, Any]) -> None:
    a, b = operands(offarray)
    with offarray.config(**setting):
        assert kernels(lambda: a * b + 2.0 * a) == 0


# ---------------------------------------------------------------------- memory
def test_windows_that_overlap_what_is_read() -> None:
    def program(np: Any) -> Any:
        u, v = operands(np)
        for _ in range(4):
            u[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1]) - v[1:-1, :-2]
            u[1:] = u[:-1] * 2 - u[1:]
            u[:, :-1] = u[:, 1:] + u[:, :-1] * 3
            u[::2] = u[::2] - v[::2] * 2
            u[:] = u * 0.5 + v
            v[2:4, 1:3] = u[0:2, 1:3] + u[3:5, 2:4] * v[0, 0]
        return u, v

    same(program)


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "number": lambda np, a: a.__setitem__(0, 9),
    "array": lambda np, a: a.__setitem__(slice(1, 3), np.array(a[2:4])),
    "element": lambda np, a: a.__setitem__((1, 1), 100),
    "mask": lambda np, a: a.__setitem__(a > 5, 0),
    "in place": lambda np, a: a.__iadd__(1),
    "of a view": lambda np, a: a[1:].__imul__(3),
    "transposed": lambda np, a: a.T.__setitem__(0, 5),
    "ufunc": lambda np, a: np.add(a, 1, out=a),
    "masked ufunc": lambda np, a: np.multiply(a, 2, out=a, where=a > 3),
    "fill": lambda np, a: a.fill(2),
    "sort": lambda np, a: a.sort(axis=0),
    "put": lambda np, a: np.put(a, [1, 3], 8),
    "copyto": lambda np, a: np.copyto(a, 4),
    "at": lambda np, a: np.add.at(a, 0, 1),
    "flat": lambda np, a: a.flat.__setitem__(3, 7),
    "outside": lambda np, a: numpy.asarray(a).__setitem__(0, 6),
    "buffer": lambda np, a: memoryview(a).cast("B").__setitem__(0, 1),
    "shape": lambda np, a: a.resize((7, 6), refcheck=False),
    "statement": lambda np, a: a.__setitem__(slice(None), a[::-1] * 2 + a),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_waits_reads_what_was_there(name: str) -> None:
    def program(np: Any) -> Any:
        a, b = operands(np)
        view = a[1:-1, 1:-1]
        first = a[2:, 1:-1] + a[:-2, 1:-1]
        second = (view * 2.0 - first) * b[1:-1, 1:-1]
        WRITES[name](np, a)
        return second, first, a, view * 1.0

    same(program)


def test_what_has_a_name_keeps_its_value() -> None:
    def program(np: Any) -> Any:
        a, b = operands(np)
        t = a + b
        u = t * t - t
        a[1:-1] = t[1:-1]
        w = a[2:] - t[2:]
        a[:-2] = w
        kept = t * 2
        a[...] = kept
        a += kept
        kept[0] = 1
        t[:2] = kept[:2] + u[:2]
        return a, t, u, w, kept

    same(program)


def test_in_place_on_a_view() -> None:
    def program(np: Any) -> Any:
        a, b = operands(np)
        v = a[1:-1]
        v += 0.5 * (b[1:-1] - b[2:])
        v *= a[:-2] + 1
        a -= a[::-1][::-1] * b + a
        c = a.T
        c += b.T * 2
        return a, v, c

    same(program)


def test_read_only_and_borrowed() -> None:
    a, b = operands(offarray)
    a.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        a[1:] = b[1:] * 2 + b[:-1]
    c = offarray.array(b)
    seen = offarray.borrow(c)
    with pytest.raises(offarray.BorrowError):
        c[1:] = b[1:] * 2 + b[:-1]
    numpy.testing.assert_array_equal(numpy.asarray(seen), numpy.asarray(b))


# ---------------------------------------------------------------------- shapes and types
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u1", "c16", "?", "f2"])
def test_types(dtype: str) -> None:
    def program(np: Any) -> Any:
        a, b = operands(np, dtype=dtype)
        made = [a + b * a, (a * b) == b, (a != b) & (a == a)]
        if dtype != "?":
            made += [a * 2 + b, (a - b) * 3, np.abs(a) * b, (a + b) * 1.5, np.float64(2.5) * (a + b) + a]
        if dtype[0] == "f":
            made += [np.sqrt(a + b) / a, np.exp(-a) * b, np.maximum(a, b) - 1.0, (a > b) | (a + 1.0 < b)]
        if dtype[0] in "iu":
            made += [(a ^ b) | (a & 3), -a + b, ~a ^ b, (a + b) // 3 % 5]
        return made

    want, got = program(numpy), program(offarray)
    for w, g in zip(want, got, strict=True):
        g = numpy.asarray(g)
        assert (w.dtype, w.shape) == (g.dtype, g.shape)
        if dtype[0] == "f" or dtype == "c16":
            numpy.testing.assert_allclose(g, w, rtol=4 * numpy.finfo(w.dtype).eps if w.dtype.kind in "fc" else 0)
        else:
            numpy.testing.assert_array_equal(g, w)


def test_one_statement_of_many_shapes() -> None:
    def program(np: Any) -> Any:
        made = []
        for shape in [(5,), (4, 5), (5, 4), (2, 3, 4), (1, 5), (5, 1), (2, 2, 2, 2), (2,) * 5, (0, 3), (), (4, 5)]:
            a, b = operands(np, shape)
            made.append((a + b) * a - b * 2)
            c = np.zeros(shape)
            c[...] = (a - b) * 2 + a
            made.append(c)
        for columns in range(2, 7):
            a, b = operands(np, (6, 6))
            a[:, :columns] = (a[:, :columns] + b[:, :columns]) * 0.5
            a[:, columns - 1] = a[0] * 2 + b[:, 0]
            made += [a, (a[::-1] + b) * 2, (a.T + b) * 2, (a + b[0]) * 2, (a[:, :1] + b) - 1]
        return [np.asarray(m) for m in made]

    same(program)


def test_long_expressions() -> None:
    def program(np: Any) -> Any:
        a, b = operands(np)
        x = a
        for _ in range(60):
            x = x * 0.5 + b
        kept = [a * n + b for n in range(80)]
        return [x, *kept]

    same(program)


# ---------------------------------------------------------------------- errors and warnings
def test_an_error_in_the_middle() -> None:
    def program(np: Any) -> Any:
        a, b = operands(np)
        t = a * 2 + b
        with pytest.raises(ValueError, match="broadcast"):
            t + b[:, :3]
        with pytest.raises(ValueError, match="broadcast"):
            a[1:] = t * 2
        with pytest.raises(IndexError):
            a[9] = t * 2
        with pytest.raises(TypeError):
            t + object()
        a[1:] = t[:-1] + b[1:]
        return a, t

    same(program)


def test_warnings_name_the_line_of_each_operation() -> None:
    def program(np: Any) -> list[tuple[str, int]]:
        a, zero = np.array([[1.0, 2.0], [3.0, 4.0]]), np.zeros((2, 2))
        out = np.zeros((4, 4))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            x = a / zero
            y = (x - x) * 2 + a
            out[1:3, 1:3] = (
                a * 1e308
                + a / zero
            )  # fmt: skip
            y[0, 0]
        return [(str(w.message), w.lineno) for w in said]

    assert len(program(numpy)) == 4
    assert program(offarray) == program(numpy)
    with offarray.config(faults="auto"):
        assert program(offarray) == program(numpy)


def test_warnings_come_when_it_is_computed(recwarn: pytest.WarningsRecorder) -> None:
    a, zero = offarray.array([[1.0, 2.0], [3.0, 4.0]]), offarray.zeros((2, 2))
    x = (a / zero) * 0.0 + a
    line = test_warnings_come_when_it_is_computed.__code__.co_firstlineno + 2
    assert not COMPILED or not recwarn.list
    numpy.asarray(x)
    found = [(str(w.message), w.lineno, w.filename) for w in recwarn.list]
    assert found == [
        ("divide by zero encountered in divide", line, __file__),
        ("invalid value encountered in multiply", line, __file__),
    ]


def test_the_state_of_errors_is_that_of_the_operation(recwarn: pytest.WarningsRecorder) -> None:
    a, zero = offarray.array([[1.0, 2.0], [3.0, 4.0]]), offarray.zeros((2, 2))
    warnings.simplefilter("always")
    for _ in range(3):
        with numpy.errstate(divide="ignore"):
            x = a / zero
        offarray.evaluate(x * 2)
        assert not recwarn.list
        y = a / zero
        with numpy.errstate(divide="ignore"):
            offarray.evaluate(y * 2 + a)
        assert [str(w.message) for w in recwarn.list] == ["divide by zero encountered in divide"]
        recwarn.clear()
        with numpy.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
            a / zero + a


def test_warnings_that_are_errors_are_raised_at_the_statement() -> None:
    script = """
import warnings
import offarray as np
warnings.simplefilter("error")
a, zero, b = np.ones(9), np.zeros(9), np.zeros(9)
for _ in range(2):
    try:
        b[1:] = (a / zero)[1:] * 2 + a[1:]
        x = a / zero
    except RuntimeWarning as error:
        print(error, b.sum())
"""
    settings = {"OFFARRAY_WAIT_SIZE": "0"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **settings})
    assert run.stdout == 2 * "divide by zero encountered in divide 0.0\n", run.stderr


# ---------------------------------------------------------------------- any program
NAMES = "abcd"


def sentence(rng: random.Random) -> str:
    """A statement over four arrays of one shape, their windows and numbers."""

    def window() -> str:
        return rng.choice(["[1:-1]", "[2:]", "[:-2]"])

    def term(depth: int, part: bool) -> str:
        if depth == 0:
            name = rng.choice(NAMES)
            return name + window() if part else name
        kind = rng.randrange(6)
        if kind == 0:
            return f"({rng.choice(['0.5', '2', '3.0'])} * {term(depth - 1, part)})"
        if kind == 1:
            return f"np.minimum({term(depth - 1, part)}, 50.0)"
        if kind == 2:
            return f"(-{term(depth - 1, part)})"
        return f"({term(depth - 1, part)} {rng.choice('+-*')} {term(rng.randrange(depth), part)})"

    x, depth = rng.choice(NAMES), rng.randrange(4)
    return rng.choice(
        [
            f"{x} = np.maximum(np.minimum({term(depth, False)}, 1e3), -1e3)", f"{x} = {term(1, False)} % 7.0",
            f"{x}{window()} = {term(depth, True)}", f"{x}{window()} = {term(depth, True)} % 5.0",
            f"{x} += {term(1, False)}", f"{x}{window()} -= {term(1, True)}", f"{x}[...] = {term(depth, False)} % 3.0",
            f"{x} = {rng.choice(NAMES)}", f"{x} = {rng.choice(NAMES)}.copy()", f"{x}[0] = 1.5",
            f"{x}[{term(1, False)} > 3] = 0.25", f"{x} = np.where({term(1, False)} > 1, {x}, 2.0)",
            f"e.append({term(depth, False)}[1])", f"e.append({term(2, True)})",
            f"w = {x}[::-1]; w[1:] = w[:-1] * 0.5 + 1",
            f"v = {x}[1:]; v *= {term(1, False)}[:-1] * 0.1", f"e.append({x}.sum(axis=0))", "del e[:-4]",
            f"s = {term(depth, True)}; {x}{window()} = s; e.append(s)", f"{x} = {x} % 9.0",
        ]
    )  # fmt: skip


@given(strategies.integers(0, 1 << 30), strategies.sampled_from([(5,), (6, 3), (4, 2, 3)]))
def test_any_program(seed: int, shape: tuple[int, ...]) -> None:
    rng = random.Random(seed)
    text = "\n".join(sentence(rng) for _ in range(rng.randrange(1, 25)))
    found = []
    for np in (numpy, offarray):
        names: dict[str, Any] = {"np": np, "e": []}
        for n, name in enumerate(NAMES):
            names[name] = np.array((numpy.arange(float(numpy.prod(shape))).reshape(shape) * (n + 3)) % 7.0)
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            exec(text, names)
        found.append([numpy.asarray(v) for v in (*(names[n] for n in NAMES), *names["e"])])
    for want, got in zip(*found, strict=True):
        numpy.testing.assert_array_equal(got, want, err_msg=text)
