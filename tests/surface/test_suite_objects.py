"""Arrays of objects, exports and generators, where NumPy's own tests look."""

from __future__ import annotations

import ctypes
import gc
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.lib.stride_tricks import as_strided

from ..twice import same


class Arraylike:
    """An object whose `__array__` gives a handle."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.value if dtype is None else self.value.astype(dtype)


MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "array": lambda np, v: np.array(v, dtype=object),
    "array by dtype": lambda np, v: np.array(v, dtype=np.dtype("O")),
    "asarray": lambda np, v: np.asarray(v, dtype=object),
    "asanyarray": lambda np, v: np.asanyarray(v, dtype=np.dtype("O")),
    "ascontiguousarray": lambda np, v: np.ascontiguousarray(v, object),
}


@pytest.mark.parametrize("size", [2, 5000])
@pytest.mark.parametrize("name", MAKERS)
def test_arrays_of_objects_hold_what_the_user_gave(name: str, size: int) -> None:
    def body(np: Any) -> Any:
        a, b = np.zeros((3, size)), np.zeros((1, size))
        made = MAKERS[name](np, [a, b])
        return made.shape, made[0] is a, made[1] is b

    same(body)


@pytest.mark.parametrize("shape", [(), (4,)])
def test_arraylikes_in_arrays_of_objects(shape: Any) -> None:
    def body(np: Any) -> Any:
        x = Arraylike(np.ones(shape))
        y = np.empty(1, object)
        y[:] = [x]
        made = [y[0] is x]
        if not shape:
            made.append(np.array([x], dtype=object)[0] is x)
        ragged = np.array([x, [x]], dtype=object)
        return made, ragged.shape, ragged[0] is x, np.array(x, dtype=object), np.add(x, 1), np.array([x, x]).shape

    same(body)


def test_objects_that_answer_to_any_name() -> None:
    class Answering:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__array"):
                raise AttributeError(name)
            return lambda *args: 5

    def body(np: Any) -> Any:
        x = Answering()
        return np.array(x, dtype=object)[()] is x, np.asarray([x, None])[0] is x, np.array(None, dtype=object)

    same(body)


def test_functions_under_test_get_the_arrays_as_they_are() -> None:
    seen: list[Any] = []

    def refuse(x: Any) -> None:
        seen.append(x)
        raise ValueError("no")

    x = np.arange(3)
    np.testing.assert_raises(ValueError, refuse, x)
    np.testing.assert_raises_regex(ValueError, "no", refuse, x)
    np.testing.assert_no_warnings(seen.append, x)
    assert all(v is x for v in seen)
    assert len(seen) == 3


def test_resize_refuses_a_second_name() -> None:
    def body(np: Any) -> Any:
        x = np.ones((2, 2))
        x.resize((3, 3))
        y = x
        with pytest.raises(ValueError, match="resize"):
            x.resize((5, 5))
        return x, y

    same(body)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="callers lend their variables there")
def test_resize_refuses_views_and_lists() -> None:
    def body(np: Any) -> Any:
        x = np.ones(4)
        holder = [x]
        with pytest.raises(ValueError, match="resize"):
            x.resize(9)
        holder.clear()
        x.resize(9)
        return x

    same(body)


def test_pointers_hold_the_array() -> None:
    x = np.arange(3.0)
    there = weakref.ref(x)
    pointer = x.ctypes._as_parameter_
    typed = x.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    assert x.ctypes.data == numpy.asarray(x).ctypes.data
    assert list(x.ctypes.shape) == [3]
    assert list(x.ctypes.strides) == [8]
    del x
    gc.collect()
    assert there() is not None
    assert typed[2] == 2.0
    del pointer, typed
    gc.collect()
    assert there() is None


def test_sizes_count_the_axes() -> None:
    x = np.ones(100)
    assert sys.getsizeof(x) < sys.getsizeof(x.reshape(100, 1, 1).copy())
    assert sys.getsizeof(x[...]) < sys.getsizeof(x)


def test_strides_beyond_the_memory_may_be_handed_out() -> None:
    x = np.arange(1, dtype="u1")
    a = numpy.asarray(as_strided(x, (5, 4), (0, 0)))
    assert a.strides == (0, 0)
    made_up = as_strided(np.zeros(64, "u1")[:1], (3, 2), (40, 2))  # 83 of 64 bytes, never touched
    assert numpy.asarray(made_up).strides == (40, 2)


# --- random numbers ---------------------------------------------------------------------------------------------

BITS = ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"]


@pytest.mark.parametrize("name", BITS)
def test_seeds_may_be_arrays(name: str) -> None:
    def body(np: Any) -> Any:
        bits = getattr(np.random, name)(np.arange(1, 10))
        again = pickle.loads(pickle.dumps(bits))
        kind = getattr(np.random, name)
        raw = bits.random_raw(3)
        sequence = np.random.SeedSequence(np.arange(5))
        state = numpy.asarray(sequence.generate_state(4))
        return (
            isinstance(bits, kind), type(again) is type(bits), raw, again.random_raw(3),
            np.random.Generator(bits).integers(0, 100, 5), state, len(sequence.spawn(2)),
        )  # fmt: skip

    same(body)


@pytest.mark.parametrize("name", BITS)
def test_numpys_generators_are_instances(name: str) -> None:
    real = getattr(numpy.random, name)(1)
    assert isinstance(real, getattr(np.random, name))
    assert isinstance(real, np.random.BitGenerator)
    assert isinstance(numpy.random.Generator(real), np.random.Generator)
    assert not isinstance(np.random.RandomState(1), np.random.Generator)
    assert isinstance(np.random.default_rng(1).bit_generator, np.random.PCG64)
    assert issubclass(numpy.random.RandomState, np.random.RandomState)


def test_own_generators_are_no_generators_of_others() -> None:
    class Own(np.random.Generator):
        pass

    rng = Own(np.random.PCG64(3))
    assert isinstance(rng, Own)
    assert not isinstance(np.random.default_rng(3), Own)
    assert type(rng.random(2)) is np.ndarray
    assert rng.random() == numpy.random.default_rng(3).random(3)[2]


def test_draws_are_of_numpys_kinds() -> None:
    def body(np: Any) -> Any:
        rng = np.random.default_rng(5)
        one = rng.choice(4), rng.choice(4, p=[0.1, 0.2, 0.3, 0.4]), rng.choice([1.5, 2.5]), rng.permutation(4)
        more = rng.choice(9, 3, replace=False), rng.choice(np.arange(6.0).reshape(3, 2), 2), rng.shuffle(np.arange(3))
        old = np.random.RandomState(5)
        made = old.choice(4), old.choice(4, p=[0.1, 0.2, 0.3, 0.4]), old.choice([1.5, 2.5]), old.permutation(4)
        return one, more, made, old.choice(5, 2), rng.multivariate_normal([0, 1], np.eye(2)), rng.dirichlet([1, 2])

    same(body)


def test_generators_are_pickled() -> None:
    rng = np.random.Generator(np.random.PCG64DXSM(7))
    rng.random(3)
    make, arguments, state = rng.__reduce__()
    assert state is None
    assert make("PCG64").bit_generator.__class__.__name__ == "PCG64"
    again = pickle.loads(pickle.dumps(rng))
    assert type(again) is np.random.Generator
    assert type(arguments[0]) is np.random.PCG64DXSM
    assert again.random() == rng.random()


def test_legacy_generators_are_pickled() -> None:
    rng = np.random.RandomState(7)
    rng.standard_normal(3)  # leaves a second number behind
    make, arguments, state = rng.__reduce__()
    assert make("MT19937")._bit_generator.__class__.__name__ == "MT19937"
    again = pickle.loads(pickle.dumps(rng))
    assert type(again) is np.random.RandomState
    assert len(arguments) == 1
    assert state["has_gauss"] == 1
    assert again.standard_normal() == rng.standard_normal()


def test_addresses_of_empty_arrays() -> None:
    x = np.arange(10.0)
    assert x[3:4][:-1].__array_interface__["data"][0] - x.__array_interface__["data"][0] == 24
    assert numpy.asarray(x[10:]).shape == (0,)


def test_a_script_unpickles_what_names_old_modules(tmp_path: Any) -> None:
    script = tmp_path / "old.py"
    script.write_text(
        "import pickle, numpy as np\n"
        "old = b'cnumpy.core.multiarray\\nscalar\\n(cnumpy\\ndtype\\n(Vi4\\nI00\\nI01\\ntR(I3\\nV<\\nNNNI-1\\nI-1\\n'"
        "b'I0\\ntbc_codecs\\nencode\\n(V\\\\u0007\\\\u0000\\\\u0000\\\\u0000\\nVlatin1\\ntRtR.'\n"
        "print(repr(pickle.loads(old)))\nimport numpy.emath, numpy.core.numeric\n"
    )
    command = [sys.executable, "-W", "ignore", "-m", "offarray", str(script)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "np.int32(7)"


def test_a_script_imports_numpys_inner_modules(tmp_path: Any) -> None:
    script = tmp_path / "inner.py"
    script.write_text(
        "from numpy._core import _umath_tests, multiarray\nimport numpy as np\n"
        "from numpy.lib import _datasource\nfrom numpy.lib import stride_tricks\n"
        "print(_umath_tests.__name__, multiarray.__name__, _datasource.__name__, stride_tricks.__name__)\n"
    )
    said = subprocess.run([sys.executable, "-m", "offarray", str(script)], capture_output=True, text=True, check=True)
    names = "numpy._core._umath_tests numpy._core.multiarray numpy.lib._datasource offarray.lib.stride_tricks"
    assert said.stdout.split() == names.split()


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
@pytest.mark.parametrize("step", [1, 2])
def test_blocks_of_memory_are_pickled_out_of_band(axes: Any, step: int) -> None:
    def body(np: Any) -> Any:
        x = np.arange(48.0).reshape(2, 4, 6)[:, :, ::step].transpose(axes)
        parts: list[Any] = []
        data = pickle.dumps(x, protocol=5, buffer_callback=parts.append)
        whole = pickle.loads(pickle.dumps(x, protocol=5)), pickle.loads(pickle.dumps(x, protocol=4))
        return len(parts), pickle.loads(data, buffers=parts), whole, len(data) < 300

    same(body)


def test_arrays_match_sequences_where_numpys_do() -> None:
    def body(np: Any) -> Any:
        found = []
        for x in (np.arange(2), np.arange(4.0).reshape(2, 2), np.zeros(3, "U1")):
            match x:
                case [[a, b], [c, d]]:
                    found.append([a, b, c, d])
                case [a, b]:
                    found.append([a, b])
                case _:
                    found.append(None)
        return found

    same(body)


def test_lists_that_hold_themselves() -> None:
    cycle: list[Any] = [1]
    cycle.append(cycle)
    deep: Any = [np.ones(1)]
    for _ in range(200):
        deep = [deep]

    def refused(np: Any, value: Any) -> Any:
        with pytest.raises((ValueError, TypeError)) as error:
            np.asarray(value, dtype="f8")
        return type(error.value)

    for value in (cycle, deep):
        assert refused(np, value) == refused(numpy, value)


@pytest.mark.parametrize("kind", ["M8[s]", "T"])
def test_types_without_a_buffer(kind: str) -> None:
    theirs: Any = numpy.zeros(2, kind)
    mine: Any = np.zeros(2, kind)
    with pytest.raises(ValueError) as want:
        memoryview(theirs)
    with pytest.raises(ValueError) as got:
        memoryview(mine)
    assert type(got.value) is ValueError
    assert str(got.value) == str(want.value)
    assert numpy.asarray(mine).dtype == numpy.dtype(kind)
