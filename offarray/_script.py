"""How a script becomes `__main__`, as `python script.py`, `python -m module` and `python -c code` do it.

Stands alone (standard library only): `python offarray/_script.py FILE ...` runs a script on NumPy itself and leaves
its time and global arrays in FILE, which `--compare` reads.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import linecache
import os
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple


class Job(NamedTuple):
    """What is to be run."""

    kind: str  # "file", "module" or "code"
    target: str  # path, module name or source text
    args: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Short name for messages."""
        return "-c" if self.kind == "code" else self.target


class Missing(Exception):
    """The script or module is not there."""


def path_of(job: Job) -> str:
    """Absolute path of a job of kind "file"; a folder stands for the `__main__.py` in it."""
    path = os.path.abspath(job.target)
    return os.path.join(path, "__main__.py") if os.path.isdir(path) else path


def folders(job: Job) -> list[str]:
    """Folders whose modules belong to the script; the first is where Python looks for imports first."""
    if job.kind == "file":
        return [os.path.dirname(os.path.realpath(path_of(job)))]
    found = [os.getcwd()]
    if job.kind == "module":
        top = job.target.partition(".")[0]
        spec = importlib.util.find_spec(top)
        if spec is None:
            raise Missing(f"No module named {top!r}")
        found += [os.path.realpath(place) for place in spec.submodule_search_locations or ()]
    return found


def load(job: Job) -> tuple[types.ModuleType, types.CodeType]:
    """A fresh `__main__` module for `job`, not yet executed, and its code; sets `sys.argv` and `sys.path[0]`."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__spec__=None, __package__=None, __loader__=None)
    first = "" if job.kind == "code" else folders(job)[0]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = first
    if job.kind == "module":
        code = _load_module(job, module)
    elif job.kind == "file":
        code = _load_file(job, module)
    else:
        sys.argv[:] = ["-c", *job.args]
        lines = job.target.splitlines(keepends=True)
        linecache.cache["<string>"] = (len(job.target), None, lines, "<string>")
        code = compile(job.target, "<string>", "exec", dont_inherit=True)
    return module, code


def _load_file(job: Job, module: types.ModuleType) -> types.CodeType:
    path = path_of(job)
    sys.argv[:] = [job.target, *job.args]
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        raise Missing(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}") from None
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    module.__dict__.update(__file__=path, __cached__=None, __loader__=loader)
    return compile(source, path, "exec", dont_inherit=True)


def _load_module(job: Job, module: types.ModuleType) -> types.CodeType:
    sys.argv[:] = ["-m", *job.args]
    name = job.target
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name += ".__main__"
        spec = importlib.util.find_spec(name)
    loader: Any = spec.loader if spec else None
    code = loader.get_code(name) if hasattr(loader, "get_code") else None
    if spec is None or code is None:
        raise Missing(f"No module named {name!r}" if spec is None else f"{name!r} has no code to run")
    module.__dict__.update(
        __file__=spec.origin, __cached__=spec.cached, __loader__=loader, __spec__=spec, __package__=spec.parent
    )
    sys.argv[0] = spec.origin or name
    assert isinstance(code, types.CodeType)
    return code


def execute(
    module: types.ModuleType,
    code: types.CodeType,
    ours: Callable[[str], bool],
    hint: Callable[[BaseException], None] | None = None,
) -> None:
    """Run `code` as `__main__`; an exception is told here, without frames of files that are `ours`, and raised.

    `hint` may add notes to it before.
    """
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        if hint is not None:
            hint(error)
        tell(error, ours)
        raise


def tell(error: BaseException, ours: Callable[[str], bool]) -> None:
    """Report an unhandled exception as the interpreter would; raised again, it only sets the exit status."""
    _strip(error, ours, set())
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    sys.excepthook(type(error), error, error.__traceback__)
    sys.excepthook = lambda *_: None


def _strip(error: BaseException | None, ours: Callable[[str], bool], seen: set[int]) -> None:
    """Take the frames of `ours`, and of the import system below them, out of a traceback and those chained to it."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    kept: list[types.TracebackType] = []
    hidden = True  # frames of the import machinery go with the frame of ours that called it
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        hidden = ours(name) or (hidden and name.startswith("<frozen importlib"))
        if not hidden:
            kept.append(trace)
        trace = trace.tb_next
    for here, after in zip(kept, [*kept[1:], None], strict=False):
        here.tb_next = after
    error.__traceback__ = kept[0] if kept else None
    _strip(error.__cause__, ours, seen)
    _strip(error.__context__, ours, seen)


def _measure(path: str, job: Job) -> None:
    """Run `job` on NumPy and pickle its seconds and its global arrays to `path`."""
    import atexit
    import pickle
    import time

    import numpy

    module, code = load(job)

    def save() -> None:
        seconds = time.perf_counter() - start
        values = {}
        for name, value in vars(module).items():
            if isinstance(value, (numpy.ndarray, numpy.generic, float, complex)) and not name.startswith("__"):
                array = numpy.asarray(value)
                if array.dtype.kind in "biufcSUmM":
                    values[name] = array
        with open(path, "wb") as file:
            pickle.dump({"seconds": seconds, "values": values}, file)

    atexit.register(save)
    start = time.perf_counter()
    execute(module, code, lambda name: name == __file__)


if __name__ == "__main__":
    _measure(sys.argv[1], Job(sys.argv[2], sys.argv[3], tuple(sys.argv[4:])))
