"""Programs with annotations, checked and run with NumPy and with offarray in its place."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import offarray
import offarray.typing

PROGRAMS = sorted((Path(__file__).parent / "typing").glob("*.py"))
PACKAGE = Path(offarray.__file__).parent
SETTINGS = """
[mypy]
strict = True
[mypy-offarray.*]
follow_imports = silent
"""


def rewritten(text: str, module: str) -> str:
    """A program that imports `module` in NumPy's place."""
    return re.sub(r"^(\s*(?:import|from) )numpy\b", rf"\g<1>{module}", text, flags=re.MULTILINE)


def checked(files: list[Path], folder: Path) -> str:
    """What mypy says of programs."""
    settings = folder / "mypy.ini"
    settings.write_text(SETTINGS)
    environment = dict(os.environ)
    if "site-packages" not in PACKAGE.parts:
        environment["MYPYPATH"] = str(PACKAGE.parent)
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), "--cache-dir", str(folder / "cache")]
    done = subprocess.run(
        [*command, "--no-error-summary", *map(str, files)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def names() -> str:
    """A program that asks for every public name."""
    public = sorted({*offarray.__all__, *(n for n in vars(offarray) if not n.startswith("_"))})
    return "import numpy as np\n\n" + "".join(f"np.{n}\n" for n in public if n not in INNER)


INNER = {"annotations", "codegen", "fusion", "runtime"}

WRONG = """
import numpy as np
import numpy.typing as npt

x: npt.NDArray[np.float64] = np.zeros(3)
y: npt.NDArray[np.int64] = np.zeros(3)
np.nothing
x.nothing
np.linalg.norm("a", ord=object())
s: str = np.random.default_rng().random()
"""


def test_checked(tmp_path: Path) -> None:
    for module in ("numpy", "offarray"):
        folder = tmp_path / module
        folder.mkdir()
        files = []
        for program in PROGRAMS:
            files.append(folder / program.name)
            files[-1].write_text(rewritten(program.read_text(), module))
        wrong = folder / "wrong.py"
        wrong.write_text(rewritten(WRONG, module))
        files.append(wrong)
        if module == "offarray":
            files.append(folder / "names.py")
            files[-1].write_text(rewritten(names(), module))
            files.append(folder / "own.py")
            files[-1].write_text(OWN)
        told = checked(files, tmp_path)
        lines = {int(n) for n in re.findall(r"wrong\.py:(\d+): error", told)}
        assert lines == {6, 7, 8, 9, 10}, told
        assert not [line for line in told.splitlines() if "error" in line and "wrong.py" not in line], told


OWN = """
import offarray as np
from offarray.typing import NDArray

Array = NDArray[np.float64]
x: Array = np.evaluate(np.ones(3))
a, b = np.evaluate(x, 1)
moved: Array = np.move(x)
with np.config(eager_size=0), np.expect(kernels=1):
    lent: Array = np.borrow(moved)
counters: dict[str, int] = np.stats()
text: str = np.explain(lent)
largest: Array = np.sort(lent, descending=True)
order: NDArray[np.intp] = np.argsort(lent, descending=True, stable=True)
frequencies = np.fft.fftfreq(8, dtype=np.float32)
from offarray.fft import fftfreq
frequencies = fftfreq(8, dtype=np.float32)
np.synchronize()
try:
    pass
except (np.MovedError, np.BorrowError):
    pass
"""


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.stem for p in PROGRAMS])
def test_run(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for module in ("numpy", "offarray"):
        code = compile(rewritten(program.read_text(), module), str(program), "exec", dont_inherit=True)
        space = sys.modules[__name__].__class__("typed")  # dataclasses look their module up
        sys.modules["typed"] = space
        try:
            exec(code, vars(space))
        finally:
            del sys.modules["typed"]
        printed.append(capsys.readouterr().out)
    assert printed[1] == printed[0]


def test_typing_at_run_time() -> None:
    for name in ("NDArray", "ArrayLike", "DTypeLike"):
        assert getattr(offarray.typing, name) is getattr(numpy.typing, name)
    assert (PACKAGE / "py.typed").exists()


def test_stubs_name_modules() -> None:
    """Each file for type checkers stands for a module, and each module of NumPy's that is mirrored has one."""
    for stub in PACKAGE.glob("**/*.pyi"):
        parts = stub.relative_to(PACKAGE).with_suffix("").parts
        if parts[0].startswith("_") or parts[0] in INNER:
            continue
        name = ".".join(["offarray", *(p for p in parts if p != "__init__")])
        __import__(name)
        assert sys.modules[name].__name__.partition(".")[2] == name.partition(".")[2]
    listed = set(re.findall(r"^    (\w+) as", (PACKAGE / "_numpy.pyi").read_text(), re.MULTILINE))
    own = {"sort", "argsort", *(p.stem for p in PACKAGE.glob("[a-z]*.pyi")), "lib", "polynomial"}
    assert {n for n in numpy.__all__ if not n.startswith("_")} - own <= listed
    assert not own & listed
