"""Each example runs under the runner, leaves the globals that it leaves on NumPy, and writes its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parents[2]
# Largest difference of a global array, absolute or relative, that another order of summation and another library of
# elementary functions may leave.
TOLERANCE = 1e-9
NEEDS = {
    "tv_denoise": ("skimage", "PIL"),
    "gray_scott": ("PIL",),
    "kmeans_digits": ("sklearn", "PIL"),
    "logistic_digits": ("sklearn",),
    "black_scholes": (),
}
TIMES = {"start", "begin", "seconds", "closed"}


def test_every_example_is_tested() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_example_gives_numpys_numbers(name: str, tmp_path: Path) -> None:
    for module in NEEDS[name]:
        pytest.importorskip(module)
    told_in = tmp_path / "told.json"
    command = [sys.executable, "-m", "offarray", "--compare", "--json", str(told_in), f"examples/{name}.py"]
    command += [str(tmp_path / "out"), "--small"]
    command[6:6] = ["--settings", "eager_size=2000"]  # so that the small size has kernels
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "") or str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    written = [line.removeprefix("wrote ") for line in done.stdout.splitlines() if line.startswith("wrote ")]
    assert len(written) == 1
    assert Path(written[0]).stat().st_size > 0
    told = json.loads(told_in.read_text())
    assert told["compare"]["numpy_status"] == 0, told["compare"]["numpy_stderr"]
    assert told["totals"]["kernels"] > 0
    arrays = {d["name"]: d for d in told["compare"]["arrays"] if d["name"] not in TIMES}
    assert len(arrays) >= 4
    for d in arrays.values():
        assert d["note"] == "", d
        exact = numpy.dtype(d["dtype"]).kind not in "fc"
        assert min(d["absolute"], d["relative"]) <= (0 if exact else TOLERANCE), d
