"""The rooms stand in a row and imports point right only; only the pipeline names all four."""

from __future__ import annotations

import ast
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("offarray", "fusion", "codegen", "runtime")  # from left to right
PIPELINE = Path("offarray/_evaluate.py")
NEEDED = {"numpy", "llvmlite"}  # all that may be imported without asking whether it is there


def sources(room: str) -> Iterator[Path]:
    """Every Python file of a room, once: the links inside offarray/ are passed over."""
    for folder, folders, files in os.walk(ROOT / room):
        folders[:] = [f for f in folders if not Path(folder, f).is_symlink() and f != "__pycache__"]
        yield from (Path(folder, f).relative_to(ROOT) for f in sorted(files) if f.endswith(".py"))


def module(path: Path) -> tuple[str, ...]:
    """The package that `path` lies in, as `offarray.room...`: what its relative imports start from."""
    parts = path.parent.parts
    return parts if parts[0] == "offarray" else ("offarray", *parts)


def imported(path: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted name) of everything that a file imports, wherever in it."""
    home = module(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = home[: len(home) - node.level + 1] if node.level else ()
            prefix = ".".join([*start, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                value = node.args[0].value
                dots = len(value) - len(value.lstrip("."))
                start = home[: len(home) - dots + 1] if dots else ()
                yield node.lineno, ".".join([*start, value.lstrip(".")])


def room(name: str) -> str | None:
    """The room that a dotted name lies in, None outside the package."""
    parts = name.split(".")
    if parts[0] != "offarray":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS[1:] else "offarray"


def problems(path: Path, text: str) -> list[str]:
    """What is wrong with the imports of one file."""
    found = []
    here = path.parts[0]
    seen = set()
    for line, name in imported(path, ast.parse(text)):
        if name.split(".")[0] in ROOMS[1:]:
            found.append(f"{path}:{line}: bare import of {name}")
        there = room(name)
        if there is None or here not in ROOMS:
            continue
        seen.add(there)
        if ROOMS.index(there) < ROOMS.index(here):
            found.append(f"{path}:{line}: {here} imports {name}, to its left")
    if here == "offarray" and seen >= set(ROOMS[1:]) and path != PIPELINE:
        found.append(f"{path}: names all four rooms; only {PIPELINE} does")
    return found


def test_imports_point_right() -> None:
    found = [p for name in ROOMS for path in sources(name) for p in problems(path, (ROOT / path).read_text())]
    assert not found, "\n".join(found)


def test_nothing_imports_a_room_by_its_bare_name() -> None:
    folders = [f for f in ("tests", "bench", "examples") if (ROOT / f).is_dir()]
    found = [p for name in folders for path in sources(name) for p in problems(path, (ROOT / path).read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "text", "count"),
    [
        ("runtime/x.py", "def f():\n    from ..codegen import kernel\n", 1),
        ("runtime/x.py", "from .. import fusion\n", 1),
        ("codegen/x.py", "import offarray.fusion.node\n", 1),
        ("codegen/x.py", "from offarray import zeros\n", 1),
        ("codegen/x.py", "import importlib\nimportlib.import_module('..fusion', __package__)\n", 1),
        ("fusion/deep/x.py", "from ..node import Node\nfrom ...codegen.kernel import Kernel\n", 0),
        ("fusion/deep/x.py", "from ..._array import ndarray\n", 1),
        ("fusion/x.py", "import runtime.buffer\n", 1),
        ("tests/x.py", "from fusion import node\n", 1),
        ("offarray/x.py", "from . import fusion, codegen\n", 0),
        ("offarray/x.py", "from . import fusion, codegen, runtime\n", 1),
        ("offarray/_evaluate.py", "from . import fusion, codegen, runtime\n", 0),
    ],
)
def test_the_walk_sees(path: str, text: str, count: int) -> None:
    assert len(problems(Path(path), text)) == count


def test_only_the_declared_packages_are_needed() -> None:
    found = []
    for name in ROOMS:
        for path in sources(name):
            for node in ast.parse((ROOT / path).read_text()).body:  # optional ones are imported inside functions
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                tops = {n.split(".")[0] for n in names} - NEEDED - set(sys.stdlib_module_names) - {"offarray"}
                found += [f"{path}:{node.lineno}: {top}" for top in tops]
    assert not found, "\n".join(found)


def test_links_are_relative_and_packages_are_listed() -> None:
    for name in ROOMS[1:]:
        assert os.readlink(ROOT / "offarray" / name) == f"../{name}"
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {".".join(module(path)) for name in ROOMS for path in sources(name)}
    assert set(listed) == found
