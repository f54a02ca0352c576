"""Kernels on a graphics processor: which launches a call takes, built when first needed and kept on disk.

in: a kernel; out: a `Compiled` whose body launches on the current device.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

from ..runtime import cache as disk
from ..runtime import cuda, late, residency, trace
from ..runtime.errors import CompileError
from ..runtime.shot import narrowed
from ..runtime.signals import of as signals_of
from ..runtime.target import Compiled, Fixed, Part, Target
from ..runtime.tuples import NamedTuple
from . import gpu_numerics, numerics, nvptx
from .abi import layout
from .gpu_access import NARROW
from .gpu_emit import EXTRA, Variant, emit_device, values_of
from .gpu_launch import starter
from .gpu_plan import Choice, Pass, alignment, offsets, state_words, value_words
from .gpu_shifts import Alike
from .kernel import MONOIDS, Fold, Kernel, Load, can_rerun
from .reporting import with_checks
from .schedule import UnsupportedKernel, schedule
from .split import outermost

WORDS = 500  # parameters of 8 bytes that every device takes

_lock = threading.RLock()


def unsupported(kernel: Kernel) -> str | None:
    """Why no device runs this kernel, or None if one does."""
    if layout(kernel).words + len(EXTRA) + len(kernel.values) > WORDS:
        return "more parameters than a device kernel may have"
    for v in kernel.values:
        srcs = tuple(kernel.values[s].dtype for s in v.src)
        if isinstance(v.arg, Fold):
            if v.arg.keep == "prefix" and v.arg.monoid not in MONOIDS:
                return f"a scan of {v.arg.monoid}"
        elif v.op not in ("load", "iota", "arg") and not isinstance(v.arg, Load):
            if not gpu_numerics.supports(v.op, srcs, v.dtype) and numerics.supports(v.op, srcs, v.dtype):
                return f"{v.op}({', '.join(srcs)})"
    return None


class Launch(NamedTuple):
    """A pass made ready."""

    step: Pass
    start: Callable[[list[int]], None]  # with the words of the parameters
    values: tuple[int, ...]  # folds whose pointers follow


class Recipe(NamedTuple):
    """All launches of a call, and the scratch memory that they share."""

    launches: tuple[Launch, ...]
    scratch: int
    states: int  # byte offset
    places: dict[int, int]  # fold -> byte offset of its values
    signals: int  # words through which blocks talk


class Builder:
    """Builds the entries of one kernel, in one mode of reporting."""

    def __init__(self, kernel: Kernel, target: Target, key: str, exact: bool, writes: bool) -> None:
        self.kernel, self.target, self.key = kernel, target, key
        self.exact, self.writes = exact, writes
        self.functions: dict[Variant, Any] = {}
        self.recipes: dict[Any, Recipe] = {}
        self.layout = layout(kernel)
        self.alike = Alike(kernel, self.layout)
        self.narrow = [
            word + part for word, dtype in zip(self.layout.scalars, kernel.scalars, strict=True) if dtype in NARROW
            for part in range(2 if dtype[0] == "c" else 1)
        ]  # fmt: skip
        self.fixed = self.layout.scalars[0] if kernel.scalars else self.layout.fault  # end of extents and strides

    def function(self, variant: Variant) -> Any:
        """The entry for a variant."""
        found = self.functions.get(variant)
        if found is None:
            device = cuda.device()
            key = disk.digest(self.key, f"{variant!r} {self.exact} {self.writes}")
            code = disk.load(key)
            if code is None:
                module = emit_device(self.kernel, variant, self.target, "k" + key[:24], self.exact, self.writes)
                code = device.assemble(nvptx.ptx(module, self.target.arch))
                disk.store(key, code)
                trace.count("compiles")
            found = self.functions[variant] = device.load(code, "k" + key[:24])
        return found

    def recipe(self, row: list[int]) -> Recipe:
        """The launches of a call."""
        pointers = len(self.kernel.operands)
        key = (*row[pointers : self.fixed], *[p & 15 for p in row[:pointers]], *self.alike.distances(row))
        found = self.recipes.get(key)
        if found is None:
            with _lock:
                found = self.recipes[key] = self._recipe(row)
        return found

    def _recipe(self, row: list[int]) -> Recipe:
        places_of = self.layout
        extents = tuple(row[places_of.extents : places_of.extents + self.kernel.rank])
        lies = alignment(self.kernel, extents, row, places_of.load_strides, places_of.store_strides)
        shifts = self.alike.shifts(row, extents)
        places = offsets(self.kernel, row, places_of.load_strides) if shifts else ()
        passes = Choice(self.kernel, extents, *lies, shifts, places).passes()
        size, states, signals, values = 0, 0, 0, dict[int, int]()
        for step in passes:
            if step.variant.role == "whole":
                continue
            left, told = state_words(self.kernel, step)
            states, signals = max(states, 8 * left), max(signals, told)
            for n in step.variant.folds if step.variant.role == "part" and not step.variant.stores else ():
                values[n] = size
                size += 8 * value_words(self.kernel, n) * step.points
        self._together([p.variant for p in passes if p.units])
        launches = tuple(Launch(p, self._start(p), values_of(p.variant)) for p in passes if p.units)
        size += size & 8  # neighbours' states are read 16 bytes at a time
        return Recipe(launches, size + states, size, values, signals)

    def _together(self, variants: list[Variant]) -> None:
        """Make the entries of a call: the driver assembles one while LLVM writes the next."""
        missing = [v for v in dict.fromkeys(variants) if v not in self.functions]
        if len(missing) < 2 or type(cuda.device()) is not cuda.Device:
            return

        def one(variant: Variant) -> None:
            with contextlib.suppress(Exception):  # whoever needs it meets the same again
                self.function(variant)

        others = [threading.Thread(target=one, args=(v,)) for v in missing[1:]]
        for thread in others:
            thread.start()
        one(missing[0])
        for thread in others:
            thread.join()

    def _start(self, step: Pass) -> Callable[[list[int]], None]:
        """What launches a pass."""
        function, device, words = self.function(step.variant), cuda.device(), self.layout.words + len(EXTRA)
        return starter(device, function, step.grid, step.variant.block, words + len(values_of(step.variant)))

    def run(self, row: list[int], fault: int) -> None:
        """Launch everything for the argument row."""
        device = cuda.device()
        recipe = self.recipe(row)
        scratch = residency.take(device, recipe.scratch) if recipe.scratch else 0
        head = [*row[:-2], fault, scratch]
        for word in self.narrow:
            head[word] = narrowed(head[word])
        try:
            signals, epoch = signals_of(device).take(recipe.signals) if recipe.signals else (0, 0)
            for launch in recipe.launches:
                step = launch.step
                words = [*head, step.units, step.chunks, step.length, scratch + recipe.states, signals, epoch]
                words += [scratch + recipe.places[n] for n in launch.values]
                launch.start(words)
        finally:
            if scratch and not device.lost:
                device.free(scratch)


class DeviceKernel:
    """A kernel on the current device, with the second run that reports its faults."""

    def __init__(self, kernel: Kernel, target: Target, key: str) -> None:
        self.kernel, self.layout = kernel, layout(kernel)
        self.rerun = bool(kernel.faults) and can_rerun(kernel)
        self.reports = bool(kernel.faults)
        checked = with_checks(kernel) if kernel.faults else kernel
        plain = not kernel.faults or self.rerun
        self.main = Builder(kernel, target, key, False, True) if plain else Builder(checked, target, key, True, True)
        self.exact = Builder(checked, target, key, True, False) if self.rerun else None
        self.row = ctypes.c_uint64 * self.layout.words

    def body(self, args: int, low: int, high: int) -> int:
        """Launch the kernel; with faults to report it has run when this returns, unless they may come late."""
        row = list(self.row.from_address(args))
        if not self.reports:
            self.main.run(row, 0)
            return 0
        device = cuda.device()
        count = len(self.kernel.faults) if self.exact is None else 1
        place = late.room(device, count)
        if place is not None:
            self.main.run(row, place[1])
            late.leave(device, place[0], count, None if self.exact is None else lambda: self._again(row))
            return 0
        if self.exact is None:
            self._report(self.main, row)
            return 0
        with device.flag() as flag:
            self.main.run(row, flag.pointer)
            suspicious = flag.wait()
        if suspicious:
            self._report(self.exact, row)
        return 0

    def fixed(self, row: list[int]) -> Fixed:
        """The call for an argument row like this: everything but addresses and scalars is worked out."""
        main = self.main
        recipe = main.recipe(row)
        parts = tuple(
            Part(p.start, (p.step.units, p.step.chunks, p.step.length), tuple(recipe.places[n] for n in p.values))
            for p in recipe.launches
        )
        count = 0 if not self.reports else 1 if self.exact is not None else len(self.kernel.faults)
        again = None if self.exact is None else self._again
        return Fixed(parts, tuple(main.narrow), recipe.scratch, recipe.states, recipe.signals, count, again)

    def _again(self, row: list[int]) -> bytes:
        """The fault bytes of a launch whose sources are as they were."""
        assert self.exact is not None
        report = ctypes.create_string_buffer(len(self.kernel.faults) + 8)
        row = row[:]
        row[self.layout.fault] = ctypes.addressof(report)
        self._report(self.exact, row)
        return report.raw

    def _report(self, builder: Builder, row: list[int]) -> None:
        """Run with exact reports, and bring the fault bytes to where the row wants them."""
        device = cuda.device()
        count = len(self.kernel.faults)
        memory = device.allocate(count + 8)
        try:
            device.clear(memory, count + 8)
            builder.run(row, memory)
            device.download(row[self.layout.fault], memory, count)
        finally:
            if not device.lost:
                device.free(memory)


def compiled(kernel: Kernel, target: Target, key: str) -> Compiled:
    """The kernel for the current device.

    Raises
    ------
    CompileError
        If no device runs it; `unsupported` says so beforehand.
    """
    start = time.perf_counter()
    reason = unsupported(kernel)
    if reason is not None:
        raise CompileError(f"no device kernel: {reason}")
    try:
        schedule(kernel)
    except UnsupportedKernel as error:
        raise CompileError(str(error)) from error
    made = DeviceKernel(kernel, target, key)
    elapsed = 1e3 * (time.perf_counter() - start)
    return Compiled(
        target, key, made.body, None, lambda extents: 1, lambda extents: 0, elapsed,  # type: ignore[arg-type]
        outermost(kernel, lambda piece: compiled(piece, target, f"{key} pieces")), made.fixed,
    )  # fmt: skip
