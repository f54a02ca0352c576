"""Scripts in a folder of their own, run as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def environment() -> dict[str, str]:
    """The environment, with the package under test on the path of child processes."""
    paths = [os.environ.get("PYTHONPATH", "") or str(ROOT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run(*arguments, status=0, **files)`: write `files` (name -> text), then `python -m offarray *arguments` there.

    A key `pkg__mod` of `files` names `pkg/mod.py`, as `pkg/mod` does.
    """

    def call(*arguments: str, status: int = 0, plain: bool = False, **files: str) -> subprocess.CompletedProcess[str]:
        for name, text in files.items():
            path = tmp_path / ((name if "/" in name else name.replace("__", "/")) + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        command = [sys.executable, *(() if plain else ("-m", "offarray")), *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return call
