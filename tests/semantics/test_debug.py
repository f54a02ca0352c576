"""What the setting `debug` tells: each level its own lines, and those of the levels below."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from offarray import config
from offarray.codegen import llvm, nvptx

SCRIPT = """\
import offarray as np
x = np.linspace(0.0, 1.0, 5000)
y = np.sqrt(x) * 2.0 + 1.0
z = (y - y.mean())[::2]
print(float(z.sum()))
"""
SAID = {
    1: r"evaluation of \d+ operations by \d+ kernels at .*script\.py:\d+",
    2: r"kernel [0-9a-f]{12} .* bytes [0-9.]+ ms",
    3: r"kernel 1 over \w+\n  (reads|writes) ",
    4: r"LLVM IR of \w+\n(.*\n)*define i32 ",
    5: r"graph\n  n0 = .*\n(  n\d+ = .*\n)*  n\d+ = \w+\(.*\) float64 .* at script\.py:\d+",
    6: r"axes \w*\n",
    7: r"assembly of \w+\n(.*\n)*.*\bret",
}


def told(folder: Path, level: int) -> str:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    env = os.environ | {
        "OFFARRAY_DEBUG": str(level), "OFFARRAY_EAGER_SIZE": "0", "OFFARRAY_DEVICE": "cpu",
        "OFFARRAY_CACHE_DIR": str(folder / "cache"),
    }  # fmt: skip
    run = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    return run.stderr


@pytest.mark.parametrize("level", range(8))
def test_each_level_tells_what_those_below_do(level: int, tmp_path: Path) -> None:
    for _ in range(2):  # kernels are made, and are on disk
        text = told(tmp_path, level)
        for n, pattern in SAID.items():
            assert bool(re.search(f"^offarray {n}: {pattern}", text, re.MULTILINE)) == (n <= level), (n, text)
        assert (text == "") == (level == 0)


def test_kernels_of_devices_are_told_as_they_are_made(capfd: pytest.CaptureFixture[str]) -> None:
    llvm.start(everything=True)
    with config(debug=7):
        found = nvptx.small()
    text = capfd.readouterr().err
    assert "offarray 4: LLVM IR\n" in text and "ptx_kernel void @small" in text
    assert f"offarray 7: PTX\n{found}" in text
