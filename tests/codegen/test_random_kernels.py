"""Random kernels: machine code against the interpreter, on two kinds of processor, in any split into units."""

from __future__ import annotations

import random
from typing import Any

import numpy
import pytest

from offarray.codegen import host, image, prepare, ready
from offarray.codegen.compile import host_target, supported
from offarray.runtime.config import config
from offarray.runtime.target import Target

from .kernels import Array, Builder, ranges

INTERPRET = Target("interpret", "", "", 0)
OLDER = "+avx2,+fma,+avx,+sse4.2,+f16c,+bmi,+bmi2,+lzcnt,+popcnt"
KINDS = 11
COUNT = 25  # kernels of one test


def array(rng: random.Random, shape: list[int], dtype: str) -> Array:
    """Small numbers, so that sums are exact in any order; contiguous, permuted, strided or reversed."""
    numbers = numpy.random.default_rng(rng.randrange(1 << 30))
    kind, order = rng.randrange(4), list(range(len(shape)))
    if kind == 1:
        rng.shuffle(order)
    steps = [2 if kind == 2 and rng.random() < 0.5 else 1 for _ in shape]
    base = [shape[d] * steps[d] for d in order]
    content = numbers.integers(-4, 5, base) * 0.5 if dtype[0] == "f" else numbers.integers(0, 5, base)
    found: Array = content.astype(dtype).transpose([order.index(d) for d in range(len(shape))])
    if kind == 3:
        steps = [rng.choice((1, -1)) for _ in shape]
    return found[(..., *(slice(None, None, s) for s in steps))]


