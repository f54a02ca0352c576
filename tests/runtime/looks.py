"""Small looks, exported views and writes of one array, in random order, on a device and in NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy

import offarray

ROWS, COLUMNS = 40, 25


class Looks:
    """The same array on both sides, views of it that are kept, and views that were handed out."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.n = numpy.arange(float(ROWS * COLUMNS)).reshape(ROWS, COLUMNS)
        self.x: Any = offarray.to_device(numpy_as_ours(self.n))
        self.kept: list[tuple[Any, Any]] = []
        self.out: list[tuple[Any, Any]] = []

    def part(self) -> tuple[slice, slice]:
        """A random box, forwards or backwards."""
        found = []
        for extent in (ROWS, COLUMNS):
            first = self.rng.randrange(extent)
            last = self.rng.randrange(first, min(extent, first + 8)) + 1
            found.append(slice(first, last))
        return found[0], found[1]

    def step(self) -> None:
        """One random operation."""
        getattr(self, self.rng.choice([name for name in dir(self) if name.startswith("do_")]))()

    def do_element(self) -> None:
        i, j = self.rng.randrange(ROWS), self.rng.randrange(COLUMNS)
        assert float(self.x[i, j]) == self.n[i, j]

    def do_row(self) -> None:
        i = self.rng.randrange(ROWS)
        assert self.x[i].tolist() == self.n[i].tolist()

    def do_column(self) -> None:
        j = self.rng.randrange(COLUMNS)
        assert self.x[:, j].tolist() == self.n[:, j].tolist()

    def do_box(self) -> None:
        box = self.part()
        assert self.x[box].tolist() == self.n[box].tolist()

    def do_backwards(self) -> None:
        box = self.part()
        assert self.x[box][::-1, ::-1].tolist() == self.n[box][::-1, ::-1].tolist()

    def do_text(self) -> None:
        with numpy.printoptions(threshold=100):
            assert repr(self.x) == repr(self.n)

    def do_keep(self) -> None:
        box = self.part()
        self.kept = [*self.kept[-3:], (self.x[box], self.n[box])]

    def do_look_at_kept(self) -> None:
        for x, n in self.kept:
            assert x.tolist() == n.tolist()

    def do_write(self) -> None:
        box, value = self.part(), self.rng.randrange(100)
        self.x[box] = self.x[box] * 0.5 + value
        self.n[box] = self.n[box] * 0.5 + value

    def do_write_all(self) -> None:
        self.x += 1.0
        self.n += 1.0

    def do_write_kept(self) -> None:
        for x, n in self.kept[:1]:
            x *= 0.5
            n *= 0.5

    def do_host_write(self) -> None:
        i = self.rng.randrange(ROWS)
        self.x[[i, 0]] = 3.0
        self.n[[i, 0]] = 3.0

    def do_export(self) -> None:
        box = self.part()
        self.out = [*self.out[-2:], (numpy.asarray(self.x[box]), self.n[box])]

    def do_look_at_exports(self) -> None:
        for a, n in self.out:
            assert (a == n).all()

    def do_write_export(self) -> None:
        for a, n in self.out[-1:]:
            a[...] = n[...] = float(self.rng.randrange(100))

    def do_forget_exports(self) -> None:
        self.out.clear()

    def do_sum(self) -> None:
        assert float(self.x.sum()) == float(self.n.sum())

    def do_there(self) -> None:
        offarray.to_device(self.x)

    def do_back(self) -> None:
        offarray.to_host(self.x)


def numpy_as_ours(n: Any) -> Any:
    """An array of offarray's with the elements of NumPy's."""
    array: Any = vars(offarray)["array"]
    return array(n)


def drive(seed: int, steps: int) -> None:
    """One array through random steps."""
    looks = Looks(random.Random(seed))
    for _ in range(steps):
        looks.step()
    assert numpy.array_equal(numpy.asarray(looks.x), looks.n)
