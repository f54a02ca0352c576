"""offarray in NumPy's place, for a script and the modules beside it alone.

Those modules get a `__builtins__` of their own whose `__import__` answers `numpy` with offarray.  Every other module
keeps the interpreter's, so installed libraries go on with NumPy, and `sys.modules` is left alone.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _script

_VARIABLE = "OFFARRAY_SCRIPT"  # tells child processes of multiprocessing what their `__main__` is
_CHILD = "offarray._spawn"
_SPAWNERS = ("multiprocessing.spawn", "loky.backend.spawn", "joblib.externals.loky.backend.spawn")

_HERE = os.path.dirname(os.path.realpath(__file__))
_OWN = (_HERE, *(os.path.realpath(os.path.join(_HERE, room)) for room in ("codegen", "fusion", "runtime")))


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def is_own(filename: str) -> bool:
    """Whether a code object's file is the runner itself (hidden in tracebacks)."""
    if filename == "<frozen runpy>":
        return True
    folder, name = os.path.split(filename)
    return name in ("_import.py", "_script.py", "__main__.py", "_spawn.py") and os.path.realpath(folder) == _HERE


class Reach:
    """Which files belong to the script: those below its folder, installed libraries and offarray itself excepted."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = [os.path.realpath(folder) for folder in folders]
        paths = sysconfig.get_paths()
        installed = {os.path.realpath(paths[key]) for key in ("stdlib", "platstdlib", "purelib", "platlib")}
        # A folder that is itself inside the installed ones was asked for by name (`-m installed_package`).
        self.excluded = (*_OWN, *installed)
        self._known: dict[str, bool] = {}
        self._entries: dict[str, bool] = {}

    def __contains__(self, path: str) -> bool:
        folder = os.path.dirname(os.path.realpath(path))
        if folder not in self._known:
            self._known[folder] = any(self._holds(root, folder) for root in self.folders)
        return self._known[folder]

    def _holds(self, root: str, folder: str) -> bool:
        if not _inside(folder, root):
            return False
        if any(_inside(folder, other) and not _inside(root, other) for other in self.excluded):
            return False
        below = folder[len(root) :].split(os.sep)
        return "site-packages" not in below and "dist-packages" not in below

    def overlaps(self, entry: str) -> bool:
        """Whether modules found in the path entry `entry` can belong to the script."""
        if not entry:  # the working folder, which may change
            return True
        if entry not in self._entries:
            folder = os.path.realpath(entry)
            near = any(_inside(folder, root) or _inside(root, folder) for root in self.folders)
            self._entries[entry] = near
        return self._entries[entry]


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs a module of the script with the builtins of the script."""

    names: dict[str, Any]

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__["__builtins__"] = self.names
        super().exec_module(module)


class _Finder:
    """Finds the script's modules; stands right before the finder that would find them otherwise."""

    def __init__(self, reach: Reach, names: dict[str, Any]) -> None:
        self.reach = reach
        self.names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Spec of module `name` if it is the script's, else None."""
        if name in _SPAWNERS:
            return _spawner_spec(name, path, target)
        entries = [entry for entry in (sys.path if path is None else path) if self.reach.overlaps(entry)]
        if not entries or importlib.machinery.PathFinder.find_spec(name, entries, target) is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)  # another entry may come first
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return None
        if spec.origin is None or spec.origin not in self.reach:
            return None
        loader = _Loader(spec.loader.name, str(spec.loader.path))
        loader.names = self.names
        spec.loader = loader
        return spec


def stand_in(name: str) -> Any:
    """What a script gets for the module `name`: offarray's own, else NumPy's (types, exceptions, build tools)."""
    offarray = importlib.import_module(__package__ or "offarray")
    _, _, rest = name.partition(".")
    if not rest:
        return offarray
    found: Any = offarray
    for part in rest.split("."):
        found = getattr(found, part, None)
    if found is not None:
        return found
    try:
        return importlib.import_module(f"{offarray.__name__}.{rest}")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{offarray.__name__}.{rest}".startswith(error.name):
            raise
    return importlib.import_module(name)


def _is_numpy(name: object) -> bool:
    return isinstance(name, str) and (name == "numpy" or name.startswith("numpy."))