class Author:
    """Writes one random kernel."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        rank = rng.choice((1, 2, 2, 3, 3))
        self.extents = [rng.choice((1, 2, 3, 5, 8, 9, 16, 17, 33, 40, 70)) for _ in range(rank)]
        if rng.random() < 0.1:
            self.extents[rng.randrange(rank)] = rng.choice((600, 1100))
        self.k = Builder(*self.extents)
        self.values: dict[str, list[int]] = {"f8": [], "f4": [], "i8": [], "b1": []}
        self.loaded: list[tuple[Array, list[int], str]] = []
        self.outputs: list[Array] = []
        self._leaves()
        for _ in range(rng.randint(1, 9)):
            self._operation(rng.choice([d for d in ("f8", "f8", "f4", "i8") if self.values[d]]))
        for _ in range(rng.randint(1, 3)):
            self._store()

    def _axes(self) -> list[int]:
        return sorted(self.rng.sample(range(len(self.extents)), self.rng.randint(1, len(self.extents))))

    def _leaves(self) -> None:
        rng, k, values = self.rng, self.k, self.values
        for _ in range(rng.randint(1, 4)):
            dtype, axes = rng.choice(("f8", "f8", "f4", "i8")), self._axes()
            source = array(rng, [self.extents[x] for x in axes], dtype)
            values[dtype].append(k.load(source, *axes))
            self.loaded.append((source, axes, dtype))
        if rng.random() < 0.3:
            values["i8"].append(k.iota(rng.randrange(len(self.extents))))
        if rng.random() < 0.5:
            values["f8"].append(k.arg(rng.choice((2.0, -0.5, 0.0)), "f8"))
        if rng.random() < 0.3:
            table = numpy.ascontiguousarray(array(rng, [13], "f8"))
            index = rng.choice(values["i8"]) if values["i8"] else k.arg(1, "i8")
            index = k.op("bitwise_and", "i8", index, k.arg(7, "i8"))
            values["f8"].append(k.load(table[:1].reshape(()), at=[index], strides=[8]))

    def _operation(self, dtype: str) -> None:
        rng, k, values = self.rng, self.k, self.values
        x, y = rng.choice(values[dtype][-4:]), rng.choice(values[dtype][-4:])
        chance, fault = rng.random(), rng.choice((0, 0, KINDS)) if dtype[0] == "f" else 0
        if chance < 0.45:
            name = rng.choice(("add", "subtract", "multiply", "maximum"))
            values[dtype].append(k.op(name, dtype, x, y, fault=0 if name == "maximum" else fault))
        elif chance < 0.55:
            values["b1"].append(k.op(rng.choice(("less", "equal")), "b1", x, y))
        elif chance < 0.65 and values["b1"]:
            values[dtype].append(k.op("select", dtype, rng.choice(values["b1"]), x, y))
        elif chance < 0.72 and dtype != "f8":
            values["f8"].append(k.op("cast", "f8", x))
        elif chance < 0.76 and dtype[0] == "f":
            values[dtype].append(k.op("exp", dtype, k.op("minimum", dtype, x, k.arg(2.0, dtype))))
        else:
            self._fold(dtype, x, fault)

    def _fold(self, dtype: str, x: int, fault: int) -> None:
        rng, k = self.rng, self.k
        monoid = rng.choice(("add", "add", "maximum", "minimum", "argmax", "argmin", "logical_or"))
        keep = "prefix" if rng.random() < 0.2 and monoid in ("add", "maximum") else "last"
        summed = monoid == "add" and keep == "last"
        n = k.fold(monoid, self._axes(), x, keep, fault=fault if summed else 0)
        self.values[k.values[n].dtype].append(n)

    def _store(self) -> None:
        rng, k = self.rng, self.k
        dtype = rng.choice([d for d in self.values if self.values[d]])
        value = rng.choice(self.values[dtype][-3:])
        dom = k.values[value].dom
        axes = [a for a in range(len(self.extents)) if dom >> a & 1 or rng.random() < 0.3]
        for source, along, kind in self.loaded:  # sometimes in place
            if along == axes and kind == dtype and rng.random() < 0.5 and not any(o is source for o in self.outputs):
                k.store(source, value, *axes)
                self.outputs.append(source)
                return
        target = array(rng, [self.extents[a] for a in axes], "?" if dtype == "b1" else dtype)
        k.store(target, value, *axes)
        self.outputs.append(target)


def same(author: Author, result: list[Array], expected: list[Array]) -> None:
    """Equal; to a rounding where single precision or a math function is about."""
    rough = any(v.op == "exp" or v.dtype == "f4" for v in author.k.values)
    for x, y in zip(result, expected, strict=True):
        if x.dtype.kind == "f":
            size = float(numpy.max(abs(y[numpy.isfinite(y)]), initial=1.0))
            limit = (1e-4 if rough else 1e-10) * size
            numpy.testing.assert_allclose(x, y, rtol=limit / size, atol=limit, equal_nan=True)
        else:
            assert rough or (x == y).all()


def launch(author: Author, before: list[Array], target: Target, split: Any = None) -> tuple[list[int], list[Array]]:
    """Run the kernel on fresh data: (faults, contents of the outputs)."""
    for target_array, content in zip(author.outputs, before, strict=True):
        target_array[...] = content
    with numpy.errstate(all="ignore"):
        faults = author.k.run(target, split)
    return faults, [o.copy() for o in author.outputs]


@pytest.mark.parametrize("group", range(12))
def test_random_kernels(group: int) -> None:
    refused = 0
    for seed in range(group * COUNT, (group + 1) * COUNT):
        author = Author(seed)
        if supported(author.k.kernel()):
            refused += 1
            continue
        before = [o.copy() for o in author.outputs]
        expected_faults, expected = launch(author, before, INTERPRET)
        for target in (host_target(), host_target(OLDER)):
            faults, result = launch(author, before, target)
            same(author, result, expected)
            assert faults == expected_faults
            units = author.k.compiled(target).units(tuple(author.extents))
            faults, again = launch(author, before, target, ranges(units, numpy.random.default_rng(seed)))
            assert [x.tobytes() for x in again] == [x.tobytes() for x in result]
            assert faults == expected_faults
    assert refused < COUNT // 4


@pytest.mark.skipif(not (ready.here() and image.loadable() and prepare.spare()), reason="no code is made quickly here")
@pytest.mark.parametrize("group", range(12, 15))
def test_code_that_is_made_quickly_gives_way_to_the_same_bits(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "QUICK", 0)
    monkeypatch.setattr(prepare, "PAUSE", 1e9)  # not before it is asked for
    levels: list[int] = []
    plain = host.build
    monkeypatch.setattr(host, "build", lambda *args: levels.append(args[3]) or plain(*args))
    with config(cache=False):
        for seed in range(group * COUNT, (group + 1) * COUNT):
            author = Author(seed)
            if supported(author.k.kernel()):
                continue
            before = [o.copy() for o in author.outputs]
            expected_faults, expected = launch(author, before, INTERPRET)
            del levels[:]
            faults, result = launch(author, before, host_target())
            assert 0 in levels and host.OPT not in levels
            same(author, result, expected)
            prepare.finish()
            assert levels.count(host.OPT) == levels.count(0)
            again_faults, again = launch(author, before, host_target())
            assert [x.tobytes() for x in again] == [x.tobytes() for x in result]
            assert again_faults == faults == expected_faults
