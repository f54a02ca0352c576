"""The compiled front end: the files that run at every operation become extensions, where a C compiler is at hand.

`OFFARRAY_COMPILE=0` leaves them as Python, which runs the same; `=1` makes it an error if they cannot be compiled, and
compiles them for an editable install too, which otherwise stays Python: there files change under what was compiled.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Modules with a .pxd file beside them share C fields; those with a .pyx file have a form in C of their own.  _memory,
# _dispatch and _methods count references of their callers, and what stands in `_dispatch.NATIVE` is told from its
# traceback to have been called wrongly: such modules stay Python.  Names have the links' folders, so that every room is
# compiled under its own name.
MODULES = (
    "offarray._array", "offarray._direct", "offarray._errstate", "offarray._evaluate", "offarray._front",
    "offarray._handle", "offarray._indexing", "offarray._lazy", "offarray._ownership", "offarray._place",
    "offarray._record", "offarray._site", "offarray._ufuncs",
    "offarray.fusion.lower", "offarray.fusion.memory", "offarray.fusion.node", "offarray.fusion.order",
    "offarray.fusion.plan", "offarray.fusion.replay", "offarray.fusion.scan", "offarray.fusion.stage",
    "offarray.fusion.tape", "offarray.fusion.view",
    "offarray.runtime.buffer", "offarray.runtime.copies", "offarray.runtime.cuda", "offarray.runtime.late",
    "offarray.runtime.placement",
    "offarray.runtime.pool", "offarray.runtime.program", "offarray.runtime.residency", "offarray.runtime.shot",
    "offarray.runtime.supply",
)  # fmt: skip
TYPED = ("offarray._ufuncs",)  # whose annotations name classes with C fields

ASKED = os.environ.get("OFFARRAY_COMPILE", "")
EDITABLE = {"editable_wheel", "develop"}
BUILDING = {"bdist_wheel", "build", "build_ext", "install", "bdist"}


def give_up(reason: object) -> None:
    """Go on in Python, unless C was asked for."""
    if ASKED == "1":
        raise SystemExit(f"offarray: not compiled, although OFFARRAY_COMPILE=1 asks for it: {reason}")
    print(f"offarray: not compiled, it runs as Python: {reason}", file=sys.stderr)


class AllOrNone(build_ext):
    """Builds every extension, or none: they refer to each other's C fields."""

    def finalize_options(self) -> None:
        """Several compilers at once, unless told otherwise."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self) -> None:
        """Build, and go on in Python where that fails."""
        try:
            super().build_extensions()
        except Exception as error:
            for extension in self.extensions:
                for path in (self.get_ext_fullpath(extension.name), self.get_ext_filename(extension.name)):
                    if os.path.exists(path):
                        os.remove(path)
            self.extensions = []
            give_up(error)


def compiles() -> bool:
    """Whether a file that needs Python's headers can be compiled: then the wheel is one of this platform."""
    from setuptools import Distribution

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "probe.c")
        with open(path, "w") as file:
            file.write("#include <Python.h>\nint offarray_probe(void) { return PY_VERSION_HEX != 0; }\n")
        command = build_ext(Distribution({"ext_modules": [Extension("probe", [path])]}))
        command.build_temp = command.build_lib = folder
        try:
            command.ensure_finalized()
            command.run()
        except BaseException as error:  # compilers that are missing are reported in many ways
            give_up(f"no C compiler with Python's headers ({error})")
            return False
    return True


def source(name: str) -> str:
    """The file that is compiled for a module: the form in C where it has one beside Python's."""
    path = name.replace(".", "/")
    return path + (".pyx" if os.path.exists(path + ".pyx") else ".py")


def asked_for() -> bool:
    """Whether this call of setup.py is to compile."""
    commands = set(sys.argv[1:])
    if ASKED == "0" or (commands & EDITABLE and ASKED != "1"):
        return False
    return bool(commands & (BUILDING | EDITABLE))


def extensions() -> list[Any]:
    """The extensions, as C; none where the files are to stay Python."""
    if not asked_for():
        return []
    try:
        from Cython.Build import cythonize
    except ImportError as error:
        give_up(f"Cython is missing ({error})")
        return []
    if not compiles():
        return []
    made: list[Any] = []
    for typed in (True, False):
        names = [name for name in MODULES if (name in TYPED) is typed]
        made += cythonize(
            [Extension(name, [source(name)], extra_compile_args=["-g0"]) for name in names],
            build_dir="build/c",
            compiler_directives={"language_level": 3, "annotation_typing": typed, "auto_pickle": False},
        )
    return made


setup(ext_modules=extensions(), cmdclass={"build_ext": AllOrNone})
