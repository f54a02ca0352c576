"""`--report`, `--json` and `--compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

from offarray import _compare, _report
from offarray.runtime import trace

from .conftest import Run

HEAT = """
import numpy as np

u = np.zeros((300, 300))
u[100:200, 100:200] = 1.0
for _ in range(5):
    u[1:-1, 1:-1] += 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
total = float(u.sum())
words = np.array(["b", "a"])
count = np.arange(5000)
print(round(total, 6))
"""


def report(run: Run, tmp_path: Path, *options: str, **files: str) -> tuple[dict[str, Any], str]:
    done = run(*options, "--json", "told.json", "script.py", **files)
    told: dict[str, Any] = json.loads((tmp_path / "told.json").read_text())
    return told, done.stderr


def test_report_names_the_lines(run: Run, tmp_path: Path) -> None:
    told, printed = report(run, tmp_path, "--report", script=HEAT)
    totals = told["totals"]
    assert told["script"] == "script.py"
    assert told["seconds"] > 0
    assert totals["operations"] >= sum(line["operations"] for line in told["lines"]) > 0
    assert totals["kernels"] == sum(line["kernels"] for line in told["lines"]) > 0
    assert totals["cuts"] == sum(sum(line["cuts"].values()) for line in told["lines"])
    assert totals["fallbacks"] == sum(sum(line["fallbacks"].values()) for line in told["lines"])
    assert 0.0 <= totals["share"] <= 1.0
    assert totals["peak_bytes"] > 1 << 20
    loop = [line for line in told["lines"] if line["text"].startswith("u[1:-1, 1:-1] +=")]
    assert len(loop) == 1
    assert loop[0]["file"].endswith("script.py")
    assert loop[0]["kernels"] >= 5
    assert loop[0]["nbytes"] >= 5 * 298 * 298 * 8
    assert "script.py:7" in printed
    assert max(len(line) for line in printed.splitlines()) <= 120


def test_kernel_bytes_are_the_lines_bytes(run: Run, tmp_path: Path) -> None:
    told, _ = report(run, tmp_path, script=HEAT)
    assert sum(line["nbytes"] for line in told["lines"]) >= told["totals"]["kernel_bytes"] > 0


def test_first_run_is_cold_and_the_next_one_warm(run: Run, tmp_path: Path) -> None:
    settings = ("--settings", f"cache_dir={tmp_path / 'cache'}")
    cold, _ = report(run, tmp_path, *settings, script=HEAT)
    warm, _ = report(run, tmp_path, *settings)
    assert cold["totals"]["start"] == "cold"
    assert cold["totals"]["compiles"] > 0
    assert cold["totals"]["compile_seconds"] > 0
    assert warm["totals"]["start"] == "warm"
    assert warm["totals"]["compiles"] == 0


def test_fallback_is_told_with_its_line(run: Run, tmp_path: Path) -> None:
    text = "import numpy as np\nx = np.ones(50000, dtype=np.longdouble)\ny = np.cumprod(x)\nprint(float(y[0]))\n"
    told, printed = report(run, tmp_path, "--report", script=text)
    assert told["totals"]["fallbacks"] >= 1
    lines = {line["line"]: line for line in told["lines"]}
    assert any("cumprod" in reason for reason in lines[3]["fallbacks"])
    assert "fallback: cumprod" in printed


def test_report_comes_also_after_an_error(run: Run, tmp_path: Path) -> None:
    done = run("--report", "--json", "told.json", "script.py", script=HEAT + "\n1 / 0\n", status=1)
    assert done.stderr.index("ZeroDivisionError") < done.stderr.index("operations recorded")
    assert json.loads((tmp_path / "told.json").read_text())["totals"]["kernels"] > 0


def test_report_in_code_given_on_the_command_line(run: Run) -> None:
    done = run("--report", "-c", "import numpy as np\nx = np.arange(90000.0) * 2 + 1\nprint(float(x.sum()))")
    assert done.stdout == "8100000000.0\n"
    assert "x = np.arange(90000.0)" in done.stderr or "print(float(x.sum()))" in done.stderr


def test_forked_child_reports_nothing(run: Run) -> None:
    text = """
    import os, sys, warnings
    warnings.simplefilter("ignore")
    import numpy as np
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    print(os.waitpid(pid, 0)[1], float(np.arange(90000.0).sum()))
    """
    done = run("--report", "script.py", script=text)
    assert done.stdout == "0 4049955000.0\n"
    assert done.stderr.count("operations recorded") == 1


def test_compare_shows_both_runs(run: Run, tmp_path: Path) -> None:
    told, printed = report(run, tmp_path, "--compare", script=HEAT)
    told = told["compare"]
    assert told["numpy_status"] == 0
    assert told["ratio"] == pytest.approx(told["numpy_seconds"] / told["offarray_seconds"])
    arrays = {d["name"]: d for d in told["arrays"]}
    assert set(arrays) == {"u", "total", "words", "count"}
    assert arrays["u"]["shape"] == [300, 300]
    assert arrays["u"]["ulp"] <= 4
    assert arrays["count"]["dtype"] == "int64"
    assert not any(d["note"] for d in told["arrays"])
    assert "times NumPy's speed" in printed


def test_compare_finds_a_difference(run: Run, tmp_path: Path) -> None:
    text = """
    import numpy as np
    wrong = np.arange(5000.0)
    if np.__name__ == "offarray":
        wrong[7] += 0.5
        kind = np.zeros(3)
    else:
        kind = np.zeros(3, dtype=np.float32)
    """
    told, printed = report(run, tmp_path, "--compare", script=text)
    arrays = {d["name"]: d for d in told["compare"]["arrays"]}
    assert arrays["wrong"]["absolute"] == 0.5
    assert arrays["wrong"]["relative"] == 0.5 / 7
    assert arrays["kind"]["note"] == "offarray has float64 (3,)"
    assert "wrong" in printed


def test_compare_tells_what_failed_on_numpy(run: Run) -> None:
    text = "import numpy as np\nif np.__name__ == 'numpy':\n    raise ValueError('only there')\n"
    done = run("--compare", "script.py", script=text)
    assert "status 1" in done.stderr
    assert "only there" in done.stderr


@pytest.mark.parametrize(
    ("mine", "theirs", "absolute", "ulp", "note"),
    [
        ([1.0, numpy.nan], [1.0, numpy.nan], 0.0, 0.0, ""),
        ([1.0, numpy.inf], [1.0, -numpy.inf], 0.0, 0.0, "1 infinities or NaNs differ"),
        ([numpy.nextafter(1.0, 2.0)], [1.0], 2.0**-52, 1.0, ""),
        ([2, 5], [2, 3], 2.0, numpy.inf, ""),
        ([True, False], [True, True], 1.0, numpy.inf, ""),
        ([1j, 2.0], [1j, 2.0 + 2j], 2.0, 2.0**52, ""),
        ([], [], 0.0, 0.0, ""),
    ],
)
def test_difference(mine: list[Any], theirs: list[Any], absolute: float, ulp: float, note: str) -> None:
    found = _compare.difference("x", numpy.array(mine), numpy.array(theirs))
    assert (found.absolute, found.note) == (absolute, note)
    assert found.ulp == ulp


def test_events_are_gathered_by_line() -> None:
    def spot() -> None: ...

    site = (spot.__code__, 0, "__main__", {})
    events = [
        trace.Event("kernel", None, 0.0, {"key": "k", "nbytes": 80, "seconds": 0.5, "threads": 1}),
        trace.Event("cut", site, 0.0, {"reason": "scan", "op": "add"}),
        trace.Event("operation", site, 0.0, {"op": "add"}),
        trace.Event("step", site, 0.0, {"nbytes": 80, "values": 3}),
        trace.Event("kernel", None, 0.0, {"key": "k", "nbytes": 8, "seconds": 0.25, "threads": 1}),
    ]
    unknown, known = _report.lines_of(events, {(spot.__code__, 0): 2.0}, {"k": 0.5, "other": 1.0})
    assert (known.line, known.kernels, known.nbytes, known.operations) == (spot.__code__.co_firstlineno, 1, 80, 1)
    assert (known.compiles, known.compile_seconds, unknown.compiles) == (1, 0.5, 0)
    assert dict(known.cuts) == {"add: scan": 1}
    assert known.seconds == 2.0
    assert (unknown.file, unknown.kernels, unknown.nbytes) == ("", 1, 8)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (123456, "123 kB"), (7.25e9, "7.2 GB"), (3e13, "30.0 TB")],
)
def test_sizes_for_people(nbytes: float, text: str) -> None:
    assert _report.size(nbytes) == text
