"""Every public name of NumPy is there, and every public module can be imported."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
import warnings

import numpy
import pytest

import offarray

MODULES = [
    "", "linalg", "fft", "random", "lib", "lib.stride_tricks", "lib.array_utils", "lib.format", "lib.introspect",
    "lib.mixins", "lib.npyio", "lib.scimath", "lib.user_array", "lib.recfunctions", "testing", "exceptions", "dtypes",
    "polynomial", "polynomial.polynomial", "polynomial.chebyshev", "polynomial.legendre", "polynomial.laguerre",
    "polynomial.hermite", "polynomial.hermite_e", "strings", "char", "rec", "ma", "ma.extras", "emath", "typing",
    "ctypeslib",
]  # fmt: skip
GONE = {"core", "distutils", "matlib"}


def _numpy(name: str) -> types.ModuleType:
    return numpy.emath if name == "emath" else importlib.import_module(f"numpy.{name}".rstrip("."))


def _public(module: types.ModuleType) -> list[str]:
    return [n for n in dir(module) if not n.startswith("_") and n not in GONE]


@pytest.mark.filterwarnings("ignore:The chararray class is deprecated:DeprecationWarning")  # NumPy 2.5
@pytest.mark.parametrize("name", MODULES)
def test_public_names_exist(name: str) -> None:
    real = _numpy(name)
    ours = importlib.import_module(f"offarray.{name}".rstrip("."))
    assert [n for n in _public(real) if not hasattr(ours, n)] == []
    if hasattr(real, "__all__"):
        assert set(ours.__all__) >= set(real.__all__) - GONE


@pytest.mark.parametrize("name", ["", "polynomial.polynomial", "lib.recfunctions"])
def test_functions_have_names_documents_and_signatures(name: str) -> None:
    import inspect

    real = _numpy(name)
    ours = importlib.import_module(f"offarray.{name}".rstrip("."))
    checked = 0
    for n in _public(real):
        value = getattr(real, n)
        if isinstance(value, types.FunctionType):
            own = getattr(ours, n)
            assert own.__name__ == value.__name__
            assert own.__doc__ == value.__doc__
            assert inspect.signature(own) == inspect.signature(value)
            checked += 1
    assert checked > 3


def test_modules_are_attributes_and_importable_from() -> None:
    code = (
        "import offarray as np, offarray.linalg, offarray.polynomial.chebyshev as c\n"
        "from offarray.random import default_rng\n"
        "from offarray.lib.stride_tricks import as_strided\n"
        "from offarray.exceptions import AxisError\n"
        "assert np.linalg is offarray.linalg and c.chebval is np.polynomial.chebyshev.chebval\n"
        "assert default_rng is np.random.default_rng and as_strided is np.lib.stride_tricks.as_strided\n"
        "from offarray import *\n"
        "assert zeros is np.zeros\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_deprecated_names_warn_when_used_and_name_the_users_line() -> None:
    for use in (lambda np: np.char.chararray, lambda np: np.char.array, lambda np: np.char.add, lambda np: np.fix(1.5)):
        heard = []
        for module in (numpy, offarray):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                use(module)
            heard.append([(w.category, str(w.message), w.filename, w.lineno) for w in caught])
        assert heard[1] == heard[0]
    assert "chararray" in dir(offarray.char)


def test_import_says_nothing() -> None:
    code = "import offarray as np, offarray.char\nfrom offarray import *\nnp.char.upper('a'); dir(np.char); zeros(3)"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


def test_gone_names_say_what_numpy_says() -> None:
    for name in ("float", "in1d", "nope"):
        with pytest.raises(AttributeError) as theirs:
            getattr(numpy, name)
        with pytest.raises(AttributeError) as ours:
            getattr(offarray, name)
        if name == "float":
            assert str(ours.value) == str(theirs.value)


def test_types_and_constants_are_numpys_own() -> None:
    for name in ("float32", "dtype", "generic", "newaxis", "errstate", "iinfo", "void", "datetime64"):
        assert getattr(offarray, name) is getattr(numpy, name)
    assert offarray.pi == numpy.pi
    assert offarray.__version__ == numpy.__version__


def test_ufuncs_stand_for_numpys() -> None:
    assert isinstance(offarray.add, offarray.ufunc)
    assert isinstance(numpy.add, offarray.ufunc)
    assert offarray.add == numpy.add
    assert {numpy.add: 1}[offarray.add] == 1
    for name in ("nin", "nout", "nargs", "ntypes", "types", "identity", "signature", "__name__", "__doc__"):
        assert getattr(offarray.add, name) == getattr(numpy.add, name)
    assert offarray.matmul.signature == numpy.matmul.signature
    assert repr(offarray.add) == repr(numpy.add)


@pytest.mark.parametrize(
    "name", ["sum", "concatenate", "linalg.norm", "fft.fft", "add", "vectorize", "random.rand", "zeros"]
)
def test_functions_can_be_pickled(name: str) -> None:
    import operator
    import pickle

    value = operator.attrgetter(name)(offarray)
    assert pickle.loads(pickle.dumps(value)) is value