def _names() -> dict[str, Any]:
    """Builtins of the script: the interpreter's, except `__import__`."""
    names = dict(vars(builtins))

    def imported(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if len(names) < len(vars(builtins)):  # gettext and others add names of their own
            names.update({key: value for key, value in vars(builtins).items() if key not in names})
        if level or not _is_numpy(name):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = stand_in(name)
        if name not in sys.modules:  # what asks by C code, as pickle does, looks there
            with contextlib.suppress(ImportError):  # a name that is no module, as numpy.emath
                builtins.__import__(name)
        if not fromlist:
            return stand_in("numpy")
        for member in fromlist:
            if member != "*" and not hasattr(module, member):
                _submodule(module.__name__ + "." + member)
        return module

    imported.__name__ = imported.__qualname__ = "__import__"
    names["__import__"] = imported
    return names


def _submodule(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise  # the module is there, but something that it imports is not


def _patch_import_module(names: dict[str, Any]) -> None:
    """Let `importlib.import_module("numpy")` give offarray where the script's own modules call it."""
    original = importlib.import_module

    def import_module(name: str, package: str | None = None) -> types.ModuleType:
        if _is_numpy(name) and sys._getframe(1).f_builtins is names:
            found = stand_in(name)
            assert isinstance(found, types.ModuleType)
            return found
        return original(name, package)

    import_module.__doc__ = original.__doc__
    importlib.import_module = import_module


def _spawner_spec(
    name: str, path: Sequence[str] | None, target: types.ModuleType | None
) -> importlib.machinery.ModuleSpec | None:
    """Spec of a module that starts Python processes, changed so that their `__main__` is the script under offarray."""
    spec = importlib.machinery.PathFinder.find_spec(name, path, target)
    if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
        return spec

    class Loader(importlib.machinery.SourceFileLoader):
        def exec_module(self, module: types.ModuleType) -> None:
            super().exec_module(module)
            module.__dict__["get_preparation_data"] = _for_children(module.__dict__["get_preparation_data"])

    spec.loader = Loader(name, str(spec.loader.path))
    return spec


def _for_children(original: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def get_preparation_data(*args: Any, **kwargs: Any) -> dict[str, Any]:
        data = original(*args, **kwargs)
        kept = {key: value for key, value in data.items() if not key.startswith("init_main_from_")}
        if len(kept) == len(data):  # the child needs no `__main__`
            return data
        home = os.path.dirname(os.path.abspath(os.path.dirname(__file__)))
        kept["init_main_from_name"] = _CHILD
        kept["sys_path"] = [*data["sys_path"], *([] if home in data["sys_path"] else [home])]
        return kept

    return get_preparation_data


def install(folders: Sequence[str]) -> dict[str, Any]:
    """Put offarray in NumPy's place for modules below `folders`; gives the builtins that `__main__` must have."""
    names = _names()
    finder: Any = _Finder(Reach(folders), names)
    places = [n for n, entry in enumerate(sys.meta_path) if entry is importlib.machinery.PathFinder]
    sys.meta_path.insert(places[0] if places else 0, finder)
    _patch_import_module(names)
    return names


def run(job: _script.Job) -> types.ModuleType:
    """Run `job` as `__main__` on offarray; exceptions of the script come out after they were told."""
    try:
        module, code = start(job)
    except (_script.Missing, SystemExit):
        raise
    except BaseException as error:  # a syntax error, or what a package of `-m package.module` raised
        _script.tell(error, is_own)
        raise
    _script.execute(module, code, is_own, _hint)
    return module


def _hint(error: BaseException) -> None:
    """Add to a TypeError what helps where compiled code demands NumPy's own array."""
    if not isinstance(error, TypeError) or not re.search(r"ndarray|buffer|bytes-like", str(error)):
        return
    ndarray = importlib.import_module(__package__ or "offarray").ndarray
    trace = error.__traceback__
    while trace is not None:
        if any(isinstance(value, ndarray) for value in trace.tb_frame.f_locals.values()):
            error.add_note("If compiled code demands NumPy's own array, give it x.__array__() in place of x.")
            return
        trace = trace.tb_next


def start(job: _script.Job) -> tuple[types.ModuleType, types.CodeType]:
    """`__main__` for `job`, with offarray in NumPy's place, and its code; nothing has run yet."""
    folders = _script.folders(job)
    names = install(folders)
    module, code = _script.load(job)
    module.__dict__["__builtins__"] = names
    if job.kind != "code":
        target = _script.path_of(job) if job.kind == "file" else job.target
        os.environ[_VARIABLE] = json.dumps({"kind": job.kind, "target": target, "folders": folders})
    return module, code


def child_main(namespace: dict[str, Any]) -> None:
    """Fill `namespace`, `__mp_main__` of a child process, by running the script in it under offarray."""
    said = os.environ.get(_VARIABLE)
    if said is None:
        raise RuntimeError(f"the environment variable {_VARIABLE} was removed: cannot tell what __main__ is")
    told = json.loads(said)
    names = install(told["folders"])
    argv, first = list(sys.argv), sys.path[0]
    module, code = _script.load(_script.Job(told["kind"], told["target"]))
    sys.argv[:], sys.path[0] = argv, first  # the parent's, set by multiprocessing before this
    namespace.update({key: value for key, value in vars(module).items() if key not in ("__name__", "__spec__")})
    namespace["__builtins__"] = names
    exec(code, namespace)
