"""NumPy's own tests on offarray, held to a list: `python tests/compat/numpy_suite.py [--set core|all] [-n 2]`.

The wheel of NumPy ships its tests.  A test function counts as one, whatever the number of its parameters.  The file
`numpy_<feature release>.txt` beside this one names, by reason, the functions that may fail and those that are not run.
The run fails if a function that is not listed fails, unless it fails with NumPy alone on this machine as well, and if
a listed one passes.  For a release of NumPy without a list, or with a setting of offarray's in the environment that
changes how arrays are computed, the outcome is only reported.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy

HERE = Path(__file__).resolve().parent
ROOT = Path(numpy.__file__).parent
CORE = """
_core/tests/test_array_coercion.py _core/tests/test_dlpack.py _core/tests/test_einsum.py
_core/tests/test_function_base.py _core/tests/test_half.py _core/tests/test_indexing.py
_core/tests/test_item_selection.py _core/tests/test_mem_overlap.py _core/tests/test_multiarray.py
_core/tests/test_nep50_promotions.py _core/tests/test_numeric.py _core/tests/test_shape_base.py
_core/tests/test_ufunc.py _core/tests/test_umath.py _core/tests/test_umath_complex.py
fft/tests/test_helper.py fft/tests/test_pocketfft.py lib/tests/test_arraypad.py lib/tests/test_arraysetops.py
lib/tests/test_function_base.py lib/tests/test_histograms.py lib/tests/test_index_tricks.py
lib/tests/test_nanfunctions.py lib/tests/test_shape_base.py lib/tests/test_stride_tricks.py
lib/tests/test_twodim_base.py lib/tests/test_type_check.py lib/tests/test_ufunclike.py
linalg/tests/test_linalg.py linalg/tests/test_regression.py
""".split()
# Tests of the compiler, the build, Fortran, and of parts that know no array.
APART = """
_core/tests/test_cpu_dispatcher.py _core/tests/test_cpu_features.py _core/tests/test_cython.py
_core/tests/test_limited_api.py _core/tests/test_simd.py _core/tests/test_simd_module.py
_core/tests/test_hashtable.py _core/tests/test_extint128.py _core/tests/test_mem_policy.py
_core/tests/test_custom_dtypes.py _core/tests/test_argparse.py _core/tests/test_umath_accuracy.py
_core/tests/test_casting_unittests.py lib/tests/test__datasource.py lib/tests/test__version.py
lib/tests/test_utils.py random/tests/test_extending.py random/tests/test_direct.py
""".split()
FOLDERS = ("_core", "fft", "lib", "linalg", "ma", "matrixlib", "polynomial", "random", "testing")


class Allowed(NamedTuple):
    """What a list says."""

    failing: dict[str, str]  # function -> reason
    left_out: dict[str, str]


def files(which: str) -> list[str]:
    """The test files of a set, as paths inside NumPy's package."""
    if which == "core":
        return [name for name in CORE if (ROOT / name).exists()]
    found = (p.relative_to(ROOT).as_posix() for f in FOLDERS for p in sorted((ROOT / f / "tests").glob("test_*.py")))
    return [name for name in found if name not in APART]


def read(path: Path) -> Allowed:
    """Read a list: `[reason]` or `[not run: reason]` heads functions; `3.11: ` before one is for that Python alone."""
    allowed = Allowed({}, {})
    reason = ""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for text in path.read_text(encoding="utf-8").splitlines():
        line = text.strip()
        if line.startswith("["):
            reason = line.strip("[]")
        elif line and not line.startswith("#"):
            only, _, name = line.rpartition(": ")
            if not only or only == python:
                table = allowed.left_out if reason.startswith("not run") else allowed.failing
                table[name] = reason
    return allowed


