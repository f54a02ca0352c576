"""Schedules: in which loops the values of a kernel are computed.

in: a `Kernel`; out: a `Plan`, trees of `Level` that codegen/emit.py writes out.

One scheme for every kernel.  Axes are opened from the outside.  At each level the values whose axes are all open are
computed once; folds and stores that need more axes share a loop over the next one.  A value behind a fold belongs to a
later stage than the fold: stages are loops one after the other, in which values are computed again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..runtime.tuples import NamedTuple
from .kernel import ABSENT, UNIT, Fold, Kernel, Load

# Operations that a processor does in a few cycles.
CHEAP = frozenset(
    "load iota arg cast select add subtract multiply negative positive absolute fabs minimum maximum fmin fmax equal"
    " not_equal less less_equal greater greater_equal logical_and logical_or logical_not logical_xor bitwise_and"
    " bitwise_or bitwise_xor invert conjugate real imag isnan isfinite isinf sqrt divide square sign signbit".split()
)

GRAIN = 1 << 13  # elements in a unit of work, about
COLUMNS = 512  # a unit's range of the vector axis is a multiple of this

COLLECT = -2  # "store" of a fold that the units leave for each column, and `finish` combines

Goal = tuple[str, int]  # ("store", number of the store), ("fold" or "keep", number of the value)


class UnsupportedKernel(ValueError):
    """A kernel that no order of loops computes in one launch; it must be cut in two."""


class Loop(NamedTuple):
    """A loop over one axis."""

    axis: int
    folds: tuple[int, ...]  # folds that accumulate through it
    ends: tuple[int, ...]  # those of them that are complete after it
    scans: tuple[int, ...]  # scans that it carries from one index to the next
    body: Level


class Level(NamedTuple):
    """What happens at every point of the open axes: steps in order, then elements are taken, then stores."""

    open: int
    steps: tuple[tuple[int, ...] | Loop, ...]  # values, or a loop
    takes: tuple[int, ...]  # folds that take their source's value here
    stores: tuple[int, ...]
    parks: tuple[tuple[int, int], ...] = ()  # (value, store): values that wait for a later loop in the store's place
    fetches: tuple[tuple[int, int], ...] = ()  # (value, store): values that do not have to be computed again
    keeps: tuple[int, ...] = ()  # folds that a unit leaves for `finish`


class Plan(NamedTuple):
    """The loops of one kernel."""

    vector: int  # the axis whose neighbours share a register, -1 for none
    split: tuple[int, ...]  # axes cut into units of work, slowest first
    body: Level
    partial: tuple[int, ...]  # folds whose states the units leave for `finish` to combine
    finish: Level | None
    rows: tuple[int, ...] = ()  # folds over rows of which each unit has taken some


class Facts(NamedTuple):
    """What a launch must know of a plan; what is on disk beside the code."""

    vector: int
    split: tuple[int, ...]
    finish: bool  # whether states are left to combine
    state: int  # bytes of them for each unit
    column: int  # bytes for each unit and each index of the vector axis
    narrow: int | None = None  # the vector axis of the plan for short rows
    rows: bool = False  # whether there is a plan by rows

    def units(self, extents: tuple[int, ...]) -> int:
        """Independent units of work."""
        return unit_count(extents, self.split, self.vector)

    def scratch(self, extents: tuple[int, ...]) -> int:
        """Bytes of scratch memory."""
        if not self.finish:
            return 0
        width = extents[self.vector] if self.column else 0
        return self.units(extents) * (self.state + self.column * width)


def bits(mask: int) -> tuple[int, ...]:
    """The axes in a mask."""
    return tuple(a for a in range(mask.bit_length()) if mask >> a & 1)


def axes_mask(axes: Iterable[int]) -> int:
    """Mask of axes."""
    mask = 0
    for a in axes:
        mask |= 1 << a
    return mask


def domains(kernel: Kernel) -> list[int]:
    """The axes that each value really varies over: a part of its declared domain."""
    found: list[int] = []
    for v in kernel.values:
        mask = 0
        for s in v.src:
            mask |= found[s]
        if isinstance(v.arg, Load):
            mask |= axes_mask(a for a, c in enumerate(v.arg.strides) if c != ABSENT)
        elif isinstance(v.arg, Fold):
            over = axes_mask(v.arg.axes)
            mask = mask | over if v.arg.keep == "prefix" else mask & ~over
        elif v.op == "iota":
            mask = 1 << int(v.arg or 0)
        found.append(mask)
    return found


def levels(loop: Loop) -> list[Level]:
    """The level inside a loop, and all those within it."""
    found = [loop.body]
    for level in found:
        found += [step.body for step in level.steps if isinstance(step, Loop)]
    return found


def values_in(loop: Loop) -> list[int]:
    """Values that are computed within a loop."""
    return [n for level in levels(loop) for step in level.steps if not isinstance(step, Loop) for n in step]


def _scores(kernel: Kernel) -> list[int]:
    """How many accesses cross each axis in steps of one item."""
    score = [0] * kernel.rank
    places = [v.arg.strides for v in kernel.values if isinstance(v.arg, Load)] + [s.strides for s in kernel.stores]
    for strides in places:
        for a, c in enumerate(strides):
            score[a] += c == UNIT
    return score


def vector_axis(kernel: Kernel) -> int:
    """The axis that most accesses cross in steps of one item; among equals the fastest."""
    score = _scores(kernel)
    return max(_candidates(kernel), key=lambda a: (score[a], a), default=-1)


def _candidates(kernel: Kernel) -> list[int]:
    """Axes that may be the vector axis: a scan over several axes goes along the last one first."""
    slow = {a for v in kernel.values if isinstance(v.arg, Fold) and v.arg.keep == "prefix" for a in v.arg.axes[:-1]}
    return [a for a in range(kernel.rank) if a not in slow]


def narrow_axis(kernel: Kernel, vector: int) -> int | None:
    """The vector axis to use instead where `vector`, over which something is folded, is short; None to keep it."""
    score, dom, others = _scores(kernel), domains(kernel), 0
    for n, v in enumerate(kernel.values):
        if isinstance(v.arg, Fold) and v.arg.keep == "last" and vector in v.arg.axes:
            others |= dom[n]
    free = set(bits(others)).intersection(_candidates(kernel))
    return max(free, key=lambda a: (score[a], a), default=None)


class Scheduler:
    """Builds the levels of one kernel."""

    def __init__(self, kernel: Kernel, vector: int, park: bool) -> None:
        self.kernel = kernel
        self.vector = vector
        self.park = park
        self.parked: dict[int, int] = {}  # value -> store whose place holds it
        self.dom = domains(kernel)
        self.folds = {n: v.arg for n, v in enumerate(kernel.values) if isinstance(v.arg, Fold)}
        self.writes = {
            s.operand for s in kernel.stores
            if s.operand >= 0 and (kernel.operands[s.operand].access == "rw" or not kernel.operands[s.operand].noalias)
        }  # fmt: skip

    def source(self, goal: Goal) -> int:
        """The value that a goal needs."""
        kind, n = goal
        if kind == "keep":
            return n
        return self.kernel.stores[n].value if kind == "store" else self.kernel.values[n].src[0]

    def space(self, goal: Goal) -> int:
        """All axes that a goal iterates over."""
        kind, n = goal
        if kind == "keep":
            return self.dom[n]
        if kind == "store":
            return self.kernel.stores[n].dom | self.dom[self.kernel.stores[n].value]
        return self.dom[n] | axes_mask(self.folds[n].axes)

    def is_here(self, n: int, opened: int) -> bool:
        """Whether value `n` is a fold whose loops begin at this level."""
        if n not in self.folds or n in self.parked:
            return False
        return self.folds[n].keep != "prefix" and not self.dom[n] & ~opened

    def needed(self, goals: Iterable[Goal], known: set[int]) -> list[int]:
        """Values that `goals` need and that are not known yet, in order."""
        marked = bytearray(len(self.kernel.values))
        for goal in goals:
            marked[self.source(goal)] = 1
        for n in range(len(marked) - 1, -1, -1):
            if marked[n]:
                if n in known:
                    marked[n] = 0
                elif n not in self.parked:
                    for s in self.kernel.values[n].src:
                        marked[s] = 1
        return [n for n in range(len(marked)) if marked[n]]

    def blocked(self, need: list[int], opened: int) -> dict[int, int]:
        """For each needed value the axes that may not be opened yet, because a fold or a scan must come first."""
        found: dict[int, int] = {}
        for n in need:
            mask = 0
            for s in self.kernel.values[n].src:
                mask |= found.get(s, 0)
            if n in self.folds and n not in self.parked:
                over = self.folds[n].axes
                if self.is_here(n, opened):
                    mask = 0
                elif self.folds[n].keep != "prefix":
                    mask |= axes_mask(over)
                elif self.dom[n] & ~axes_mask(over) & ~opened:
                    mask |= axes_mask(over)
                else:
                    closed = [a for a in over if not opened >> a & 1]
                    begun = 0 < len(closed) < len(over)
                    # Half way into a scan nothing else may come between its axes.
                    mask |= ~(1 << closed[0]) if begun else axes_mask(closed[1:])
            found[n] = mask
        return found

    def reads(self, need: list[int], opened: int) -> dict[int, int]:
        """For each needed value the operands (mask) that are read for it in the same loops."""
        found: dict[int, int] = {}
        for n in need:
            v = self.kernel.values[n]
            mask = 1 << v.arg.operand if isinstance(v.arg, Load) else 0
            for s in v.src:
                mask |= found.get(s, 0)
            found[n] = 0 if self.is_here(n, opened) else mask
        return found

    def stages(self, need: list[int], opened: int) -> dict[int, int]:
        """For each needed value the number of folds of this level that lie before it."""
        found: dict[int, int] = {}
        for n in need:
            stage = max((found.get(s, 0) for s in self.kernel.values[n].src), default=0)
            found[n] = stage + 1 if self.is_here(n, opened) else stage
        return found

    def conflicts(self, store: Goal, mask: int) -> bool:
        """Whether a store overwrites what a goal that reads the operands `mask` still needs."""
        operand = self.kernel.stores[store[1]].operand
        if operand not in self.writes:
            return False
        if mask >> operand & 1:
            return True
        operands = self.kernel.operands
        return not operands[operand].noalias and any(not operands[p].noalias for p in bits(mask))

    def order(self, goals: list[Goal], need: list[int], opened: int) -> list[list[Goal]]:
        """Goals by stage; a store in place waits for everything that reads the operand."""
        stage = self.stages(need, opened)
        when = {g: stage.get(self.source(g), 0) for g in goals}
        stores = [g for g in goals if g[0] == "store" and self.kernel.stores[g[1]].operand in self.writes]
        if stores:
            reads = self.reads(need, opened)
            masks = {g: reads.get(self.source(g), 0) for g in goals}
            for store in stores:
                when[store] = max(when[g] for g in goals if g == store or self.conflicts(store, masks[g]))
        count = 1 + max(when.values(), default=0)
        return [[g for g in goals if when[g] == s] for s in range(count)]

    def next_axis(self, goal: Goal, opened: int, blocked: dict[int, int]) -> int:
        """The axis to open for a goal: the slowest one that may be, the vector axis last."""
        free = self.space(goal) & ~opened & ~blocked.get(self.source(goal), 0)
        if not free:
            raise UnsupportedKernel(f"no order of loops computes {goal[0]} {goal[1]}: each axis is folded by another")
        return min(bits(free), key=lambda a: (a == self.vector, a))

    def groups(self, goals: list[Goal], need: list[int], opened: int) -> list[tuple[int, list[Goal]]]:
        """Loops of one stage: (axis, goals), those that overwrite an operand after those that read it."""
        blocked = self.blocked(need, opened)
        by_axis: dict[int, list[Goal]] = {}
        for goal in goals:
            if self.space(goal) & ~opened:
                by_axis.setdefault(self.next_axis(goal, opened, blocked), []).append(goal)
        if len(by_axis) < 2 or not self.writes:
            return sorted(by_axis.items())
        reads = self.reads(need, opened)
        rest, ordered = sorted(by_axis.items()), []
        while rest:
            for k, (_, group) in enumerate(rest):
                others = [g for n, (_, gs) in enumerate(rest) if n != k for g in gs]
                stores = [g for g in group if g[0] == "store"]
                if not any(self.conflicts(s, reads.get(self.source(g), 0)) for s in stores for g in others):
                    ordered.append(rest.pop(k))
                    break
            else:
                raise UnsupportedKernel("two loops each overwrite what the other reads")
        return ordered

    def level(self, opened: int, goals: list[Goal], known: set[int]) -> Level:
        """The level at which the axes `opened` are open and `known` is computed already."""
        need = self.needed(goals, known)
        here = self.folds_here(need, opened)
        stage = self.stages(need, opened)
        steps: list[tuple[int, ...] | Loop] = []
        known, before = set(known), dict(self.parked)
        stages = self.order([*goals, *here], need, opened)
        for number in range(max(len(stages), 1 + max(stage.values(), default=0))):
            values = tuple(
                n for n in need
                if stage[n] == number and not self.dom[n] & ~opened and not self.is_here(n, opened)
            )  # fmt: skip
            known.update(values)
            if values:
                steps.append(values)
            now = stages[number] if number < len(stages) else []
            later = [g for others in stages[number + 1 :] for g in others]
            for axis, group in self.groups(now, need, opened):
                loop = self.loop(axis, group, opened, known)
                # A store that is done has overwritten what was parked in its place.
                self.parked = {v: k for v, k in self.parked.items() if ("store", k) not in group}
                steps.append(self.parking(loop, later, known))
            known.update(n for kind, n in now if kind == "fold")
        self.parked = {v: k for v, k in self.parked.items() if v in before}
        done = [g for g in goals if not self.space(g) & ~opened]
        fetches = tuple((n, before[n]) for step in steps if not isinstance(step, Loop) for n in step if n in before)
        return Level(
            opened, tuple(steps),
            tuple(n for kind, n in done if kind == "fold"), tuple(n for kind, n in done if kind == "store"),
            fetches=fetches, keeps=tuple(n for kind, n in done if kind == "keep"),
        )  # fmt: skip

    def folds_here(self, need: list[int], opened: int) -> list[Goal]:
        """The folds among `need` that are computed at this level, as goals."""
        return [("fold", n) for n in need if self.is_here(n, opened)]

    def loop(self, axis: int, group: list[Goal], opened: int, known: set[int]) -> Loop:
        """The loop over `axis` in which the goals of `group` are reached."""
        body = self.level(opened | 1 << axis, group, known)
        folds = tuple(n for kind, n in group if kind == "fold")
        ends = tuple(n for n in folds if self.is_here(n, opened) and not axes_mask(self.folds[n].axes) & opened)
        loop = Loop(axis, folds, ends, (), body)
        scans = sorted(n for n in values_in(loop) if n in self.folds and axis in self.folds[n].axes)
        return loop._replace(scans=tuple(scans))

    def parking(self, loop: Loop, later: list[Goal], known: set[int]) -> Loop:
        """The loop, in which costly values that later loops need are kept in the place of a later store."""
        stores = [n for kind, n in later if kind == "store" and n not in self.parked.values()]
        if not self.park or not stores:
            return loop
        again = set(self.needed(later, known))
        parks: dict[int, int] = {}
        for n in values_in(loop):
            value = self.kernel.values[n]
            if n not in again or n in self.parked or n in self.folds or value.op in CHEAP:
                continue
            for k in stores:
                store = self.kernel.stores[k]
                operand = self.kernel.operands[store.operand]
                if store.operand < 0 or operand.access != "w" or not operand.noalias or operand.dtype != value.dtype:
                    continue
                if store.dom == self.dom[n] and k not in parks.values():
                    parks[n] = k
                    break
        self.parked |= parks
        return _with_parks(loop, parks) if parks else loop


def _with_parks(loop: Loop, parks: dict[int, int]) -> Loop:
    """The loop with the parked values written where they are computed."""
    body, steps, here = loop.body, [], []
    for step in body.steps:
        steps.append(_with_parks(step, parks) if isinstance(step, Loop) else step)
        if not isinstance(step, Loop):
            here += [(n, parks[n]) for n in step if n in parks]
    return loop._replace(body=body._replace(steps=tuple(steps), parks=(*body.parks, *here)))


def schedule(kernel: Kernel, park: bool = True, vector: int | None = None) -> Plan:
    """Choose the loops of `kernel`.

    Parameters
    ----------
    park : bool
        Whether values may be kept in the place of a later store.
    vector : int, optional
        The vector axis, if not the one that most accesses favour.

    Raises
    ------
    UnsupportedKernel
        If the kernel cannot run as one launch.
    """
    vector = vector_axis(kernel) if vector is None else vector
    s = Scheduler(kernel, vector, park)
    stores: list[Goal] = [("store", n) for n in range(len(kernel.stores))]
    split = (1 << kernel.rank) - 1
    for goal in stores:
        split &= s.space(goal)
    need = s.needed(stores, set())
    for n in need:
        if n in s.folds:
            split &= ~axes_mask(s.folds[n].axes)
    if split:
        return Plan(vector, bits(split), s.level(0, stores, set()), (), None)
    return _two_steps(s, stores, need)


def _two_steps(s: Scheduler, stores: list[Goal], need: list[int]) -> Plan:
    """Plan of a kernel without parallel axes: units fold their share, `finish` combines the states."""
    goals = [*stores, *s.folds_here(need, 0)]
    first = [g for g in s.order(goals, need, 0)[0] if s.space(g)]
    partial = tuple(n for kind, n in first if kind == "fold")
    split = -1 if first else 0
    for goal in first:
        split &= s.space(goal)
    for n in s.needed(first, set()):
        if n in s.folds:
            split &= ~axes_mask(s.folds[n].axes)
    if not split:
        return Plan(s.vector, (), s.level(0, stores, set()), (), None)
    body = s.level(0, first, set())
    rest = [g for g in stores if g not in first]
    return Plan(s.vector, bits(split), body, partial, s.level(0, rest, set(partial)) if rest else None)


def row_plan(kernel: Kernel, usual: Plan) -> Plan | None:
    """A plan for few columns of many rows, whose units take a share of the rows; None where it does not apply."""
    s = Scheduler(kernel, usual.vector, park=False)
    columns = 1 << usual.vector if usual.vector >= 0 else 0
    stores: list[Goal] = [("store", n) for n in range(len(kernel.stores))]
    need = s.needed(stores, set())
    folds = [n for n in need if n in s.folds]
    if not folds or axes_mask(usual.split) != columns or any(s.space(g) != columns for g in stores):
        return None
    stage, first = s.stages(need, columns), s.folds[folds[0]]
    for n in folds:
        fold = s.folds[n]
        if fold.keep != "last" or set(fold.axes) != set(first.axes) or s.dom[n] != columns or stage[n] != 1:
            return None
        if fold.monoid.startswith("arg"):
            return None
    body = s.level(0, [("keep", n) for n in folds], set())
    s.parked = dict.fromkeys(folds, COLLECT)
    return Plan(usual.vector, (min(first.axes),), body, (), s.level(0, stores, set()), tuple(folds))


def supported(kernel: Kernel) -> str | None:
    """Why a kernel cannot run as one launch, or None if it can."""
    try:
        schedule(kernel)
    except UnsupportedKernel as error:
        return str(error)
    return None


def chunks(extents: tuple[int, ...], split: tuple[int, ...], vector: int) -> dict[int, int]:
    """Length of a unit's range along each split axis; codegen/emit.py computes the same in the kernel."""
    budget = GRAIN
    for a, extent in enumerate(extents):
        if a not in split:
            budget //= max(extent, 1)
    lengths: dict[int, int] = {}
    for a in sorted(split, key=lambda a: (a != vector, -a)):
        least = COLUMNS if a == vector else 1
        length = min(extents[a], max(least, budget // least * least))
        lengths[a] = max(length, 1)
        budget //= lengths[a]
    return lengths


def unit_count(extents: tuple[int, ...], plan_split: tuple[int, ...], vector: int) -> int:
    """Number of independent units of work."""
    count = 1
    for a, length in chunks(extents, plan_split, vector).items():
        count *= -(-extents[a] // length)
    return count
