"""Pairs of arrays, one of NumPy and one of the module under test, that every step treats alike.

A `Machine` holds the pairs; an operation (operations.py) makes a `Step`, which runs on both sides and must have the
same outcome.  Nothing is evaluated for the comparison before `compare` or the end.  Every step counts (operation, state
of its operand), so that the tests can say which combinations have been seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from tests import twice
from tests.twice import MODULE, SELF

Choose = Callable[[int], int]  # n -> a number below n

STATES = (
    "ready", "view of ready", "read", "view of read", "pending", "view of pending", "shared", "borrowed", "moved",
)  # fmt: skip


class Borrow:
    """Alive as long as the pairs that look through one `borrow`."""


class Pair:
    """The same array on both sides."""

    __slots__ = ("n", "o", "moved", "borrows", "name")

    def __init__(self, n: numpy.ndarray, o: Any, borrows: tuple[Borrow, ...] = ()) -> None:
        self.n = n
        self.o = o
        self.moved = False
        self.name = "?"
        self.borrows = borrows


class Step(NamedTuple):
    """`apply(np, *arrays)` on the operands of either side; `writes`: to operand 0; an array that it returns is kept."""

    apply: Callable[..., Any]
    operands: list[Pair]
    writes: bool = False


def root(n: numpy.ndarray) -> int:
    """Identity of the memory that a NumPy array looks at."""
    owner: Any = n
    while (base := getattr(owner, "base", None)) is not None:  # as_strided puts an object of its own between
        owner = base
    return id(owner)


class Machine:
    """The pairs and everything that holds on to their memory."""

    LIMIT = 12

    def __init__(self, choose: Choose, counts: Counter[tuple[str, str]] | None = None) -> None:
        self.choose = choose
        self.counts: Counter[tuple[str, str]] = Counter() if counts is None else counts
        self.pairs: list[Pair] = []
        self.exports: list[tuple[numpy.ndarray, numpy.ndarray]] = []
        self.log: list[str] = []
        self.made = 0

    # -- choices -------------------------------------------------------------------------------------------------------

    def pick(self, options: Any) -> Any:
        """One of a non-empty sequence."""
        return options[self.choose(len(options))]

    def partner(self, p: Pair, into: bool = False) -> Pair:
        """A pair that broadcasts with `p` (`into`: to the shape of p); now and then a moved one."""

        def fits(q: Pair) -> bool:
            if q.moved and self.choose(4):
                return False
            try:
                shape = numpy.broadcast_shapes(p.n.shape, q.n.shape)
            except ValueError:
                return False
            return shape == p.n.shape if into else int(numpy.prod(shape)) <= 1500

        return self.pick([q for q in self.pairs if fits(q)] or [p])

    # -- states --------------------------------------------------------------------------------------------------------

    def family(self, p: Pair) -> list[Pair]:
        """The living pairs that look at the memory of `p`, itself included."""
        return [q for q in self.pairs if not q.moved and root(q.n) == root(p.n)]

    def borrowed(self, p: Pair) -> bool:
        """Whether a borrow of the memory of `p` is alive."""
        return any(q.borrows for q in self.family(p))

    def exported(self, p: Pair) -> bool:
        """Whether an array that `numpy.asarray` gave of the memory of `p` is alive."""
        return any(root(n) == root(p.n) for n, _ in self.exports)

    def state(self, p: Pair) -> str:
        """Which of STATES the pair is in."""
        if p.moved:
            return "moved"
        if self.borrowed(p):
            return "borrowed"
        if self.exported(p):
            return "shared"
        prefix = "" if p.n.base is None else "view of "
        if SELF:
            return prefix + "ready"
        from offarray.fusion.node import PENDING

        node = node_of(p.o)
        if node.buffer is not None and node.buffer.foreign:
            return "shared"
        if node.state == PENDING:
            return prefix + "pending"
        return prefix + ("read" if node.serial in self._read() else "ready")

    def _read(self) -> set[int]:
        """Serials of the nodes that pending nodes of living pairs still have to read."""
        from offarray.fusion.node import PENDING

        seen: set[int] = set()
        work = [node_of(q.o) for q in self.pairs if not q.moved]
        work = [node for node in work if node.state == PENDING]
        while work:
            for source in work.pop().src:
                if source.serial not in seen:
                    seen.add(source.serial)
                    if source.state == PENDING:
                        work.append(source)
        return seen

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, name: str, step: Step, note: str = "") -> Any:
        """Run `step` on both sides; give back the outcome of the module's side."""
        states = [self.state(q) for q in step.operands]
        for k, state in enumerate(states[:2]):
            self.counts[name + " source" * k, state] += 1
        self.log.append(f"{name} {' '.join(q.name for q in step.operands)} ({', '.join(states)}) {note}".strip())
        refusal = self._refusal(step, states)
        got = attempt(step, MODULE, [q.o for q in step.operands])
        if refusal:
            assert isinstance(got, twice.Raised) and issubclass(got.kind, refusal), f"{name}: {got} is no {refusal}"
            return got
        want = attempt(step, numpy, [q.n for q in step.operands])
        self._keep(name, step, got, want)
        return got

    def note(self, name: str, p: Pair) -> str:
        """Count and log an operation that is no step; gives the state of the pair."""
        state = self.state(p)
        self.counts[name, state] += 1
        self.log.append(f"{name} {p.name} ({state})")
        return state

    def _refusal(self, step: Step, states: list[str]) -> tuple[type[BaseException], ...]:
        """The exceptions of which the module must raise one, where NumPy would raise none."""
        if SELF:
            return ()
        if "moved" not in states and not (step.writes and states[0] == "borrowed"):
            return ()
        aside = [step.operands[0].n.copy(), *(q.n for q in step.operands[1:])]
        other = attempt(step, numpy, aside)
        kinds = (other.kind,) if isinstance(other, twice.Raised) else ()  # whichever mistake is found first
        if "moved" in states:
            return (MODULE.MovedError, MODULE.BorrowError, *kinds)
        return (MODULE.BorrowError, *kinds, *(() if step.operands[0].n.flags.writeable else (ValueError,)))

    def _keep(self, name: str, step: Step, got: Any, want: Any) -> None:
        """Compare the outcomes, arrays by their form alone, and keep a resulting array as a pair."""
        if isinstance(want, numpy.ndarray) and type(got) is MODULE.ndarray:
            form = [(str(x.dtype), x.shape, twice.order(x), x.flags.writeable) for x in (got, want)]
            assert form[0] == form[1], f"{name}: {form[0]} instead of {form[1]}"
            if want.size <= 1500 and not any(q.o is got for q in self.pairs):
                borrows = tuple(b for q in step.operands if root(q.n) == root(want) for b in q.borrows)
                self.add(Pair(want, got, borrows))
            return
        problem = twice.differ(twice.seen(got), twice.seen(want), where=name)
        assert not problem, problem

    def add(self, pair: Pair) -> None:
        """Keep a pair; others go when there are too many."""
        pair.name = f"a{self.made}"
        self.made += 1
        self.log.append(f"  {pair.name}: {pair.n.dtype} {pair.n.shape}")
        self.pairs.append(pair)
        while len(self.pairs) > self.LIMIT:
            self.drop(self.pick(self.pairs[:-1]))

    def drop(self, pair: Pair) -> None:
        """Forget a pair (its exports live on)."""
        self.log.append(f"drop {pair.name}")
        self.pairs.remove(pair)

    # -- comparing -----------------------------------------------------------------------------------------------------

    def compare(self, p: Pair) -> None:
        """The value of one pair, evaluated now."""
        self.log.append(f"compare {p.name}")
        if not p.moved:
            problem = twice.differ(twice.seen(p.o), twice.seen(p.n), where=p.name)
            assert not problem, problem

    def compare_all(self) -> None:
        """Every pair and every exported array."""
        for p in list(self.pairs):
            self.compare(p)
        for n, o in self.exports:
            assert twice.equal(o, n), f"exported array: {o} instead of {n}"


def node_of(o: Any) -> Any:
    """The current version of the memory that a handle of the module looks at."""
    return o._base.node


def attempt(step: Step, np: Any, arrays: list[Any]) -> Any:
    """The outcome of one side of a step."""
    with np.errstate(all="ignore"):
        return twice.caught(lambda: step.apply(np, *arrays))