def _path() -> list[str]:
    """Entries of PYTHONPATH for a process in another folder."""
    return [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def run(names: list[str], module: str, workers: int, without: list[str], log: Path | None = None) -> dict[str, str]:
    """Outcome of every test in files or functions, by its name `file::class::function[parameters]`."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "outcomes.json")
        left = Path(folder, "left_out.json")
        left.write_text(json.dumps(without), encoding="utf-8")
        env = dict(
            os.environ, NUMPY_SUITE_MODULE=module, NUMPY_SUITE_OUT=str(out), NUMPY_SUITE_LEFT_OUT=str(left),
            PYTHONPATH=os.pathsep.join((str(HERE), *_path())),
        )  # fmt: skip
        command = [
            sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "numpy_plugin", "-p", "no:cacheprovider",
            "--rootdir", str(ROOT), "-W", "ignore", "-m", "not slow", "--timeout", "300",
            "--tb", "short" if log else "no",
        ]  # fmt: skip
        if workers > 1:
            command += ["-n", str(workers), "--dist", "worksteal"]
        said = subprocess.run(
            [*command, *(str(ROOT / name) for name in names)], cwd=folder, env=env, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ).stdout  # fmt: skip
        if log:
            log.write_text(said, encoding="utf-8")
        outcomes = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
        if not outcomes:
            raise SystemExit(f"no test ran with {module}:\n" + "\n".join(said.splitlines()[-15:]))
        return outcomes


def functions(outcomes: dict[str, str]) -> dict[str, str]:
    """Outcome of each function: failed if one of its tests failed, passed if one passed and none failed."""
    found: dict[str, str] = {}
    for test, outcome in outcomes.items():
        name = test.split("[")[0]
        if outcome == "failed" or name not in found or (outcome == "passed" and found[name] != "failed"):
            found[name] = outcome
    return found


def judge(found: dict[str, str], allowed: Allowed, chosen: list[str], workers: int) -> tuple[list[str], list[str]]:
    """Functions that fail though they are not listed, and listed ones that pass or are not there."""
    failed = {name for name, outcome in found.items() if outcome == "failed"}
    surprises = sorted(failed - allowed.failing.keys())
    if surprises:
        alone = functions(run(surprises, "numpy", workers, []))
        surprises = [name for name in surprises if alone.get(name) != "failed"]
    listed = (name for name in allowed.failing if name.split("::")[0] in chosen)
    return surprises, sorted(name for name in listed if found.get(name, "passed") == "passed")


def main() -> int:
    """Run, judge and tell; 1 if the list is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--set", choices=("core", "all"), default="core", help="core: the files on arrays and functions"
    )
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("-n", "--workers", type=int, default=2)
    parser.add_argument("--failed", type=Path, help="write the names of the functions that fail to this file")
    parser.add_argument("--log", type=Path, help="write pytest's report with tracebacks to this file")
    options = parser.parse_args()
    chosen = [name for name in files(options.set) if options.only in name]
    release = ".".join(numpy.__version__.split(".")[:2])
    path = HERE / f"numpy_{release}.txt"
    allowed = read(path) if path.exists() else Allowed({}, read(max(HERE.glob("numpy_*.txt"))).left_out)
    start = time.monotonic()
    found = functions(run(chosen, "offarray", options.workers, list(allowed.left_out), options.log))
    counted = [outcome for outcome in found.values() if outcome in ("passed", "failed")]
    failed = sorted(name for name, outcome in found.items() if outcome == "failed")
    if options.failed:
        options.failed.write_text("".join(name + "\n" for name in failed), encoding="utf-8")
    share = 100 * (1 - len(failed) / max(1, len(counted)))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"NumPy {numpy.__version__}, {len(chosen)} files in {time.monotonic() - start:.0f} s "
        f"({used.ru_utime + used.ru_stime:.0f} s of processor time): "
        f"{len(counted) - len(failed)} of {len(counted)} test functions pass ({share:.2f} %)"
    )
    changed = [key for key in os.environ if key in ("OFFARRAY_EAGER_SIZE", "OFFARRAY_DEVICE", "OFFARRAY_FALLBACK")]
    if not path.exists() or changed:
        print(f"reported only: {'the setting ' + changed[0] if changed else 'there is no list for NumPy ' + release}")
        return 0
    surprises, kept = judge(found, allowed, chosen, options.workers)
    for name in surprises:
        print(f"fails, and is not in {path.name}: {name}")
    for name in kept:
        print(f"does not fail, but is in {path.name}: {name}")
    return 1 if surprises or kept else 0


if __name__ == "__main__":
    sys.exit(main())
