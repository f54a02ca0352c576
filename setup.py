"""The optional compiled front end: with OFFARRAY_COMPILE=1 the files that run at every operation become extensions.

The same files run as they are where this is not asked for, or where a compiler is missing: then none is compiled.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Modules with a .pxd file beside them share C fields; _memory, _dispatch and _methods count references of their
# callers, and stay Python.  Names have the links' folders, so that every room is compiled under its own name.
MODULES = (
    "offarray._array", "offarray._direct", "offarray._errstate", "offarray._evaluate", "offarray._indexing",
    "offarray._site", "offarray._ufuncs", "offarray.fusion.memory", "offarray.fusion.node", "offarray.fusion.replay",
    "offarray.fusion.tape", "offarray.runtime.buffer", "offarray.runtime.pool", "offarray.runtime.program",
)  # fmt: skip
TYPED = ("offarray._ufuncs",)  # whose annotations name classes with C fields


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
            print(f"offarray: not compiled, it runs as Python: {error}", file=sys.stderr)
            for extension in self.extensions:
                for path in (self.get_ext_fullpath(extension.name), self.get_ext_filename(extension.name)):
                    if os.path.exists(path):
                        os.remove(path)
            self.extensions = []


def extensions() -> list[Any]:
    """The extensions that were asked for, as C."""
    if os.environ.get("OFFARRAY_COMPILE", "0") != "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        print("offarray: not compiled, it runs as Python: Cython is missing", file=sys.stderr)
        return []
    made: list[Any] = []
    for typed in (True, False):
        names = [name for name in MODULES if (name in TYPED) is typed]
        made += cythonize(
            [Extension(name, [name.replace(".", "/") + ".py"], extra_compile_args=["-g0"]) for name in names],
            build_dir="build/c",
            compiler_directives={"language_level": 3, "annotation_typing": typed, "auto_pickle": False},
        )
    return made


setup(ext_modules=extensions(), cmdclass={"build_ext": AllOrNone})
