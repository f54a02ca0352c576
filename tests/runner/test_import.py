"""Which modules get offarray for `numpy`, and which keep NumPy."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Run

FORMS = {
    "as": "import numpy as np\nprint(np.__name__)",
    "plain": "import numpy\nprint(numpy.__name__)",
    "from": "from numpy import zeros\nprint(zeros is __import__('offarray').zeros and 'offarray')",
    "from_as": "from numpy import linspace as f\nimport offarray\nprint(f is offarray.linspace and 'offarray')",
    "star": "from numpy import *\nimport offarray\nprint(arange is offarray.arange and 'offarray')",
    "submodule": "import numpy.linalg as la\nimport offarray\nprint(la is offarray.linalg and 'offarray')",
    "submodule_name": "import numpy.linalg\nimport offarray\nprint(numpy is offarray and 'offarray')",
    "from_submodule": (
        "from numpy.random import default_rng\n"
        "import offarray\nprint(default_rng is offarray.random.default_rng and 'offarray')"
    ),
    "submodule_from": "from numpy import fft\nimport offarray\nprint(fft is offarray.fft and 'offarray')",
    "function": "def f():\n    import numpy as np\n    return np.__name__\nprint(f())",
    "dunder": "print(__import__('numpy').__name__)",
    "import_module": "import importlib\nprint(importlib.import_module('numpy').__name__)",
    "from_import_module": "from importlib import import_module as load\nprint(load('numpy').__name__)",
    "import_submodule": (
        "import importlib, offarray\nprint(importlib.import_module('numpy.random') is offarray.random and 'offarray')"
    ),
    "exec": "exec('import numpy as np\\nprint(np.__name__)')",
    "comprehension": "print([__import__('numpy').__name__ for _ in range(1)][0])",
    "several": "import os, numpy as np, sys\nprint(np.__name__)",
    "try": "try:\n    import numpy as np\nexcept ImportError:\n    np = None\nprint(np.__name__)",
    "class": "class A:\n    import numpy as np\nprint(A.np.__name__)",
    "thread": (
        "import threading\ndef f():\n    import numpy as np\n    print(np.__name__)\n"
        "t = threading.Thread(target=f)\nt.start()\nt.join()"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_import_forms(run: Run, form: str) -> None:
    assert run("script.py", script=FORMS[form]).stdout == "offarray\n"


def test_testing_compares_offarray_arrays(run: Run) -> None:
    text = """
    import numpy as np
    import numpy.testing
    from numpy.testing import assert_allclose
    assert_allclose(np.arange(5000.0) * 2, np.arange(0.0, 10000.0, 2))
    try:
        numpy.testing.assert_array_equal(np.arange(5000), np.arange(5000) + 1)
    except AssertionError:
        print("differs")
    """
    assert run("script.py", script=text).stdout == "differs\n"


def test_submodules_that_are_numpys(run: Run) -> None:
    text = """
    import numpy.typing as npt
    from numpy.exceptions import AxisError
    from numpy.lib.stride_tricks import sliding_window_view
    import numpy.polynomial.polynomial as P
    print(AxisError.__name__, npt.NDArray is not None, sliding_window_view.__name__, P.polyval(2.0, [1.0, 3.0]))
    """
    assert run("script.py", script=text).stdout == "AxisError True sliding_window_view 7.0\n"


def test_missing_names_raise_as_numpys_do(run: Run) -> None:
    text = """
    for line in ("from numpy import no_such_name", "import numpy.no_such_module", "from numpy.no_such import x"):
        try:
            exec(line)
        except ImportError as error:
            print(type(error).__name__)
    """
    assert run("script.py", script=text).stdout == "ImportError\nModuleNotFoundError\nModuleNotFoundError\n"


def test_modules_beside_the_script(run: Run) -> None:
    report = "import numpy as np\nNAME = np.__name__\n"
    files = {
        "beside": report,
        "package____init__": "from . import inner\nfrom .deep.leaf import NAME as leaf\n",
        "package__inner": report,
        "package__deep__leaf": report,
        "script": "import beside, package\nprint(beside.NAME, package.inner.NAME, package.leaf)\n",
    }
    files["package/__init__"] = files.pop("package____init__")
    assert run("script.py", **files).stdout == "offarray offarray offarray\n"


def test_reload_keeps_offarray(run: Run) -> None:
    script = "import importlib, beside\nprint(importlib.reload(beside).np.__name__)"
    assert run("script.py", script=script, beside="import numpy as np\n").stdout == "offarray\n"


def test_modules_elsewhere_keep_numpy(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "library.py").write_text("import numpy as np\nimport importlib\nM = importlib.import_module('numpy')\n")
    script = f"""
    import sys
    sys.path.append({str(other)!r})
    import library
    print(library.np.__name__, library.M.__name__)
    """
    assert run("job/script.py", job__script=script).stdout == "numpy numpy\n"


def test_site_packages_below_the_script_keep_numpy(run: Run) -> None:
    files = {
        ".venv/lib/python3/site-packages/library": "import numpy as np\n",
        "script": (
            "import sys\nsys.path.append('.venv/lib/python3/site-packages')\nimport library\nprint(library.np.__name__)"
        ),
    }
    assert run("script.py", **files).stdout == "numpy\n"


def test_installed_libraries_keep_numpy_and_take_arrays(run: Run) -> None:
    pytest.importorskip("scipy")
    text = """
    import sys
    import numpy as np
    import scipy.ndimage
    import scipy.special
    x = np.linspace(0.0, 1.0, 5000)
    print(scipy.ndimage.np.__name__ if hasattr(scipy.ndimage, "np") else sys.modules["numpy"].__name__)
    print(round(float(np.asarray(scipy.ndimage.gaussian_filter1d(x * 2, 2.0)).sum()), 6))
    print(round(float(scipy.special.erf(x).sum()), 6))
    """
    done = run("script.py", script=text).stdout
    assert done == "numpy\n" + run("script.py", script=text, plain=True).stdout.split("\n", 1)[1]


def test_first_entry_of_the_path_wins(run: Run, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "both.py").write_text("import numpy as np\nWHERE = 'first'\n")
    script = (
        f"import sys\nsys.path.insert(0, {str(tmp_path / 'first')!r})\nimport both\nprint(both.WHERE, both.np.__name__)"
    )
    assert run("job/script.py", job__script=script, job__both="WHERE = 'beside'\n").stdout == "first numpy\n"


def test_standard_library_wins_over_nothing_beside(run: Run) -> None:
    assert run("script.py", script="import json, statistics\nprint(json.__file__ != __file__)").stdout == "True\n"


def test_builtins_added_later_are_seen(run: Run) -> None:
    script = "import gettext\ngettext.install('x')\nimport beside\nprint(_('a'), beside.A)"
    assert run("script.py", script=script, beside="A = _('b')\n").stdout == "a b\n"
